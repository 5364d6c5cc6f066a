"""The turn under way: which one the task that asks belongs to, and what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial

from msgspec import structs

from bub.approval import Answer, Ask, CallNotes, Question
from bub.base.clients.request import ClientRequest
from bub.base.surfaces import Writer
from bub.base.waiting import stopped_above
from bub.envelope import Envelope
from bub.hooks.admission import Steering
from bub.runtime.sessions import Dispatch, TurnUnderWay
from bub.streaming import StreamEvent

current_turn: ContextVar[TurnUnderWay | None] = ContextVar("bub_turn", default=None)
"""The turn that a task belongs to; set by a turn while its stages run."""


def turn_under_way() -> TurnUnderWay | None:
    """The turn that the task which asks belongs to; None outside of all turns."""
    return current_turn.get()


def ask_under_way() -> Ask | None:
    """How the person who started the turn under way is asked; None where they cannot be.

    What a turn asks that another one has started, is asked about as nothing that they typed.
    """
    turn = current_turn.get()
    if turn is None:
        return None
    for one in turn.chain():
        if one.ask is not None:
            return partial(_ask, turn, one.ask, one is turn)
    return None


async def _ask(turn: TurnUnderWay, ask: Ask, is_own: bool, question: Question) -> bool | Answer:
    """Ask a person, whose time counts for no stage that waits for the answer (DESIGN §13, Time)."""
    with stopped_above([limit for one in turn.chain() for limit in one.bounds]):
        return await ask(question if is_own else structs.replace(question, is_typed=False))


def notes_under_way() -> CallNotes | None:
    """Keeps which calls of the turn under way, or of one it was started from, have begun; None if nobody does."""
    turn = current_turn.get()
    return next((one.notes for one in turn.chain() if one.notes is not None), None) if turn is not None else None


def typed_under_way() -> str | None:
    """The text that the operator typed, which the turn under way answers; None if nobody is behind its message."""
    turn = current_turn.get()
    return turn.typed if turn is not None and turn.runs else None


def writers_under_way() -> Sequence[Writer]:
    """Who wrote what the turn under way answers, by now; nobody outside of all turns."""
    turn = current_turn.get()
    return turn.writers() if turn is not None else ()


def request_under_way() -> ClientRequest | None:
    """What a program brings that the turn under way answers; None for any other turn, also one that it has started."""
    turn = current_turn.get()
    return turn.request if turn is not None and turn.runs else None


def steering_under_way() -> Steering | None:
    """What comes for the turn under way while it runs; None if nothing can."""
    turn = current_turn.get()
    return turn.steering if turn is not None and turn.runs else None


async def tell_under_way(event: StreamEvent) -> None:
    """Tell who listens to the turn under way of an event that does not come with its answer; nobody, if none does."""
    turn = current_turn.get()
    if turn is not None and turn.runs:
        await turn.tell(event)


def receiver_under_way() -> Dispatch | None:
    """Takes the replies of the turn under way, or of the one it was started from; None if nobody does."""
    turn = current_turn.get()
    if turn is None or not turn.runs:
        return None
    return next((one.dispatch for one in turn.chain() if one.dispatch is not None), None)


async def dispatch_reply(reply: Envelope) -> bool:
    """Hand a reply to who asked for the turn under way, or for the one it was started from.

    False if nobody takes it.
    """
    receiver = receiver_under_way()
    return receiver is not None and await receiver(reply)


class TurnView:
    """The turn that the task which asks belongs to; outside of all turns, nothing."""

    @property
    def ask(self) -> Ask | None:
        """How the person who started the turn under way is asked; None if they cannot be."""
        return ask_under_way()

    @property
    def notes(self) -> CallNotes | None:
        """Keeps which calls of the turn under way have begun; None if nobody does."""
        return notes_under_way()

    @property
    def typed(self) -> str | None:
        """The text that the operator typed, which the turn under way answers; None if nobody is behind it."""
        return typed_under_way()

    @property
    def writers(self) -> Sequence[Writer]:
        """Who wrote what the turn under way answers, by now."""
        return writers_under_way()

    @property
    def request(self) -> ClientRequest | None:
        """What a program brings with the message of the turn under way, which asks as it would ask a model."""
        return request_under_way()

    @property
    def steering(self) -> Steering | None:
        """What comes for the turn under way while it runs; None if nothing can."""
        return steering_under_way()

    async def tell(self, event: StreamEvent) -> None:
        """Tell who listens to the turn under way of an event that does not come with its answer, such as a `plan`."""
        await tell_under_way(event)

    @property
    def takes_replies(self) -> bool:
        """Whether somebody takes the replies of the turn under way."""
        return receiver_under_way() is not None

    async def dispatch(self, reply: Envelope) -> bool:
        """Hand a reply to who asked for the turn under way, or for the one it was started from.

        False if nobody takes it.
        """
        return await dispatch_reply(reply)
