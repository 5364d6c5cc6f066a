"""`bub explain --flow PROFILE` draws the ways on which strangers can make an agent leak, and what cuts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.command_line import bub

from bub.base.layout import cells
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.show.ways import flow_of, flow_page
from bub.pipeline.source.merge import load_document

BOT = Path(__file__).parent / "golden" / "bot.yaml"


@pytest.mark.parametrize("width", [24, 38, 60, 80, 120])
@pytest.mark.parametrize("profile", ["default", "guests"])
def test_no_line_is_wider_than_the_terminal_unless_a_word_is(profile: str, width: int) -> None:
    for line in flow_page(flow_of(make_plan(load_document(BOT), profile)), width):
        text = "".join(span.text for span in line)
        assert cells(text) <= width or len(text.split()) <= 3, text


def test_what_is_open_comes_first_and_the_object_says_the_same() -> None:
    facts = json.loads(bub(BOT.parent, "explain", "bot.yaml", "--flow", "guests", "--json").stdout)
    assert (facts["version"], facts["about"], facts["profile"], facts["errors"]) == (1, "flow", "guests", 0)
    states = [way["state"] for way in facts["ways"]]
    assert states == sorted(states, key=["open", "may be open", "cut"].index)
    first = facts["ways"][0]
    assert (first["state"], first["names"]) == ("open", ["telegram", "crm.find", "the answer"])
    assert [(step["place"]["file"], step["place"]["line"]) for step in first["steps"]] == [
        ("bot.yaml", 10),
        ("bot.yaml", 21),
        ("bot.yaml", 18),
        ("bot.yaml", 10),
    ]
    assert first["cuts"] == []


def test_a_profile_without_a_way_says_so() -> None:
    done = bub(BOT.parent, "explain", "bub:default", "--flow", "default", "--json")
    assert {way["state"] for way in json.loads(done.stdout)["ways"]} == {"cut"}
    quiet = bub(BOT.parent, "explain", "bot.yaml", "--flow", "default").stdout
    assert "none from strangers" in quiet


def test_what_does_not_go_together_is_told() -> None:
    done = bub(BOT.parent, "explain", "bot.yaml", "run_model", "--flow", "guests")
    assert (done.returncode, done.stderr) == (2, "bub: `--flow` shows a whole profile (leave `run_model` out)\n")
    assert bub(BOT.parent, "explain", "bot.yaml", "--flow", "gests").returncode == 2
