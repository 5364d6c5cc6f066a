"""The turn of one message: its arrival, its wait for its session, and its answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from bub.approval import Ask, CallNotes
from bub.base.clients.request import ClientRequest
from bub.base.surfaces import Surface, Writer, writers_of
from bub.base.trace import Trace
from bub.base.waiting import MovingDeadline
from bub.envelope import Envelope, add_address, content_of
from bub.hooks.admission import Admission, Steering
from bub.pipeline.run.failures import tell_observers
from bub.pipeline.run.state import OnEvent
from bub.pipeline.run.turn import Turn
from bub.runtime.arriving.admission import ask_admission
from bub.runtime.arriving.arrival import WrittenArrival, read_arrival, write_arrival
from bub.runtime.generations import Generation
from bub.runtime.result import TurnResult, result_of
from bub.runtime.sessions import Dispatch, OnWait, TurnUnderWay, origin_of
from bub.runtime.snapshot import Profile
from bub.runtime.turn_host import TurnHost
from bub.runtime.watched import WatchedTurn, leave
from bub.streaming import StreamEvent

Complete: TypeAlias = Callable[[Envelope], Awaitable[Envelope]]
"""Completes a message before anybody looks into it, such as by fetching its media."""


class MessageTurn(WatchedTurn):
    """The turn of one message: it arrives, may be let in, holds its session, and is answered.

    Call `arrive`, `admit`, `hold` and `answer` in this order, each once, and `close` in any case. One that is closed
    before it is answered is dropped: its clean-ups run. `is_over` says whether there is nothing more to run, also if
    a claim or a denial ended it above the session; `answer` then only says its result.
    """

    __slots__ = (
        "_complete",
        "_current",
        "_has_profile_for_sure",
        "_inbound",
        "_is_counted",
        "_named",
        "_on_event",
        "_routed",
        "_turn",
        "_turns",
        "is_over",
        "profile",
    )

    def __init__(
        self,
        turns: TurnHost,
        message: Envelope,
        above: TurnUnderWay | None,
        on_event: OnEvent | None = None,
        ask: Ask | None = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
        surface: Surface = Surface.PROGRAM,
        complete: Complete | None = None,
        *,
        notes: CallNotes | None = None,
        writers: Callable[[], Sequence[Writer]] | None = None,
        keeps_order: bool = False,
        profile: str | None = None,
        request: ClientRequest | None = None,
    ) -> None:
        inbound = dict(message) if type(message) is dict or isinstance(message, Mapping) else message
        current = add_address(inbound)
        typed = content_of(current) if surface.is_operator else None
        wrote = writers or partial(writers_of, current, surface)
        more = (dispatch, steering, typed, notes, wrote, request)
        super().__init__(current, surface, ask, above, *more, find_stage=self._find_stage)
        self._turns = turns
        self._inbound = inbound
        self._current = current
        self._on_event = on_event
        self._named = profile
        self._complete = complete
        self._turn: Turn | None = None
        self._is_counted = False
        self._has_profile_for_sure = True
        self.is_over = False
        self.profile: Profile
        self._route(self._generation())
        if self.above is None and (keeps_order or not self.profile.is_parallel):
            turns.sessions.line_up(self, origin_of(current))
        turns.note_begin(self)

    @property
    def stages_now(self) -> Sequence[str]:
        """The ids of the stages that run now."""
        return self._turn.stages_now if self._turn is not None else ()

    @property
    def session_id(self) -> str:
        """The session that was found; if no stage makes one, it is where the message comes from."""
        found = self._turn.session_id if self._turn is not None else None
        return found if found is not None else origin_of(self._current)

    @property
    def message(self) -> Envelope:
        """The message as the stages up to the session have left it."""
        return self._turn.message if self._turn is not None else self._current

    @property
    def bounds(self) -> Sequence[MovingDeadline]:
        """The time-outs that bound something of it now."""
        return self._turn.bounds if self._turn is not None else ()

    @property
    def trace(self) -> Trace:
        """What became of each stage so far."""
        return self._turn.trace if self._turn is not None else Trace((), self.began)

    async def reach(self) -> None:
        """Wait until those that came before from the same place have found their sessions."""
        await self._turns.sessions.reach(self)
        self._take_latest()

    @property
    def is_risky(self) -> bool:
        """Whether code that is not Bub's own, and may end the process, is called before the session is held.

        It finds the session or lets messages in, in this profile or in one that the session may have chosen.
        """
        registered = self._turns.loaded.registry.registered
        profile = self.profile
        if profile.has_personalities and (self.loaded.risks_early or registered):
            return True
        return profile.risks_early or profile.graph.is_risked_early(registered)

    @property
    def is_judged(self) -> bool:
        """Whether a plugin of its profile may keep the message back or change it before the model gets it."""
        return self.profile.graph.judges_messages(self._turns.loaded.registry.registered)

    async def arrive(self) -> None:
        """Run the stages up to the one that makes the session's id, once it is this message's turn to do so.

        If the session has chosen another profile, the turn goes on there, and what only that one has above the session
        is run, so that none of its gates is skipped. Raises what the first failing stage raised.
        """
        await self._arrive(None, "")

    async def resume(self, session_id: str, written: bytes) -> None:
        """Go on from the turn of the same messages in another process, as `write_arrival` has written it.

        Raises what `arrive` raises.
        """
        await self._arrive(read_arrival(written), session_id)

    def write_arrival(self) -> bytes:
        """Write down what the turn has made, for a process that goes on with it; here it is closed."""
        assert self._turn is not None
        return write_arrival(self._turn, self.profile.name)

    async def _arrive(self, before: WrittenArrival | None, session_id: str) -> None:
        if self.arrival is None or self.arrival.is_reached:
            self._take_latest()
        else:
            await self.reach()
        self.loaded.users += 1
        self._is_counted = True
        if before is not None:
            self.profile = self.loaded.profiles.get(before.profile, self.profile)
        turn = self._turn = self._turn_on(self.profile)
        token = self.enter()
        try:
            if self.lifespan is not None and not self.profile.graph.joins:
                await self.open_lifespan()
            if self._complete is not None and self._is_looked_at_early():
                await self._complete_message()
            if before is None:
                await turn.arrive()
            else:
                await turn.resume(before.read_values(), before.read_asked(), session_id)
            if self.profile.has_personalities and turn.ended_by is None:
                await self._settle()
        except BaseException as error:
            await self._fail(error)
            raise
        finally:
            leave(token)
        if self._turn.ended_by is not None:
            self._end()

    def busy(self, steering: int = 0) -> Admission:
        """How busy the session is; `steering` of those who wait there are meant for the turn under way."""
        sessions, session_id = self._turns.sessions, self.session_id
        running = sessions.running(session_id)
        return Admission(running > 0, running, sessions.waiting(session_id) - steering, steering)

    async def admit(self, busy: Admission) -> str | None:
        """What becomes of the message, by the hook `admit_message`; None if no plugin says (BEHAVIOURS C18).

        A plugin that fails, or says what nobody knows, is not asked: `on_error` gets the failure (C20).
        """
        profile, session_id = self.profile, self.session_id
        if not profile.admissions.items:
            return None
        self._has_profile_for_sure = False  # a turn of the session may choose another one meanwhile
        try:
            values = {"session_id": session_id, "message": self.message, "turn": busy}
            return await ask_admission(profile.admissions, values)
        except Exception as error:  # noqa: BLE001 (the message is let in)
            await tell_observers(profile.graph, "admit_message", error, self.message)
            return None

    async def hold(self, *, alone: bool | None = None, on_wait: OnWait | None = None) -> None:
        """Take the session, once it is free and there is room; the next message may arrive as soon as this one waits.

        A turn is `alone` in its session, unless its profile says `concurrency: parallel`. `on_wait` is called if it
        has to wait, before it does. Raises `BubError` for a turn that would wait for itself: one that a turn of the
        same session has started.
        """
        if self.above is not None and not self.profile.graph.joins:
            return
        self.phase = "waiting"
        if alone is None:
            alone = not self.profile.is_parallel
        try:
            if await self._turns.sessions.hold(self, self.session_id, alone=alone, on_wait=on_wait):
                self._has_profile_for_sure = False
        except BaseException as error:
            token = self.enter()
            try:
                await self._fail(error)
            finally:
                leave(token)
            raise

    async def tell(self, event: StreamEvent) -> None:
        """Tell who listens to its answer of an event that comes beside that, such as from a tool."""
        if self._turn is not None:
            await self._turn.tell_at_once(event)

    def park(self) -> None:
        """Give the place among the running turns away while a person is waited for; the session goes on waiting."""
        self._turns.sessions.park(self)

    async def unpark(self) -> None:
        """Take a place again before anything more is done; at once for a turn that was not parked."""
        await self._turns.sessions.unpark(self)

    async def answer(self) -> TurnResult:
        """Run the other stages; returns the result of the turn.

        It runs in the profile that the session has by now, and on what is loaded by now: what was taken away while it
        waited is away. Raises what the first failing stage raised.
        """
        if not self.is_over:
            self.phase, self.held_at = "answering", time.time()
            token = self.enter()
            try:
                await self._answer()
            except BaseException as error:
                await self._fail(error)
                raise
            finally:
                leave(token)
                if self.scope is not None:
                    await self.scope.close()
        assert self._turn is not None
        return self._end()

    async def close(self) -> None:
        """Give back all that the turn has taken; the clean-ups of one that was not answered run first."""
        loaded = self._turns.loaded
        try:
            if self._turn is not None and not self.is_over:
                token = self.enter()
                try:
                    await self._turn.abandon()
                finally:
                    leave(token)
            if self.scope is not None:
                await self.scope.close()
        finally:
            self._turns.sessions.leave(self)
            self.end()
            self._turns.note_end(self)
            self.error = None  # its traceback names the turn: the two would keep each other
            if self._is_counted:
                self.loaded.users -= 1
            if len(loaded.kept) > 1:
                await loaded.let_go()

    async def _answer(self) -> None:
        if self._turns.loaded.current is not self.loaded or not self._has_profile_for_sure:
            await self._settle()
        turn, profile = self._turn, self.profile
        assert turn is not None
        if turn.ended_by is not None:
            return
        if self.lifespan is not None:
            await self.open_lifespan()
        if self._complete is not None:
            await self._complete_message()
        state = "known"
        if self.request is not None and not self.request.is_kept:
            state = "new"  # and nobody remembers it
        elif profile.graph.joins:
            session_id = self.session_id
            state = self._turns.sessions.remember(session_id)
            # A session is new once, however often the process is started again.
            if state == "new" and profile.looks_for_new_sessions and await self._turns.has_tape(session_id):
                state = "known"
        await turn.answer(state)

    async def _settle(self) -> None:
        """Go on in the profile that the session has now, on what is loaded now."""
        turn, before, generation = self._turn, self.loaded, self._generation()
        assert turn is not None
        session_id = self.session_id
        generation.users += 1
        self.loaded = generation  # counted before anything is awaited, so that it is not let go
        try:
            if generation is not before:
                self._routed = generation.profile_for(self._current, self._named)
            profile = self._routed
            if profile.has_personalities and self._named is None:
                profile = await self._turns.chosen_by(session_id, generation, profile)
            self._has_profile_for_sure = True
            if profile is self.profile:
                return
            if self._complete is not None and (self._is_looked_at_early() or profile.graph.arrival):
                await self._complete_message()
            await turn.abandon()
            self.profile = profile
            self._turn = self._turn_on(profile)
            await self._turn.take_over(turn, session_id)
        finally:
            before.users -= 1

    def _find_stage(self) -> str:
        return self._turn.find_stage() if self._turn is not None else ""

    def _generation(self) -> Generation:
        """What a turn runs on: one that another turn started runs on the same, so that both agree."""
        loaded, above = self._turns.loaded, self.above
        if above is not None and above.loaded in loaded.kept:
            generation: Generation = above.loaded
            return generation
        return loaded.current

    def _take_latest(self) -> None:
        """Run on what is loaded now."""
        generation = self._generation()
        if generation is not self.loaded:
            self._route(generation)

    def _route(self, generation: Generation) -> None:
        self.loaded = generation
        self._routed = self.profile = generation.profile_for(self._current, self._named)

    def _turn_on(self, profile: Profile) -> Turn:
        turns = self._turns
        start = {
            "message": self._current,
            "inbound": self._inbound,
            "profile": profile.name,
            "workspace": turns.workspace,
        }
        return Turn(profile.graph, start, on_event=self._on_event, handlers=turns.loaded.registry)

    def _is_looked_at_early(self) -> bool:
        return self.profile.graph.is_looked_at_early(self._turns.loaded.registry.registered)

    async def _complete_message(self) -> None:
        """Have the message completed, once."""
        complete, self._complete = self._complete, None
        assert complete is not None and self._turn is not None
        completed = await complete(self._current)
        self._turn.complete(self._current, completed)
        self._inbound = self._current = completed

    async def _fail(self, error: BaseException) -> None:
        """See that the clean-ups have run and that the error was told, and note the result of the turn."""
        assert self._turn is not None
        self.error = error
        if self._turn.ended_by is None:
            await self._turn.abandon(error)
        self._end()

    def _end(self) -> TurnResult:
        assert self._turn is not None
        self.is_over, self.runs = True, False
        self.result = self._turns.last_result = result_of(self._turn, self.profile.name)
        return self.result
