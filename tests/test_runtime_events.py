"""Runtime events: what `bub:classic` leaves in the workspace, as the older turn did (BEHAVIOURS P26)."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import OPENAI, refusal
from fakes.talk import Talk, add, adding, bringing

pytestmark = pytest.mark.anyio


def file_of(talk: Talk, session: str = "cli:local") -> Path:
    digest = hashlib.md5(session.encode(), usedforsecurity=False).hexdigest()[:16]
    return talk.workshop.folder / ".bub" / "runtime" / f"{digest}.jsonl"


def events(talk: Talk, session: str = "cli:local") -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_of(talk, session).read_text(encoding="utf-8").splitlines()]


async def test_P26_answers_commands_and_anchors_of_the_classic_turn_are_in_the_workspace(talk: Talk) -> None:
    async with talk.open(extends="classic", toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("It is three."))
        await talk.say(",math.add 1 2")
        await talk.say(",tape.handoff later")
        await talk.say("hello", session="another")
    told = events(talk)
    assert [event["type"] for event in told] == ["anchor", "model", "command", "anchor", "command"]
    begun, answered, added, later, _ = told
    assert begun["name"] == "session/start"
    assert (answered["status"], answered["steps"], answered["usage"]["total_tokens"]) == ("ok", 2, 5)
    assert (added["name"], added["raw"], added["status"], added["output"]) == ("math.add", "math.add 1 2", "ok", "3")
    assert later["name"] == "later"
    assert all(event["date"].startswith("20") for event in told)
    assert [event["type"] for event in events(talk, "another")] == ["anchor", "model"]
    assert stat.S_IMODE(file_of(talk).stat().st_mode) == 0o600


async def test_P26_a_model_that_fails_is_an_event_and_no_secret_is_written(talk: Talk) -> None:
    said = "the key sk-a-very-secret-key is not known"
    async with talk.open(extends="classic", toy=bringing(adding())):
        await talk.say(refusal(OPENAI.error("authentication_error", said), 401))
        await talk.say(",sk-a-very-secret-key")
    told = events(talk)
    assert [(event["type"], event["status"]) for event in told[1:]] == [("model", "error"), ("command", "error")]
    assert "sk-a-very-secret-key" not in file_of(talk).read_text(encoding="utf-8")


async def test_P26_other_pipelines_leave_nothing_in_the_workspace(talk: Talk) -> None:
    for extends in ("default", "ethos"):
        async with talk.open(extends=extends, toy=bringing(adding())):
            await talk.say(OPENAI.answer("hi"))
    assert not (talk.workshop.folder / ".bub").exists()


async def test_P26_a_setting_switches_them_on_and_off(talk: Talk) -> None:
    async with talk.open(extends="default", more="  tapes: {runtime_events: true}", toy=bringing(adding())):
        await talk.say(OPENAI.answer("hi"))
    assert [event["type"] for event in events(talk)] == ["anchor", "model"]
    async with talk.open(extends="classic", more="  tapes: {runtime_events: false}", toy=bringing(adding())):
        await talk.say(OPENAI.answer("hi"), session="another")
    assert not file_of(talk, "another").exists()


@pytest.mark.parametrize("where", [".bub", ".bub/runtime", "the file"])
async def test_P26_a_link_of_the_workspace_leads_nothing_out_of_it(
    talk: Talk, tmp_path_factory: pytest.TempPathFactory, where: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    link = file_of(talk) if where == "the file" else talk.workshop.folder / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "kept.txt" if where == "the file" else outside)
    async with talk.open(extends="classic", toy=bringing(adding())):
        assert (await talk.say(OPENAI.answer("hi"))).model_output == "hi"
    assert list(outside.iterdir()) == []


async def test_P26_a_workspace_that_cannot_be_written_breaks_no_turn(talk: Talk) -> None:
    (talk.workshop.folder / ".bub").write_text("in the way", encoding="utf-8")
    async with talk.open(extends="classic", toy=bringing(adding())):
        assert (await talk.say(OPENAI.answer("hi"))).model_output == "hi"
