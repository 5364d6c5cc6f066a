"""What generated pipelines have shown to pass unsaid: it is found before a turn, and what is right stays quiet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.mistakes import VERSION, marked

from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError, without_notes

Write = Callable[[str, str], Path]

PLUGIN = "plugins: {toy: {path: toy.py}}\nprofiles: {default: {plugins: [toy]}}\n"


def found_in(write: Write, pipeline: str, toy: str) -> tuple[Diagnostic, ...]:
    """What a start finds in a pipeline with one plugin, notes included."""
    write("toy.py", f"from bub import hookimpl\n\n\n{toy}\n")
    framework = BubFramework(write("pipelines.yaml", VERSION + pipeline + PLUGIN))
    try:
        framework.load_hooks()
    except PipelineError as error:
        return error.diagnostics
    return framework.findings


def said(findings: tuple[Diagnostic, ...]) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.severity, finding.message) for finding in findings]


# B219: below who always answers.

LAST = "@hookimpl(trylast=True)\ndef {hook}(message): ...\n"


@pytest.mark.parametrize("hook", ["run_model", "run_model_stream", "resolve_session"])
def test_who_is_asked_after_builtin_where_that_always_answers_is_told(write: Write, hook: str) -> None:
    toy, (place,) = marked(f"from bub import hookimpl\n\n\n@hookimpl(trylast=True)\ndef «{hook}»(message): ...")
    (finding,) = found = without_notes(
        found_in(write, "extends: bub:default\n", toy.removeprefix("from bub import hookimpl\n\n\n"))
    )
    message = (
        f"plugin `toy` implements `{hook}`, but `builtin` is asked before it and always answers, so it is never asked"
    )
    assert said(found) == [("B219", "warning", message)]
    assert (finding.file, finding.range) == ("toy.py", place)
    assert finding.help == "take `trylast` off, or leave `builtin` out with `only`"


@pytest.mark.parametrize(
    ("pipeline", "toy"),
    [
        ("extends: bub:default\n", "@hookimpl\ndef run_model(message): ..."),
        ("extends: bub:default\n", LAST.format(hook="build_prompt")),
        # It is asked if `builtin` fails.
        ("extends: bub:classic\n", LAST.format(hook="run_model")),
        # `builtin` is left out, at this stage or at another one.
        ("extends: bub:default\nstages: {run_model: {only: [toy]}}\n", LAST.format(hook="run_model")),
        (
            "extends: bub:default\nstages: {again: {after: run_model, kind: firstresult, hook: run_model, only: [toy],"
            " into: second, default: none}}\n",
            LAST.format(hook="run_model"),
        ),
    ],
)
def test_who_is_asked_sometimes_stays_quiet(write: Write, pipeline: str, toy: str) -> None:
    assert said(found_in(write, pipeline, toy)) == []


# B221: a condition on replies.

CHECKED = """extends: bub:default
hooks: {check_reply: {kind: KIND, takes: [message]}}
stages:
  check_reply: {before: dispatch_outbound, for_each: outbounds, when: {FIELD: "guest-*"}}
"""
CHECKING = "@hookimpl\ndef check_reply(message): ..."


@pytest.mark.parametrize(
    ("kind", "severity", "so"), [("gate", "error", ", so it lets everything pass"), ("observer", "warning", "")]
)
def test_a_condition_that_asks_replies_for_who_wrote_the_message_is_found(
    write: Write, kind: str, severity: str, so: str
) -> None:
    pipeline, (place,) = marked(VERSION + CHECKED.replace("KIND", kind).replace('"guest-*"', "«guest-*»"))
    pipeline = pipeline.replace("FIELD", "sender_id").removeprefix(VERSION)
    (finding,) = found = found_in(write, pipeline, CHECKING)
    message = f"stage `check_reply` asks each of `outbounds` for its sender_id, and no reply has one{so}"
    assert said(found) == [("B221", severity, message)]
    assert finding.range.start.line == place.start.line
    assert finding.help == 'give the replies one, with `sender_id: "{sender_id}"` in the `default` that makes them'


@pytest.mark.parametrize("field", ["channel", "chat_id", "content", "session_id", "kind"])
def test_a_condition_that_asks_replies_for_what_they_have_stays_quiet(write: Write, field: str) -> None:
    pipeline = CHECKED.replace("KIND", "gate").replace("FIELD", field)
    assert said(found_in(write, pipeline, CHECKING)) == []


@pytest.mark.parametrize(
    ("more", "toy"),
    [
        ("  render_outbound: {default: [{content: hi, sender_id: '{sender_id}', channel: cli, chat_id: x}]}\n", ""),
        ("", "@hookimpl\ndef render_outbound(): ..."),
        ("  message_sending: {kind: modifying, for_each: outbounds, changes: [message], after: render_outbound}\n",
         "@hookimpl\ndef message_sending(): ..."),
        ("  before_dispatch: {kind: claiming, before: run_model, hook: inbound_claim}\n",
         "@hookimpl\ndef inbound_claim(): ..."),
    ],
)  # fmt: skip
def test_replies_that_may_have_any_field_are_asked_for_it(write: Write, more: str, toy: str) -> None:
    pipeline = CHECKED.replace("KIND", "gate").replace("FIELD", "sender_id")
    assert said(found_in(write, pipeline + more, f"{CHECKING}\n\n\n{toy}")) == []
