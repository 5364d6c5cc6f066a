"""The director: it is between the graph and every implementation, and lets some of them fail as a script says."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from bub.base.waiting import is_awaitable
from bub.envelope import content_of
from bub.hooks.implementations import Implementation
from bub.testing.clock import VirtualClock
from bub.testing.mocks import make_exception
from bub.testing.proving.answers import ANSWER, answer_of, payload_for, stream_of
from bub.testing.proving.seen import Fired, Seen, Visit
from bub.testing.proving.sites import Raw, Site
from bub.testing.proving.ways import PLANTED, Fault, Way
from bub.testing.rehearsal import WITNESS

LATE_TEXT = "this came too late"
"""What an answer says that comes after its time; nothing of it may be found anywhere."""

DENIED = "bub prove denies this"
CLAIMED = "bub prove has claimed this"

_visiting: ContextVar[Visit | None] = ContextVar("visiting", default=None)


class Script(msgspec.Struct, frozen=True, eq=False):
    """What the implementations do in one turn.

    `faults` are planted, `mocked` are the sites that are not called but answered for, `silent` those that answer
    nothing, `fires` the points that the mocks fire which could. A fault at a gate strikes only at the item that says
    `item`, if that is said.
    """

    faults: tuple[Fault, ...] = ()
    mocked: frozenset[int] | None = frozenset()
    silent: frozenset[int] = frozenset()
    fires: tuple[str, ...] = ()
    item: str | None = None
    trigger: Fault | None = None
    """A failure that has to be there for others to be called, and is none that was planted to be looked at."""

    def fault_at(self, site: Site, message: Any) -> Fault | None:
        """The fault that strikes when a site is called."""
        for fault in self.faults:
            if fault.site is site and (self.item is None or not site.each or content_of(message) == self.item):
                return fault
        return None

    def is_mocked(self, site: Site) -> bool:
        """Whether a site is answered for; None stands for all of them."""
        return self.mocked is None or site.number in self.mocked


class Director:
    """Hands every implementation of a profile to the graph with itself in front, and directs one turn after another."""

    def __init__(self, profile: str, clock: VirtualClock) -> None:
        self.profile = profile
        self.raw: list[Raw] = []
        self.sites: dict[int, Site] = {}
        self.lists: frozenset[str] = frozenset()
        self.takes: Mapping[str, tuple[str, ...]] = {}
        self.long = 1_000_000.0
        """How many seconds a call hangs: longer than any turn may take."""
        self.scope = trio.CancelScope()
        self._clock = clock
        self._script = Script()
        self._seen = Seen()

    def recast(self, profile: str, stage: str, found: tuple[Implementation, ...]) -> tuple[Implementation, ...]:
        """Return the implementations of a stage, or of a point that is fired (""), each behind the director."""
        if profile != self.profile:
            return found
        return tuple(one if one.plugin == WITNESS else self._behind(stage, one) for one in found)

    def begin(self, script: Script) -> Seen:
        """Direct the next turn; what is seen of it is kept in what is returned."""
        self._script, self._seen, self.scope = script, Seen(script.faults), trio.CancelScope()
        return self._seen

    def _behind(self, stage: str, one: Implementation) -> Implementation:
        number = len(self.raw)
        self.raw.append(Raw(number, stage, one))
        named = (*one.required, *one.optional)
        added = () if one.everything or "message" in named else ("message",)

        @functools.wraps(one.function)
        def plain(**given: Any) -> Any:
            return self._call(number, one.function, given, added)

        @functools.wraps(one.function)
        async def later(**given: Any) -> Any:
            value = self._call(number, one.function, given, added)
            return await value if is_awaitable(value) else value

        function = later if one.is_async and not inspect.isasyncgenfunction(one.function) else plain
        return replace(one, function=function, optional=(*one.optional, *added), positional=())

    def _call(self, number: int, function: Callable[..., Any], given: dict[str, Any], added: tuple[str, ...]) -> Any:
        site = self.sites.get(number)
        message = given.get("message")
        given = {name: value for name, value in given.items() if name not in added}
        if site is None:  # a stage that is off, or a point that a stage calls
            return function(**given)
        fault = self._script.fault_at(site, message)
        visit = Visit(site, self._clock.now, given, message, fault, _visiting.get())
        self._seen.visits.append(visit)
        if "fire" in given and given["fire"] is not None:
            given = {**given, "fire": _Firing(self, given["fire"], visit)}
        try:
            value = self._act(visit, function, given)
        except BaseException as error:
            self._end(visit, error)
            raise
        if is_awaitable(value):
            return self._await(visit, value)
        self._end(visit, None)
        return value

    def _act(self, visit: Visit, function: Callable[..., Any], given: dict[str, Any]) -> Any:
        site, fault = visit.site, visit.fault or self._trigger_at(visit.site)
        if fault is None:
            if site.number in self._script.silent:
                return None
            if self._script.is_mocked(site):
                return self._mock(visit, given)
            return function(**given)
        match fault.way:
            case Way.RAISE:
                error = make_exception(f"{fault.value}: {PLANTED}")
                if fault.is_plain:
                    raise error
                return _raise(error)
            case Way.HANG:
                return self._hang(visit)
            case Way.LIE:
                return fault.value
            case Way.LATE:
                answer = answer_of(site, visit.message, self.lists, LATE_TEXT)
                if fault.is_plain:
                    self._clock.pass_time(self.excess(site))
                    return answer
                return self._answer_late(site, answer)
            case Way.CANCEL:
                return self._be_cancelled(visit)
            case Way.BREAK:
                return stream_of(ANSWER[:1], make_exception(f"RuntimeError: {PLANTED}"))
            case Way.STALL:
                return stream_of(ANSWER[:1], functools.partial(self._stall, visit))
            case Way.DENY:
                return {"deny": DENIED}
            case Way.CLAIM:
                return {"handled": True, "reply": CLAIMED}
        return None

    def _trigger_at(self, site: Site) -> Fault | None:
        trigger = self._script.trigger
        return trigger if trigger is not None and trigger.site is site else None

    def excess(self, site: Site) -> float:
        """How many seconds a late answer takes."""
        return (site.timeout or 0.0) + 1.0

    def _mock(self, visit: Visit, given: dict[str, Any]) -> Any:
        answer = answer_of(visit.site, visit.message, self.lists)
        fire = given.get("fire")
        if self._script.fires and fire is not None and not visit.site.is_cleanup:
            return self._fire_all(fire, answer)
        return answer

    async def _fire_all(self, fire: Any, answer: Any) -> Any:
        for name in self._script.fires:
            if name in fire:
                await fire(name, **payload_for(name, self.takes.get(name, ())))
        return answer

    async def _await(self, visit: Visit, value: Awaitable[Any]) -> Any:
        try:
            answer = await value
        except BaseException as error:
            self._end(visit, error)
            raise
        self._end(visit, None)
        return answer

    def _end(self, visit: Visit, error: BaseException | None) -> None:
        visit.ended = self._clock.now
        visit.how = "returned" if error is None else "raised" if isinstance(error, Exception) else "cancelled"

    async def _hang(self, visit: Visit) -> None:
        await trio.sleep(self.long)
        visit.outlasted = True
        self.scope.cancel()  # the turn has no end by itself
        await trio.sleep(self.long)

    async def _stall(self, visit: Visit) -> None:
        try:
            await self._hang(visit)
        finally:
            visit.ended = self._clock.now

    async def _answer_late(self, site: Site, answer: Any) -> Any:
        with trio.CancelScope(shield=True):
            await trio.sleep(self.excess(site))
        return answer

    async def _be_cancelled(self, visit: Visit) -> None:
        self.scope.cancel()
        if visit.site.is_cleanup:  # nothing cancels it, so it goes on
            await trio.sleep((visit.site.timeout or 2.0) / 2)
        else:
            await trio.sleep(self.long)
            visit.outlasted = True

    async def fire(self, fire: Any, visit: Visit, name: str, payload: dict[str, Any]) -> Any:
        """Fire a point for a visit, and note what came of it."""
        first = len(self._seen.visits)
        token = _visiting.set(visit)
        try:
            result = await fire(name, **payload)
        except BaseException:
            self._seen.fired.append(Fired(name, None, True, first, len(self._seen.visits)))
            raise
        finally:
            _visiting.reset(token)
        self._seen.fired.append(Fired(name, result, False, first, len(self._seen.visits)))
        return result


class _Firing:
    """`fire`, as an implementation gets it from the director."""

    def __init__(self, director: Director, fire: Any, visit: Visit) -> None:
        self._director, self._fire, self._visit = director, fire, visit

    def __call__(self, name: str, /, **payload: Any) -> Awaitable[Any]:
        return self._director.fire(self._fire, self._visit, name, payload)

    def __contains__(self, name: object) -> bool:
        return name in self._fire


async def _raise(error: Exception) -> Any:
    raise error
