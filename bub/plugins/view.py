"""What a plugin sees of the runtime it is loaded into: the object that its class is called with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bub.approval import Ask, CallNotes, Rules
from bub.base.clients.request import ClientRequest
from bub.base.confinement.value import Confinement
from bub.base.counts import Counts
from bub.base.surfaces import Surface, Writer
from bub.envelope import Envelope
from bub.hook_registry import HookRegistry
from bub.hooks.admission import Steering
from bub.hooks.implementations import Implementation
from bub.plugins.served import Served
from bub.secrets.redactor import Redactor
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tools import ToolBox

_T = TypeVar("_T")


class Outcome(Protocol):
    """The result of a turn; a value that no stage made is None."""

    @property
    def session_id(self) -> str | None: ...

    @property
    def model_output(self) -> str | None: ...

    @property
    def outbounds(self) -> list[Envelope] | None: ...

    @property
    def ended_by(self) -> str | None: ...


class ProfileView(Protocol):
    """A runtime as the plugins of one profile see it, whatever is loaded after them.

    A plugin may read `workspace`, `profile`, `home`, `settings` and `mask` from the moment it is made. What the profile
    has (its tools, its hooks, the other profiles) is there when all of it is loaded, and what lives (tapes, turns,
    shared resources, handlers) when a runtime uses it. Whoever asks earlier gets a `BubError` that says so.
    """

    # From the start.

    @property
    def workspace(self) -> Path:
        """The folder the agent works in."""

    @property
    def profile(self) -> str:
        """The name of the profile."""

    @property
    def home(self) -> Path:
        """Bub's own folder: `$BUB_HOME`, else `~/.bub`."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the profile, references replaced and the environment's own laid over them."""

    @property
    def mask(self) -> Redactor:
        """Covers the secrets of the environment and of all settings; ask again each time, since there may be more."""

    # When the profile is loaded.

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that can get a turn; the one chosen at start comes first."""

    @property
    def tools(self) -> ToolBox:
        """The tools that the profile's plugins provide, and which of them it may use."""

    @property
    def served(self) -> Served:
        """The servers that the profile may use, and the tools that are known of them by now."""

    @property
    def budget(self) -> Mapping[str, int]:
        """What the profile may use: its `budget:`."""

    @property
    def rules(self) -> Rules:
        """What a yes to a tool of this profile is bound to, and who may give it."""

    @property
    def confinement(self) -> Confinement | None:
        """What commands may reach: the profile's `reach:`, None if it does not say."""

    @property
    def own_files(self) -> tuple[Path, ...]:
        """The files that say what the agent may do: the pipeline file, those it extends, and plugins with a `path`."""

    @property
    def pipeline_file(self) -> Path | None:
        """The pipeline file itself; None if it is one of Bub's own."""

    def seen_by(self, profile: str) -> ProfileView:
        """The same runtime as the plugins of another of its `profiles` see it."""

    def implementations(self, name: str) -> tuple[Implementation, ...]:
        """What the plugins bring for one hook point, in the order they are asked."""

    def get_system_prompt(self, prompt: Any, state: dict[str, Any]) -> str:
        """The system prompt: the fragments of all plugins, low priority first."""

    def build_tape_context(self) -> Any:
        """What the first plugin gives as the context that tapes are read with, or None."""

    async def call_model(self, request: Mapping[str, Any], session_id: str) -> AsyncStreamEvents | None:
        """The answer of the first plugin that brings the model itself; None if Bub's own providers are meant."""

    async def get_model_options(self, session_id: str) -> list[str]:
        """The names of the models that plugins offer for a session."""

    # When a runtime uses it.

    @property
    def counts(self) -> Counts:
        """What has happened so far, in numbers."""

    @property
    def registry(self) -> HookRegistry:
        """Registers handlers that come and go while it runs."""

    @property
    def ask(self) -> Ask | None:
        """Puts a question to the person who started the turn under way; None if nobody can be asked."""

    @property
    def notes(self) -> CallNotes | None:
        """Keeps which calls of the turn under way have begun; None if nobody does."""

    @property
    def typed(self) -> str | None:
        """The text that the operator typed, which the turn under way answers; None if nobody is behind it."""

    @property
    def writers(self) -> Sequence[Writer]:
        """Who wrote what the turn under way answers, by now; a message that came for it meanwhile has a writer, too."""

    @property
    def request(self) -> ClientRequest | None:
        """What a program brings with the message of the turn under way, which asks as it would ask a model."""

    @property
    def steering(self) -> Steering | None:
        """Holds what comes for the turn under way while it runs; None if nothing can."""

    def get_tape_store(self) -> Any:
        """The tape store while the runtime is open, else None (BEHAVIOURS T36)."""

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T:
        """What `factory` opens, opened once for everybody and closed with the runtime (BEHAVIOURS T38)."""

    async def process_inbound(
        self,
        message: Envelope,
        stream_output: bool = False,
        on_event: Callable[[StreamEvent, Envelope], Any] | None = None,
        *,
        ask: Ask | None = None,
        dispatch: Callable[[Envelope], Awaitable[bool]] | None = None,
        steering: Steering | None = None,
        surface: Surface = Surface.PROGRAM,
    ) -> Outcome:
        """Carry one message through the pipeline to its replies."""

    def profile_of(self, message: Envelope) -> str:
        """The name of the profile that a message is routed to."""

    async def tell(self, event: StreamEvent) -> None:
        """Tell who listens to the turn under way of an event that does not come with its answer, such as a `plan`."""

    @property
    def takes_replies(self) -> bool:
        """Whether somebody takes the replies of the turn under way."""

    async def dispatch(self, reply: Envelope) -> bool:
        """Hand a reply to who asked for the turn under way; False if nobody takes it."""

    def reload(self) -> None:
        """Reload the pipeline file and its plugins, for the turns that begin from then on."""
