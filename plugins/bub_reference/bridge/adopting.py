"""One plugin of the reference in one profile: how it is imported, made, and handed to Bub as one of Bub's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from bub.tools import ToolContext as OurContext
from bub_reference.bridge.framework import AdoptedFramework
from bub_reference.bridge.hooks import Adopted, AdoptedHooks
from bub_reference.builtin import tools as builtin_tools
from bub_reference.builtin.agent import Agent
from bub_reference.builtin.auth import app as auth_app
from bub_reference.hooks.specs import hookimpl
from bub_reference.naming import seeing
from bub_reference.surroundings import Surroundings, here, within
from bub_reference.tools import REGISTRY, Tool

_BUBS_OWN = frozenset(tool.name for tool in vars(builtin_tools).values() if isinstance(tool, Tool))
"""The names of tools that Bub has itself."""


class Adoption:
    """What is known of the plugin `name`; `view` is what Bub shows it, `packages` are its top-level packages."""

    def __init__(self, name: str, view: Any, packages: frozenset[str]) -> None:
        self.name = name
        self.view = view
        self._packages = packages
        self._place = Surroundings(view.settings, folder=view.home, section=name)
        self.tools: Sequence[Tool] = ()
        """What the plugin's packages had put into the table when it was made; in place of Bub's own they put none."""
        self._states: dict[str, dict[str, Any]] = {}
        self.framework = AdoptedFramework(view, self.within)
        self._agent = Agent(self.framework)

    # Loading.

    @contextmanager
    def importing(self) -> Iterator[Mapping[str, Any]]:
        """Let the plugin's packages see the names of the reference while they are imported, and from then on.

        Gives the builtins of a module that is made of a file.
        """
        with seeing(self._packages) as builtins, self.within():
            yield builtins

    def adopt(self, plugin: object) -> object:
        """Make a plugin of Bub out of it, whose hooks all run for this profile."""
        home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
        self._packages |= {home.partition(".")[0]}
        self.framework._plugin_manager.register(plugin, name=self.name)
        wanted = self.framework.own_hooks()
        if "system_prompt" in wanted:  # which is not told the session
            wanted.setdefault("load_state", None)
        self.tools = tuple(
            tool for tool in REGISTRY.values() if self._is_own(tool.handler) and tool.name not in _BUBS_OWN
        )
        if self.tools:
            wanted["provide_tools"] = None
        if self.signs_in:
            wanted.setdefault("register_cli_commands", None)
        chosen: dict[str, Any] = {"__doc__": inspect.getdoc(plugin), "__module__": home}
        for hook, options in wanted.items():
            if hook in vars(AdoptedHooks):
                chosen[hook] = _marked(vars(AdoptedHooks)[hook], options)
        adopted: object = type(type(plugin).__name__, (Adopted,), chosen)(self)
        return adopted

    # What its hooks need.

    def within(self) -> AbstractContextManager[Surroundings]:
        """Return a block in which the plugin's code runs: it has the settings of this profile."""
        now = here()
        return within(now if now.made is self._place.made else self._place)

    def asking(self, ask: Any) -> AbstractContextManager[Surroundings]:
        """The same, and questions are put by the wizard."""
        return within(replace(self._place, asking=ask))

    @contextmanager
    def commanding(self) -> Iterator[None]:
        """The same, while a command of the plugin runs; it can read the tapes though nothing else runs."""
        with self.within(), self.framework.lending_store():
            yield

    def calls(self, hook: str) -> Iterator[Callable[..., Any]]:
        """What implements a hook, each to be called with what the point gives, and awaited."""
        for implementation in self.framework.implementations(hook):

            async def call(_found: Any = implementation, **given: Any) -> Any:
                with self.within():
                    value = _found.function(**{name: given[name] for name in _found.argnames if name in given})
                    return await value if inspect.isawaitable(value) else value

            yield call

    async def all(self, hook: str, **given: Any) -> list[Any]:
        """All answers, the highest priority first."""
        return [await call(**given) for call in self.calls(hook)]

    async def first(self, hook: str, **given: Any) -> Any:
        """The first answer that is not None."""
        for call in self.calls(hook):
            value = await call(**given)
            if value is not None:
                return value
        return None

    def all_now(self, hook: str, **given: Any) -> list[Any]:
        """All answers of a hook that is not awaited."""
        with self.within():
            return [
                found.function(**{name: given[name] for name in found.argnames if name in given})
                for found in self.framework.implementations(hook)
            ]

    def first_now(self, hook: str, **given: Any) -> Any:
        """The first answer that is not None, of a hook that is not awaited."""
        return next((value for value in self.all_now(hook, **given) if value is not None), None)

    # What its hooks know of a turn.

    def remember(self, session_id: str, state: dict[str, Any]) -> None:
        """Keep what the plugin said of a session's turn, for hooks within it."""
        self._states[session_id] = self._equip(state)

    def state_of(self, session_id: str) -> dict[str, Any]:
        """What hooks within a turn know of it."""
        return self._states.setdefault(session_id, self._equip({"session_id": session_id}))

    def show(self, session_id: str, state: Any) -> dict[str, Any]:
        """The state of a turn with what the reference has in it."""
        shown = self._equip(state if isinstance(state, dict) else dict(state or {}))
        if session_id:
            shown.setdefault("session_id", session_id)
        return shown

    def state_of_call(self, context: OurContext) -> dict[str, Any]:
        """What a tool knows of the turn that calls it."""
        return self._equip({"session_id": context.session_id, **context.state})

    def _equip(self, state: dict[str, Any]) -> dict[str, Any]:
        state["_runtime_agent"] = self._agent
        state.setdefault("_runtime_workspace", str(self.view.workspace))
        return state

    def is_command(self, prompt: Any) -> bool:
        """Whether a prompt is a command, which Bub itself runs."""
        return isinstance(prompt, str) and prompt.lstrip().startswith(self.view.settings.get("command_prefix") or ",")

    # What its packages have put into tables.

    @property
    def signs_in(self) -> bool:
        """Whether the plugin's packages bring a way to sign in."""
        return any(self._is_own(command.callback) for command in auth_app.registered_commands)

    def _is_own(self, function: Any) -> bool:
        return str(getattr(function, "__module__", "")).partition(".")[0] in self._packages


def _marked(written: FunctionType, options: Any) -> FunctionType:
    """A copy of a method, marked as a hook with the priority that the plugin's own has."""
    copied = FunctionType(written.__code__, written.__globals__, written.__name__, written.__defaults__)
    copied.__doc__, copied.__annotations__ = written.__doc__, written.__annotations__
    return hookimpl(**(options or {}))(copied)  # type: ignore[no-any-return]
