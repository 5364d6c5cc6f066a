"""Sub-agents: agents that work on a part of a task for the agent of a turn (BEHAVIOURS A25)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol
from uuid import uuid4

import trio
from msgspec.structs import replace

from bub.agent import late
from bub.agent.task import TEMPORARY, Run, Task
from bub.base.confinement.value import narrow
from bub.hooks.kinds.stream import close_stream
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents
from bub.tools import ToolBox, ToolError

TEMP, INHERIT = "temp", "inherit"
"""The sessions of a sub-agent: its own, which leaves nothing behind, without or with what was said before."""


class Start(Protocol):
    """Begins the run of a sub-agent; with `inherits` it knows what was said before."""

    def __call__(self, framework: ProfileView, task: Task, box: ToolBox, *, inherits: bool) -> Run: ...


class Subagents:
    """The sub-agents of one turn. `fire` calls a hook point by its name."""

    def __init__(
        self, framework: ProfileView, task: Task, box: ToolBox, *, fire: Callable[..., Awaitable[Any]]
    ) -> None:
        self._framework = framework
        self._task = task
        self.box = box
        """The tools of the agent that starts them."""
        self._fire = fire
        self._named_sessions: dict[str, trio.Lock] = {}

    async def run(self, prompt: str, start: Start, *, session: str, tools: Sequence[str] | None) -> str:
        """Let another agent work on a prompt, in a run that `start` begins, and return what it says.

        `session` is `temp`, `inherit` or the name of a session below that of the turn. The sub-agent may at most what
        the agent of the turn may, of that the `tools` if they are given, and it starts no others. Raises ToolError if a
        plugin wants it to be a personality that does not exist.
        """
        passing = session in (TEMP, INHERIT)
        child = f"{TEMPORARY}{uuid4().hex[:12]}" if passing else f"{self._task.session_id}/{session}"
        framework, task, box = await self._prepare(prompt, child, tools)
        async with self._named_sessions.setdefault(child, trio.Lock()):  # two in one session would interleave (P24)
            run = start(framework, task, box, inherits=session == INHERIT)
            await self._fire("subagent_spawned", child_session_id=child)
            events, parts, result = AsyncStreamEvents(run, run.state), list[str](), None
            try:
                async for event in events:
                    if event.kind == "text":
                        parts.append(event.data["delta"])
                    elif event.kind == "waiting":  # the person waits, too
                        await self._framework.tell(event)
                result = "".join(parts)
            finally:
                await close_stream(events)
                await self._fire("subagent_ended", child_session_id=child, result=result)
            return result

    async def _prepare(self, prompt: str, child: str, tools: Sequence[str] | None) -> tuple[ProfileView, Task, ToolBox]:
        """The task as the plugins want it, the profile that it is done in, and the tools for it."""
        framework = self._framework
        box = self.box.narrow(tools, without=("subagent", "plan", "tape.*"))
        changed = await self._fire("subagent_spawning", prompt=prompt, personality=framework.profile) or {}
        task = replace(
            self._task, prompt=str(changed.get("prompt") or prompt), session_id=child, steering=None, request=None
        )
        chosen = str(changed.get("personality") or framework.profile)
        if chosen == framework.profile:
            return framework, task, box
        if chosen not in framework.profiles:
            raise ToolError(f"a plugin wants the sub-agent to be `{chosen}`, but there is no such personality")
        framework = framework.seen_by(chosen)
        if any(framework.tools.policy.wants(spec.name) for spec in framework.served.specs):
            await (await framework.shared(late.open_servers)).offer(framework, framework.tools.policy)
        own = framework.tools.for_model()
        box = own.narrow([name for name in own.usable() if name in box.usable()])
        confinement = narrow(self._framework.confinement, task.confinement)
        return framework, replace(task, system=None, prefixes=None, confinement=confinement), box
