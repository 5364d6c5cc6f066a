"""The builtin plugin: what happens at each step of a turn if no other plugin does it."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Any

from bub.agent import late
from bub.agent.loop.start import answer
from bub.agent.models.parts import Part
from bub.agent.prompting.instructions import Instructions, Template
from bub.agent.prompting.message import prompt_of
from bub.agent.prompting.prefix import Prefixes
from bub.agent.prompting.surroundings import describe_now
from bub.agent.skills import SKILL_TOOL, Skills, skill_roots
from bub.agent.task import Task
from bub.agent.tools.files import file_tools
from bub.agent.tools.plan import plan_tools
from bub.agent.tools.schedules.own import schedule_tools
from bub.agent.tools.session import session_tools
from bub.agent.tools.shell import Shells, open_shells, shell_tools
from bub.agent.tools.tape import tape_tools
from bub.agent.tools.web import web_tools
from bub.agent.tools.window import window_tools
from bub.asking import Asking
from bub.channels import ChannelMessage, terminal
from bub.channels.commands import command_line, prefix_of
from bub.envelope import Envelope, content_of, field_of, normalize_envelope
from bub.hooks.facts import SESSION
from bub.hookspecs import Fire, MessageHandler, hookimpl
from bub.pipeline.plan.providers import LOCAL
from bub.pipeline.source.template import NOW, SECTION
from bub.plugins.shipped import BY_NAME
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents
from bub.tape import TapeContext
from bub.tape.frames import keyed_frame
from bub.tape.opening import TapeStoreManager, open_tapes
from bub.tools import Tool


class BuiltinPlugin:
    """In every profile, below all other plugins."""

    def __init__(self, framework: ProfileView) -> None:
        self._framework = framework
        settings, workspace = framework.settings, framework.workspace
        self._is_small = str(settings.get("model") or LOCAL).partition(":")[0] == LOCAL
        self._template = Template(workspace, framework.home, settings, small=self._is_small)
        self._instructions = Instructions(workspace)
        self._prefixes = Prefixes(framework)
        self._frame_key = token_bytes(16)
        self.skills = Skills(skill_roots(framework.workspace, framework.home))

    @hookimpl
    def normalize_inbound(self, message: Envelope) -> dict[str, Any] | None:
        """Return a program's message, an object or a bare text, as a dict; None if it is one, or a channel's."""
        return None if isinstance(message, dict | ChannelMessage) else normalize_envelope(message)

    @hookimpl
    def resolve_session(self, message: Envelope) -> str:
        """Return the session that the message names, else its channel and chat (BEHAVIOURS T5)."""
        own = str(field_of(message, SESSION) or "").strip()
        return own or f"{field_of(message, 'channel', 'default')}:{field_of(message, 'chat_id', 'default')}"

    @hookimpl
    def load_state(self, workspace: Path | None = None) -> dict[str, Any] | None:
        """Return where the agent works, and, if messages can come meanwhile, where it reads them (BEHAVIOURS T7).

        Nothing in a pipeline that does not tell the workspace.
        """
        if workspace is None:
            return None
        steering = self._framework.steering
        if steering is None:
            return {"_runtime_workspace": str(workspace)}
        return {"_runtime_workspace": str(workspace), "_runtime_steering_inbox": steering}

    @hookimpl
    def build_prompt(self, message: Envelope) -> str | list[Part] | None:
        """Return the message below its channel's context, with its media; None if it has neither (T33).

        A command is its bare content, whatever came with it.
        """
        content = content_of(message)
        if command_line(content, prefix_of(self._framework.settings)) is not None:
            return content.strip()
        return prompt_of(message) if field_of(message, "context_str") or field_of(message, "media") else None

    @hookimpl
    def system_prompt(self) -> str:
        """Return the template, the `AGENTS.md` of the workspace (BEHAVIOURS T35), and which skills there are."""
        parts = (self._template.fill(self._framework.tools.usable()), self._instructions.read(), self._list_skills())
        return "\n\n".join(filter(None, parts))

    @hookimpl
    def run_model_stream(
        self,
        prompt: str | list[dict[str, Any]] | None,
        session_id: str | None,
        state: dict[str, Any] | None,
        system: str | None,
        message: Envelope,
        fire: Fire | None,
    ) -> AsyncStreamEvents:
        """Return the agent's answer: the result of a comma command, or what the model says after its tools.

        If a prompt mentions a skill as `$name`, what the skill says follows it (BEHAVIOURS A29). A pipeline that
        makes no prompt asks what the message says.
        """
        prompt = prompt_of(message) if prompt is None else prompt
        now, request = "", self._framework.request
        is_kept = request is None or request.is_kept
        is_command = command_line(prompt, prefix_of(self._framework.settings)) is not None
        if not is_command and (request is None or not request.results):
            prompt = self.skills.expand(prompt) if self._may_read_skills() else prompt
            now = self._describe_now()
        task = Task(
            prompt,
            session_id or "default",
            state if state is not None else {},
            message,
            system,
            fire,
            self._framework.steering,
            now=now,
            prefixes=self._prefixes if is_kept else None,
            request=request,
            is_kept=is_kept,
            frame=partial(keyed_frame, self._frame_key),
            put_away=None if is_kept or BY_NAME not in self._framework.tools.usable() else self._stop_session,
        )
        return answer(self._framework, task)

    @hookimpl
    def dispatch_outbound(self, message: Envelope) -> Awaitable[bool] | bool:
        """Hand the reply to the one who asked for the turn, such as the channel of its message."""
        # Nothing to await if nobody takes it, so that a turn without a channel needs no scope for a time-out here.
        return self._framework.dispatch(message) if self._framework.takes_replies else False

    @hookimpl
    def provide_model_options(self) -> list[str]:
        """The models that the settings name."""
        settings = self._framework.settings
        return [str(name) for name in (settings.get("model"), *(settings.get("fallback_models") or ())) if name]

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """The tools of the agent."""
        return [
            *file_tools(),
            *shell_tools(self._shells),
            *web_tools(),
            *tape_tools(),
            *plan_tools(self._framework),
            *session_tools(self._framework, self._read_skill, self._stop_session),
            *window_tools(self._framework),
            *schedule_tools(self._framework),
        ]

    @hookimpl
    def provide_channels(self, message_handler: MessageHandler) -> list[Any]:
        """The terminal that `bub chat` talks on (BEHAVIOURS C35)."""
        framework, prefix = self._framework, prefix_of(self._framework.settings)
        model = framework.settings.get("model") or LOCAL
        own = terminal.Terminal(
            message_handler,
            workspace=framework.workspace,
            home=framework.home,
            prefix=prefix,
            completions=self._completions,
            pipeline_file=lambda: framework.pipeline_file,
            greeting=("Bub", str(model), f"{prefix}help lists commands, Ctrl-D leaves"),
        )
        return [own]

    @hookimpl
    def onboard_config(self, current_config: dict[str, Any], ask: Asking | None) -> dict[str, Any] | None:
        """Ask for the model that answers, and its key (BEHAVIOURS O17); nothing if nobody can be asked."""
        if ask is None:
            return None
        local = self._framework.call_model if self._framework.implementations("call_model") else None
        chosen: dict[str, Any] | None = late.ask_for_model(current_config, ask, local=local)
        return chosen

    @hookimpl
    def provide_tape_store(self) -> TapeStoreManager:
        """Return where tapes are kept: below Bub's own folder (DESIGN §6), or in the store that gateways share."""
        return open_tapes(self._framework.home, self._framework.workspace, self._framework.settings)

    @hookimpl
    def build_tape_context(self) -> TapeContext:
        """Return what Bub sends to a model of a tape: all since the last anchor (BEHAVIOURS P12)."""
        return TapeContext()

    def _completions(self) -> terminal.Completions:
        """What a person at a terminal can be helped to write."""
        box = self._framework.tools
        tools = {name: box.tools[name] for name in box.usable()}
        skills = self.skills.all() if self._may_read_skills() else {}
        return terminal.Completions(
            commands={**{name: tool.summary for name, tool in tools.items()}, "exit": "Leave."},
            arguments={name: tool.arguments.__struct_fields__ for name, tool in tools.items()},
            skills={name: skill.description for name, skill in skills.items()},
            profiles=self._framework.profiles,
        )

    def _read_skill(self, name: str) -> str:
        return self.skills.block(name) if name else self.skills.fragment() or "there are no skills"

    async def _shells(self) -> Shells:
        return await self._framework.shared(open_shells)

    async def _stop_session(self, session_id: str) -> None:
        await (await self._shells()).kill_session(session_id)

    def _describe_now(self) -> str:
        """What goes with a message; "" if the settings say so, or for the small local model, which it confuses."""
        said = (self._framework.settings.get(SECTION) or {}).get(NOW)
        is_wanted = not self._is_small if said is None else bool(said)
        return describe_now(self._framework.workspace) if is_wanted else ""

    def _list_skills(self) -> str:
        """The list of skills, where they may be read. The small local model is spared those that merely ship."""
        if not self._may_read_skills():
            return ""
        return self.skills.fragment(shipped=not self._is_small)

    def _may_read_skills(self) -> bool:
        box = self._framework.tools
        return SKILL_TOOL in box.tools and box.policy.permits(box.tools[SKILL_TOOL])
