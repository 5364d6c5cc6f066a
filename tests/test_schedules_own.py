"""The schedules that the agent makes: asked about, bound to one session and profile, few, and removable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import trio
from fakes.line import Line, an_office, opened
from fakes.mailboxes import Lasting
from fakes.toys import Workshop

from bub import BubFramework
from bub.envelope import field_of
from bub.inbox.schedules.own import OwnSchedule
from bub.tools import ToolPolicy

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PIPELINE = """
extends: bub:default
plugins: {office: {path: office.py}}
profiles: {default: {plugins: [office], tools: {allow: ["*", schedule.add]}}}
"""

DAILY = ',schedule.add {"cron": "0 8 * * *", "message": "look at the mail"}'


class Clock:
    """A wall clock that goes with the virtual one, and can be set."""

    def __init__(self, now: str) -> None:
        self.set(now)

    def __call__(self) -> float:
        return trio.current_time() + self._offset

    def set(self, now: str) -> None:
        self._offset = datetime.fromisoformat(now).replace(tzinfo=ZoneInfo("UTC")).timestamp() - trio.current_time()


def an_agent(workshop: Workshop, line: Line, pipeline: str = PIPELINE) -> BubFramework:
    """A framework whose agent runs commands; what is no command, it repeats."""

    def run_model(prompt: str) -> str | None:
        words = prompt.splitlines()[-1]
        return None if words.startswith(",") else f"you said {words}"

    return an_office(workshop, line, pipeline=pipeline, run_model=run_model)


@asynccontextmanager
async def serving(
    workshop: Workshop, line: Line, mailbox: Lasting, pipeline: str = PIPELINE, clock: Clock | None = None
) -> AsyncIterator[Any]:
    async with opened(
        an_agent(workshop, line, pipeline), mailbox=mailbox, wall=clock or Clock("2026-07-01T07:00")
    ) as manager:
        yield manager


async def reply_to(line: Line, content: str, chat: str = "7", **more: Any) -> str:
    before = len(line.sent)
    await line.say(content, chat, **more)
    await trio.sleep(0.5)
    assert len(line.sent) == before + 1
    return line.said[-1]


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def mailbox(tmp_path: Path) -> Lasting:
    return Lasting(tmp_path)


async def test_what_the_agent_schedules_comes_to_the_same_chat_day_by_day(
    workshop: Workshop, line: Line, mailbox: Lasting
) -> None:
    clock = Clock("2026-07-01T07:00")
    async with serving(workshop, line, mailbox, clock=clock) as manager:
        assert (await reply_to(line, DAILY, sender_id="4711")).startswith("schedule 1 is made; it fires next at ")
        (own,) = await mailbox.own_schedules()
        assert own == OwnSchedule(
            "1",
            "0 8 * * *",
            "look at the mail",
            "line:7",
            "UTC",
            "default",
            session_id="line:7",
            sender_id="4711",
        )
        await trio.sleep(6)
        assert list(manager.schedules) == ["1"]
        for day in (1, 2):
            clock.set(f"2026-07-0{day}T07:59:58")
            await trio.sleep(3)
            assert (line.sent[-1].chat_id, line.said[-1]) == ("7", "you said look at the mail")
            assert len(line.sent) == 1 + day


async def test_a_turn_that_another_one_has_started_schedules_for_that_ones_chat_though_it_is_over(
    workshop: Workshop, line: Line, mailbox: Lasting
) -> None:
    has_begun, may_go_on = trio.Event(), trio.Event()

    async def load_state(message: Any) -> None:
        if field_of(message, "chat_id") == "8":
            has_begun.set()
            await may_go_on.wait()

    async def run_model(prompt: str) -> str | None:
        if not prompt.endswith("start"):
            return None
        nursery.start_soon(framework.process_inbound, {"channel": "line", "chat_id": "8", "content": DAILY})
        await has_begun.wait()
        return "started"

    framework = an_office(workshop, line, pipeline=PIPELINE, run_model=run_model, load_state=load_state)
    async with opened(framework, mailbox=mailbox):
        async with trio.open_nursery() as nursery:
            assert await reply_to(line, "start") == "started"
            may_go_on.set()
        (own,) = await mailbox.own_schedules()
    assert (own.session, own.session_id, own.profile) == ("line:7", "line:7", "default")


async def test_it_lives_on_over_a_restart(workshop: Workshop, line: Line, mailbox: Lasting) -> None:
    clock = Clock("2026-07-01T07:00")
    async with serving(workshop, line, mailbox, clock=clock):
        await reply_to(line, DAILY)
        await trio.sleep(6)
    clock.set("2026-07-01T07:59:58")
    async with serving(workshop, line, mailbox, clock=clock):
        await trio.sleep(3)
    assert line.said[1:] == ["you said look at the mail"]


async def test_a_reminder_is_over_when_it_has_fired(workshop: Workshop, line: Line, mailbox: Lasting) -> None:
    clock = Clock("2026-07-01T07:00")
    async with serving(workshop, line, mailbox, clock=clock) as manager:
        await reply_to(line, DAILY.replace("}", ', "once": true}'))
        await trio.sleep(6)
        clock.set("2026-07-01T07:59:58")
        await trio.sleep(10)
        assert line.said[1:] == ["you said look at the mail"]
        assert await mailbox.own_schedules() == []
        assert manager.schedules == {}


async def test_each_chat_sees_and_removes_only_its_own(workshop: Workshop, line: Line, mailbox: Lasting) -> None:
    async with serving(workshop, line, mailbox) as manager:
        await reply_to(line, DAILY)
        assert await reply_to(line, ",schedule.list", chat="8") == "there are none"
        assert "there is no schedule 1 in this chat" in await reply_to(line, ",schedule.remove 1", chat="8")
        assert "look at the mail" in await reply_to(line, ",schedule.list")
        await trio.sleep(6)
        assert await reply_to(line, ",schedule.remove 1") == "schedule 1 is removed"
        await trio.sleep(6)
        assert manager.schedules == {}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('"cron": "*/5 * * * *", "message": "x"', "`*/5 * * * *` fires every 5 minutes, and 15 is the shortest pause"),
        ('"cron": "0,1 8 * * *", "message": "x"', "fires every 1 minutes"),
        ('"cron": "0 8 * *", "message": "x"', "has 4 fields"),
        ('"cron": "0 8 31 2 *", "message": "x"', "never fires"),
        ('"cron": "0 8 * * *", "message": "x", "timezone": "Berlin"', "there is no time zone `Berlin`"),
        ('"cron": "0 8 * * *", "message": " "', "the message has to have"),
        ('"cron": "0 8 * * *", "message": ",bash rm"', "a command is for people"),
        ('"cron": "0 8 * * *", "message": "x", "session": "line:8"', "has no argument `session`"),
        ('"cron": "0 8 * * *", "message": "x", "profile": "admin"', "has no argument `profile`"),
    ],
)
async def test_what_means_nothing_or_too_much_is_refused_with_the_reason(
    workshop: Workshop, line: Line, mailbox: Lasting, arguments: str, problem: str
) -> None:
    async with serving(workshop, line, mailbox):
        assert problem in await reply_to(line, f",schedule.add {{{arguments}}}")
        assert await mailbox.own_schedules() == []


@pytest.mark.parametrize(("budget", "most"), [("", 10), ("budget: {schedules: 2}, ", 2)])
async def test_a_profile_has_as_many_as_its_budget_says(
    workshop: Workshop, line: Line, mailbox: Lasting, budget: str, most: int
) -> None:
    text = PIPELINE.replace("tools:", f"{budget}tools:")
    async with serving(workshop, line, mailbox, text):
        for number in range(most):
            assert f"schedule {number + 1} is made" in await reply_to(line, DAILY, chat=str(number))
        assert f"the profile has {most} schedules already" in await reply_to(line, DAILY, chat="another")
        assert "is removed" in await reply_to(line, ",schedule.remove 1", chat="0")
        assert "is made" in await reply_to(line, DAILY, chat="another")


async def test_a_person_is_asked_unless_the_profile_allows_it_by_its_very_name(
    workshop: Workshop, mailbox: Lasting
) -> None:
    asked: list[str] = []

    async def ask(question: Any, message: Any) -> bool:
        asked.append(question.tool)
        return False

    line = Line(can_ask=True, ask=ask)
    async with serving(workshop, line, mailbox, PIPELINE.replace(", schedule.add", "")):
        await reply_to(line, DAILY)
        assert asked == ["schedule.add"]
        assert await mailbox.own_schedules() == []


async def test_a_turn_that_a_schedule_began_makes_no_schedule(workshop: Workshop, line: Line, mailbox: Lasting) -> None:
    text = PIPELINE + "schedules: {night: {cron: '0 8 * * *', session: 'line:7', message: '" + DAILY + "'}}\n"
    async with serving(workshop, line, mailbox, text, Clock("2026-07-01T07:59:59")):
        await trio.sleep(3)
        assert "a turn that a schedule began makes no schedules" in line.said[-1]
        assert await mailbox.own_schedules() == []


async def test_who_is_not_let_in_any_more_gets_no_turn_by_a_schedule(workshop: Workshop, mailbox: Lasting) -> None:
    gone: set[str] = set()
    line, clock = Line(admits=lambda message: message.sender_id not in gone), Clock("2026-07-01T07:00")
    async with serving(workshop, line, mailbox, clock=clock):
        await reply_to(line, DAILY, sender_id="4711")
        gone.add("4711")
        await trio.sleep(6)
        clock.set("2026-07-01T07:59:58")
        await trio.sleep(4)
        assert len(line.said) == 1


def test_what_is_asked_about_by_itself_is_so_for_a_sub_agent_too(workshop: Workshop, line: Line) -> None:
    add = an_agent(workshop, line).tools.tools["schedule.add"]
    assert ToolPolicy(("*",)).asks(add)
    assert not ToolPolicy(("schedule.add",)).asks(add)
    assert ToolPolicy(("*",)).narrow(["schedule.add"]).asks(add)
