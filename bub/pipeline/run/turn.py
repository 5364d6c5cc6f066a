"""Running a graph: one turn, from the values it starts with to the values it leaves.

The engine knows kinds, stages and values, and no hook by name: any graph runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

import trio

from bub.base.trace import Ending
from bub.base.waiting import MovingDeadline
from bub.envelope import Envelope
from bub.errors import NoAnswerError
from bub.hooks.facts import SESSION
from bub.log import log_exception, log_info
from bub.pipeline.run.endings import deliver_ending, unwind
from bub.pipeline.run.graph import Chain, GraphNode, Part
from bub.pipeline.run.handover import catch_up, plugins_asked, values_kept
from bub.pipeline.run.state import TurnState
from bub.pipeline.run.strand import Ends, Strand, strand_of_task, with_session


class Turn(TurnState):
    """One run of a graph, in two halves: `arrive` finds the session, and `answer` goes on once that one is free.

    Nothing runs between the two, so a turn may wait there as long as it takes; one that does not go on is to be
    `abandon`ed. `handlers` are those that come and go at run time; a stage calls, in front of its plugins, the ones
    that are registered when it begins.
    """

    __slots__ = ()

    def find_stage(self) -> str:
        """Return the id of the stage that the task which asks runs in; "" if it runs in none of this turn."""
        strand = strand_of_task.get()
        if strand is not None and strand.turn is self:
            return strand.at
        return next(iter(self.stages_now), "")

    def arrive(self) -> Awaitable[None]:
        """Run the stages up to the last one that makes the session's id; none if no stage makes it.

        A claim, a denial or a failure may end the turn here: then `ended_by` says so. Raises what `answer` raises.
        """
        return self._run(self.graph.arriving)

    def answer(self, session: str = "known") -> Awaitable[None]:
        """Run all other stages; `session` says whether the turn is the first of its session: "new" or "known".

        Raises what the first failing stage raised, after its clean-ups have run (DESIGN §5). The error observers get a
        failure before it leaves; they do not get a cancellation (BEHAVIOURS T29).
        """
        session_id = self.session_id
        if session_id is not None:
            self.known = {SESSION: session_id, "session": session}
        return self._run(self.graph.answering)

    async def abandon(self, error: BaseException | None = None) -> None:
        """End a turn that does not go on: its clean-ups run, and the error observers get an `error`."""
        self.held.clear()
        await unwind(self)
        if isinstance(error, Exception):
            stage = self.stage_of(error)
            self.ended_by = Ending("failed", stage)
            log_info("turn.stages", stages=str(self.trace))
            if isinstance(error, NoAnswerError):
                stage = error.stage
            elif not any(step.id == stage and step.joins is not None for step in self.graph.steps):
                stage = "turn"  # a session that cannot be found is told by the stage that looked (decision 14)
            await self.report(stage, error, shield=True)

    def complete(self, message: Envelope, completed: Envelope) -> None:
        """Put a message that was completed since in each place that still has the one that came."""
        values, session_id = self.values, self.session_id
        values[self.graph.start["inbound"]] = completed
        for slot, value in enumerate(values):
            if value is message:
                values[slot] = completed
        for node in self.graph.arrival:
            for step in node.steps:
                if step.joins is not None and session_id is not None:
                    values[step.joins] = with_session(values[step.message], session_id)

    async def take_over(self, before: Turn, session_id: str) -> None:
        """Go on from another turn of the same message that has arrived on its own graph, and was abandoned.

        What is still owed above the session runs (`catch_up`), so that no gate is skipped. Raises what `arrive` raises.
        """
        self.records, self.zero = before.records, before.zero
        self.asked = plugins_asked(before)
        await self._run((), {**values_kept(before), SESSION: session_id})

    async def resume(self, values: Mapping[str, Any], asked: Mapping[str, frozenset[str]], session_id: str) -> None:
        """Go on from a turn of the same message in another process, which was abandoned there.

        `values` is what its stages had made by name, `asked` which plugins they had called. What is still owed above
        the session runs, as in `take_over`; a gate or a claim that has spoken there is not asked again.
        """
        self.asked = asked
        await self._run((), {**values, SESSION: session_id}, is_same=True)

    async def _run(self, parts: tuple[Part, ...], kept: dict[str, Any] | None = None, *, is_same: bool = False) -> None:
        """Run parts of the graph, or what is owed above the session where another turn has `kept` these values."""
        try:
            try:
                with self.limit as limit:
                    strand = Strand(self, limit)
                    if kept is not None:
                        await catch_up(self, strand, kept, is_same=is_same)
                    for part in parts:
                        if isinstance(part, Chain):
                            await strand.run(part.steps)
                        elif isinstance(part, GraphNode):
                            await strand.run_each(part)
                        else:
                            limit.release()
                            await self._run_side_by_side(part.nodes)
            except Ends as ends:
                await self.withhold()
                await unwind(self)
                await deliver_ending(self, ends)
        except BaseException as error:
            await self.abandon(error)
            raise
        finally:
            self.strands.clear()  # each of them names its turn
            self.failures.clear()  # and so does the traceback of each error
            self.late.clear()

    async def _run_side_by_side(self, group: tuple[int, ...]) -> None:
        """Run nodes as tasks, each once those it waits for are over; the first failure cancels the others."""
        over = {index: trio.Event() for index in group}
        failures: list[BaseException] = []

        async def run(index: int) -> None:
            for other in self.graph.waits[index]:
                if other in over:
                    await over[other].wait()
            try:
                with MovingDeadline() as limit, self.bounded_by(limit):
                    strand = Strand(self, limit)
                    strand_of_task.set(strand)
                    await strand.run_node(self.graph.nodes[index])
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: BLE001 (raised below by itself, not in a group)
                failures.append(error)
                nursery.cancel_scope.cancel()
            else:
                over[index].set()

        try:
            async with trio.open_nursery() as nursery:
                for index in group:
                    nursery.start_soon(run, index)
            if failures:
                raise failures.pop(0)  # no variable names it here: this frame is in its traceback
        finally:
            while failures:  # what cannot leave the turn must not be lost
                if not isinstance(failures[0], Ends):
                    log_exception("turn.stage_failed", failures[0])
                del failures[0]
