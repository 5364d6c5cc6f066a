"""Plugin managers, plugins that answer, and the ways to ask, for the rows of hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy
import pytest
import trio
from fakes.toys import Toy, Workshop

from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError
from bub.hook_runtime import HookRuntime
from bub.hookspecs import BUB_HOOK_NAMESPACE, BubHookSpecs


def manager_of(**plugins: object) -> pluggy.PluginManager:
    """A plugin manager as Bub makes it, with plugins registered in the order they are given."""
    manager = pluggy.PluginManager(BUB_HOOK_NAMESPACE)
    manager.add_hookspecs(BubHookSpecs)
    for name, plugin in plugins.items():
        manager.register(plugin, name)
    return manager


def runtime_of(**plugins: object) -> HookRuntime:
    return HookRuntime(manager_of(**plugins))


def answering(**results: Any) -> Toy:
    """A plugin whose hooks return what is given."""

    def give(value: Any) -> Callable[[], Any]:
        return lambda: value

    return Toy(**{hook: give(value) for hook, value in results.items()})


def answering_later(**results: Any) -> Toy:
    """The same as `async def`."""

    def give(value: Any) -> Callable[[], Any]:
        async def later() -> Any:
            await trio.lowlevel.checkpoint()
            return value

        return later

    return Toy(**{hook: give(value) for hook, value in results.items()})


def findings_of(bub: Workshop, pipeline: str = "extends: bub:default", /, **toys: object) -> tuple[Diagnostic, ...]:
    """What is found when a pipeline with these plugins does not compile."""
    with pytest.raises(PipelineError) as refused:
        bub(pipeline, **toys)
    return refused.value.diagnostics


def only_finding(bub: Workshop, pipeline: str = "extends: bub:default", /, **toys: object) -> Diagnostic:
    (finding,) = findings_of(bub, pipeline, **toys)
    return finding


async def handler(message: Any) -> None:
    """What channels are given to hand messages to."""


BOOTSTRAP: dict[str, Callable[[BubFramework], Any]] = {
    "onboard_config": lambda framework: framework.collect_onboard_config({"a": 1}),
    "provide_channels": lambda framework: list(framework.get_channels(handler)),
    "build_tape_context": lambda framework: framework.build_tape_context(),
    "register_cli_commands": lambda framework: framework.create_cli_app().registered_commands,
    "system_prompt": lambda framework: framework.get_system_prompt("", {}).endswith("never"),
}
"""How each hook that is called outside of turns is called."""
