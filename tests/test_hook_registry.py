"""Handlers that come and go: who is called, in which order, and what they come to, row by row and against a model."""

from __future__ import annotations

import inspect
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from trio.testing import MockClock

from bub.base.waiting import unlimited
from bub.errors import BubError, HookError
from bub.hook_registry import ETHOS_POINTS, HookRegistry
from bub.hooks.binding import Manner, bind
from bub.hooks.implementations import Implementation
from bub.hooks.kinds.claiming import claiming
from bub.hooks.kinds.modifying import modifying
from bub.hooks.kinds.void import void
from bub.hookspecs import HOOK_POINTS, HookPoint

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "hook-registry.md"
VOID, MODIFYING, CLAIMING = "agent_done", "before_prompt_build", "inbound_claim"


@pytest.fixture
def registry() -> HookRegistry:
    return HookRegistry()


def saying(value: Any) -> Callable[[Any], Any]:
    return lambda payload: value


def failing(payload: Any) -> Any:
    raise RuntimeError("broken")


async def failing_later(payload: Any) -> Any:
    await trio.sleep(1)
    raise RuntimeError("broken later")


# What a point is.


@pytest.mark.parametrize("kind", ["void", "modifying", "claiming"])
def test_E1_the_kind_belongs_to_the_point_and_another_one_is_refused_at_registration(
    registry: HookRegistry, kind: str
) -> None:
    for name, known in ETHOS_POINTS.items():
        register = getattr(registry, f"register_{kind}")
        if kind == known:
            register(name, saying(None))
        else:
            with pytest.raises(BubError, match=f"`{name}` is a {known} point, not a {kind} one") as refused:
                register(name, saying(None))
            assert refused.value.help == f"use register_{known}"
        assert registry.has_handlers(name) == (kind == known)


async def test_E1_a_point_is_not_fired_as_another_kind(registry: HookRegistry) -> None:
    with pytest.raises(HookError, match="is a modifying point, not a void one") as refused:
        await registry.fire_void("before_tool_call", {})
    assert refused.value.help == "use fire_modifying"


def test_E1_a_misspelt_point_is_refused_with_a_suggestion(registry: HookRegistry) -> None:
    with pytest.raises(HookError, match="there is no hook point `agent_don`") as refused:
        registry.register_void("agent_don", saying(None), plugin="audit")
    assert refused.value.help == "did you mean `agent_done`?"
    assert refused.value.plugin == "audit"
    with pytest.raises(HookError):
        registry.has_handlers("agent_don")


def test_E1_a_new_point_keeps_the_kind_it_was_added_with(registry: HookRegistry) -> None:
    registry.add_point("nap", "void")
    registry.add_point("nap", "void")
    with pytest.raises(HookError, match="`nap` is a void point"):
        registry.add_point("nap", "claiming")
    with pytest.raises(HookError, match="cannot be a gate point"):
        registry.add_point("guard", "gate")
    assert registry.points == {**ETHOS_POINTS, "nap": "void"}
    assert "nap" not in HookRegistry().points


def test_the_points_of_a_registry_are_those_of_the_ethos_pipeline_with_their_kinds() -> None:
    pipeline = yaml.safe_load((ROOT / "pipelines" / "ethos.yaml").read_text(encoding="utf-8"))
    there = {name: said["kind"] for part in ("stages", "hooks") for name, said in pipeline[part].items()}
    assert len(ETHOS_POINTS) == 17
    assert {name: there[name] for name in ETHOS_POINTS} == dict(ETHOS_POINTS)
    assert [name for name, kind in ETHOS_POINTS.items() if kind not in HOOK_POINTS[name].kinds] == []


@pytest.mark.skipif(not PAGE.is_file(), reason="the source archive carries no docs/ but one page")
def test_the_page_lists_every_point_under_its_kind() -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Points\n")
    section, _, _ = section.partition("\n## ")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    assert {name: kind for kind, names in rows for name in re.findall(r"\w+", names)} == dict(ETHOS_POINTS)


def test_a_registry_can_know_a_point_by_another_kind_from_its_beginning() -> None:
    registry = HookRegistry({"before_llm_call": "modifying"})
    registry.register_modifying("before_llm_call", saying({}))
    with pytest.raises(HookError):
        HookRegistry({"x": "viod"})


def test_what_cannot_be_called_is_refused(registry: HookRegistry) -> None:
    with pytest.raises(HookError, match="the handler for `agent_done` is dict"):
        registry.register_void(VOID, {})  # type: ignore[arg-type]


# Void.


async def test_E2_void_handlers_run_at_once_are_all_awaited_and_a_failure_is_logged_and_counted(
    registry: HookRegistry, log: list[str]
) -> None:
    ended: list[str] = []

    async def slow(name: str, seconds: float, payload: Any) -> None:
        await trio.sleep(seconds)
        ended.append(f"{name} {payload['text']}")

    registry.register_void(VOID, partial(slow, "slow", 5))
    registry.register_void(VOID, failing_later, plugin="audit")
    registry.register_void(VOID, partial(slow, "quick", 2))
    began = trio.current_time()
    assert await registry.fire_void(VOID, {"text": "hi"}, ["audit"]) is None  # type: ignore[func-returns-value]
    assert trio.current_time() - began == pytest.approx(5)
    assert ended == ["quick hi", "slow hi"]
    assert registry.failures == {(VOID, "audit"): 1}
    assert any("hook.handler_failed hook=agent_done adapter=audit" in line and "broken later" in line for line in log)


async def test_E3_a_void_handler_that_raises_at_once_keeps_none_of_the_others_from_running(
    registry: HookRegistry,
) -> None:
    heard: list[int] = []
    for number in range(3):
        registry.register_void(VOID, failing)
        registry.register_void(VOID, lambda payload, number=number: heard.append(number))
    await registry.fire_void(VOID, None)
    assert heard == [0, 1, 2]
    assert registry.failures.total() == 3


@pytest.mark.parametrize("kind", ["void", "modifying", "claiming"])
def test_E4_a_registration_has_no_option_that_nothing_reads(kind: str) -> None:
    register = inspect.signature(getattr(HookRegistry, f"register_{kind}"))
    assert list(register.parameters) == ["self", "name", "handler", "plugin"]


async def test_cancellation_passes_through_every_kind(registry: HookRegistry) -> None:
    for kind, point in (("void", VOID), ("modifying", MODIFYING), ("claiming", CLAIMING)):

        async def forever(payload: Any) -> None:
            await trio.sleep_forever()

        getattr(registry, f"register_{kind}")(point, forever)
        with trio.move_on_after(1) as scope:
            await getattr(registry, f"fire_{kind}")(point, {})
        assert scope.cancelled_caught
    assert not registry.failures


# Modifying.


async def test_E5_the_first_value_of_a_key_that_is_not_None_wins_in_order_of_registration(
    registry: HookRegistry,
) -> None:
    async def later(payload: Any) -> Mapping[str, Any]:
        await trio.sleep(9)
        return {"a": None, "b": "", "c": 0}

    registry.register_modifying(MODIFYING, later)
    registry.register_modifying(MODIFYING, saying({"a": False, "b": "too late", "c": 1, "d": 2}))
    registry.register_modifying(MODIFYING, saying({"a": True}))
    assert await registry.fire_modifying(MODIFYING, {}) == {"a": False, "b": "", "c": 0, "d": 2}


async def test_E6_every_modifying_handler_is_given_the_original_and_cannot_change_it(registry: HookRegistry) -> None:
    seen: list[Any] = []

    def meddling(payload: Any) -> Any:
        seen.append(payload)
        return {"history": [*payload["history"], "mine"]}

    def changing(payload: Any) -> None:
        payload["history"].append("sneaked in")

    def replacing(payload: Any) -> None:
        payload["extra"] = 1

    payload = {"history": ["hello"]}
    for handler in (changing, meddling, replacing, meddling):
        registry.register_modifying(MODIFYING, handler)
    assert await registry.fire_modifying(MODIFYING, payload) == {"history": ["hello", "mine"]}
    assert seen == [{"history": ["hello"]}] * 2
    assert payload == {"history": ["hello"]}
    assert registry.failures.total() == 2


async def test_E6_a_payload_that_is_another_mapping_cannot_be_changed_either(registry: HookRegistry) -> None:
    def changing(payload: Any) -> None:
        payload["args"]["path"] = "elsewhere"

    payload = OrderedDict(args={"path": "here"})
    registry.register_modifying("before_tool_call", changing)
    registry.register_modifying("before_tool_call", lambda payload: {"args": payload["args"]})
    assert await registry.fire_modifying("before_tool_call", payload) == {"args": {"path": "here"}}


async def test_E6_what_comes_out_is_plain_even_where_a_handler_hands_back_what_it_was_given(
    registry: HookRegistry,
) -> None:
    registry.register_modifying("before_tool_call", lambda payload: {"args": payload["args"]})
    changes = await registry.fire_modifying("before_tool_call", {"args": {"path": "a"}})
    changes["args"]["path"] = "b"
    assert changes == {"args": {"path": "b"}}


async def test_E7_what_is_no_mapping_is_left_out_with_a_warning_and_any_key_can_be_set(
    registry: HookRegistry, log: list[str]
) -> None:
    for value in ("text", ["a"], 1, True):
        registry.register_modifying(MODIFYING, saying(value), plugin="odd")
    registry.register_modifying(MODIFYING, saying({"constructor": 1, "keys": 2, "__class__": 3}))
    assert await registry.fire_modifying(MODIFYING, {}, ["odd"]) == {"constructor": 1, "keys": 2, "__class__": 3}
    assert registry.failures == {(MODIFYING, "odd"): 4}
    assert any("must return dict or None, but plugin `odd` returned list" in line for line in log)


async def test_E8_a_modifying_handler_that_fails_is_left_out_and_the_rest_runs(registry: HookRegistry) -> None:
    class Unreadable(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise KeyError(key)

        def __iter__(self) -> Iterator[str]:
            return iter(["a"])

        def __len__(self) -> int:
            return 1

    for handler in (saying({"a": 1}), failing, failing_later, saying(Unreadable()), saying({"a": 2, "b": 3})):
        registry.register_modifying(MODIFYING, handler)
    assert await registry.fire_modifying(MODIFYING, {}) == {"a": 1, "b": 3}
    assert registry.failures.total() == 3


# Claiming.


async def test_E9_the_first_claim_is_returned_whole_and_nobody_is_asked_after_it(registry: HookRegistry) -> None:
    asked: list[str] = []

    def saying_so(name: str, value: Any) -> Callable[[Any], Any]:
        def handler(payload: Any) -> Any:
            asked.append(name)
            return value

        return handler

    claim = {"handled": "yes", "reply": "pong"}
    values = [None, {"handled": False, "reply": "no"}, {}, True, "handled", claim, {"handled": True}]
    registry.register_claiming(CLAIMING, failing)
    registry.register_claiming(CLAIMING, failing_later)
    for number, value in enumerate(values):
        registry.register_claiming(CLAIMING, saying_so(str(number), value))
    assert await registry.fire_claiming(CLAIMING, {}) == claim
    assert asked == list("012345")
    assert await registry.fire_claiming("before_dispatch", {}) == {"handled": False}


# Who is registered.


async def test_E10_a_clean_up_takes_back_its_own_registration_once_and_no_other(registry: HookRegistry) -> None:
    heard: list[Any] = []
    removes = [registry.register_void(VOID, heard.append) for _ in range(3)]
    removes[1]()
    removes[1]()
    await registry.fire_void(VOID, "a")
    assert heard == ["a", "a"]
    removes[0]()
    removes[2]()
    registry.register_void(VOID, heard.append)
    removes[0]()
    await registry.fire_void(VOID, "b")
    assert heard == ["a", "a", "b"]


@pytest.mark.parametrize(("kind", "point"), [("void", VOID), ("modifying", MODIFYING), ("claiming", CLAIMING)])
async def test_E10_what_is_registered_and_removed_during_a_fire_counts_from_the_next_one_on(
    registry: HookRegistry, kind: str, point: str
) -> None:
    register, fire = getattr(registry, f"register_{kind}"), getattr(registry, f"fire_{kind}")
    heard: list[str] = []

    def first(payload: Any) -> None:
        heard.append("first")
        for remove in removes:
            remove()
        register(point, lambda payload: heard.append("late"))

    removes = [register(point, first), register(point, lambda payload: heard.append("second"))]
    await fire(point, {})
    assert heard == ["first", "second"]
    await fire(point, {})
    assert heard == ["first", "second", "late"]


# Who may be called.


@pytest.mark.parametrize(
    ("allowed", "heard"),
    [([], "ab"), (["one"], "abc"), (("two", "other"), "abd"), ({"one", "two"}, "abcd"), (iter(["one", "two"]), "abcd")],
)
async def test_E11_built_in_handlers_always_fire_and_those_of_plugins_that_are_allowed(
    registry: HookRegistry, allowed: Collection[str], heard: str
) -> None:
    told: list[str] = []
    for letter, plugin in zip("abcd", (None, "", "one", "two"), strict=True):
        registry.register_void(VOID, lambda payload, letter=letter: told.append(letter), plugin)
    await registry.fire_void(VOID, {}, allowed)
    assert "".join(told) == heard


@pytest.mark.parametrize(("kind", "point"), [("void", VOID), ("modifying", MODIFYING), ("claiming", CLAIMING)])
@pytest.mark.parametrize("said", [(), (None,)])
async def test_E12_who_says_nothing_of_plugins_calls_none_of_theirs(
    registry: HookRegistry, kind: str, point: str, said: tuple[Any, ...]
) -> None:
    told: list[str] = []
    for plugin in (None, "one"):
        getattr(registry, f"register_{kind}")(point, lambda payload, plugin=plugin: told.append(plugin), plugin)
    await getattr(registry, f"fire_{kind}")(point, {}, *said)
    assert told == [None]


async def test_E13_whoever_forgets_the_allowed_plugins_is_told_of_in_the_log(
    registry: HookRegistry, log: list[str]
) -> None:
    registry.register_modifying("before_tool_call", saying({"error": "no"}), plugin="guard")
    assert await registry.fire_modifying("before_tool_call", {}, []) == {}
    assert log == []
    assert await registry.fire_modifying("before_tool_call", {}) == {}
    assert log == ["hook.plugins_not_asked hook=before_tool_call adapters=guard reason='no allowed_plugins'"]


def test_E13_where_a_pipeline_asks_for_handlers_the_allowed_plugins_cannot_be_left_out() -> None:
    allowed = inspect.signature(HookRegistry.in_front_of).parameters["allowed_plugins"]
    assert (allowed.kind, allowed.default) == (allowed.KEYWORD_ONLY, allowed.empty)
    assert inspect.signature(HookRegistry.handlers).parameters["allowed_plugins"].default is allowed.empty


async def test_E13_a_text_is_no_list_of_plugins(registry: HookRegistry) -> None:
    registry.register_void(VOID, saying(None), plugin="guard")
    with pytest.raises(TypeError, match="names of plugins"):
        await registry.fire_void(VOID, {}, "guards")


async def test_E14_a_profile_without_plugins_calls_those_of_none(registry: HookRegistry) -> None:
    profile: dict[str, Any] = {}
    registry.register_claiming(CLAIMING, saying({"handled": True}), plugin="one")
    assert await registry.fire_claiming(CLAIMING, {}, profile.get("plugins", ())) == {"handled": False}


async def test_E15_a_plugin_is_taken_back_from_every_point_and_built_in_handlers_stay(registry: HookRegistry) -> None:
    for plugin in (None, "one", "two"):
        registry.register_void(VOID, saying(None), plugin)
    registry.register_modifying(MODIFYING, saying({"a": 1}), "one")
    registry.register_claiming(CLAIMING, saying({"handled": True}), "one")
    registry.unregister_plugin("one")
    registry.unregister_plugin("one")
    for nobody in ("", "builtin", "never seen"):
        registry.unregister_plugin(nobody)
    assert [call.plugin for call in registry.handlers(VOID, ["one", "two"])] == ["builtin", "two"]
    assert not registry.has_handlers(MODIFYING)
    assert not registry.has_handlers(CLAIMING)


def test_E15_whether_there_are_handlers_does_not_depend_on_who_is_allowed(registry: HookRegistry) -> None:
    assert not registry.has_handlers(VOID)
    remove = registry.register_void(VOID, saying(None), plugin="one")
    assert registry.has_handlers(VOID)
    remove()
    assert not registry.has_handlers(VOID)


# Together with the implementations of plugins.


def implementation(plugin: str, function: Callable[..., Any], *names: str) -> Implementation:
    return Implementation("point", plugin, function, names, (), names, everything=False, rank=(1, 0))


async def ignore(call: Any, error: Exception) -> None:
    pass


@pytest.mark.parametrize("frozen", [False, True])
async def test_handlers_and_implementations_are_asked_in_one_order(frozen: bool) -> None:
    registry = HookRegistry({"point": "modifying"})
    asked: list[Any] = []

    def ask(name: str, value: Any) -> None:
        asked.append((name, value))

    point = HookPoint("point", ("modifying",), ("text", "rest"))
    manner = Manner(frozen=frozen, stage="here", on_failure="skip")
    found = [
        implementation("p", lambda text: ask("p", text), "text"),
        implementation("q", lambda rest, text: ask("q", (rest, text)), "rest", "text"),
    ]
    bound = bind(found, point, {"text": 0, "rest": 1}, manner=manner)

    def payload(values: Any) -> dict[str, Any]:
        return {"text": values[0]}

    def calls(*allowed: str) -> Any:
        return registry.in_front_of(bound, "point", payload, allowed_plugins=allowed, manner=manner)

    assert calls() is bound
    registry.register_modifying("point", partial(ask, "a"))
    registry.register_modifying("point", partial(ask, "b"), plugin="two")
    for one in calls().items:
        assert (one.stage, one.on_failure) == ("here", "skip")
    await modifying(calls(), ["x", "y"], unlimited, ignore)
    assert asked == [("a", {"text": "x"}), ("p", "x"), ("q", ("y", "x"))]
    asked.clear()
    await void(calls("two"), ["x", "y"], unlimited, ignore)
    assert [name for name, _ in asked] == ["a", "b", "p", "q"]
    told = asked[0][1]
    if frozen:
        with pytest.raises(TypeError):
            told["text"] = "z"
    else:
        told["text"] = "z"


async def test_a_claim_of_a_handler_comes_before_that_of_a_plugin(registry: HookRegistry) -> None:
    point = HOOK_POINTS[CLAIMING]
    bound = bind([implementation("p", saying({"handled": True, "by": "p"}), "message")], point, {"message": 0})
    remove = registry.register_claiming(CLAIMING, lambda payload: {"handled": True, "by": payload["message"]})

    async def claim() -> Any:
        calls = registry.in_front_of(bound, CLAIMING, lambda values: {"message": values[0]}, allowed_plugins=())
        return await claiming(calls, ["me"], unlimited, ignore)

    assert await claim() == ({"handled": True, "by": "me"}, "builtin")
    remove()
    assert await claim() == ({"handled": True, "by": "p"}, "p")


# Law and order: whatever is done in whatever order, also by handlers, the registry does what a plain list would.

POINTS = {"v1": "void", "v2": "void", "m1": "modifying", "m2": "modifying", "c1": "claiming", "c2": "claiming"}
PLUGINS = ["", "one", "two"]

Action = tuple[Any, ...]


@dataclass(frozen=True)
class Script:
    """What a handler does: what it answers, whether and when it fails, and what it does to the registry meanwhile."""

    answer: Any
    fails: str | None
    waits: bool
    action: Action


PLAIN = Script(answer={"k": 0}, fails=None, waits=False, action=("nothing",))


@dataclass
class Entry:
    """One registration; `number` is that of its handler, which may be registered again."""

    number: int
    point: str
    plugin: str
    script: Script
    there: bool = True


@dataclass
class Model:
    """A registry as a plain list; what is called is noted in `trace`."""

    entries: list[Entry] = field(default_factory=list)
    trace: list[Any] = field(default_factory=list)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    def register(self, point: str, plugin: str, script: Script) -> None:
        self.entries.append(Entry(len(self.entries), point, plugin, script))

    def again(self, number: int) -> None:
        if self.entries:
            self.entries.append(replace(self.entries[number % len(self.entries)], there=True))

    def remove(self, number: int) -> None:
        if self.entries:
            self.entries[number % len(self.entries)].there = False

    def unregister(self, plugin: str) -> None:
        for entry in self.entries:
            entry.there &= entry.plugin == "" or entry.plugin != plugin

    def at(self, point: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.there and entry.point == point]

    def act(self, action: Action) -> None:
        match action:
            case ("register", point, plugin):
                self.register(point, plugin, PLAIN)
            case ("again", number):
                self.again(number)
            case ("remove", number):
                self.remove(number)
            case ("unregister", plugin):
                self.unregister(plugin)

    def fire(self, point: str, allowed: list[str] | None, depth: int = 0) -> Any:
        kind = POINTS[point]
        merged: dict[str, Any] = {}
        for entry in [one for one in self.at(point) if one.plugin in ("", *(allowed or ()))]:
            self.trace.append((entry.number, depth))
            script = entry.script
            self.act(script.action)
            if script.action[0] == "fire" and kind != "void" and depth < 2:
                self.trace.append(self.fire(*script.action[1:], depth=depth + 1))
            is_wrong = kind != "void" and script.answer is not None and not isinstance(script.answer, dict)
            if script.fails or is_wrong:
                self.failures[point, entry.plugin or "builtin"] += 1
            elif kind == "modifying":
                for key, value in (script.answer or {}).items():
                    if value is not None and key not in merged:
                        merged[key] = value
            elif kind == "claiming" and (script.answer or {}).get("handled"):
                return script.answer
        return {"void": None, "modifying": merged, "claiming": {"handled": False}}[kind]


@dataclass
class Real:
    """The registry itself, with handlers that do what their scripts say."""

    registry: HookRegistry = field(default_factory=lambda: HookRegistry(POINTS))
    removes: list[Callable[[], None]] = field(default_factory=list)
    registered: list[tuple[Any, ...]] = field(default_factory=list)
    trace: list[Any] = field(default_factory=list)

    def register(self, point: str, plugin: str, script: Script) -> None:
        number, kind = len(self.removes), POINTS[point]

        def handler(payload: Any) -> Any:
            depth = payload["depth"]
            self.trace.append((number, depth))
            self.act(script.action)
            fires = script.action[0] == "fire" and kind != "void" and depth < 2
            if script.fails == "at once" and not fires:
                raise RuntimeError
            if not (fires or script.waits or script.fails):
                return script.answer

            async def rest() -> Any:
                await trio.sleep(number % 3)
                if fires:
                    self.trace.append(await self.fire(*script.action[1:], depth=depth + 1))
                if script.fails:
                    raise RuntimeError
                return script.answer

            return rest()

        self._register(point, handler, plugin)

    def _register(self, *registration: Any) -> None:
        register = getattr(self.registry, f"register_{POINTS[registration[0]]}")
        self.removes.append(register(*registration))
        self.registered.append(registration)

    def act(self, action: Action) -> None:
        match action:
            case ("register", point, plugin):
                self.register(point, plugin, PLAIN)
            case ("again", number):
                if self.registered:
                    self._register(*self.registered[number % len(self.registered)])
            case ("remove", number):
                if self.removes:
                    self.removes[number % len(self.removes)]()
            case ("unregister", plugin):
                self.registry.unregister_plugin(plugin)

    async def fire(self, point: str, allowed: list[str] | None, depth: int = 0) -> Any:
        return await getattr(self.registry, f"fire_{POINTS[point]}")(point, {"depth": depth}, allowed)


points = st.sampled_from(sorted(POINTS))
plugins = st.sampled_from(PLUGINS)
numbers = st.integers(0, 9)
allowances = st.none() | st.lists(plugins, max_size=2)
values = st.sampled_from([None, "", 0, False, 1, "text"])
answers = st.sampled_from([None, "text", 7, {"handled": True, "reply": "x"}, {"handled": False}]) | st.dictionaries(
    st.sampled_from("abc"), values, max_size=2
)
actions = (
    st.just(("nothing",))
    | st.tuples(st.just("register"), points, plugins)
    | st.tuples(st.sampled_from(["again", "remove"]), numbers)
    | st.tuples(st.just("unregister"), st.sampled_from([*PLUGINS, "builtin"]))
    | st.tuples(st.just("fire"), points, allowances)
)
scripts = st.builds(Script, answers, st.sampled_from([None, None, "at once", "later"]), st.booleans(), actions)


class RegistryMachine(RuleBasedStateMachine):
    """Registers, removes and fires, from outside and from inside of handlers, and compares with the model."""

    @initialize()
    def begin_anew(self) -> None:
        self.model, self.real = Model(), Real()

    @rule(point=points, plugin=plugins, script=scripts)
    def register(self, point: str, plugin: str, script: Script) -> None:
        self.model.register(point, plugin, script)
        self.real.register(point, plugin, script)

    @rule(action=st.tuples(st.sampled_from(["again", "remove"]), numbers) | actions)
    def change(self, action: Action) -> None:
        self.model.act(action)
        self.real.act(action)

    @rule(point=points, allowed=allowances)
    def fire(self, point: str, allowed: list[str] | None) -> None:
        expected = self.model.fire(point, allowed)
        assert trio.run(self.real.fire, point, allowed, clock=MockClock(autojump_threshold=0)) == expected
        assert self.real.trace == self.model.trace
        self.real.trace.clear()
        self.model.trace.clear()

    @invariant()
    def the_same_are_registered(self) -> None:
        for point in POINTS:
            there = self.model.at(point)
            assert self.real.registry.has_handlers(point) == bool(there)
            found = self.real.registry.handlers(point, PLUGINS)
            assert [call.plugin for call in found] == [entry.plugin or "builtin" for entry in there]
        assert self.real.registry.failures == self.model.failures


def test_whatever_handlers_do_to_it_the_registry_does_what_a_plain_list_would() -> None:
    run_state_machine_as_test(
        RegistryMachine, settings=settings(max_examples=60, stateful_step_count=25, deadline=None)
    )
