"""Rows H13 to H15, H23, H24, H31 and H32: what implementations are given, what is loaded, and what may be returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy
import pytest
from fakes.hooks import (
    BOOTSTRAP,
    answering,
    answering_later,
    findings_of,
    handler,
    manager_of,
    only_finding,
    runtime_of,
)
from fakes.toys import HELLO, Errors, Toy, Workshop
from hypothesis import given
from hypothesis import strategies as st

from bub import BubFramework, hookimpl
from bub.errors import HookTypeError
from bub.hook_runtime import HookRuntime
from bub.hookspecs import BUB_HOOK_NAMESPACE, HOOK_POINTS
from bub.plugins.view import ProfileView

pytestmark = pytest.mark.anyio


CLASSIC = "extends: bub:classic"


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
    assert "gives the hook only session_id" in finding.message


def test_H15_a_manager_with_the_specs_refuses_it_at_once() -> None:
    with pytest.raises(pluggy.PluginValidationError, match="mesage"):
        manager_of(wrong=Toy(build_prompt=lambda mesage: "text"))


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
