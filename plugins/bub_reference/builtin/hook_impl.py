"""The hooks that a framework has without any plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bub_reference.builtin.auth import app as auth_app
from bub_reference.builtin.context import default_tape_context
from bub_reference.builtin.steering import InMemorySteeringInbox
from bub_reference.channels.message import ChannelMessage
from bub_reference.envelope import Envelope, content_of, field_of
from bub_reference.hooks.specs import hookimpl
from bub_reference.store import InMemoryTapeStore
from bub_reference.tape import TapeContext
from bub_reference.turn import TurnState

if TYPE_CHECKING:
    from bub_reference.framework import BubFramework


class BuiltinImpl:
    """What a framework does if no plugin does it otherwise."""

    def __init__(self, framework: BubFramework) -> None:
        self.framework = framework

    @hookimpl
    def resolve_session(self, message: Envelope) -> str | None:
        """The session that the message itself names."""
        return str(field_of(message, "session_id") or "").strip() or None

    @hookimpl
    async def load_state(self, message: Envelope, session_id: str) -> TurnState:
        """The session, what the message brings for the model, and a choice of the model that it brings."""
        lifespan = field_of(message, "lifespan")
        if lifespan is not None:
            await lifespan.__aenter__()
        context = field_of(message, "context") or {}
        told = {
            "context": field_of(message, "context_str"),
            "model": context.get("model"),
            "_runtime_thread_id": context.get("thread_id"),
        }
        return {"session_id": session_id, **{name: value for name, value in told.items() if value}}

    @hookimpl
    async def save_state(self, session_id: str, state: TurnState, message: Envelope, model_output: str) -> None:
        """Close what the message keeps open."""
        lifespan = field_of(message, "lifespan")
        if lifespan is not None:
            await lifespan.__aexit__(None, None, None)

    @hookimpl
    def build_prompt(self, message: Envelope, session_id: str, state: TurnState) -> str:
        """The text of the message below what it brings for the model; a command as it is."""
        text, context = content_of(message), field_of(message, "context_str")
        return f"{context}\n---\n{text}" if context and not text.startswith(",") else text

    @hookimpl
    def render_outbound(
        self, message: Envelope, session_id: str, state: TurnState, model_output: str
    ) -> list[ChannelMessage]:
        """One reply to where the message came from."""
        channel = str(field_of(message, "channel", "default"))
        reply = ChannelMessage(
            session_id=session_id,
            channel=channel,
            content=model_output,
            chat_id=str(field_of(message, "chat_id", "default")),
            kind=field_of(message, "kind", "normal"),
            output_channel=field_of(message, "output_channel", "") or channel,
        )
        return [reply]

    @hookimpl
    async def dispatch_outbound(self, message: Envelope) -> bool:
        """Hand a reply to its channel."""
        return await self.framework.dispatch_via_channel_router(message)

    @hookimpl
    def register_cli_commands(self, app: Any) -> None:
        """The commands for signing in that plugins add."""
        app.add_typer(auth_app)

    @hookimpl
    def provide_tape_store(self) -> InMemoryTapeStore:
        """A store that forgets."""
        return InMemoryTapeStore()

    @hookimpl
    def provide_steering_inbox(self) -> InMemorySteeringInbox:
        """An inbox that forgets."""
        return InMemorySteeringInbox()

    @hookimpl
    def build_tape_context(self) -> TapeContext:
        """Choose messages as Bub does."""
        return default_tape_context()
