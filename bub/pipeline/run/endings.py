"""How a turn ends before its last stage: clean-ups unwind, and a denial or a claim still sends its reply."""

from __future__ import annotations

from typing import Any

from bub.base.trace import Ending
from bub.base.waiting import MovingDeadline
from bub.envelope import Envelope, field_of, normalize_envelope
from bub.hooks.facts import OUTBOUNDS, SESSION
from bub.hooks.kinds.verdicts import Denial
from bub.pipeline.run.graph import Step
from bub.pipeline.run.state import TurnState
from bub.pipeline.run.strand import Ends, Strand


async def unwind(turn: TurnState) -> None:
    """Run the clean-ups whose target has started and that have not run yet, in reverse order.

    Their own failures are reported and logged: how the turn ended is what leaves it (BEHAVIOURS T20, T22).
    """
    for step in reversed(turn.graph.cleanups):
        if not turn.started.isdisjoint(step.cleanup_for) and step.id not in turn.cleaned:
            try:
                await Strand(turn, MovingDeadline()).run((step,))
            except Exception as error:  # noqa: BLE001 (it must not mask how the turn ended)
                await turn.report(step.id, error, shield=True)


async def deliver_ending(turn: TurnState, ends: Ends) -> None:
    """Send the one reply of a denied or claimed turn, if there is one, through the stages for each reply."""
    verdict, values = ends.verdict, turn.values
    denied = isinstance(verdict, Denial)
    turn.ended_by = Ending("denied" if denied else "claimed", ends.step.id)
    replies: list[Envelope] = []
    if isinstance(verdict, Denial):
        replies = [_reply(turn, {"content": verdict.reason, "kind": "denied"}, ends.step)]
    elif verdict.get("reply") is not None:
        replies = [_reply(turn, normalize_envelope(verdict["reply"]), ends.step)]
    with MovingDeadline() as limit:
        strand = Strand(turn, limit)
        for node in turn.graph.nodes:
            if node.each == OUTBOUNDS:
                values[node.items] = replies
                await strand.run_node(node)
                replies = values[node.kept]
    slot = turn.graph.values.get(OUTBOUNDS)
    if slot is not None:
        values[slot] = replies


def _reply(turn: TurnState, reply: dict[str, Any], step: Step) -> dict[str, Any]:
    message = turn.values[step.message]
    for name in (SESSION, "channel", "chat_id"):
        slot = step.sources.get(name)
        value = turn.values[slot] if slot is not None else field_of(message, name)
        if value is not None:
            reply.setdefault(name, value)
    return reply
