"""The hooks of a plugin of the reference, in the form that Bub calls."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from bub.cli.table import COMMANDS
from bub.tape import TapeContext as OurContext
from bub_reference.bridge.calls import answer_of, changes_of, request_of, result_of
from bub_reference.bridge.channels import AdoptedChannel
from bub_reference.bridge.commands import hand_over
from bub_reference.bridge.messages import reply_to_bub, to_bub, to_reference
from bub_reference.bridge.stores import entry_to_reference, provided_to_bub
from bub_reference.bridge.tools import to_bub as tool_to_bub
from bub_reference.builtin.auth import app as auth_app
from bub_reference.channels.admission import AdmitDecision, TurnSnapshot
from bub_reference.envelope import Envelope, unpack_batch
from bub_reference.hooks.interception import LlmCallDecision, LlmCallRequest, ToolCall, ToolCallDecision
from bub_reference.streaming import AsyncStreamEvents, StreamEvent
from bub_reference.tape import TapeContext, build_messages

if TYPE_CHECKING:
    from bub_reference.bridge.adopting import Adoption


class Adopted:
    """What Bub gets for a plugin of the reference; a subclass has the hooks that the plugin has."""

    def __init__(self, adoption: Adoption) -> None:
        self._own = adoption


class AdoptedHooks(Adopted):
    """All hooks that there are; `adopting.py` takes those that the plugin has."""

    # In a turn.

    async def resolve_session(self, message: Envelope) -> str | None:
        """Hand on the session that the plugin names."""
        return await self._own.first("resolve_session", message=to_reference(message))  # type: ignore[no-any-return]

    async def load_state(self, message: Envelope, session_id: str) -> dict[str, Any]:
        """Hand on what the plugin knows, and keep it for those of its hooks that Bub gives no state."""
        told: dict[str, Any] = {}
        for found in reversed(await self._own.all("load_state", message=to_reference(message), session_id=session_id)):
            told.update(found or {})
        told.setdefault("session_id", session_id)
        self._own.remember(session_id, dict(told))
        return told

    async def build_prompt(self, message: Envelope, session_id: str, state: dict[str, Any]) -> Any:
        """Hand on the prompt that the plugin makes."""
        given = {"message": to_reference(message), "session_id": session_id}
        return await self._own.first("build_prompt", **given, state=self._own.show(session_id, state))

    async def run_model(self, prompt: Any, session_id: str, state: dict[str, Any]) -> Any:
        """Hand on the answer of the plugin's model; a command is Bub's own business."""
        if self._own.is_command(prompt):
            return None
        given = {"prompt": prompt, "session_id": session_id, "state": self._own.show(session_id, state)}
        return await self._own.first("run_model", **given)

    async def run_model_stream(self, prompt: Any, session_id: str, state: dict[str, Any]) -> Any:
        """Hand on the stream of the plugin's model; a command is Bub's own business."""
        if self._own.is_command(prompt):
            return None
        given = {"prompt": prompt, "session_id": session_id, "state": self._own.show(session_id, state)}
        stream = await self._own.first("run_model_stream", **given)
        return AsyncStreamEvents(_pull(self._own, stream), state=stream.state) if stream is not None else None

    async def save_state(
        self, session_id: str, state: dict[str, Any], message: Envelope, model_output: str | None
    ) -> None:
        """Let the plugin keep what it wants to keep."""
        given = {"message": to_reference(message), "model_output": model_output or ""}
        await self._own.all("save_state", session_id=session_id, state=self._own.show(session_id, state), **given)

    async def render_outbound(
        self, message: Envelope, session_id: str, state: dict[str, Any], model_output: str | None
    ) -> list[Envelope]:
        """Hand on the replies that the plugin makes."""
        given = {"message": to_reference(message), "model_output": model_output or "", "session_id": session_id}
        batches = await self._own.all("render_outbound", **given, state=self._own.show(session_id, state))
        return [reply_to_bub(reply) for batch in batches for reply in unpack_batch(batch)]

    async def dispatch_outbound(self, message: Envelope) -> bool:
        """Let the plugin deliver a reply."""
        return any(await self._own.all("dispatch_outbound", message=to_reference(message)))

    def system_prompt(self, prompt: Any, state: dict[str, Any], session_id: str) -> str | None:
        """Hand on what the plugin tells a model first."""
        told = self._own.all_now("system_prompt", prompt=prompt, state=self._own.show(session_id, state))
        return "\n\n".join(text for text in reversed(told) if text) or None

    async def on_error(self, stage: str, error: Exception, message: Envelope) -> None:
        """Tell the plugin of a failure."""
        shown = to_reference(message) if message is not None else None
        await self._own.all("on_error", stage=stage, error=error, message=shown)

    async def admit_message(self, session_id: str, message: Envelope, turn: Any) -> str | None:
        """Hand on what the plugin wants to become of a message."""
        counts = (turn.is_running, turn.running_count, turn.pending_count, turn.steering_count)
        given = {"session_id": session_id, "message": to_reference(message)}
        decision = await self._own.first("admit_message", **given, turn=TurnSnapshot(session_id, *counts))
        return decision.action if isinstance(decision, AdmitDecision) else None

    # Within the agent.

    async def before_llm_call(self, session_id: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Let the plugin change a request, or answer it itself."""
        before = now = request_of(session_id, request)
        state = self._own.state_of(session_id)
        for call in self._own.calls("before_llm_call"):
            said = await call(request=now, state=state)
            if isinstance(said, LlmCallDecision):
                return {"finish": said.text}
            now = said if isinstance(said, LlmCallRequest) else now
        return changes_of(before, now)

    async def after_llm_call(self, session_id: str, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        """Tell the plugin of an answer."""
        given = {"request": request_of(session_id, request), "result": answer_of(session_id, response)}
        await self._own.all("after_llm_call", **given, state=self._own.state_of(session_id))

    async def before_tool_call(
        self, session_id: str, tool: str, args: Mapping[str, Any], call_id: str
    ) -> dict[str, Any] | None:
        """Let the plugin change or refuse a call; a result in its place is the reason of the refusal."""
        now = ToolCall(call_id, tool, dict(args))
        for call in self._own.calls("before_tool_call"):
            said = await call(call=now, state=self._own.state_of(session_id))
            if not isinstance(said, ToolCallDecision):
                continue
            if said.action == "deny":
                return {"error": said.message or f"`{tool}` is denied"}
            if said.action == "replace":
                return {"error": str(said.result)}
            if said.arguments is not None:
                now = ToolCall(call_id, tool, dict(said.arguments))
        return {"args": now.arguments} if now.arguments != args else None

    async def after_tool_call(
        self, session_id: str, tool: str, args: Mapping[str, Any], result: Any, call_id: str
    ) -> None:
        """Tell the plugin what came of a call."""
        given = {"call": ToolCall(call_id, tool, dict(args)), "result": result_of(call_id, tool, args, result)}
        await self._own.all("after_tool_call", **given, state=self._own.state_of(session_id))

    # Outside of turns.

    def provide_channels(self, message_handler: Callable[[Envelope], Awaitable[None]]) -> list[AdoptedChannel]:
        """Hand on the plugin's channels."""
        waits: dict[str, bool] = {}

        async def take(message: Any) -> None:
            await message_handler(await to_bub(message, is_active=not waits.get(message.channel, False)))

        batches = self._own.all_now("provide_channels", message_handler=take)
        found = [channel for batch in batches for channel in batch or ()]
        waits.update((channel.name, channel.needs_debounce) for channel in found)
        self._own.framework.take_inbox(message_handler, waits)
        return [AdoptedChannel(channel, self._own.within) for channel in found]

    def provide_tools(self) -> list[Any]:
        """Hand on the tools that the plugin's package has put into the table."""
        return [tool_to_bub(tool, self._own.within, self._own.state_of_call) for tool in self._own.tools]

    def provide_tape_store(self) -> Any:
        """Hand on the plugin's tape store."""
        return provided_to_bub(self._own.first_now("provide_tape_store"))

    def build_tape_context(self) -> OurContext | None:
        """Hand on how the plugin chooses what a model reads."""
        context = self._own.first_now("build_tape_context")
        if not isinstance(context, TapeContext):
            return None

        def select(entries: Any, _: Any) -> Any:
            with self._own.within():
                return _at_once(build_messages([entry_to_reference(entry) for entry in entries], context))

        return OurContext(context.anchor, select if context.select is not None else None, context.state)

    def onboard_config(self, current_config: dict[str, Any], ask: Any) -> dict[str, Any] | None:
        """Let the plugin ask its questions in the wizard."""
        with self._own.asking(ask):
            told: dict[str, Any] = {}
            for found in self._own.all_now("onboard_config", current_config=current_config):
                told.update(found or {})
        return told or None

    def register_cli_commands(self, app: Any) -> None:
        """Hand on the plugin's commands, and the ways to sign in; one that is called as Bub's own gets `-plugin`."""
        commands = typer.Typer()
        self._own.all_now("register_cli_commands", app=commands)
        brought: list[Any] = [*commands.registered_commands, *commands.registered_groups]
        for command in brought:
            if command.name in COMMANDS:
                command.name = f"{command.name}-plugin"
        if self._own.signs_in:
            commands.add_typer(auth_app)
        hand_over(commands, app, self._own.framework, self._own.commanding)


def _at_once(messages: Any) -> Any:
    """What a choice of messages comes to; one that has to be awaited may wait for nothing, since a turn does not."""
    if not inspect.iscoroutine(messages):
        return messages
    try:
        messages.send(None)
    except StopIteration as ended:
        return ended.value
    messages.close()
    raise TypeError("a tape context whose `select` waits for something is not supported")


async def _pull(own: Adoption, stream: AsyncStreamEvents) -> AsyncIterator[StreamEvent]:
    """The events of a stream, made where the plugin's code runs."""
    with own.within():
        async for event in stream:
            yield event
