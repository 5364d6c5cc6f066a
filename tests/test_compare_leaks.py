"""`bub diff` names the ways on which strangers can make the agent leak that were cut before, or not there."""

from __future__ import annotations

import pytest

from bub.pipeline.show.compare import compare
from bub.pipeline.show.differences.changes import Change
from bub.pipeline.source.merge import load_text

CLOSED = 'telegram: {token: "${env:TOKEN}", allow_users: [ada]}'
OPEN = 'telegram: {token: "${env:TOKEN}", allow_users: ["*"]}'
LEAK = "strangers on `telegram` can make the agent leak what `bash` reads"
PAGE = "what `web.fetch` brings can make the agent leak what `bash` reads"


def text(settings: str = CLOSED, tools: str = "", more: str = "", plugin: str = "") -> str:
    return f"""
version: 1
extends: bub:default
plugins: {{crm: {{path: crm.py{plugin}}}}}
settings: {{{settings}}}
profiles: {{default: {{plugins: [telegram], tools: {{{tools}}}{more}}}}}
"""


def changes(old: str, new: str, kind: str = "tools.way") -> list[Change]:
    return [one for one in compare(load_text(old), load_text(new)).changes if one.kind == kind]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (text(OPEN), text(OPEN, "ask: []"), [LEAK, PAGE]),
        (text(CLOSED, "ask: []"), text(OPEN, "ask: []"), [LEAK]),
        (text(OPEN, "ask: []", ", channels: [cli]"), text(OPEN, "ask: []"), [LEAK]),
        (text(OPEN), text(OPEN, "allow: ['*']"), []),
        (text(OPEN, "ask: []"), text(OPEN), []),
        (text(OPEN, "ask: []"), text(OPEN, "ask: []", ", budget: {steps: 5}"), []),
        (text(CLOSED), text(OPEN), []),
    ],
)
def test_a_new_way_is_dangerous_and_an_old_or_a_cut_one_is_not_told(old: str, new: str, said: list[str]) -> None:
    found = changes(old, new)
    assert [one.message for one in found] == said
    assert all(one.is_danger and one.place is not None for one in found)


def test_a_way_that_a_gate_may_cut_is_told_once_it_is_there_and_once_nobody_may_cut_it() -> None:
    own = text(OPEN, "ask: []").replace("[telegram]", "[telegram, crm]")
    (first, *_) = changes(text(OPEN), own)
    assert not first.is_danger
    assert "unless a plugin judges each call at `tool_gate`" in first.message
    assert [one.is_danger for one in changes(own, text(OPEN, "ask: []"))] == [True, True]


@pytest.mark.parametrize(
    ("old", "new", "danger"),
    [
        ("", ", labels: {}", True),
        ("", ", labels: {reads: private, brings: untrusted, reaches: outside}", False),
        (", labels: {reads: private}", ", labels: {}", True),
        (", labels: {}", ", labels: {reads: private}", False),
        (", labels: {}", "", False),
        (", labels: {tools: {crm.find: {reads: private}}}", ", labels: {tools: {crm.find: {}}}", True),
    ],
)
def test_labels_that_say_that_less_may_happen_are_dangerous(old: str, new: str, danger: bool) -> None:
    before, after = (text(plugin=one).replace("[telegram]", "[telegram, crm]") for one in (old, new))
    assert [one.is_danger for one in changes(before, after, "tools.labels")] == [danger]
    assert changes(before, before, "tools.labels") == []
