"""How hooks are called, row by row: each test is named after the row H1-H32 of the list of behaviours it holds to."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest
import trio
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, outcomes, raising
from hypothesis import given
from hypothesis import strategies as st

from bub import BubFramework, hookimpl
from bub.base.diagnostics import Diagnostic, PipelineError
from bub.errors import HookError, HookTypeError
from bub.hook_runtime import HookRuntime
from bub.hooks.implementations import implementations_of
from bub.hookspecs import BUB_HOOK_NAMESPACE, HOOK_POINTS, BubHookSpecs
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tape import TapeContext

pytestmark = pytest.mark.anyio

CLASSIC = "extends: bub:classic"
ETHOS = "extends: bub:ethos"
MODEL: dict[str, Any] = {"prompt": "hello", "session_id": "s", "state": {}}
SYNC_ONLY = {
    "provide_bus",
    "register_cli_commands",
    "onboard_config",
    "provide_channels",
    "provide_tape_store",
    "provide_tools",
    "build_tape_context",
    "system_prompt",
}


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


# H1, H2: names.


async def test_H1_a_marker_made_by_hand_marks_hooks_as_well() -> None:
    assert BUB_HOOK_NAMESPACE == hookimpl.project_name == "bub"
    by_hand = pluggy.HookimplMarker("bub")
    another = pluggy.HookimplMarker("another_project")
    plugins = {"by_hand": Toy(build_prompt=by_hand(lambda: "mine"))}
    stranger = SimpleNamespace(build_prompt=another(lambda: "not mine"))
    assert await runtime_of(**plugins, stranger=stranger).call_many("build_prompt", message={}) == ["mine"]


def test_H1_all_specs_live_in_one_class() -> None:
    manager = manager_of()
    for name in HOOK_POINTS:
        caller = getattr(manager.hook, name)
        assert caller.spec.namespace is BubHookSpecs


def test_H2_builtin_is_asked_last_and_installed_plugins_come_from_the_group_bub(
    bub: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "boxed_toy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxed-toy\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[bub]\nboxed = toy_box:installed\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    bub.plugin("installed", answering(build_prompt="from the package"))
    framework = bub("extends: bub:default\nprofiles: {default: {plugins: [boxed]}}")
    assert framework.hook_report()["build_prompt"] == ["boxed", "builtin"]


# H3, H4: order.


async def test_H3_the_last_registered_is_asked_first() -> None:
    hooks = runtime_of(a=answering(build_prompt="a"), b=answering(build_prompt="b"), c=answering(build_prompt="c"))
    assert await hooks.call_many("build_prompt", message={}) == ["c", "b", "a"]
    assert await hooks.call_first("build_prompt", message={}) == "c"
    assert hooks.call_first_sync("build_prompt", message={}) == "c"


async def test_H3_a_plugin_beats_builtin(bub: Workshop) -> None:
    framework = bub(mine=answering(resolve_session="mine", run_model="hi"))
    assert (await framework.process_inbound(HELLO)).session_id == "mine"


async def test_H4_tryfirst_and_trylast_stand_around_the_others() -> None:
    hooks = runtime_of(
        a=answering(build_prompt="a"),
        b=Toy(build_prompt=hookimpl(lambda: "b", trylast=True)),
        c=Toy(build_prompt=hookimpl(lambda: "c", tryfirst=True)),
        d=answering(build_prompt="d"),
    )
    assert await hooks.call_many("build_prompt", message={}) == ["c", "d", "a", "b"]


MARKS = st.sampled_from([{}, {"tryfirst": True}, {"trylast": True}])


@given(st.lists(st.lists(MARKS, min_size=1, max_size=2), max_size=6))
def test_H4_the_order_is_always_the_reverse_of_pluggys(plugins: list[list[dict[str, bool]]]) -> None:
    """Also for a plugin with two functions for one hook."""

    def toy(marks: list[dict[str, bool]]) -> Toy:
        functions = [hookimpl(lambda: None, specname="build_prompt", **mark) for mark in marks]
        return Toy(**{f"function_{index}": function for index, function in enumerate(functions)})

    manager = manager_of(**{f"p{index}": toy(marks) for index, marks in enumerate(plugins)})
    found = [implementation.function for implementation in implementations_of(manager, "build_prompt")]
    assert found == [impl.function for impl in reversed(manager.hook.build_prompt.get_hookimpls())]


async def test_H4_in_a_turn_trylast_comes_even_after_builtin(bub: Workshop) -> None:
    late = Toy(resolve_session=hookimpl(lambda: "late", trylast=True), run_model=lambda: "hi")
    framework = bub(late=late)
    assert framework.hook_report()["resolve_session"] == ["builtin", "late"]
    assert (await framework.process_inbound(HELLO)).session_id == "cli:local"


# H5: wrappers.


def a_wrapper() -> Iterator[None]:
    yield


@pytest.mark.parametrize("mark", [{"wrapper": True}, {"hookwrapper": True}], ids=["new", "old"])
def test_H5_a_wrapper_does_not_compile(bub: Workshop, mark: dict[str, Any]) -> None:
    finding = only_finding(bub, wraps=Toy(build_prompt=hookimpl(a_wrapper, **mark)))
    assert (finding.code, finding.severity) == ("B206", "error")
    assert "`wraps`" in finding.message and "`build_prompt`" in finding.message
    assert finding.file.endswith("test_hook_rows.py")


async def test_H5_outside_a_pipeline_a_wrapper_is_refused_when_its_hook_is_called() -> None:
    hooks = runtime_of(low=answering(build_prompt="low"), wraps=Toy(build_prompt=hookimpl(a_wrapper, wrapper=True)))
    with pytest.raises(HookError, match=r"plugin `wraps` implements build_prompt as a wrapper"):
        await hooks.call_first("build_prompt", message={})
    with pytest.raises(HookError, match="wrapper"):
        hooks.call_many_sync("build_prompt", message={})


# H6, H7, H8: what a call comes to.


@pytest.mark.parametrize("answer", ["", 0, False, [], {}], ids=repr)
async def test_H6_anything_but_none_is_an_answer(answer: Any) -> None:
    low = answering(resolve_session="low")
    for high in (answering(resolve_session=answer), answering_later(resolve_session=answer)):
        hooks = runtime_of(low=low, high=high)
        assert await hooks.call_first("resolve_session", message={}) == answer
    assert runtime_of(low=low, high=answering(resolve_session=answer)).call_first_sync("resolve_session") == answer


async def test_H6_none_asks_the_next() -> None:
    hooks = runtime_of(low=answering(resolve_session="low"), high=answering_later(resolve_session=None))
    assert await hooks.call_first("resolve_session", message={}) == "low"


@pytest.mark.parametrize("hook", ["resolve_session", "no_such_hook"])
async def test_H7_a_hook_without_implementations_comes_to_nothing(hook: str) -> None:
    hooks = runtime_of(other=answering(build_prompt="text"))
    assert await hooks.call_first(hook, message={}) is None
    assert await hooks.call_many(hook, message={}) == []
    assert hooks.call_first_sync(hook, message={}) is None
    assert hooks.call_many_sync(hook, message={}) == []


async def test_H7_when_nobody_answers_the_first_result_is_none() -> None:
    hooks = runtime_of(a=answering(resolve_session=None), b=answering_later(resolve_session=None))
    assert await hooks.call_first("resolve_session", message={}) is None


def test_H7_a_stage_with_an_unknown_hook_does_not_compile(bub: Workshop) -> None:
    finding = only_finding(
        bub,
        """
        extends: bub:default
        stages:
          greet: {kind: firstresult, hook: build_promt, into: greeting, default: hi, after: build_prompt}
        """,
        model=answering(run_model="hi"),
    )
    assert finding.code == "B150"
    assert finding.help == "did you mean `build_prompt`?"
    assert finding.path == "stages.greet.hook"


async def test_H8_all_results_come_in_order_and_none_among_them() -> None:
    hooks = runtime_of(a=answering(load_state={"a": 1}), b=answering_later(load_state=None), c=answering(load_state={}))
    assert await hooks.call_many("load_state", message={}, session_id="s") == [{}, None, {"a": 1}]


def test_H8_a_synchronous_call_leaves_only_what_had_to_be_awaited_out() -> None:
    hooks = runtime_of(a=answering(load_state={"a": 1}), b=answering_later(load_state={}), c=answering(load_state=None))
    assert hooks.call_many_sync("load_state", message={}, session_id="s") == [None, {"a": 1}]


# H9, H10: waiting.


async def test_H9_whatever_can_be_awaited_is_awaited() -> None:
    class Later:
        def __await__(self) -> Any:
            yield from trio.lowlevel.checkpoint().__await__()  # noqa: ASYNC105 (this is how it is awaited here)
            return "later"

    hooks = runtime_of(low=answering_later(build_prompt="low"), high=answering(build_prompt=Later()))
    assert await hooks.call_first("build_prompt", message={}) == "later"


@pytest.mark.parametrize(("thread", "beside"), [("true", True), ("false", False)])
async def test_H9_plain_functions_run_in_a_thread_where_the_file_says_so(
    bub: Workshop, thread: str, beside: bool
) -> None:
    ran_in = []

    def note() -> None:
        ran_in.append(threading.get_ident())

    async def note_async() -> None:
        note()

    framework = bub(
        f"extends: bub:default\nstages: {{build_prompt: {{thread: {thread}}}}}",
        model=answering(run_model="hi"),
        asynchronous=Toy(build_prompt=note_async),
        plain=Toy(build_prompt=note),
    )
    await framework.process_inbound(HELLO)
    plain, asynchronous = ran_in
    assert (plain != threading.get_ident()) is beside
    assert asynchronous == threading.get_ident()


async def test_H10_implementations_of_one_hook_run_one_after_another() -> None:
    seen: list[str] = []

    def walker(name: str) -> Toy:
        async def walk() -> None:
            seen.append(f"+{name}")
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            seen.append(f"-{name}")

        return Toy(save_state=walk)

    await runtime_of(a=walker("a"), b=walker("b"), c=walker("c")).call_many("save_state")
    assert seen == ["+c", "-c", "+b", "-b", "+a", "-a"]


# H11, H12: where nothing can be awaited.


class Coroutines:
    """Holds a `function` that is plain to look at, but returns a coroutine; `all` are those it returned."""

    def __init__(self) -> None:
        self.all: list[Any] = []

        async def answer() -> str:
            return "never"

        def function() -> Any:
            self.all.append(answer())
            return self.all[-1]

        self.function = function

    def assert_closed(self) -> None:
        assert self.all
        assert [inspect.getcoroutinestate(one) for one in self.all] == [inspect.CORO_CLOSED] * len(self.all)


@pytest.fixture
def coroutines() -> Coroutines:
    return Coroutines()


WARNING = "hook.async_not_supported hook={} adapter=late"


def test_H11_a_synchronous_call_skips_closes_and_warns_of_what_must_be_awaited(
    log: list[str], coroutines: Coroutines
) -> None:
    hooks = runtime_of(low=answering(system_prompt="low"), late=Toy(system_prompt=coroutines.function))
    assert hooks.call_first_sync("system_prompt", prompt="", state={}) == "low"
    assert hooks.call_many_sync("system_prompt", prompt="", state={}) == ["low"]
    coroutines.assert_closed()
    assert log == [WARNING.format("system_prompt")] * 2


async def test_H11_a_stage_of_a_sync_only_hook_does_the_same(
    bub: Workshop, log: list[str], coroutines: Coroutines
) -> None:
    seen: list[str] = []

    def model(system: str) -> str:
        seen.append(system)
        return "hi"

    framework = bub(
        ETHOS, low=answering(system_prompt="Be brief."), late=Toy(system_prompt=coroutines.function, run_model=model)
    )
    await framework.process_inbound(HELLO)
    coroutines.assert_closed()
    assert len(seen) == 1 and seen[0].endswith("\n\nBe brief.")
    assert log == [WARNING.format("system_prompt")]


BOOTSTRAP: dict[str, Callable[[BubFramework], Any]] = {
    "onboard_config": lambda framework: framework.collect_onboard_config({"a": 1}),
    "provide_channels": lambda framework: list(framework.get_channels(handler)),
    "build_tape_context": lambda framework: framework.build_tape_context(),
    "register_cli_commands": lambda framework: framework.create_cli_app().registered_commands,
    "system_prompt": lambda framework: framework.get_system_prompt("", {}).endswith("never"),
}
WITHOUT: dict[str, Any] = {
    "onboard_config": {"a": 1},
    "provide_channels": ["cli"],  # the builtin plugin's terminal
    "build_tape_context": TapeContext(),  # the builtin plugin's
    "register_cli_commands": [],
    "system_prompt": False,
}


@pytest.mark.parametrize("hook", BOOTSTRAP)
def test_H11_what_the_framework_calls_by_itself_does_the_same(
    bub: Workshop, log: list[str], coroutines: Coroutines, hook: str
) -> None:
    framework = bub(late=Toy(**{hook: coroutines.function}))
    assert BOOTSTRAP[hook](framework) == WITHOUT[hook]
    coroutines.assert_closed()
    assert log == [WARNING.format(hook)]


async def test_H11_the_tape_store_does_the_same(bub: Workshop, log: list[str], coroutines: Coroutines) -> None:
    framework = bub(low=answering(provide_tape_store="store"), late=Toy(provide_tape_store=coroutines.function))
    async with framework.running():
        assert framework.get_tape_store() == "store"
    coroutines.assert_closed()
    assert log == [WARNING.format("provide_tape_store")]


def test_H12_these_hooks_are_sync_only() -> None:
    assert {name for name, point in HOOK_POINTS.items() if point.sync_only} == SYNC_ONLY


@pytest.mark.parametrize("hook", sorted(SYNC_ONLY))
def test_H12_an_async_implementation_of_a_sync_only_hook_does_not_compile(bub: Workshop, hook: str) -> None:
    finding = only_finding(bub, late=answering_later(**{hook: None}))
    assert finding.code == "B203"
    assert "`late`" in finding.message and f"`{hook}`" in finding.message
    assert finding.help == "write it as a plain `def`"


# H13, H14, H15: arguments.


async def test_H13_an_implementation_gets_only_what_it_names() -> None:
    got: list[tuple[Any, ...]] = []
    hooks = runtime_of(
        none=Toy(load_state=lambda: got.append(())),
        one=Toy(load_state=lambda session_id: got.append((session_id,))),
        swapped=Toy(load_state=lambda session_id, message: got.append((session_id, message))),
    )
    await hooks.call_many("load_state", message="m", session_id="s")
    assert got == [("s", "m"), ("s",), ()]


NAMES = st.lists(st.sampled_from("abcd"), unique=True)


@given(
    given_names=NAMES, required=NAMES, optional=NAMES, keyword_only=st.sets(st.sampled_from("abcd")), all_=st.booleans()
)
def test_H14_every_signature_gets_all_it_can_take(
    given_names: list[str], required: list[str], optional: list[str], keyword_only: set[str], all_: bool
) -> None:
    required = [name for name in required if name in given_names]
    optional = [name for name in optional if name not in required]
    by_position = [name for name in required if name not in keyword_only]
    by_position += [f"{name}='default'" for name in optional if name not in keyword_only]
    by_keyword = [name for name in required if name in keyword_only]
    by_keyword += [f"{name}='default'" for name in optional if name in keyword_only]
    star = ["*"] if by_keyword else []
    signature = ", ".join([*by_position, *star, *by_keyword, *(["**others"] if all_ else [])])
    implementation = eval(f"lambda {signature}: locals()")
    values = {name: f"value of {name}" for name in given_names}

    manager = pluggy.PluginManager(BUB_HOOK_NAMESPACE)
    manager.register(Toy(own_hook=implementation), "own")
    (got,) = HookRuntime(manager).call_many_sync("own_hook", **values)

    named = {*required, *optional}
    expected: dict[str, Any] = {name: values.get(name, "default") for name in named}
    if all_:
        expected["others"] = {name: value for name, value in values.items() if name not in named}
    assert got == expected


async def test_H14_in_a_turn_parameters_with_defaults_and_all_others_are_passed(bub: Workshop) -> None:
    got: dict[str, Any] = {}

    def with_default(session_id: str, workspace: Any = "nowhere", unknown: str = "default") -> None:
        got.update(session_id=session_id, workspace=workspace, unknown=unknown)

    def with_all(message: Any, **others: Any) -> None:
        got["others"] = set(others)

    framework = bub(low=Toy(build_prompt=with_all), high=Toy(load_state=with_default, run_model=lambda: "hi"))
    await framework.process_inbound(HELLO)
    assert got == {
        "session_id": "cli:local",
        "workspace": bub.folder,
        "unknown": "default",
        "others": {"session_id", "state", "inbound", "profile", "workspace", "fire"},
    }


def test_H14_the_bootstrap_hooks_pass_them_too(bub: Workshop) -> None:
    got: dict[str, Any] = {}

    def commands(app: Any = None) -> None:
        got["app"] = app

    def onboard(**others: Any) -> None:
        got["onboard"] = others

    def channels(message_handler: Any = None) -> None:
        got["handler"] = message_handler

    framework = bub(toy=Toy(register_cli_commands=commands, onboard_config=onboard, provide_channels=channels))
    framework.create_cli_app()
    framework.collect_onboard_config({"a": 1})
    framework.get_channels(handler)
    assert got["app"] is not None
    assert got["onboard"] == {"current_config": {"a": 1}, "ask": None}
    assert got["handler"] is handler


async def test_H14_what_a_known_hook_has_but_nobody_gave_is_none() -> None:
    toy = Toy(render_outbound=lambda message, state, session_id="default": (message, state, session_id))
    assert await runtime_of(toy=toy).call_first("render_outbound", message="m") == ("m", None, "default")


def test_H15_an_argument_that_the_hook_does_not_have_does_not_compile(bub: Workshop) -> None:
    finding = only_finding(bub, wrong=Toy(build_prompt=lambda mesage: "text"))
    assert finding.code == "B202"
    assert "`wrong`" in finding.message and "`mesage`" in finding.message
    assert finding.help == "did you mean `message`?"


def test_H15_an_argument_that_this_pipeline_does_not_offer_does_not_compile(bub: Workshop) -> None:
    finding = only_finding(bub, CLASSIC, wrong=Toy(load_state=lambda message: {}))
    assert finding.code == "B202"
    assert "narrows it to session_id" in finding.message


def test_H15_a_manager_with_the_specs_refuses_it_at_once() -> None:
    with pytest.raises(pluggy.PluginValidationError, match="mesage"):
        manager_of(wrong=Toy(build_prompt=lambda mesage: "text"))


# H16, H17: names again.


def test_H16_a_misspelt_hook_does_not_compile(bub: Workshop) -> None:
    def resolve_sesion() -> str:
        return "never"

    finding = only_finding(bub, misspelt=Toy(resolve_sesion=resolve_sesion))
    assert (finding.code, finding.help) == ("B201", "did you mean `resolve_session`?")
    assert finding.file.endswith("test_hook_rows.py")
    assert finding.range.start.line == resolve_sesion.__code__.co_firstlineno


def test_H16_everything_that_is_wrong_is_reported_at_once(bub: Workshop) -> None:
    found = findings_of(
        bub,
        misspelt=answering(resolve_sesion="x"),
        wraps=Toy(build_prompt=hookimpl(a_wrapper, wrapper=True)),
        late=answering_later(system_prompt="x"),
        greedy=Toy(build_prompt=lambda mesage: "x"),
    )
    assert sorted(finding.code for finding in found) == ["B201", "B202", "B203", "B206"]


def test_H17_one_name_or_one_object_twice_is_refused_by_the_manager() -> None:
    manager = manager_of(a=answering(build_prompt="a"))
    with pytest.raises(ValueError, match="a"):
        manager.register(answering(build_prompt="b"), "a")
    with pytest.raises(ValueError, match="already registered"):
        manager.register(manager.get_plugin("a"), "b")


def test_H17_a_profile_that_lists_one_name_or_one_object_twice_does_not_compile(bub: Workshop) -> None:
    toy = answering(build_prompt="a")
    assert [finding.code for finding in findings_of(bub, a=toy, b=toy)] == ["B161"]
    twice = "extends: bub:default\nplugins: {a: {path: a.py}}\nprofiles: {default: {plugins: [a, a]}}"
    assert [finding.code for finding in findings_of(bub, twice, a=toy)] == ["B105"]


# H18 to H22: failures.


async def test_H18_what_an_implementation_raises_leaves_the_call() -> None:
    asked: list[str] = []
    low = Toy(save_state=lambda: asked.append("low"), build_prompt=lambda: asked.append("low"))
    error = OSError("disk full")
    hooks = runtime_of(low=low, high=Toy(save_state=raising(error), build_prompt=raising(error)))
    for call in (hooks.call_first("build_prompt"), hooks.call_many("save_state")):
        with pytest.raises(OSError, match="disk full") as raised:
            await call
        assert raised.value is error
    for call_sync in (hooks.call_first_sync, hooks.call_many_sync):
        with pytest.raises(OSError, match="disk full"):
            call_sync("build_prompt")
    assert asked == []


async def test_H18_a_failure_ends_the_turn_and_is_told_as_the_turns(bub: Workshop) -> None:
    errors, error = Errors(), OSError("disk full")
    framework = bub(low=answering(run_model="hi"), high=Toy(build_prompt=raising(error), on_error=errors.told))
    with pytest.raises(OSError, match="disk full") as raised:
        await framework.process_inbound(HELLO)
    assert raised.value is error
    assert errors.all == [("turn", error)]


async def test_H18_a_stage_that_skips_goes_on_with_the_next(bub: Workshop) -> None:
    errors, error = Errors(), OSError("disk full")
    framework = bub(
        "extends: bub:default\nstages: {build_prompt: {on_failure: skip}}",
        low=answering(build_prompt="low", run_model="hi"),
        high=Toy(build_prompt=raising(error), on_error=errors.told),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.prompt, result.model_output) == ("low", "hi")
    assert errors.all == [("build_prompt:high", error)]


async def test_H19_every_observer_is_told_whatever_the_others_do(log: list[str]) -> None:
    seen: list[tuple[str, str, Any]] = []

    def observer(stage: str, error: Exception, message: Any) -> None:
        seen.append((stage, str(error), message))

    async def later(stage: str, error: Exception, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        observer(stage, error, message)

    hooks = runtime_of(
        a=Toy(on_error=observer),
        b=Toy(on_error=raising(KeyError("b"))),
        c=Toy(on_error=later),
        d=Toy(on_error=raising(KeyError("d"))),
    )
    await hooks.notify_error(stage="turn", error=OSError("disk full"), message="m")
    assert seen == [("turn", "disk full", "m")] * 2
    assert [line.split(" error=")[0] for line in log] == [
        "hook.on_error_failed stage=turn adapter=d",
        "hook.on_error_failed stage=turn adapter=b",
    ]


def test_H19_the_synchronous_way_skips_async_observers_with_a_warning(log: list[str], coroutines: Coroutines) -> None:
    errors = Errors()
    hooks = runtime_of(
        a=Toy(on_error=errors.told), late=Toy(on_error=coroutines.function), c=Toy(on_error=raising(KeyError("c")))
    )
    hooks.notify_error_sync(stage="start", error=OSError("disk full"))
    assert errors.stages == ["start"]
    coroutines.assert_closed()
    assert log[0].startswith("hook.on_error_failed stage=start adapter=c")
    assert log[1] == WARNING.format("on_error")


async def test_H20_a_cancellation_passes_through_an_observer() -> None:
    errors = Errors()
    hooks = runtime_of(low=Toy(on_error=errors.told), hangs=Toy(on_error=trio.sleep_forever))
    with trio.CancelScope() as scope:
        scope.cancel()
        await hooks.notify_error(stage="turn", error=OSError())
    assert scope.cancelled_caught
    assert errors.stages == []


async def test_H20_an_interrupt_passes_through_an_observer() -> None:
    hooks = runtime_of(interrupted=Toy(on_error=raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        await hooks.notify_error(stage="turn", error=OSError())
    with pytest.raises(KeyboardInterrupt):
        hooks.notify_error_sync(stage="turn", error=OSError())


async def test_H22_an_observer_that_fails_does_not_hide_the_error(bub: Workshop) -> None:
    errors, error = Errors(), OSError("disk full")
    framework = bub(
        low=Toy(build_prompt=raising(error), on_error=errors.told), high=Toy(on_error=raising(KeyError("observer")))
    )
    with pytest.raises(OSError, match="disk full") as raised:
        await framework.process_inbound(HELLO)
    assert raised.value is error
    assert errors.all == [("turn", error)]


# H23, H24: what is loaded.


def test_H23_the_report_gives_each_implemented_hook_in_the_order_it_is_asked() -> None:
    hooks = runtime_of(
        a=answering(save_state=None, build_prompt="a"),
        b=Toy(build_prompt=hookimpl(lambda: "b", trylast=True)),
        c=answering(build_prompt="c"),
    )
    assert hooks.hook_report() == {"build_prompt": ["c", "a", "b"], "save_state": ["a"]}
    assert list(hooks.hook_report()) == ["build_prompt", "save_state"]


def test_H24_all_plugins_are_imported_before_the_first_is_made(bub: Workshop) -> None:
    seen: list[str] = []

    def maker(name: str) -> type:
        class Made:
            def __init__(self, framework: ProfileView) -> None:
                assert (framework.profile, framework.workspace) == ("default", bub.folder)
                seen.append(f"made {name}")

            @hookimpl
            def save_state(self) -> None:
                return None

        return Made

    for name in ("first", "second"):
        bub.plugin(name, maker(name))
        file = bub.folder / f"{name}.py"
        file.write_text(file.read_text() + f"from toy_box import seen\nseen.append('imported {name}')\n")
    bub.plugin("seen", seen)
    paths = "{first: {path: first.py}, second: {path: second.py}}"
    bub(f"extends: bub:default\nplugins: {paths}\nprofiles: {{default: {{plugins: [first, second]}}}}")
    assert seen == ["imported first", "imported second", "made first", "made second"]


def test_H24_a_plugin_that_fails_in_either_phase_leaves_the_others_to_be_looked_at(bub: Workshop) -> None:
    def cannot_be_made(framework: BubFramework) -> object:
        raise OSError("no connection")

    (bub.folder / "unreadable.py").write_text("import no_such_module_anywhere\n", encoding="utf-8")
    pipeline = (
        "extends: bub:default\n"
        "plugins: {unreadable: {path: unreadable.py}, unmade: {path: unmade.py}, misspelt: {path: misspelt.py}}\n"
        "profiles: {default: {plugins: [unreadable, unmade, misspelt]}}"
    )
    found = findings_of(bub, pipeline, unmade=cannot_be_made, misspelt=answering(build_promt="x"))
    assert sorted(finding.code for finding in found) == ["B200", "B200", "B201"]
    assert any("no connection" in finding.message for finding in found)


# H25 to H29: the model.


async def handler(message: Any) -> None:
    """What channels are given to hand messages to."""


async def both_ways(**plugins: object) -> list[str | None]:
    """What `HookRuntime` gives as one text and as a stream, and what a turn of each pipeline gives."""
    hooks = runtime_of(**plugins)
    events = await hooks.run_model_stream(**MODEL)
    streamed = None
    if events is not None:
        streamed = "".join([event.data["delta"] async for event in events if event.kind == "text"])
    return [await hooks.run_model(**MODEL), streamed]


async def turns(bub: Workshop, **plugins: object) -> list[str | None]:
    """The model's output in a turn of the default pipeline, whose stage streams, and of the classic one."""
    results = [await bub(f"extends: bub:{name}", **plugins).process_inbound(HELLO) for name in ("default", "classic")]
    return [result.model_output for result in results]


def streaming(*script: Any, **mark: Any) -> Toy:
    return Toy(run_model_stream=hookimpl(lambda: a_stream(*script), **mark))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: {"low": streaming("low"), "high": answering(run_model="high")}, "high"),
        (lambda: {"low": answering(run_model="low"), "high": streaming("hi", "gh")}, "high"),
        (lambda: {"low": streaming("low", tryfirst=True), "high": answering(run_model="high")}, "low"),
        (
            lambda: {
                "low": answering(run_model="low"),
                "high": Toy(run_model=hookimpl(lambda: "high", trylast=True)),
            },
            "low",
        ),
    ],
    ids=["text above", "stream above", "tryfirst", "trylast"],
)
async def test_H25_text_and_stream_models_are_asked_in_one_order(
    bub: Workshop, make: Callable[[], dict[str, object]], expected: str
) -> None:
    assert await both_ways(**make()) == [expected] * 2
    assert await turns(bub, **make()) == [expected] * 2


class Unmarked:
    """A plugin with an attribute of the name of a hook that is not marked as one."""

    def run_model(self) -> str:
        raise AssertionError("never called")

    run_model_stream = run_model

    @hookimpl
    def save_state(self) -> None:
        return None


async def test_H26_what_is_not_marked_is_no_hook_and_hides_none(bub: Workshop) -> None:
    assert await both_ways(low=streaming("low"), high=Unmarked()) == ["low"] * 2
    assert await turns(bub, low=streaming("low"), high=Unmarked()) == ["low"] * 2


OVERLOADED = StreamEvent("error", {"message": "overloaded"})


async def test_H27_a_stream_is_collected_and_its_errors_are_told() -> None:
    errors = Errors()
    hooks = runtime_of(model=streaming("par", OVERLOADED, "tial"), errors=Toy(on_error=errors.told))
    assert await hooks.run_model(**MODEL) == "partial"
    assert [(stage, str(error)) for stage, error in errors.all] == [("run_model", "overloaded")]


@pytest.mark.parametrize("pipeline", ["default", "classic"])
@pytest.mark.parametrize("stream_output", [True, False])
async def test_H27_in_a_turn_errors_of_the_stream_are_told_in_both_modes(
    bub: Workshop, pipeline: str, stream_output: bool
) -> None:
    errors = Errors()
    framework = bub(f"extends: bub:{pipeline}", m=streaming("par", OVERLOADED, "tial"), e=Toy(on_error=errors.told))
    result = await framework.process_inbound(HELLO, stream_output=stream_output)
    assert result.model_output == "partial"
    assert [(stage, str(error)) for stage, error in errors.all] == [("run_model", "overloaded")]


async def test_H27_a_text_is_a_stream_of_one_event(bub: Workshop) -> None:
    model = answering_later(run_model="all of it")
    events = await runtime_of(model=model).run_model_stream(**MODEL)
    assert isinstance(events, AsyncStreamEvents)
    expected = [StreamEvent("text", {"delta": "all of it"})]
    assert [event async for event in events] == expected

    seen: list[StreamEvent] = []
    await bub(model=model).process_inbound(HELLO, on_event=lambda event, message: seen.append(event))
    assert seen == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"low": answering(run_model="low"), "high": answering(run_model_stream=None)},
        lambda: {"low": streaming("low"), "high": answering(run_model=None)},
        lambda: {"low": streaming("low"), "mid": answering(run_model=None), "high": answering_later(run_model=None)},
    ],
    ids=["stream gives none", "text gives none", "several give none"],
)
async def test_H28_none_asks_the_next_whatever_form_it_answers_in(
    bub: Workshop, make: Callable[[], dict[str, object]]
) -> None:
    assert await both_ways(**make()) == ["low"] * 2
    assert await turns(bub, **make()) == ["low"] * 2


async def test_H28_when_no_model_answers_there_is_no_answer() -> None:
    assert await both_ways(a=answering(run_model=None), b=answering_later(run_model_stream=None)) == [None, None]
    assert await both_ways() == [None, None]


@pytest.mark.parametrize("wrong", [7, b"bytes", ["text"], {"text": "x"}], ids=repr)
async def test_H29_a_text_model_must_return_text(bub: Workshop, wrong: Any) -> None:
    hooks = runtime_of(wrong=answering(run_model=wrong))
    for call in (hooks.run_model, hooks.run_model_stream):
        with pytest.raises(HookTypeError, match=r"hook\.run_model must return str or None, but plugin `wrong`"):
            await call(**MODEL)
    with pytest.raises(HookTypeError, match=r"hook\.run_model must return str or None"):
        await bub(wrong=answering(run_model=wrong)).process_inbound(HELLO)


@pytest.mark.parametrize("wrong", ["text", 7, ["event"]], ids=repr)
async def test_H29_a_stream_model_must_return_a_stream(bub: Workshop, wrong: Any) -> None:
    hooks = runtime_of(wrong=answering_later(run_model_stream=wrong))
    for call in (hooks.run_model, hooks.run_model_stream):
        with pytest.raises(HookTypeError, match=r"hook\.run_model_stream must return AsyncStreamEvents or None"):
            await call(**MODEL)
    with pytest.raises(HookTypeError, match=r"hook\.run_model_stream must return AsyncStreamEvents or None"):
        await bub(wrong=answering_later(run_model_stream=wrong)).process_inbound(HELLO)


@pytest.mark.parametrize(
    "empty", [lambda: answering(run_model=""), lambda: streaming(), lambda: streaming("")], ids=["text", "no", "one"]
)
async def test_H29_an_empty_text_is_an_answer(bub: Workshop, empty: Callable[[], Toy]) -> None:
    low = answering(run_model="low")
    assert await both_ways(low=low, high=empty()) == ["", ""]
    assert await turns(bub, low=low, high=empty()) == ["", ""]


async def test_H29_an_asynchronous_generator_is_a_stream_too(bub: Workshop) -> None:
    async def run_model_stream() -> AsyncIterator[StreamEvent]:
        yield StreamEvent.text("gen")
        yield StreamEvent.text("erated")

    assert await both_ways(model=Toy(run_model_stream=run_model_stream)) == ["generated"] * 2
    assert await turns(bub, model=Toy(run_model_stream=run_model_stream)) == ["generated"] * 2


# H30: the classic pipeline isolates.


async def test_H30_a_failing_implementation_is_skipped_and_told_and_the_next_is_asked(bub: Workshop) -> None:
    errors = Errors()
    hooks = ["normalize_inbound", "resolve_session", "load_state", "build_prompt", "run_model", "save_state"]
    hooks += ["render_outbound", "dispatch_outbound"]
    failures = {hook: OSError(hook) for hook in hooks}
    sent: list[Any] = []
    low = Toy(
        resolve_session=lambda: "low",
        load_state=lambda: {"from": "low"},
        build_prompt=lambda: "low prompt",
        run_model=lambda: "low answer",
        dispatch_outbound=lambda message: sent.append(message["content"]),
    )
    high = Toy(on_error=errors.told, **{hook: raising(error) for hook, error in failures.items()})
    result = await bub(CLASSIC, low=low, high=high).process_inbound(HELLO)
    assert errors.all == [(f"{hook}:high", failures[hook]) for hook in hooks]
    assert (result.session_id, result.state, result.prompt) == ("low", {"from": "low"}, "low prompt")
    assert (result.model_output, sent) == ("low answer", ["low answer"])


async def test_H30_when_all_fail_the_default_holds_and_the_turn_completes(bub: Workshop) -> None:
    errors = Errors()
    broken = Toy(
        on_error=errors.told,
        load_state=raising(OSError("state")),
        build_prompt=raising(OSError("prompt")),
        run_model=hookimpl(raising(OSError("model")), tryfirst=True),
    )

    async def broken_too() -> str:
        raise OSError("model too")

    result = await bub(CLASSIC, low=Toy(run_model=broken_too), high=broken).process_inbound(HELLO)
    assert result.prompt == "hello"
    assert result.ended_by is None
    assert [record for record in result.trace if record.outcome in ("failed", "cancelled")] == []
    assert {"load_state:high", "build_prompt:high", "run_model:high", "run_model:low"} <= set(errors.stages)
    assert [(one["chat_id"], one["content"]) for one in result.outbounds or ()] == [("local", "hello")]
    assert {outcomes(result)[stage] for stage in ("load_state", "build_prompt", "run_model")} == {"default"}
    assert outcomes(result)["dispatch_outbound"] == "ok"


async def test_H30_observers_are_told_the_message_of_the_turn_whatever_the_hook_takes(bub: Workshop) -> None:
    told: list[tuple[str, Any]] = []
    high = Toy(
        on_error=lambda stage, message: told.append((stage, message["content"])),
        load_state=raising(OSError()),
        run_model=raising(OSError()),
    )
    await bub(CLASSIC, low=answering(run_model="hi"), high=high).process_inbound(HELLO)
    assert told == [("load_state:high", "hello"), ("run_model:high", "hello")]


async def test_H30_a_failing_observer_is_not_told_about_itself(bub: Workshop, log: list[str]) -> None:
    asked: list[str] = []

    def observer(stage: str) -> None:
        asked.append(stage)
        raise KeyError("observer")

    high = Toy(on_error=observer, build_prompt=raising(OSError()))
    result = await bub(CLASSIC, low=answering(run_model="hi"), high=high).process_inbound(HELLO)
    assert result.model_output == "hi"
    assert asked == ["build_prompt:high"]
    assert [line for line in log if line.startswith("hook.on_error_failed stage=build_prompt:high adapter=high")]


# H31, H32: what may be returned.


@pytest.mark.parametrize(
    ("pipeline", "make", "hook", "wrong", "expected"),
    [
        ("default", answering, "load_state", [("a", 1)], "dict or None"),
        ("default", answering_later, "load_state", [("a", 1)], "dict or None"),
        ("default", answering, "build_prompt", 7, "str or list or None"),
        ("default", answering_later, "build_prompt", 7, "str or list or None"),
        ("classic", answering, "load_state", "text", "dict or None"),
        ("ethos", answering, "system_prompt", ["text"], "str or None"),
        ("ethos", answering, "before_prompt_build", "text", "dict or None"),
    ],
)
async def test_H31_a_result_of_the_wrong_type_is_a_failure_that_names_the_plugin(
    bub: Workshop, pipeline: str, make: Callable[..., Toy], hook: str, wrong: Any, expected: str
) -> None:
    errors = Errors()
    framework = bub(
        f"extends: bub:{pipeline}", m=answering(run_model="hi"), e=Toy(on_error=errors.told), p=make(**{hook: wrong})
    )
    if pipeline == "classic" or hook == "before_prompt_build":  # where the policy leaves it out
        await framework.process_inbound(HELLO)
    else:
        with pytest.raises(HookTypeError):
            await framework.process_inbound(HELLO)
    ((_, error),) = errors.all
    assert isinstance(error, HookTypeError) and isinstance(error, TypeError)
    got = type(wrong).__name__
    assert str(error) == f"hook.{hook} must return {expected}, but plugin `p` returned {got}"


@pytest.mark.parametrize(
    ("hook", "wrong", "expected"),
    [("onboard_config", ["model"], "dict or None"), ("provide_channels", "telegram", "list or tuple or None")],
)
def test_H31_the_framework_checks_what_its_own_hooks_return(
    bub: Workshop, hook: str, wrong: Any, expected: str
) -> None:
    framework = bub(p=answering(**{hook: wrong}))
    with pytest.raises(HookTypeError) as raised:
        BOOTSTRAP[hook](framework)
    assert f"hook.{hook} must return {expected}, but plugin `p` returned {type(wrong).__name__}" == str(raised.value)


@pytest.mark.parametrize("hook", [name for name, point in HOOK_POINTS.items() if point.returns is not None])
async def test_H31_every_call_checks_and_none_is_always_allowed(hook: str) -> None:
    hooks = runtime_of(p=answering(**{hook: object()}), none=answering(**{hook: None}))
    for call in (hooks.call_first, hooks.call_many):
        with pytest.raises(HookTypeError, match=f"hook.{hook} must return"):
            await call(hook)
    for call_sync in (hooks.call_first_sync, hooks.call_many_sync):
        with pytest.raises(HookTypeError, match=f"hook.{hook} must return"):
            call_sync(hook)


def test_H32_a_plugin_without_channels_may_return_none(bub: Workshop) -> None:
    class Surface:
        def __init__(self, name: str, by: str) -> None:
            self.name, self.by = name, by

    framework = bub(
        low=answering(provide_channels=[Surface("telegram", "low"), Surface("cli", "low")]),
        none=answering(provide_channels=None),
        high=answering(provide_channels=(Surface("telegram", "high"),)),
    )
    channels = framework.get_channels(handler)
    assert {name: channel.by for name, channel in channels.items()} == {"telegram": "high", "cli": "low"}
    assert list(channels) == ["telegram", "cli"]
