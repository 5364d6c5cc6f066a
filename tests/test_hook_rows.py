"""Rows H1 to H10, H16 and H17: which implementations are called, in which order, and what their answers become."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest
import trio
from fakes.hooks import answering, answering_later, findings_of, manager_of, only_finding, runtime_of
from fakes.toys import HELLO, Toy, Workshop
from hypothesis import given
from hypothesis import strategies as st

from bub import hookimpl
from bub.errors import HookError
from bub.hooks.implementations import implementations_of
from bub.hookspecs import BUB_HOOK_NAMESPACE, HOOK_POINTS, BubHookSpecs

pytestmark = pytest.mark.anyio


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
