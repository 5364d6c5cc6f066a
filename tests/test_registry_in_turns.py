"""Handlers that a framework's registry holds, in turns: in front of the plugins, for whom the profile lists."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest
import trio
from fakes.graphs import graph_of, turn_on
from fakes.toys import HELLO, Errors, Toy, Workshop, note, noting, outcomes
from loguru import logger
from msgspec.structs import replace

from bub import BubFramework, hookimpl
from bub.errors import BubError, HookError
from bub.hook_registry import ETHOS_POINTS, HookRegistry
from bub.hooks.binding import Calls
from bub.hooks.facts import KINDS
from bub.pipeline.run.graph import Chain, FiredPoint, Step
from bub.pipeline.run.turn import Turn

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


MAKING = "make: {kind: broadcast, combine: concat, into: outbounds}"

SITES = {
    "a stage": f"{MAKING}\n  act: {{kind: KIND}}",
    "with a time-out": f"{MAKING}\n  act: {{kind: KIND, timeout: 5s}}",
    "with a condition": f"{MAKING}\n  act: {{kind: KIND, when: {{channel: cli}}}}",
    "in threads": f"{MAKING}\n  act: {{kind: KIND, thread: true}}",
    "for each reply": f"{MAKING}\n  act: {{kind: KIND, for_each: outbounds}}",
    "beside another": f"{MAKING}\n  act: {{kind: KIND, needs: []}}",
    "as a clean-up": f"{MAKING}\n  act: {{kind: KIND, cleanup_for: make, timeout: 5s}}",
    "fired": MAKING,
    "fired with a time-out": f"{MAKING}",
}
"""Every way in which an engine calls a hook point: here `act`."""

WAYS = [
    (site, kind)
    for site in SITES
    for kind in KINDS
    if KINDS[kind].handled_as is not None
    if site != "as a clean-up" or kind in ("void", "observer")
    if site != "beside another" or kind != "claiming"
]


def calling(bub: Workshop, site: str, kind: str, **toys: Toy) -> BubFramework:
    """A framework in whose turns `act` is called once, in one of the ways there are."""

    async def make(fire: Any) -> list[Any]:
        if site.startswith("fired"):
            await fire("act")
        return [{"content": "reply"}]

    more = ", timeout: 5s" if site == "fired with a time-out" else ""
    text = f"stages:\n  {SITES[site]}\nhooks: {{make: {{kind: broadcast}}, act: {{kind: KIND{more}}}}}"
    return bub(text.replace("KIND", kind), maker=Toy(make=make), **toys)


def register(registry: HookRegistry, kind: str, name: str, handler: Callable[[Any], Any], plugin: str = "") -> Any:
    return getattr(registry, f"register_{KINDS[kind].handled_as}")(name, handler, plugin)


# One order.


@pytest.mark.parametrize(("site", "kind"), WAYS)
async def test_handlers_come_in_order_of_registration_before_the_plugins_that_come_by_priority(
    bub: Workshop, site: str, kind: str
) -> None:
    asked: list[str] = []
    framework = calling(bub, site, kind, p=Toy(act=noting(asked, "p")), q=Toy(act=noting(asked, "q")))
    register(framework.registry, kind, "act", lambda payload: note(asked, "of p"), "p")
    register(framework.registry, kind, "act", lambda payload: note(asked, "of nobody"))
    await framework.process_inbound(HELLO)
    if site == "in threads" and kind == "void":  # what runs in a thread is waited for, and all of it at once
        assert asked[:2] == ["of p", "of nobody"]
        assert sorted(asked[2:]) == ["p", "q"]
    else:
        assert asked == ["of p", "of nobody", "q", "p"]


@pytest.mark.parametrize(("site", "kind"), WAYS)
async def test_E13_no_way_of_calling_a_point_forgets_whom_the_profile_lists(
    bub: Workshop, site: str, kind: str
) -> None:
    asked: list[str] = []
    framework = calling(bub, site, kind, p=Toy(act=noting(asked, "p")))
    for plugin in ("stranger", "p", "builtin"):
        register(framework.registry, kind, "act", lambda payload, plugin=plugin: note(asked, f"of {plugin}"), plugin)
    await framework.process_inbound(HELLO)
    assert sorted(asked) == ["of builtin", "of p", "p"]


def test_E13_whose_handlers_count_is_part_of_every_step_and_cannot_be_left_out() -> None:
    for made in (Step, FiredPoint):
        assert signature(made).parameters["allowed"].default is Parameter.empty


@pytest.mark.parametrize("site", ["a stage", "with a time-out", "fired", "for each reply"])
async def test_async_handlers_are_awaited_within_the_time_of_their_stage(bub: Workshop, site: str) -> None:
    asked: list[str] = []
    framework = calling(bub, site, "modifying", p=Toy(act=noting(asked, "p")))

    async def later(payload: Any) -> None:
        await trio.sleep(3)
        asked.append("later")

    framework.registry.register_modifying("act", later)
    await framework.process_inbound(HELLO)
    assert asked == ["later", "p"]


async def test_a_handler_that_takes_too_long_is_cut_off_with_its_stage(bub: Workshop) -> None:
    async def never(payload: Any) -> None:
        await trio.sleep_forever()

    framework = calling(bub, "with a time-out", "void", p=Toy(act=lambda: None))
    framework.registry.register_void("act", never)
    result = await framework.process_inbound(HELLO)
    assert outcomes(result)["act"] == "timeout"
    assert trio.current_time() == pytest.approx(5.0)


async def test_what_handlers_and_plugins_want_changed_is_decided_in_that_order(bub: Workshop) -> None:
    told: list[Any] = []

    def handler(payload: Any) -> Any:
        told.append(payload)
        return {"args": {"by": "handler"}, "kept": None}

    async def load_state(fire: Any) -> Any:
        return {"came": await fire("before_tool_call", tool="x", args={"by": "nobody"}, call_id="1")}

    def from_plugin(args: Any) -> Any:
        return {"args": {"by": "plugin"}, "kept": args["by"]}

    framework = bub(
        "extends: bub:ethos",
        p=Toy(load_state=load_state, before_tool_call=from_plugin, run_model=lambda prompt: prompt),
    )
    framework.registry.register_modifying("before_tool_call", handler)
    result = await framework.process_inbound(HELLO)
    assert result.state is not None
    assert result.state["came"] == {"args": {"by": "handler"}, "kept": "nobody"}
    (payload,) = told
    assert (payload["tool"], payload["args"], payload["message"]["content"]) == ("x", {"by": "nobody"}, "hello")
    assert "fire" not in payload
    with pytest.raises(TypeError):
        payload["args"]["by"] = "me"


@pytest.mark.parametrize("kind", ["void", "observer", "claiming"])
async def test_a_payload_is_one_mapping_of_what_the_point_offers_and_cannot_be_changed(
    bub: Workshop, kind: str
) -> None:
    told: list[Any] = []
    framework = calling(bub, "a stage", kind, p=Toy(act=lambda **values: note(told, values)))
    for _ in range(2):
        register(framework.registry, kind, "act", lambda payload: note(told, payload))
    await framework.process_inbound(HELLO)
    first, second, plugin = told
    assert first is second
    assert set(first) == set(plugin) - {"fire"} == {"message", "inbound", "profile", "workspace"}
    assert first["message"] is plugin["message"]
    with pytest.raises(TypeError):
        first["message"] = {}


async def test_a_claim_of_a_handler_ends_the_turn_before_a_plugin_is_asked(bub: Workshop) -> None:
    asked: list[str] = []
    framework = bub("extends: bub:ethos", p=Toy(inbound_claim=noting(asked, "p"), run_model=lambda: "an answer"))
    remove = framework.registry.register_claiming("inbound_claim", lambda payload: {"handled": True, "reply": "mine"})
    result = await framework.process_inbound(HELLO)
    assert (result.ended_by, asked) == ("claimed:inbound_claim", [])
    assert [reply["content"] for reply in result.outbounds or ()] == ["mine"]
    remove()
    assert (await framework.process_inbound(HELLO)).model_output == "an answer"
    assert asked == ["p"]


async def test_a_handler_that_fails_is_treated_as_a_plugin_that_fails_at_that_stage(bub: Workshop) -> None:
    errors, asked = Errors(), list[str]()

    def broken(payload: Any) -> None:
        raise RuntimeError("broken")

    p = Toy(act=noting(asked, "p"), on_error=errors.told)
    framework = calling(bub, "a stage", "modifying", p=p)
    framework.registry.register_modifying("act", broken, "p")
    await framework.process_inbound(HELLO)
    assert (errors.stages, asked) == (["act:p"], ["p"])


async def test_a_stage_for_each_reply_that_no_plugin_implements_still_calls_handlers(bub: Workshop) -> None:
    told: list[Any] = []
    text = (
        f"hooks: {{make: {{kind: broadcast}}}}\nstages: {{{MAKING}, message_sent: {{kind: void, for_each: outbounds}}}}"
    )
    framework = bub(text, p=Toy(make=lambda: [{"content": "one"}, {"content": "two"}]))
    assert framework.graph.nodes[-1].idle
    framework.registry.register_void("message_sent", lambda payload: note(told, payload["message"]["content"]))
    await framework.process_inbound(HELLO)
    assert told == ["one", "two"]


@pytest.mark.parametrize(("plugin", "answer"), [("p", {"error": "no"}), ("stranger", {})])
async def test_a_fired_point_that_no_plugin_implements_calls_the_handlers_that_are_allowed(
    bub: Workshop, plugin: str, answer: Any
) -> None:
    async def load_state(fire: Any) -> Any:
        return {"came": await fire("before_tool_call", tool="x", args={}, call_id="1")}

    framework = bub("extends: bub:ethos", p=Toy(load_state=load_state, run_model=lambda: "an answer"))
    framework.registry.register_modifying("before_tool_call", lambda payload: {"error": "no"}, plugin)
    result = await framework.process_inbound(HELLO)
    assert result.state is not None
    assert result.state["came"] == answer


# Whose handlers.

TWO = """
extends: bub:ethos
routes: [{match: {channel: night}, profile: night}]
plugins: {p: {path: p.py}, q: {path: q.py}}
profiles: {default: {plugins: [p]}, night: {plugins: [q]}}
"""


async def test_each_profile_calls_the_handlers_of_its_own_plugins_also_after_a_reload(bub: Workshop) -> None:
    asked: list[str] = []
    framework = bub(TWO, p=Toy(run_model=lambda: "day"), q=Toy(run_model=lambda: "night"))
    for plugin in ("p", "q", None):
        framework.registry.register_void(
            "agent_done", lambda payload, who=plugin: note(asked, f"{who} {payload['model_output']}"), plugin
        )

    async def heard() -> list[str]:
        asked.clear()
        await framework.process_inbound(HELLO)
        await framework.process_inbound({**HELLO, "channel": "night"})
        return list(asked)

    assert await heard() == ["p day", "None day", "q night", "None night"]
    before = framework.registry
    framework.reload()
    assert framework.registry is before
    assert await heard() == ["p day", "None day", "q night", "None night"]
    file = bub.folder / "pipelines.yaml"
    file.write_text(file.read_text().replace("night: {plugins: [q]}", "night: {plugins: [p, q]}"))
    framework.reload()
    assert await heard() == ["p day", "None day", "p night", "q night", "None night"]


@pytest.mark.parametrize("site", ["a stage", "fired"])
async def test_where_only_some_plugins_are_asked_handlers_of_others_are_not(bub: Workshop, site: str) -> None:
    asked: list[str] = []
    stage, point = (", act: {kind: void, only: [p]}", "") if site == "a stage" else ("", ", only: [p]")
    where = f"stages: {{{MAKING}{stage}}}\nhooks: {{make: {{kind: broadcast}}, act: {{kind: void{point}}}}}"

    async def make(fire: Any) -> list[Any]:
        return [await fire("act")] if site == "fired" else []

    framework = bub(where, p=Toy(act=noting(asked, "p")), q=Toy(act=noting(asked, "q"), make=make))
    for plugin in ("p", "q", None):
        framework.registry.register_void("act", lambda payload, who=plugin: note(asked, f"of {who}"), plugin)
    await framework.process_inbound(HELLO)
    assert asked == ["of p", "of None", "p"]


# At run time.


async def test_a_registration_counts_from_the_next_call_on_and_its_removal_too(bub: Workshop) -> None:
    asked: list[str] = []
    removals: list[Callable[[], None]] = []

    def register_more(payload: Any) -> None:
        asked.append("first")
        registry = framework.registry
        registry.register_void("message_received", lambda payload: note(asked, "too late for this one"))
        removals.append(registry.register_void("session_start", lambda payload: note(asked, "in time")))
        removals.append(registry.register_void("agent_done", lambda payload: note(asked, "never")))

    def take_back(model_output: str) -> str:
        removals[-1]()
        return model_output

    framework = bub("extends: bub:ethos", p=Toy(run_model=lambda: note(asked, "model", take_back("an answer"))))
    remove = framework.registry.register_void("message_received", register_more)
    await framework.process_inbound(HELLO)
    remove()
    assert asked == ["first", "in time", "model"]


async def test_a_plugin_registers_in_a_turn_that_began_while_nothing_was_registered(bub: Workshop) -> None:
    asked: list[str] = []

    class Plugin:
        def __init__(self, framework: BubFramework) -> None:
            self.framework = framework

        @hookimpl
        def load_state(self) -> None:
            self.framework.registry.register_void("agent_done", lambda payload: note(asked, "done"), "p")

        @hookimpl
        def run_model(self) -> str:
            return "an answer"

    framework = bub("extends: bub:ethos", p=Plugin)
    await framework.process_inbound(HELLO)
    assert asked == ["done"]
    framework.registry.unregister_plugin("p")
    assert framework.seen_by("default").registry is framework.registry


async def test_nothing_is_merged_where_nothing_is_registered(bub: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    framework = bub("extends: bub:ethos", p=Toy(run_model=lambda: "an answer"))
    framework.registry.register_void("agent_done", lambda payload: None)()
    merged: list[Any] = []
    monkeypatch.setattr(Turn, "_behind_handlers", lambda *args: merged.append(args))
    await framework.process_inbound(HELLO)
    assert merged == []
    assert not framework.registry.registered


async def test_a_stage_calls_the_very_calls_it_was_compiled_with_where_nothing_is_registered() -> None:
    called: list[Calls] = []
    graph = graph_of("stages: {act: {kind: void}}\nhooks: {act: {kind: void}}", p=Toy(act=lambda: None))
    (step,) = graph.steps

    async def call(calls: Calls, *how: Any) -> None:
        called.append(calls)

    watched = replace(graph, answering=(Chain((replace(step, call=call),)),))
    await turn_on(watched).run()
    (calls,) = called
    assert calls is step.calls


# Which points there are.


def test_a_registry_knows_the_points_of_the_pipeline_and_those_of_ethos(bub: Workshop) -> None:
    text = "extends: bub:default\nstages: {look: {kind: observer, before: run_model}}\nhooks: {look: {kind: observer}}"
    registry = bub(text, p=Toy(look=lambda: None)).registry
    assert registry.points == {**ETHOS_POINTS, "before_llm_call": "modifying", "look": "void"}
    assert bub("extends: bub:ethos").registry.points == ETHOS_POINTS


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("load_state", "`load_state` is a broadcast point, and handlers are called at void, modifying and claiming"),
        ("on_error", "this pipeline does not call handlers at `on_error`"),
        ("provide_bus", "this pipeline does not call handlers at `provide_bus`"),
    ],
)
def test_a_point_that_calls_no_handlers_is_refused_with_what_to_do_instead(
    bub: Workshop, point: str, message: str
) -> None:
    registry = bub().registry
    with pytest.raises(HookError, match=message) as refused:
        registry.register_void(point, lambda payload: None)
    assert refused.value.help == "implement it in a plugin, with @hookimpl"
    with pytest.raises(HookError, match=message):
        registry.add_point(point, "void")


def test_a_point_whose_kind_differs_between_profiles_is_refused(bub: Workshop) -> None:
    text = TWO.replace("[p]}", "[p], hooks: {act: {kind: void}}}").replace(
        "[q]}", "[q], hooks: {act: {kind: claiming}}}"
    )
    registry = bub(text, p=Toy(act=lambda: None), q=Toy(act=lambda: None)).registry
    said = r"more than one kind \(void in profile `default`, claiming in profile `night`\)"
    for register_one in (registry.register_void, registry.register_claiming):
        with pytest.raises(HookError, match=said):
            register_one("act", lambda payload: None)
    assert "act" not in registry.points


def test_a_plugin_that_asks_for_the_registry_while_it_is_loaded_is_told_when_to(bub: Workshop) -> None:
    class Early:
        def __init__(self, framework: BubFramework) -> None:
            framework.registry.register_void("agent_done", lambda payload: None)

        @hookimpl
        def run_model(self) -> str:
            return ""

    lines: list[str] = []
    handler = logger.add(lines.append, format="{message}")
    try:
        with pytest.raises(BubError):
            bub("extends: bub:ethos", p=Early)
    finally:
        logger.remove(handler)
    assert any("a plugin asked for what is loaded while it was being loaded itself" in line for line in lines)


async def test_a_reload_is_refused_where_a_point_with_handlers_would_change_its_kind(bub: Workshop) -> None:
    framework = calling(bub, "a stage", "void", p=Toy(act=lambda: None))
    registry, file = framework.registry, bub.folder / "pipelines.yaml"
    remove = registry.register_void("act", lambda payload: None)
    text = file.read_text()
    for kind in ("claiming", "broadcast"):
        file.write_text(text.replace("kind: void", f"kind: {kind}"))
        with pytest.raises(HookError, match="`act` would not be a void point any more") as refused:
            framework.reload()
        assert refused.value.help is not None
        assert framework.hook_kind("act") == registry.points["act"] == "void"
    remove()
    file.write_text(text.replace("kind: void", "kind: claiming"))
    framework.reload()
    registry.register_claiming("act", lambda payload: {"handled": True})
    assert (await framework.process_inbound(HELLO)).ended_by == "claimed:act"


async def test_a_reload_brings_its_points_and_takes_those_along_that_are_not_there_any_more(bub: Workshop) -> None:
    framework = calling(bub, "a stage", "void", p=Toy(act=lambda: None))
    registry, file = framework.registry, bub.folder / "pipelines.yaml"
    registry.add_point("nap", "void")
    text = file.read_text()
    bub.plugin("p", Toy(look=lambda: None))
    file.write_text(text.replace("act:", "look:"))
    framework.reload()
    assert registry.points == {**ETHOS_POINTS, "nap": "void", "look": "void"}
    with pytest.raises(HookError, match="no hook point `act`"):
        registry.register_void("act", lambda payload: None)
    remove = registry.register_void("look", lambda payload: None)
    bub.plugin("p", Toy(act=lambda: None))
    file.write_text(text)
    framework.reload()
    assert registry.points["look"] == "void"
    remove()
    framework.reload()
    assert "look" not in registry.points


async def test_a_turn_from_before_a_reload_does_not_call_handlers_of_another_kind(bub: Workshop) -> None:
    asked: list[str] = []
    began, go = trio.Event(), trio.Event()

    async def wait() -> None:
        began.set()
        await go.wait()

    text = "hooks: {wait: {kind: void}, nap: {kind: claiming}}\nstages: {wait: {kind: void}, nap: {kind: claiming}}"
    toy = Toy(wait=wait, nap=noting(asked, "p"))
    framework = bub(text, p=toy)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(framework.process_inbound, HELLO)
        await began.wait()
        file = bub.folder / "pipelines.yaml"
        file.write_text(file.read_text().replace("claiming", "modifying"))
        framework.reload()
        framework.registry.register_modifying("nap", lambda payload: note(asked, "handler"))
        go.set()
    await framework.process_inbound(HELLO)
    assert asked == ["p", "handler", "p"]
