"""Every hook point of Bub: its arguments, its kinds, when it is called and what it returns."""

# Long because it is the one list of all hook points, which pluggy reads from one class and people from top to bottom.

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import msgspec
import pluggy

from bub.asking import Asking
from bub.envelope import Envelope
from bub.hooks.admission import Admission
from bub.hooks.facts import START_VALUES
from bub.streaming import AsyncStreamEvents

BUB_HOOK_NAMESPACE = "bub"
"""The pluggy project name and the entry-point group of plugins (BEHAVIOURS H1)."""

hookspec = pluggy.HookspecMarker(BUB_HOOK_NAMESPACE)


_F = TypeVar("_F", bound=Callable[..., Any])


class HookimplMarker:
    """Marks the functions of a plugin that implement hook points: `@hookimpl`, or with options.

    `tryfirst` and `trylast` change the order of the calls; `specname` is the point if the function has another name. If
    the implementation is `optional`, its point need not be declared: so a package can bring a point of its own, and
    files that do not declare it stay valid. The other options are those of pluggy, and so is the marked function.
    """

    project_name = BUB_HOOK_NAMESPACE

    @overload
    def __call__(
        self,
        function: _F,
        *,
        hookwrapper: bool = ...,
        optionalhook: bool = ...,
        tryfirst: bool = ...,
        trylast: bool = ...,
        specname: str | None = ...,
        wrapper: bool = ...,
        optional: bool = ...,
    ) -> _F: ...

    @overload
    def __call__(
        self,
        function: None = None,
        *,
        hookwrapper: bool = ...,
        optionalhook: bool = ...,
        tryfirst: bool = ...,
        trylast: bool = ...,
        specname: str | None = ...,
        wrapper: bool = ...,
        optional: bool = ...,
    ) -> Callable[[_F], _F]: ...

    def __call__(
        self, function: _F | None = None, *, optional: bool = False, optionalhook: bool = False, **options: Any
    ) -> _F | Callable[[_F], _F]:
        mark = pluggy.HookimplMarker(BUB_HOOK_NAMESPACE)
        marked: _F | Callable[[_F], _F] = mark(function, optionalhook=optional or optionalhook, **options)
        return marked


hookimpl = HookimplMarker()

ERROR_POINT = "on_error"
"""The point that gets failures; its implementations are observers of every turn."""

MODEL_POINT = "call_model"
"""The point that is asked for each request to a model, before Bub's own providers are."""

PERSONALITY_POINT = "personality_switched"
"""The point that a pipeline declares whose sessions may choose their profile."""

State = dict[str, Any]
Prompt = str | list[dict[str, Any]]
MessageHandler = Callable[[Envelope], Awaitable[bool | None]]
"""Keeps a message; False if no turn of it follows, since one with its `once` is done with, or it is dropped."""


class Fire(Protocol):
    """Calls the points that a pipeline declares under `hooks:`; `name in fire` says whether it declares one."""

    def __call__(self, name: str, /, **payload: Any) -> Awaitable[Any]:
        """What the point's kind combines; a gate gives {"deny": reason} or None."""

    def __contains__(self, name: object) -> bool: ...


_T = TypeVar("_T")
Result: TypeAlias = _T | Awaitable[_T | None] | None
"""What an implementation returns: the value or None, from a `def` or an `async def`."""

_Method = TypeVar("_Method", bound=Callable[..., Any])
_MARK = "bub_point"
Form = Literal["text", "stream", "either"]


class HookPoint(msgspec.Struct, frozen=True):
    """What is known about one hook point.

    `kinds` are the kinds it permits, the usual one first. `takes` are the values an implementation may name.
    `returns` are the types an implementation may return beside None (None: anything); `form` says for a point that
    feeds a `stream` stage whether it answers with a "text", a "stream" or "either". `sync_only`: an
    implementation must not be async. `twin` names the point that answers the same question in another form.
    `bootstrap`: called by the framework outside a turn, never by a stage. `fired`: fired by the agent, inside the
    stage that asks the model. `keys` are what an implementation of a `modifying` point that is fired may return.
    """

    name: str
    kinds: tuple[str, ...]
    takes: tuple[str, ...]
    doc: str = ""
    returns: tuple[type, ...] | None = None
    sync_only: bool = False
    twin: str | None = None
    form: Form = "either"
    bootstrap: bool = False
    fired: bool = False
    keys: tuple[str, ...] = ()


def _point(
    *kinds: str,
    returns: tuple[type, ...] | None = None,
    sync_only: bool = False,
    twin: str | None = None,
    form: Form = "either",
    bootstrap: bool = False,
    fired: bool = False,
    keys: tuple[str, ...] = (),
) -> Callable[[_Method], _Method]:
    def mark(method: _Method) -> _Method:
        facts = (kinds, returns, sync_only, twin, form, bootstrap, fired, keys)
        setattr(method, _MARK, facts)
        return hookspec(method)

    return mark


class BubHookSpecs:
    """The contracts of all hook points. Implement any of them in a plugin with `@bub.hookimpl`.

    An implementation names the arguments it wants, in any order, and leaves out the rest. Points of a turn offer
    `message` (the current message), `inbound` (the message as it came), `profile`, `workspace` and `fire` too.
    Implementations may be `def` or `async def` unless the point is marked sync-only.
    """

    # The turn, in the order of a turn.

    @_point("firstresult")
    def normalize_inbound(
        self, message: Envelope, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[Envelope]:
        """Called first, if the pipeline has it, with the message as it came in.

        Return the message to work on, or None.
        """

    @_point("claiming")
    def inbound_claim(
        self, message: Envelope, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[dict[str, Any]]:
        """Called before anything is done with a message. Return `{"handled": True}` to take it over: the turn ends.

        With `"reply"` in the claim, that is sent as the answer.
        """

    @_point("firstresult")
    def resolve_session(
        self, message: Envelope, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[str]:
        """Called at the start of a turn to say which session a message belongs to. Return its id, or None."""

    @_point("void", "observer")
    def message_received(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[None]:
        """Called when a message has found its session. Returns nothing."""

    @_point("void", "observer")
    def session_start(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[None]:
        """Called at the first turn of a session. Returns nothing."""

    @_point("broadcast", "firstresult", returns=(dict,))
    def load_state(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[State]:
        """Called to gather what a turn should know. Return a dict; dicts are merged and high priority wins."""

    @_point("firstresult", returns=(str, list))
    def build_prompt(
        self,
        message: Envelope,
        session_id: str,
        state: State,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[Prompt]:
        """Called to turn the message into a prompt.

        Return text or a list of content parts. If it is empty, the prompt is the message's content.
        """

    @_point("broadcast", returns=(str,), sync_only=True)
    def system_prompt(
        self,
        prompt: Prompt,
        state: State,
        session_id: str,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> str | None:
        """Called for the fragments of the system prompt. Return text; fragments are joined, low priority first."""

    @_point("modifying", returns=(dict,))
    def before_prompt_build(
        self,
        system: str | None,
        prompt: Prompt,
        session_id: str,
        state: State,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[dict[str, Any]]:
        """Called before the model is asked.

        Return `{"system": …}`, `{"prepend_system": …}` or `{"append_system": …}`.
        """

    @_point("firstresult", "stream", returns=(str,), twin="run_model_stream", form="text")
    def run_model(
        self,
        prompt: Prompt,
        session_id: str,
        state: State,
        system: str | None,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[str]:
        """Called for the model's answer as one text.

        Return it ("" is an answer), or None to let the next plugin answer.

        Implement this or `run_model_stream`, never both in one plugin.
        """

    @_point("stream", "firstresult", twin="run_model", form="stream")
    def run_model_stream(
        self,
        prompt: Prompt,
        session_id: str,
        state: State,
        system: str | None,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[AsyncStreamEvents]:
        """Called for the model's answer as a stream.

        Return `AsyncStreamEvents`, or None to let the next plugin answer.
        """

    @_point("void", "observer")
    def agent_done(
        self,
        session_id: str,
        model_output: str,
        prompt: Prompt,
        state: State,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called when the model stage has answered; not after an error or a cancelled turn. Returns nothing.

        `state["_runtime_turn"]` says what the builtin agent did for it: `steps`, `tokens`, `tool_calls`,
        `successful_tool_calls`, and the names of the `tools`.
        """

    @_point("broadcast")
    def save_state(
        self,
        session_id: str,
        state: State,
        message: Envelope,
        model_output: str,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called when the model stage is over. Returns nothing.

        If the stage that calls it is a clean-up, as in `bub:default` and `bub:ethos`, it is called even if the model
        stage failed or was cancelled. `model_output` is the text so far, "" if there is none.
        """

    @_point("broadcast")
    def render_outbound(
        self,
        message: Envelope,
        session_id: str,
        state: State,
        model_output: str,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[list[Envelope]]:
        """Called to turn the model's output into replies. Return an envelope or a list of them; all are sent."""

    @_point("modifying", returns=(dict,))
    def message_sending(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[dict[str, Any]]:
        """Called for each reply before it is sent. Return `{"message": …}` to replace it, or None."""

    @_point("claiming")
    def before_dispatch(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[dict[str, Any]]:
        """Called for each reply before it is dispatched. Return `{"handled": True}` if you have delivered it."""

    @_point("broadcast")
    def dispatch_outbound(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[bool]:
        """Called once for each reply, with the reply as `message`. Return True if you have sent it."""

    @_point("void", "observer")
    def message_sent(
        self, message: Envelope, session_id: str, inbound: Envelope, profile: str, workspace: Path, fire: Fire
    ) -> Result[None]:
        """Called for each reply that was dispatched. Returns nothing."""

    @_point("observer", bootstrap=True)
    def on_error(self, stage: str, error: Exception, message: Envelope) -> Result[None]:
        """Called when something failed. Returns nothing.

        `stage` is "turn" or the id of a stage; "<hook>:<plugin>" if this implementation failed and its answer is left
        out; the name of the hook point if a point that is no stage, such as `tool_gate`, took longer than its
        `timeout`; and "admit_message" if a plugin failed there.

        A failing observer is logged; it keeps neither the others from running nor the error from being raised.
        """

    # Fired inside the model stage, by whoever implements it, through `fire`.

    @_point(
        "modifying",
        "void",
        returns=(dict,),
        fired=True,
        keys=("model", "messages", "tool_choice", "max_tokens", "temperature", "reasoning", "finish"),
    )
    def before_llm_call(
        self,
        session_id: str,
        request: dict[str, Any],
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[dict[str, Any]]:
        """Called before each request to the model. Return the parts of the request to change."""

    @_point("void", "observer", fired=True)
    def after_llm_call(
        self,
        session_id: str,
        request: dict[str, Any],
        response: dict[str, Any],
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called after each answer of the model. Returns nothing."""

    @_point("firstresult", returns=(str,), fired=True)
    def continue_prompt(
        self,
        session_id: str,
        step: int,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[str]:
        """Called between two steps of the agent, when its tools have run. Return what to tell the model, or None."""

    @_point("modifying", returns=(dict,), fired=True, keys=("args", "error"))
    def before_tool_call(
        self,
        session_id: str,
        tool: str,
        args: dict[str, Any],
        call_id: str,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[dict[str, Any]]:
        """Called before a tool runs.

        Return `{"args": …}` to change its arguments, `{"error": …}` to reject the call.
        """

    @_point("gate", fired=True)
    def tool_gate(
        self,
        session_id: str,
        tool: str,
        args: dict[str, Any],
        call_id: str,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[dict[str, str]]:
        """Called on the final arguments of a tool call. Return None to allow it or `{"deny": "reason"}`."""

    @_point("void", "observer", fired=True)
    def after_tool_call(
        self,
        session_id: str,
        tool: str,
        args: dict[str, Any],
        result: Any,
        call_id: str,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called after a tool has run. Returns nothing."""

    @_point("void", "observer", fired=True)
    def tool_end_with_path(
        self,
        session_id: str,
        tool: str,
        path: str,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called after a tool has worked on a file, with its path. Returns nothing."""

    @_point("modifying", returns=(dict,), fired=True, keys=("personality",))
    def personality_switched(
        self,
        session_id: str,
        previous: str | None,
        personality: str | None,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[dict[str, Any]]:
        """Called when a session changes its personality. Return `{"personality": …}` to choose another."""

    @_point("modifying", returns=(dict,), fired=True, keys=("prompt", "personality"))
    def subagent_spawning(
        self,
        session_id: str,
        prompt: Prompt,
        personality: str | None,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[dict[str, Any]]:
        """Called before a sub-agent starts. Return `{"prompt": …}` or `{"personality": …}` to change it."""

    @_point("void", "observer", fired=True)
    def subagent_spawned(
        self,
        session_id: str,
        child_session_id: str,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called when a sub-agent has started. Returns nothing."""

    @_point("void", "observer", fired=True)
    def subagent_ended(
        self,
        session_id: str,
        child_session_id: str,
        result: Any,
        message: Envelope,
        inbound: Envelope,
        profile: str,
        workspace: Path,
        fire: Fire,
    ) -> Result[None]:
        """Called when a sub-agent has ended. Returns nothing."""

    # Asked by the agent, whatever the pipeline declares.

    @_point("firstresult", bootstrap=True)
    def call_model(self, request: dict[str, Any], session_id: str) -> Result[AsyncStreamEvents]:
        """Called for each request to a model, before Bub's own providers are asked. Return a stream, or None.

        `request` has `model` (as the settings or the session name it, "" when none is chosen), `messages` in the form
        of OpenAI's chat, `tools`, `tool_choice`, `max_tokens` and `temperature`.
        """

    # Asked for a message that a channel has brought, before its turn.

    @_point("firstresult", returns=(str,), bootstrap=True)
    def admit_message(self, session_id: str, message: Envelope, turn: Admission) -> Result[str]:
        """Called for each message of a channel, before its turn. Return what becomes of it, or None.

        "process" gives it a turn of its own, "drop" forgets it, "follow_up" lets it wait until the session is idle, and
        "steer" gives it to the turn under way. `turn` says how busy the session is. If all plugins return None,
        `when_busy` of the channel decides; but under `concurrency: parallel` it is "process", otherwise "follow_up" for
        a comma command.
        """

    # Bootstrap: called by the framework while it starts, never inside a turn. All are sync-only.

    @_point("broadcast", sync_only=True, bootstrap=True)
    def register_cli_commands(self, app: Any) -> None:
        """Called with a Typer application when `bub` starts, so that a plugin can add commands. Returns nothing."""

    @_point("broadcast", returns=(dict,), sync_only=True, bootstrap=True)
    def onboard_config(self, current_config: dict[str, Any], ask: Asking | None) -> dict[str, Any] | None:
        """Called by `bub onboard`, low priority first, with a copy of the settings so far and what asks questions.

        References are not resolved in them. Return a fragment that is laid over them, or None.
        """

    @_point("firstresult", sync_only=True, bootstrap=True)
    def provide_tape_store(
        self,
    ) -> Any:
        """Called once when the runtime opens.

        Return a tape store, or an iterator or context manager that yields one.
        """

    @_point("firstresult", sync_only=True, bootstrap=True)
    def provide_bus(
        self,
    ) -> Any:
        """Called when a program wants a bus (`BubFramework.create_bus`).

        Return one, or None: an object with `publish_inbound`, `publish_outbound`, `next_inbound` and `next_outbound`.
        """

    @_point("broadcast", returns=(list, tuple), bootstrap=True)
    def provide_model_options(self, session_id: str, workspace: Path) -> Result[list[str]]:
        """Called when a person wants to know which models a session can have. Return their names, or None.

        A name is one that the setting `model` knows, such as `openai:gpt-5`, or that the plugin's `call_model` answers.
        """

    @_point("broadcast", returns=(list, tuple), sync_only=True, bootstrap=True)
    def provide_channels(self, message_handler: MessageHandler) -> list[Any] | None:
        """Called when channels are needed.

        Return channels; of two with one name, that of the higher priority counts.
        """

    @_point("broadcast", returns=(list, tuple), sync_only=True, bootstrap=True)
    def provide_tools(
        self,
    ) -> list[Any] | None:
        """Called once, while a profile is loaded. Return a list of what `@bub.tool` made."""

    @_point("firstresult", sync_only=True, bootstrap=True)
    def build_tape_context(
        self,
    ) -> Any:
        """Called when a tape's context is needed. Return a `TapeContext`, or None."""


def _read_points() -> dict[str, HookPoint]:
    points = {}
    for name, method in vars(BubHookSpecs).items():
        facts = getattr(method, _MARK, None)
        if facts is not None:
            takes = method.__code__.co_varnames[1 : method.__code__.co_argcount]  # a signature takes ten times as long
            kinds, *rest = facts
            points[name] = HookPoint(name, kinds, takes, inspect.getdoc(method) or "", *rest)
    return points


HOOK_POINTS: Mapping[str, HookPoint] = MappingProxyType(_read_points())
"""Every hook point by name. A pipeline file can declare more under `hooks:`."""


def own_point(name: str, kind: str, takes: tuple[str, ...], doc: str = "") -> HookPoint:
    """A hook point that a pipeline file declares; beside what it `takes`, it offers the values of a turn's start."""
    offered = (*takes, *(value for value in START_VALUES if value not in takes))
    return HookPoint(name, (kind,), offered, doc)
