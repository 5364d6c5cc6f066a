"""Two profiles in one process: a plugin that only one of them lists sees no turn of the other, at no hook point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from fakes.toys import Workshop, admission_of

from bub import BubFramework, hookimpl
from bub.envelope import field_of
from bub.hooks.admission import Admission
from bub.hooks.facts import KINDS
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.source.merge import load_shipped

TURNS = 300
OWN = {f"own_{kind}": kind for kind in KINDS if kind != "stream"}
"""A stage of the file's own for each kind."""

STAGES = {name for name, _ in load_shipped("ethos").root.get("stages").items()} | {"normalize_inbound"}  # type: ignore[union-attr]
MODEL = {"run_model", "run_model_stream"}
FIRED = {
    **{f"fired_{name}": kind for name, kind in OWN.items()},
    **{
        name: "void" if "void" in point.kinds else point.kinds[0]
        for name, point in HOOK_POINTS.items()
        if not point.bootstrap and name not in STAGES | MODEL
    },
}
"""What the model fires: a point of the file's own of each kind, and all those of the agent."""

ON_DEMAND = (
    *("register_cli_commands", "onboard_config", "provide_channels", "provide_bus", "provide_tools"),
    "build_tape_context",
)
"""The bootstrap hooks that a host asks for; of the profile chosen at start."""

PIPELINE = """
extends: bub:ethos
stages:
  normalize_inbound: {kind: firstresult, into: message, default: "{message}", before: inbound_claim}
""" + "".join(
    f"  {name}: {{kind: {kind}, before: run_model, {'into: v_' + name if kind in ('firstresult', 'broadcast') else ''}"
    f"{', default: none' if kind == 'firstresult' else ''}{'changes: [prompt]' if kind == 'modifying' else ''}}}\n"
    for name, kind in OWN.items()
)
PIPELINE += "hooks:\n" + "".join(f"  {name}: {{kind: {kind}, takes: [message]}}\n" for name, kind in OWN.items())
PIPELINE += "".join(
    f"  {name}: {{kind: {kind}{', takes: [message]' if name.startswith('fired_') else ''}}}\n"
    for name, kind in FIRED.items()
)
PIPELINE += """
plugins: {core: {path: core.py}, x: {path: x.py}, y: {path: y.py}}
profiles:
  default: {plugins: [core, y]}
  a: {plugins: [core, x]}
routes:
  - match: {channel: a}
    profile: a
"""


class Core:
    """What both profiles have: the model, which fires every point, asks `call_model` and fails every other time."""

    def __init__(self, framework: BubFramework) -> None:
        self.framework = framework

    @hookimpl
    async def run_model(self, message: dict[str, Any], session_id: str, fire: Any) -> str:
        for name in FIRED:
            await trio.lowlevel.checkpoint()
            await fire(name)
        await self.framework.call_model({"messages": []}, session_id)
        await self.framework.get_model_options(session_id)
        if message["content"] == "fail":
            raise RuntimeError("as asked")
        return "done"


def everywhere(seen: list[tuple[str, str]]) -> type:
    """A plugin at every hook point that notes which channel each call is for; "" where it is for no message."""

    def of_the_turn(name: str) -> Callable[..., None]:
        def note(self: object, message: Any) -> None:
            seen.append((name, str(field_of(message, "channel"))))

        return note

    def of_the_session(name: str) -> Callable[..., None]:
        def note(self: object, session_id: str) -> None:
            seen.append((name, session_id.partition(":")[0]))

        return note

    def of_no_turn(name: str) -> Callable[..., None]:
        def note(self: object) -> None:
            seen.append((name, ""))

        return note

    methods: dict[str, Any] = {name: of_the_turn(name) for name in (*HOOK_POINTS, *OWN, *FIRED)}
    methods |= {name: of_no_turn(name) for name in (*ON_DEMAND, "provide_tape_store")}
    methods |= {name: of_the_session(name) for name in ("call_model", "provide_model_options")}
    for name in MODEL:
        methods.pop(name)
    return type("Everywhere", (), {name: hookimpl(method) for name, method in methods.items()})


@pytest.mark.anyio
async def test_a_plugin_of_one_profile_sees_no_turn_of_another_at_any_hook_point(bub: Workshop) -> None:
    of_x: list[tuple[str, str]] = []
    of_y: list[tuple[str, str]] = []
    framework = bub(PIPELINE, core=Core, x=everywhere(of_x), y=everywhere(of_y))
    profiles: list[str] = []

    async def one(number: int) -> None:
        channel = "ab"[number % 2]
        content = "fail" if number % 4 < 2 else "go on"
        message = {"channel": channel, "chat_id": str(number % 20), "content": content}
        await admission_of(framework, message, Admission())
        try:
            profiles.append((await framework.process_inbound(message)).profile)
        except RuntimeError:
            profiles.append("failed")

    async with framework.running(), trio.open_nursery() as nursery:
        for number in range(TURNS):
            nursery.start_soon(one, number)
    ask_for_all(framework)

    assert {name: profiles.count(name) for name in ("a", "default", "failed")} == {
        "a": TURNS // 4,
        "default": TURNS // 4,
        "failed": TURNS // 2,
    }
    every = {*HOOK_POINTS, *OWN, *FIRED} - MODEL
    of_turns = every - {*ON_DEMAND, "provide_tape_store"}
    assert {channel for name, channel in of_x if name in of_turns} == {"a"}
    assert {channel for name, channel in of_y if name in of_turns} == {"b"}
    # What hosts ask for is asked of the profile chosen at start; the tools are those of the turn's.
    assert {name for name, _ in of_x} == {*of_turns, "provide_tools"}
    assert {name for name, _ in of_y} == every


def ask_for_all(framework: BubFramework) -> None:
    """What a host asks of the profile that was chosen at start."""

    async def nobody(message: Any) -> None: ...

    framework.create_cli_app()
    framework.collect_onboard_config()
    framework.get_channels(nobody)
    framework.create_bus()
    framework.build_tape_context()
    assert framework.tools
