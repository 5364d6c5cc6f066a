"""The hook points of the reference with their arguments, for plugin managers of its plugins.

What each means is in `bub.hookspecs`; here are only the names of their arguments, and which ask for the first answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bub.hookspecs import BUB_HOOK_NAMESPACE as BUB_HOOK_NAMESPACE
from bub.hookspecs import hookimpl as hookimpl
from bub.hookspecs import hookspec as hookspec

_FIRST = {
    "resolve_session": "message",
    "build_prompt": "message session_id state",
    "run_model": "prompt session_id state",
    "run_model_stream": "prompt session_id state",
    "continue_prompt": "prompt tape state",
    "provide_tape_store": "",
    "build_tape_context": "",
    "admit_message": "session_id message turn",
    "provide_steering_inbox": "",
}
"""Points whose first answer that is not None counts."""

_ALL = {
    "load_state": "message session_id",
    "save_state": "session_id state message model_output",
    "render_outbound": "message session_id state model_output",
    "dispatch_outbound": "message",
    "register_cli_commands": "app",
    "onboard_config": "current_config",
    "provide_model_options": "session_id workspace",
    "on_error": "stage error message",
    "before_llm_call": "request state",
    "after_llm_call": "request result state",
    "before_tool_call": "call state",
    "after_tool_call": "call result state",
    "system_prompt": "prompt state",
    "provide_tape_sidecar": "",
    "provide_channels": "message_handler",
}
"""Points whose implementations are all asked."""


def _spec(name: str, arguments: str, first: bool) -> Callable[..., Any]:
    names = ", ".join(("self", *arguments.split()))
    made: dict[str, Any] = {}
    exec(f"def {name}({names}): ...", made)  # pluggy reads the names of the arguments from the function
    marked: Callable[..., Any] = hookspec(firstresult=first)(made[name])
    return marked


BubHookSpecs = type(
    "BubHookSpecs",
    (),
    {
        "__doc__": "The contract of the reference's hooks.",
        "__module__": __name__,
        **{name: _spec(name, arguments, True) for name, arguments in _FIRST.items()},
        **{name: _spec(name, arguments, False) for name, arguments in _ALL.items()},
    },
)
