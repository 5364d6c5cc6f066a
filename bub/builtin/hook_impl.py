"""The builtin plugin: what happens at each step of a turn when no other plugin has a say."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bub.builtin.models.chat import ChatRequest, stream_chat
from bub.builtin.models.client import open_client
from bub.builtin.models.endpoint import resolve_endpoint
from bub.envelope import Envelope, content_of, field_of
from bub.hookspecs import hookimpl
from bub.kinds import SESSION
from bub.log import log_warning
from bub.streaming import AsyncStreamEvents

# Worded so that the small local model keeps to it too: others make it drift into French or into a name of its own.
DEFAULT_SYSTEM_PROMPT = "You are Bub, a helpful assistant. Be brief, and use the language of the person you talk to."

INSTRUCTIONS_FILE = "AGENTS.md"
LONGEST_INSTRUCTIONS = 256 * 1024
"""How many bytes of the workspace's instructions are read; what comes after is left out, and said in the log."""

_T = TypeVar("_T")


class Framework(Protocol):
    """What the builtin plugin asks of the framework that made it."""

    workspace: Path

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def get_system_prompt(self, prompt: Any, state: dict[str, Any]) -> str: ...

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T: ...


class BuiltinPlugin:
    """In every profile, below all other plugins."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._instructions: tuple[tuple[int, int], str] | None = None

    @hookimpl
    def resolve_session(self, message: Envelope) -> str:
        """The message's own session where it names one, else its channel and chat (BEHAVIOURS T5)."""
        own = str(field_of(message, SESSION) or "").strip()
        return own or f"{field_of(message, 'channel', 'default')}:{field_of(message, 'chat_id', 'default')}"

    @hookimpl
    def load_state(self, workspace: Path | None = None) -> dict[str, Any] | None:
        """Where the agent works (BEHAVIOURS T7); nothing in a pipeline that does not tell."""
        return {"_runtime_workspace": str(workspace)} if workspace is not None else None

    @hookimpl
    def build_prompt(self, message: Envelope) -> str | None:
        """The message below the context that its channel gave it; its bare content where there is none (T33)."""
        context = field_of(message, "context_str")
        if not context:
            return None
        return f"{context}\n---Date: {datetime.now().astimezone().isoformat()}---\n{content_of(message)}"

    @hookimpl
    def system_prompt(self) -> str:
        """A short default, and what the workspace says in its `AGENTS.md` (BEHAVIOURS T35)."""
        instructions = self._read_instructions()
        if not instructions:
            return DEFAULT_SYSTEM_PROMPT
        return f"{DEFAULT_SYSTEM_PROMPT}\n\n<workspace_instruction>\n{instructions}\n</workspace_instruction>"

    @hookimpl
    async def run_model_stream(
        self, prompt: str | list[dict[str, Any]], state: dict[str, Any] | None, system: str | None
    ) -> AsyncStreamEvents:
        """The answer of the model that the settings choose; `ModelError` when none can be asked."""
        framework = self._framework
        endpoint = resolve_endpoint(framework.settings)
        if system is None:
            system = framework.get_system_prompt(prompt, state or {})
        client = await framework.shared(open_client)
        return await stream_chat(client, endpoint, ChatRequest.of_prompt(prompt, system))

    def _read_instructions(self) -> str:
        """The workspace's instructions, read again when the file has changed; "" when it has none of its own."""
        file = self._framework.workspace / INSTRUCTIONS_FILE
        try:
            real = Path(os.path.realpath(file, strict=True))
            # A stranger's folder must not be able to send any file of the user to a model.
            if not real.is_relative_to(os.path.realpath(file.parent)):
                log_warning("workspace.instructions_elsewhere", file=file, real=real)
                return ""
            status = real.stat()
            # Asked before opening it: opening a pipe waits for somebody to write to it.
            if not stat.S_ISREG(status.st_mode):
                log_warning("workspace.instructions_unreadable", file=file, error="it is not a regular file")
                return ""
            version = (status.st_mtime_ns, status.st_size)
            if self._instructions is None or self._instructions[0] != version:
                with real.open("rb") as opened:
                    data = opened.read(LONGEST_INSTRUCTIONS)
                if status.st_size > LONGEST_INSTRUCTIONS:
                    log_warning("workspace.instructions_cut", file=file, bytes=status.st_size)
                self._instructions = (version, data.decode("utf-8", errors="replace").strip())
        except FileNotFoundError:
            return ""
        except OSError as error:
            log_warning("workspace.instructions_unreadable", file=file, error=error)
            return ""
        return self._instructions[1]
