"""Schedules fire each of their moments once: over changes of the clock, jumps, restarts and reloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import trio
import trio.lowlevel
from fakes.line import Line, an_office, opened
from fakes.mailboxes import Lasting, Mortal
from fakes.toys import Workshop

from bub import tool
from bub.agent.calls.asking import current_call
from bub.agent.marks.session import marks_of_writers
from bub.approval import Answer
from bub.asking import Form
from bub.base.counts import Counts
from bub.base.surfaces import Surface, Writer
from bub.inbox.mailbox import Mailbox
from bub.inbox.schedules.own import OwnSchedule
from bub.pipeline.plan.schedules.moments import (
    MomentsError,
    NeverError,
    check_moments,
    count_moments,
    last_moment,
    moments_after,
)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def at(when: str, zone: str = "UTC", *, fold: int = 0) -> float:
    return datetime.fromisoformat(when).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


# The moments of an expression


CHANGES = [
    ("Europe/Berlin", "2026-03-28T12:00", "30 2 * * *", ["29 03:00+0200", "30 02:30+0200"]),
    ("Europe/Berlin", "2026-10-24T12:00", "30 2 * * *", ["25 02:30+0200", "26 02:30+0100"]),
    ("America/New_York", "2026-03-07T12:00", "30 2 * * *", ["08 03:00-0400", "09 02:30-0400"]),
    ("America/New_York", "2026-10-31T12:00", "30 1 * * *", ["01 01:30-0400", "02 01:30-0500"]),
    # Two that fall on one moment are one.
    ("Europe/Berlin", "2026-03-28T12:00", "0 2,3 * * *", ["29 03:00+0200", "30 02:00+0200"]),
    # What is to happen each half hour happens each half hour.
    ("Europe/Berlin", "2026-10-25T01:45", "*/30 * * * *", ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100"]),
    ("America/New_York", "2026-03-08T01:15", "*/30 * * * *", ["08 01:30-0500", "08 03:00-0400", "08 03:30-0400"]),
]


@pytest.mark.parametrize(("zone", "start", "cron", "expected"), CHANGES)
def test_a_change_of_the_clock_neither_doubles_a_moment_nor_loses_it(
    zone: str, start: str, cron: str, expected: list[str]
) -> None:
    found = islice(moments_after(cron, zone, at(start, zone)), len(expected))
    assert [datetime.fromtimestamp(one, ZoneInfo(zone)).strftime("%d %H:%M%z") for one in found] == expected


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "30 1 * * *", "0 3 * * *", "59 1 * * *"])
def test_whenever_a_year_is_looked_at_a_daily_moment_comes_once_a_day(cron: str, zone: str) -> None:
    all_of_it = list(islice(moments_after(cron, zone, at("2026-01-01", zone)), 400))
    days = [datetime.fromtimestamp(one, ZoneInfo(zone)).date() for one in all_of_it]
    assert len(set(days)) == len(days)
    assert (days[-1] - days[0]).days == len(days) - 1
    # Asked again from any moment between two, the next one is the same: an hour that comes twice brings nothing anew.
    for one, following in (*pairwise(all_of_it[60:95]), *pairwise(all_of_it[290:312])):
        for part in (0, 1800, 3600, 5400, 7200):
            assert next(moments_after(cron, zone, one + part)) == following


def test_the_last_moment_is_found_however_long_nobody_looked() -> None:
    since, until = at("2020-01-01"), at("2026-07-01T12:34:56")
    assert last_moment("* * * * *", "UTC", since, until) == at("2026-07-01T12:34")
    assert last_moment("0 0 29 2 *", "UTC", since, until) == at("2024-02-29")
    assert last_moment("0 0 29 2 *", "UTC", at("2025-01-01"), until) is None
    assert last_moment("0 8 * * *", "UTC", at("2026-07-01T08:00"), until) is None
    assert count_moments("0 8 * * *", "UTC", at("2026-06-28T08:00"), until) == 3


@pytest.mark.parametrize(
    ("cron", "zone", "problem"),
    [
        ("0 8 * *", "UTC", "`0 8 * *` has 4 fields, and a cron expression has five"),
        ("0 0 8 * * *", "UTC", "`0 0 8 * * *` has 6 fields, and a cron expression has five"),
        ("0 24 * * *", "UTC", "`24` is no hour of a cron expression"),
        ("0 8 * * MOO", "UTC", "`MOO` is no day of the week of a cron expression"),
        ("0 8 * * *", "Europe/Berln", "there is no time zone `Europe/Berln`"),
        ("0 8 * * *", "../../etc/passwd", "there is no time zone `../../etc/passwd`"),
    ],
)
def test_what_means_no_moment_says_why(cron: str, zone: str, problem: str) -> None:
    with pytest.raises(MomentsError) as caught:
        check_moments(cron, zone)
    assert str(caught.value) == problem
    assert caught.value.help
    assert not isinstance(caught.value, NeverError)


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "0 0 30,31 2 *", "0 0 31 4,6,9,11 *"])
def test_a_day_that_no_month_has_never_comes(cron: str) -> None:
    with pytest.raises(NeverError, match="never fires"):
        check_moments(cron, "UTC")


def test_a_machine_without_time_zones_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoneinfo

    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    zoneinfo.ZoneInfo.clear_cache()
    monkeypatch.setitem(__import__("sys").modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=())
    try:
        with pytest.raises(MomentsError) as caught:
            check_moments("0 8 * * *", "Europe/Berlin")
        assert "pip install tzdata" in str(caught.value.help)
        check_moments("0 8 * * *", "UTC")
    finally:
        monkeypatch.undo()
        zoneinfo.reset_tzpath()


# In a gateway


class Clock:
    """A wall clock that goes with the virtual one, and can be set."""

    def __init__(self, now: str) -> None:
        self._offset = at(now) - trio.current_time()

    def __call__(self) -> float:
        return trio.current_time() + self._offset

    def set(self, now: str) -> None:
        self._offset = at(now) - trio.current_time()

    def skip(self, seconds: float) -> None:
        self._offset += seconds

    async def until(self, when: str) -> None:
        """Wait until it says so, and what is due then is answered; what lies far ahead is jumped to."""
        if at(when) - self() > 5:
            self._offset = at(when) - trio.current_time() - 2
        await trio.sleep(at(when) - self() + 0.5)


PIPELINE = """
extends: bub:default
schedules:
  morning: {cron: "0 8 * * *", message: good morning, session: "line:7"}
"""


def echo(prompt: str) -> str:
    """Answer with the message, without what is said about it ahead."""
    return prompt.splitlines()[-1]


async def think(prompt: str) -> str:
    """Think for so long that the process ends meanwhile."""
    await trio.sleep(3600)
    return prompt


@pytest.fixture
def line() -> Line:
    return Line()


@asynccontextmanager
async def running(
    workshop: Workshop,
    line: Line,
    clock: Clock,
    pipeline: str = PIPELINE,
    *,
    mailbox: Mailbox | None = None,
    counts: Counts | None = None,
) -> AsyncIterator[Any]:
    framework = an_office(workshop, line, pipeline=pipeline, run_model=echo)
    async with opened(framework, mailbox=mailbox, counts=counts, wall=clock) as manager:
        await trio.lowlevel.checkpoint()
        yield manager


def catching_up(pipeline: str = PIPELINE) -> str:
    return pipeline.replace("message:", "catch_up: last, message:")


async def test_a_schedule_says_its_message_in_its_chat_and_the_reply_goes_there(workshop: Workshop, line: Line) -> None:
    clock, counts = Clock("2026-07-01T07:59"), Counts()
    async with running(workshop, line, clock, counts=counts) as manager:
        await trio.sleep(1)
        assert line.said == []
        await clock.until("2026-07-01T08:00")
        assert [(one.chat_id, one.content) for one in line.sent] == [("7", "good morning")]
        await clock.until("2026-07-02T08:00")
        await clock.until("2026-07-03T08:00")
        assert len(line.sent) == 3
        assert manager.schedules == {
            "morning": {"next": at("2026-07-04T08:00"), "last": at("2026-07-03T08:00"), "missed": 0}
        }
    assert counts.schedules == {("morning", "fired"): 3}


@pytest.mark.parametrize(
    ("zone", "before", "moments"),
    [
        ("Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("America/New_York", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
        ("America/New_York", "2026-10-31T12:00", ["2026-11-01T07:30", "2026-11-02T07:30"]),
    ],
)
async def test_over_a_change_of_the_clock_it_fires_once_a_day(
    workshop: Workshop, line: Line, zone: str, before: str, moments: list[str]
) -> None:
    text = PIPELINE.replace('"0 8 * * *"', f'"30 2 * * *", timezone: {zone}')
    clock = Clock(before)
    async with running(workshop, line, clock, text):
        for number, moment in enumerate(moments, 1):
            await clock.until(moment)
            assert len(line.said) == number
            for _ in range(8):  # through the hour that comes twice
                clock.skip(1800)
                await trio.sleep(1)
            assert len(line.said) == number


async def test_a_clock_that_is_set_back_fires_no_moment_again(workshop: Workshop, line: Line) -> None:
    clock = Clock("2026-07-01T07:59")
    async with running(workshop, line, clock):
        await clock.until("2026-07-01T08:00")
        assert len(line.said) == 1
        for earlier in ("2026-07-01T07:59", "2026-07-01T07:59:59", "2026-06-01T07:00"):
            clock.set(earlier)
            await trio.sleep(2)
            clock.set("2026-07-01T07:59:58")
            await clock.until("2026-07-01T08:01")
        assert len(line.said) == 1
        await clock.until("2026-07-02T08:00")
        assert len(line.said) == 2


async def test_a_clock_that_was_wrong_for_years_keeps_no_schedule_waiting(workshop: Workshop, line: Line) -> None:
    clock = Clock("2031-01-01T00:00")
    async with running(workshop, line, clock):
        await trio.sleep(2)
        clock.set("2026-07-01T07:59")
        await clock.until("2026-07-01T08:00")
        assert len(line.said) == 1


@pytest.mark.parametrize(("catch_up", "fired"), [("none", 0), ("last", 1)])
async def test_a_clock_that_jumps_ahead_misses_what_lies_between(
    workshop: Workshop, line: Line, catch_up: str, fired: int
) -> None:
    clock = Clock("2026-07-01T07:00")
    text = catching_up() if catch_up == "last" else PIPELINE
    async with running(workshop, line, clock, text) as manager:
        await trio.sleep(2)
        clock.set("2026-07-04T12:00")
        await trio.sleep(2)
        assert len(line.said) == fired
        assert manager.schedules["morning"]["missed"] == 4 - fired
        assert manager.schedules["morning"]["next"] == at("2026-07-05T08:00")


async def test_a_jump_over_the_moment_itself_is_late_and_not_missed(workshop: Workshop, line: Line) -> None:
    clock = Clock("2026-07-01T07:59:30")
    async with running(workshop, line, clock):
        await trio.sleep(2)
        clock.set("2026-07-01T08:03")
        await trio.sleep(2)
        assert line.said == ["good morning"]


# Restarts


async def test_a_new_schedule_begins_when_it_is_first_seen(workshop: Workshop, line: Line) -> None:
    clock = Clock("2026-07-01T08:00:30")
    async with running(workshop, line, clock, catching_up()):
        await trio.sleep(5)
        assert line.said == []


@pytest.mark.parametrize(("catch_up", "fired"), [("none", 0), ("last", 1)])
async def test_what_was_missed_while_no_gateway_ran_is_made_up_for_once_if_the_file_says_so(
    workshop: Workshop, line: Line, tmp_path: Path, catch_up: str, fired: int
) -> None:
    text = catching_up() if catch_up == "last" else PIPELINE
    mailbox, clock = Lasting(tmp_path), Clock("2026-07-01T07:00")
    async with running(workshop, line, clock, text, mailbox=mailbox):
        await trio.sleep(2)
    clock.set("2026-07-05T12:00")
    for _ in range(2):
        async with running(workshop, line, clock, text, mailbox=mailbox) as manager:
            await trio.sleep(2)
            assert len(line.said) == fired
            assert manager.schedules["morning"]["missed"] == 5 - fired


async def test_a_restart_right_behind_the_moment_fires_it_late_and_once(
    workshop: Workshop, line: Line, tmp_path: Path
) -> None:
    mailbox, clock = Lasting(tmp_path), Clock("2026-07-01T07:59:50")
    async with running(workshop, line, clock, mailbox=mailbox):
        await trio.sleep(2)
    clock.set("2026-07-01T08:00:05")
    for _ in range(3):
        async with running(workshop, line, clock, mailbox=mailbox):
            await trio.sleep(2)
    assert line.said == ["good morning"]


async def test_a_process_that_dies_in_the_turn_answers_after_the_restart_and_fires_no_more(
    workshop: Workshop, line: Line, tmp_path: Path
) -> None:
    mailbox, clock = Mortal(tmp_path), Clock("2026-07-01T07:59:59")
    framework = an_office(workshop, line, pipeline=PIPELINE, run_model=think)
    with trio.move_on_after(3):
        async with opened(framework, mailbox=mailbox, wall=clock):
            await trio.sleep(2)
            mailbox.is_dead = True
            await trio.sleep_forever()
    mailbox.is_dead = False
    assert line.said == []
    for _ in range(2):
        async with running(workshop, line, clock, mailbox=mailbox):
            await trio.sleep(5)
    assert line.said == ["good morning"]


async def test_two_processes_fire_once(workshop: Workshop, tmp_path: Path) -> None:
    mailbox, clock, lines = Lasting(tmp_path), Clock("2026-07-01T07:59:59"), (Line(), Line())
    frameworks = [an_office(workshop, one, pipeline=PIPELINE, run_model=echo) for one in lines]
    async with opened(frameworks[0], mailbox=mailbox, wall=clock), opened(frameworks[1], mailbox=mailbox, wall=clock):
        await trio.sleep(5)
    assert len([*lines[0].said, *lines[1].said]) == 1


async def test_a_store_that_fails_fires_as_soon_as_it_works_again(
    workshop: Workshop, line: Line, tmp_path: Path
) -> None:
    mailbox, clock = Mortal(tmp_path), Clock("2026-07-01T07:59:50")
    async with running(workshop, line, clock, mailbox=mailbox):
        await trio.sleep(2)
        mailbox.is_dead = True
        await trio.sleep(30)
        assert line.said == []
        mailbox.is_dead = False
        await trio.sleep(10)
        assert line.said == ["good morning"]


async def test_a_schedule_that_fails_keeps_no_other_one_from_firing(
    workshop: Workshop, line: Line, tmp_path: Path
) -> None:
    mailbox, clock = Lasting(tmp_path), Clock("2026-07-01T07:59:50")
    # As after an update of the machine that took a time zone away: the agent has made it, so no rule is asked.
    lost = OwnSchedule("", "0 8 * * *", "hello", "line:7", "Europe/Atlantis", "default", session_id="line:7")
    async with running(workshop, line, clock, mailbox=mailbox) as manager:
        await mailbox.add_schedule(lost, 10)
        await trio.sleep(30)
        assert line.said == ["good morning"]
        assert list(manager.schedules) == ["morning"]


# Reloads


def rewrite(workshop: Workshop, old: str, new: str) -> None:
    file = workshop.folder / "pipelines.yaml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


async def test_a_reload_adds_changes_and_removes_schedules_and_fires_nothing_twice(
    workshop: Workshop, line: Line
) -> None:
    clock = Clock("2026-07-01T07:59:59")
    framework = an_office(workshop, line, pipeline=PIPELINE, run_model=echo)
    async with opened(framework, wall=clock) as manager:
        await trio.sleep(2)
        assert line.said == ["good morning"]
        rewrite(workshop, "good morning", "hello")
        framework.reload()
        await trio.sleep(60)
        assert len(line.said) == 1
        rewrite(workshop, '"0 8 * * *"', '"2 8 * * *"')
        framework.reload()
        await clock.until("2026-07-01T08:02")
        assert line.said[1:] == ["hello"]
        rewrite(workshop, "  morning:", "  evening:")
        framework.reload()
        await trio.sleep(2)
        assert list(manager.schedules) == ["evening"]
        await clock.until("2026-07-01T12:00")
        assert len(line.said) == 2


# Whose turn it is


PROFILES = """
extends: bub:default
schedules:
  morning: {cron: "0 8 * * *", message: good morning, session: "line:7", profile: quiet}
plugins: {office: {path: office.py}}
routes: [{match: {channel: line}, profile: loud}]
profiles:
  default: {plugins: [office]}
  loud: {extends: default}
  quiet: {extends: default, description: for schedules}
"""


@pytest.mark.parametrize(("named", "taken"), [(", profile: quiet", "quiet"), ("", "loud")])
async def test_the_profile_it_names_takes_its_turn_else_the_routes_choose(
    workshop: Workshop, line: Line, named: str, taken: str
) -> None:
    clock, counts = Clock("2026-07-01T07:59:59"), Counts()
    text = PROFILES.replace(", profile: quiet}\nplugins", f"{named}}}\nplugins")
    async with running(workshop, line, clock, text, counts=counts):
        await trio.sleep(2)
    assert line.said == ["good morning"]
    assert counts.turns == {(taken, "ok"): 1}


async def test_a_firing_whose_profile_is_gone_is_set_aside_and_runs_in_no_other(
    workshop: Workshop, line: Line, tmp_path: Path
) -> None:
    mailbox, clock = Mortal(tmp_path), Clock("2026-07-01T07:59:59")
    framework = an_office(workshop, line, pipeline=PROFILES, run_model=think)
    with trio.move_on_after(3):
        async with opened(framework, mailbox=mailbox, wall=clock):
            await trio.sleep(2)
            mailbox.is_dead = True
            await trio.sleep_forever()
    mailbox.is_dead = False
    without = PROFILES.replace(", profile: quiet}", "}").replace("  quiet: {", "  other: {")
    async with running(workshop, line, clock, without, mailbox=mailbox):
        await trio.sleep(5)
    assert line.said == []
    (entry,) = mailbox._store.alone(mailbox._store.list_entries)  # as `bub inbox` reads them
    assert entry.reason == "its schedule may not fire here any more"


async def test_a_channel_that_lets_nobody_in_lets_schedules_of_the_file_in(workshop: Workshop) -> None:
    line, clock = Line(admits=lambda message: False), Clock("2026-07-01T07:59:59")
    async with running(workshop, line, clock):
        await trio.sleep(2)
    assert line.said == ["good morning"]


@pytest.mark.parametrize("answer", [True, False])
async def test_a_command_of_a_schedule_is_asked_about_as_anybodys(workshop: Workshop, answer: bool) -> None:
    asked: list[str] = []

    async def ask(question: Any, message: Any) -> bool:
        asked.append(question.tool)
        return answer

    line, clock = Line(can_ask=True, ask=ask), Clock("2026-07-01T07:59:59")
    text = """
extends: bub:default
schedules:
  night: {cron: "0 8 * * *", session: "line:7", message: ',fs.write {"path": "note.txt", "content": "x"}'}
plugins: {office: {path: office.py}}
profiles: {default: {plugins: [office], tools: {allow: ["*"], ask: [fs.write]}}}
"""
    framework = an_office(workshop, line, pipeline=text, run_model=lambda prompt: None)
    async with opened(framework, wall=clock) as manager:
        await trio.sleep(3)
        await manager.settled()  # the test's clock does not wait for the thread that writes
    assert asked == ["fs.write"]
    assert (workshop.folder / "note.txt").exists() is answer


async def test_what_somebody_else_asks_while_a_schedule_runs_nobody_answers(workshop: Workshop) -> None:
    came: list[Answer] = []

    @tool
    async def poll() -> str:
        """Ask something for somebody else, as a server does."""
        call = current_call.get()
        assert call is not None
        came.append(await call.fill(Form("the server `docs`", "Go on?")))
        return "polled"

    async def fill(question: Any, message: Any) -> dict[str, Any]:
        return {}

    line, clock = Line(fills_forms=True, can_ask=True, fill=fill), Clock("2026-07-01T07:59:59")
    text = """
extends: bub:default
schedules: {night: {cron: "0 8 * * *", session: "line:7", message: ",poll"}}
plugins: {office: {path: office.py}}
profiles: {default: {plugins: [office], tools: {allow: ["*"]}}}
"""
    framework = an_office(workshop, line, pipeline=text, run_model=lambda prompt: None, provide_tools=lambda: [poll])
    async with opened(framework, wall=clock):
        await trio.sleep(3)
        await line.say(",poll", chat_id="7")
        await trio.sleep(3)
    assert [answer.content for answer in came] == [None, {}]
    assert came[0].words == "a schedule began this turn, not a person"


def test_what_the_file_says_marks_no_conversation_and_what_the_agent_says_does() -> None:
    approvers = (("line", "4711"),)
    said, own = (Writer(surface, "line", "4711") for surface in (Surface.SCHEDULE, Surface.PROGRAM))
    assert not marks_of_writers([said], approvers)
    assert marks_of_writers([own], approvers)
    assert not Surface.SCHEDULE.is_operator


async def test_it_waits_behind_what_is_said_and_is_no_part_of_it(workshop: Workshop) -> None:
    line, clock = Line(needs_debounce=True), Clock("2026-07-01T07:59:59.5")
    async with running(workshop, line, clock):
        await line.say("one moment", chat_id="7")
        await trio.sleep(3)
    assert line.said == ["one moment", "good morning"]


async def test_a_channel_that_does_not_run_misses_its_moments(workshop: Workshop, line: Line) -> None:
    clock = Clock("2026-07-01T07:59:59")
    text = PIPELINE.replace("line:7", "elsewhere:7")
    async with running(workshop, line, clock, text) as manager:
        await trio.sleep(3)
        assert manager.schedules["morning"]["missed"] == 1
    assert line.said == []


async def test_schedules_of_a_profile_lie_over_those_of_the_file(workshop: Workshop, line: Line) -> None:
    clock = Clock("2026-07-01T07:59:59")
    text = f"""{PIPELINE}
  noon: {{cron: "0 12 * * *", message: lunch, session: "line:7"}}
plugins: {{office: {{path: office.py}}}}
profiles:
  default:
    plugins: [office]
    schedules: {{morning: {{message: "${{env:GREETING:-moin}}"}}, noon: {{enabled: false}}}}
"""
    async with running(workshop, line, clock, text) as manager:
        await trio.sleep(2)
        assert list(manager.schedules) == ["morning"]
    assert line.said == ["moin"]


async def test_where_no_file_has_schedules_no_clock_is_read(workshop: Workshop, line: Line) -> None:
    async with running(workshop, line, Clock("2026-07-01T08:00"), "extends: bub:default") as manager:
        await trio.sleep(5)
        assert manager.schedules == {}


def test_a_schedule_for_a_channel_that_no_plugin_brings_is_a_warning(workshop: Workshop, line: Line) -> None:
    for session, found in (("line:7", []), ("elsewhere:7", ["B243"])):
        framework = an_office(workshop, line, pipeline=PIPELINE.replace("line:7", session))
        framework.check_channels()
        assert [one.code for one in framework.warnings] == found
