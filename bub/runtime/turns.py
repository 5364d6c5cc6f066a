"""Turns: a message's way through the pipeline that is loaded, from its arrival over its session to its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from bub.approval import Ask, CallNotes
from bub.base.clients.request import ClientRequest
from bub.base.surfaces import Surface, Writer
from bub.envelope import Envelope, add_address
from bub.hooks.admission import Steering
from bub.pipeline.run.state import OnEvent
from bub.runtime.message_turn import Complete, MessageTurn
from bub.runtime.result import TurnResult
from bub.runtime.sessions import Dispatch
from bub.runtime.turn_host import TurnHost
from bub.runtime.under_way import current_turn


class Turns(TurnHost):
    """Runs the turns of one framework on what is `loaded`, which has to be there before anything is asked of it.

    `workspace` is the folder the agent works in.
    """

    async def process_inbound(
        self,
        message: Envelope,
        stream_output: bool = False,
        on_event: OnEvent | None = None,
        *,
        ask: Ask | None = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
        surface: Surface = Surface.PROGRAM,
    ) -> TurnResult:
        """Carry one message through the pipeline to its replies.

        The profile is the one that the session has chosen, where its pipeline lets it (`personality_switched`), else
        that of the first route that matches, else the one chosen at start. Messages of one session are answered one
        after another in the order they came (BEHAVIOURS T40), unless the profile says `concurrency: parallel`.
        `on_event` gets each stream event with the message, as it comes; `stream_output` only says how a channel
        shows the reply. `ask` puts a question to the person who sent the message, `dispatch` takes the replies, and
        `steering` holds what comes for the turn while it runs. `surface` says who hands the message over: only what
        the operator did is its own yes (DESIGN §13). Raises what the first failing stage raised, once its clean-ups
        have run and `on_error` got the failure (DESIGN §5).
        """
        turn = MessageTurn(self, message, current_turn.get(), on_event, ask, dispatch, steering, surface)
        try:
            await trio.lowlevel.checkpoint()
            await turn.arrive()
            if not turn.is_over:
                await turn.hold()
            return await turn.answer()
        finally:
            await turn.close()

    def begin(
        self,
        message: Envelope,
        *,
        on_event: OnEvent | None = None,
        ask: Ask | None = None,
        dispatch: Dispatch | None = None,
        steering: Steering | None = None,
        surface: Surface = Surface.PROGRAM,
        complete: Complete | None = None,
        notes: CallNotes | None = None,
        writers: Callable[[], Sequence[Writer]] | None = None,
        profile: str | None = None,
        request: ClientRequest | None = None,
    ) -> MessageTurn:
        """A turn for a message, in line behind those that came before from the same place; `close` it in any case.

        `complete` completes the message before a stage looks into it: only finding its session needs no more than what
        came. `notes` keeps which of its calls have begun. `writers` tells who wrote what it answers by now; without it,
        the message says that. `profile` takes it whatever routes and its session choose. All else is as for
        `process_inbound`. `request` is what a program brings that asks as it would ask a model; one that is not kept
        leaves nothing behind.
        """
        # Whoever handed it over in a turn does not wait for its answer: it is a message as any other.
        return MessageTurn(
            self,
            message,
            None,
            on_event,
            ask,
            dispatch,
            steering,
            surface,
            complete,
            notes=notes,
            writers=writers,
            keeps_order=True,
            profile=profile,
            request=request,
        )

    def profile_of(self, message: Envelope) -> str:
        """The name of the profile that a message is routed to."""
        return self.loaded.current.profile_for(add_address(message)).name
