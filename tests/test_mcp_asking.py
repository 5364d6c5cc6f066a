"""What a server asks the person while its tool runs: who is asked, what for, and who gets to know the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.talk import Talk
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams

from bub.agent.calls.asking import RunningCall, current_call
from bub.agent.calls.consent import Consent
from bub.agent.mcp import connection as connection_module
from bub.agent.mcp import program as program_module
from bub.agent.mcp.asking import Interviews
from bub.agent.mcp.forms import MOST_FIELDS, DeclinedError, read_form
from bub.agent.mcp.offered import offer
from bub.approval import Answer, CannotAskError, Question, Rules
from bub.base.surfaces import Surface
from bub.plugins.servers import ServerSpec

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parent / "fakes" / "mcp_asker.py"
ASKER = f"mcp:\n  docs: {{command: [{sys.executable}, {SERVER}], timeout: 1500ms}}"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "GRACE", 0.2)


class Person:
    """Answers each form with what a function makes of it, and remembers them."""

    def __init__(self, answer: Callable[[Question], Any], thinking: float = 0) -> None:
        self._answer = answer
        self._thinking = thinking
        self.asked: list[Question] = []
        self._busy = False

    async def __call__(self, question: Question) -> Any:
        assert not self._busy, "one after another"
        self._busy = True
        self.asked.append(question)
        await trio.sleep(self._thinking)
        self._busy = False
        return self._answer(question)


def filling(**content: Any) -> Callable[[Question], Answer]:
    return lambda question: Answer(True, "operator", content=content)


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_question_of_a_server_is_put_to_the_person_of_the_turn_as_its_own(
    talk: Talk, era: str, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    monkeypatch.setattr(connection_module, "_MODE", era)

    async def ask(words: str, person: Any) -> Any:
        result = await talk.say(f",mcp.docs.ask {words}", surface=Surface.TERMINAL, ask=person)
        said = str(result.model_output)
        return json.loads(said) if said.startswith("[") else said

    async with talk.open(tools='{allow: ["mcp.docs.*"]}', more=ASKER):
        # The form is the server's, its answers are its alone, and the time for them is the person's.
        person = Person(filling(city="Ulm-Zx81", nights="3", flight=False), thinking=1.7 if era == "legacy" else 0)
        assert await ask("kind=trip", person) == [
            {"action": "accept", "content": {"city": "Ulm-Zx81", "nights": 3, "flight": False}}
        ]
        (question,) = person.asked
        assert (question.tool, question.form and question.form.asker) == ("mcp.docs.ask", "the server `docs`")
        assert question.form is not None
        assert question.form.message == "Where to?"
        assert [(one.name, one.kind, one.default) for one in question.form.queries] == [
            ("city", "text", None),
            ("nights", "text", ""),
            ("flight", "confirm", False),
        ]
        # A yes to what it asks is bound to other than a yes to the call.
        assert question.approval is not None
        assert question.approval.asker == "the server `docs`"
        events = [one.payload for one in await talk.tape() if one.payload.get("name") == "elicitation"]
        assert [one["data"]["answered"] for one in events] == [True]
        assert "Ulm-Zx81" not in json.dumps(events)
        # What is left out is not sent; an address is only shown.
        assert await ask("kind=trip", Person(filling(city="Ulm", nights="", flight=True))) == [
            {"action": "accept", "content": {"city": "Ulm", "flight": True}}
        ]
        person = Person(filling())
        assert await ask("kind=page", person) == [{"action": "accept"}]
        assert person.asked[0].form is not None
        assert person.asked[0].form.address == "https://example.com/login"
        # What nobody fills in is declined: a bare yes, as it is given to a call, is no answer to a form.
        assert await ask("kind=sure", Person(lambda question: True)) == [{"action": "decline"}]
        assert await ask("kind=sure", Person(lambda question: Answer(False))) == [{"action": "decline"}]
        # Where nobody can be asked, and for a secret, the turn says so, and so does the log.
        person = Person(filling(userPassword="x"))
        assert await ask("kind=password", person) == [{"action": "decline"}]
        assert person.asked == []
        why = "its field `userPassword` looks like a secret"
        assert [event["text"] for event in talk.of_kind("notice")] == [
            f"the server `docs` has a question, but Bub asks nobody: {why}"
        ]
        assert any("tool.question_declined" in line and "userPassword" in line for line in log)
        assert await ask("kind=sure", None) == [{"action": "decline"}]
        assert "nobody can be asked here" in str(talk.of_kind("notice"))

        def refuse(question: Question) -> Answer:
            raise CannotAskError("it is night")

        assert await ask("kind=sure", Person(refuse)) == [{"action": "decline"}]
        assert "it is night" in str(talk.of_kind("notice"))
        # Ten times, and no more.
        person = Person(filling())
        assert [one["action"] for one in await ask("kind=sure times=12", person)] == ["accept"] * 10 + ["decline"] * 2
        assert len(person.asked) == 10
        assert len(talk.of_kind("notice")) == 1
        if era == "auto":
            assert "asks for something again and again" in await ask("kind=sure times=99", Person(filling()))
        else:  # the server itself has no more time than before
            assert "did not answer within 1.5 s" in await ask("kind=sure late=9", Person(filling()))


# What a form may hold.


def read(message: str = "Tell me.", required: tuple[str, ...] = (), **properties: Any) -> Any:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return read_form("the server `docs`", ElicitRequestFormParams(message=message, requested_schema=schema))


def test_every_kind_of_field_becomes_a_query_and_its_answer_what_the_server_wants() -> None:
    colours = [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]
    served = read(
        required=("age", "size"),
        age={"type": "integer", "title": "Your age", "description": "in years", "minimum": 18},
        share={"type": "number", "maximum": 1, "default": 0.5},
        mail={"type": "string", "format": "email"},
        day={"type": "string", "format": "date"},
        size={"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
        colour={"type": "string", "oneOf": colours},
        colours={"type": "array", "items": {"anyOf": colours}, "default": ["#f00"]},
        news={"type": "boolean", "default": True},
    )
    asked = {one.name: one for one in served.form.queries}
    assert asked["age"].title == "Your age: in years"
    assert [one.kind for one in asked.values()] == [*["text"] * 4, "select", "select", "checkbox", "confirm"]
    assert [one.default for one in asked.values()] == [None, "0.5", "", "", None, "", ["#f00"], True]
    assert [(one.value, one.title) for one in asked["size"].options()] == [("s", "Small"), ("m", "Medium")]
    assert [one.value for one in asked["colour"].options()] == ["", "#f00", "#00f"]
    wrong = {"age": ["17", "x", "1.5"], "share": ["1.1", "nan", "inf"], "mail": ["me"], "day": ["today"]}
    for name, texts in wrong.items():
        check = asked[name].check
        assert check is not None
        assert [text for text in texts if check(text) is None] == []
    said = {"age": "18", "share": "0.5", "mail": "", "size": "m", "colour": "", "colours": ["#00f"], "news": False}
    assert served.write(said) == {"age": 18, "share": 0.5, "size": "m", "colours": ["#00f"], "news": False}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (lambda: read(apiKey=TEXT), "its field `apiKey` looks like a secret"),
        (lambda: read(value={**TEXT, "title": "Your password"}), "its field `value` looks like a secret"),
        (lambda: read(value={**TEXT, "description": "the PIN of your card"}), "looks like a secret"),
        (lambda: read(tokn=TEXT), "its field `tokn` looks like a secret"),
        (lambda: read(secret={"type": "integer"}), "looks like a secret"),
        (lambda: read("Your access token, please", value=TEXT), "looks as if it wants a secret"),
        (lambda: read(place={"type": "object"}), "has a type that Bub cannot ask for"),
        (lambda: read(**{f"f{at}": TEXT for at in range(MOST_FIELDS + 1)}), "more than 8 things at once"),
        (lambda: read(one={"type": "string", "enum": [str(at) for at in range(99)]}), "more than 50 choices"),
        (lambda: read("x" * 2_001), "more than 2,000 characters"),
        (lambda: read(x="none"), "is not a form"),
    ],
)
def test_what_no_person_is_to_be_asked_is_declined(params: Callable[[], Any], why: str) -> None:
    with pytest.raises(DeclinedError, match=why):
        params()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "https://", "https://a\x1b[2J.example"])
def test_an_address_that_is_none_of_the_web_is_not_shown(url: str) -> None:
    with pytest.raises(DeclinedError, match="no web address"):
        read_form("the server `docs`", ElicitRequestURLParams(message="Go there.", url=url))


def test_a_question_without_a_text_may_speak_of_a_secret() -> None:
    assert read("The token has expired: go on?", on={"type": "boolean"}).form.is_yes_or_no


# Whose call it is.


class Desk:
    """A call of a tool whose person answers after a while, or never."""

    def __init__(self, thinking: float) -> None:
        self.thinking = thinking
        self.taken_back = 0
        self.told: list[str] = []
        consent = Consent(lambda: self.ask, lambda: None, Rules(), self.note, self.begun, self.notify)
        self.call = RunningCall(consent, offer(ServerSpec("docs"), [Described()], self.begun).tools[NAME], "c1", "s")

    async def ask(self, question: Question) -> Answer:
        try:
            await trio.sleep(self.thinking)
        except trio.Cancelled:
            self.taken_back += 1
            raise
        return Answer(True, "operator", content={})

    @contextmanager
    def calling(self) -> Iterator[None]:
        token = current_call.set(self.call)
        yield
        current_call.reset(token)

    async def begun(self, *args: Any) -> str:
        return ""

    async def notify(self, text: str) -> None:
        self.told.append(text)

    def note(self, name: str, /, **data: Any) -> None:
        self.told.append(f"{name} {data['answered']}")


NAME = "mcp.docs.ask"
GO_ON = ElicitRequestFormParams(message="Go on?", requested_schema={"type": "object", "properties": {}})


class Described:
    name, description, input_schema = "ask", "Ask.", {"type": "object"}


@pytest.mark.virtual_time
async def test_the_time_of_the_person_is_none_of_the_call_and_that_of_the_server_goes_on() -> None:
    desk, interviews, came = Desk(3600), Interviews("docs"), []

    async def work() -> str:
        await trio.sleep(6)
        came.append((await interviews.put(None, GO_ON)).action)
        await trio.sleep(6)
        return "done"

    began = trio.current_time()
    with desk.calling(), trio.move_on_after(10) as limit:
        await interviews.accompany(limit, work)
    assert came == ["accept"]
    assert limit.cancelled_caught
    assert trio.current_time() - began == pytest.approx(3610, abs=1)


@pytest.mark.virtual_time
async def test_a_question_that_the_server_takes_back_is_taken_from_the_person_and_the_call_goes_on() -> None:
    desk, interviews = Desk(3600), Interviews("docs")

    async def work() -> str:
        with trio.move_on_after(5):
            await interviews.put(None, GO_ON)
        desk.thinking = 1
        return (await interviews.put(None, GO_ON)).action

    with desk.calling():
        assert await interviews.accompany(trio.CancelScope(), work) == "accept"
    assert desk.taken_back == 1


@pytest.mark.virtual_time
async def test_nobody_is_asked_for_a_server_that_does_not_say_for_which_of_two_calls_it_asks() -> None:
    """As a server of 2025-11-25, whose question comes to a task of the SDK: outside of all calls."""
    desk, interviews, actions = Desk(1), Interviews("docs"), []

    async def work() -> None:
        await trio.sleep(100)

    async def call() -> None:
        with desk.calling():
            await interviews.accompany(trio.CancelScope(), work)

    async with trio.open_nursery() as nursery:
        actions.append((await interviews.put(None, GO_ON)).action)
        nursery.start_soon(call)
        await trio.sleep(1)
        actions.append((await interviews.put(None, GO_ON)).action)
        nursery.start_soon(call)
        await trio.sleep(1)
        actions.append((await interviews.put(None, GO_ON)).action)
    assert actions == ["decline", "accept", "decline"]
    assert desk.told == ["elicitation True"]


@pytest.mark.virtual_time
async def test_a_question_that_is_open_when_its_call_ends_is_declined() -> None:
    desk, interviews, actions = Desk(3600), Interviews("docs"), []

    async def ask_beside() -> None:
        actions.append((await interviews.put(None, GO_ON)).action)

    async def work() -> str:
        for _ in range(3):
            nursery.start_soon(ask_beside)
        await trio.sleep(5)
        return "done"

    async with trio.open_nursery() as nursery:
        with desk.calling():
            assert await interviews.accompany(trio.CancelScope(), work) == "done"
    assert actions == ["decline"] * 3
    assert desk.taken_back == 1
