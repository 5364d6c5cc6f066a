"""Findings that need the plugins loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.mistakes import VERSION, Write

from bub import BubFramework
from bub.base.diagnostics import (
    Diagnostic,
    PipelineError,
    Position,
    Range,
)
from bub.hooks.facts import REFUSED

pytestmark = pytest.mark.anyio


def plugin_findings(write: Write, pipeline: str, plugin: str, *, name: str = "guard") -> tuple[Diagnostic, ...]:
    """What is found when a pipeline is loaded with one plugin of its own; () when it compiles."""
    write("guard.py", f"from bub import hookimpl\n\n{plugin}")
    path = write("pipelines.yaml", f"{VERSION}plugins: {{{name}: {{path: guard.py}}}}\n{pipeline}")
    framework = BubFramework(config_file=path)
    try:
        framework.load_hooks()
    except PipelineError as error:
        return error.diagnostics
    return framework.warnings


LISTED = "extends: bub:default\nprofiles: {default: {plugins: [guard]}}\n"


GUARDED = LISTED + "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n"


IN_PLUGINS = [
    (
        "B200",
        LISTED,
        "import nothing_of_this_name",
        "import json",
        "plugin `guard` does not load: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "install the package that brings `nothing_of_this_name`, or take `guard` off the list",
    ),
    (
        "B201",
        LISTED,
        "@hookimpl  # here\ndef load_sate(): ...",
        "@hookimpl\ndef load_state(): ...",
        "plugin `guard` implements `load_sate`, which is not a hook",
        "did you mean `load_state`?",
    ),
    (
        "B202",
        LISTED,
        "@hookimpl  # here\ndef load_state(mesage): ...",
        "@hookimpl\ndef load_state(message): ...",
        "plugin `guard` asks `load_state` for `mesage`, but this hook has no such argument",
        "did you mean `message`?",
    ),
    (
        "B202",
        LISTED + "hooks: {load_state: {takes: [session_id]}}\n",
        "@hookimpl  # here\ndef load_state(message): ...",
        "@hookimpl\ndef load_state(session_id): ...",
        "plugin `guard` asks `load_state` for `message`, but this hook has no such argument; this pipeline gives the"
        " hook only session_id",
        "it has: session_id",
    ),
    (
        "B203",
        LISTED,
        "@hookimpl  # here\nasync def system_prompt(): ...",
        "@hookimpl\ndef system_prompt(): ...",
        "plugin `guard` implements `system_prompt` as `async def`, but Bub calls it from code that cannot await",
        "write it as a plain `def`",
    ),
    (
        "B205",
        LISTED,
        "@hookimpl  # here\ndef run_model(): ...\n\n@hookimpl\ndef run_model_stream(): ...",
        "@hookimpl\ndef run_model_stream(): ...",
        "plugin `guard` implements both `run_model` and `run_model_stream`, which answer the same question",
        "keep `run_model_stream`",
    ),
    (
        "B206",
        LISTED,
        "@hookimpl(wrapper=True)  # here\ndef load_state():\n    yield",
        "@hookimpl\ndef load_state(): ...",
        "plugin `guard` implements `load_state` as a wrapper, but Bub has no wrappers",
        "write it as a plain function; a stage of its own can run before or after another",
    ),
    (
        "B209",
        LISTED.replace("bub:default", "bub:ethos"),
        "@hookimpl  # here\ndef tool_gate(tool): ...",
        "@hookimpl\ndef on_error(error): ...",
        "plugin `guard` implements `tool_gate`, which this pipeline never calls, so it guards nothing",
        "use a pipeline that calls this hook, or add a stage or an entry under `hooks:` for it",
    ),
    (
        "B209",
        LISTED,
        "@hookimpl  # here\ndef message_received(): ...",
        "@hookimpl\ndef provide_channels(message_handler): ...",
        "plugin `guard` implements `message_received`, which this pipeline never calls",
        "use a pipeline that calls this hook, or add a stage or an entry under `hooks:` for it",
    ),
]


@pytest.mark.parametrize(("code", "pipeline", "wrong", "right", "message", "help_"), IN_PLUGINS)
def test_a_mistake_in_a_plugin_points_at_its_function(
    write: Write, code: str, pipeline: str, wrong: str, right: str, message: str, help_: str
) -> None:
    (finding,) = plugin_findings(write, pipeline, wrong)
    assert (finding.code, finding.message, finding.help) == (code, message, help_)
    if "# here" in wrong:
        assert Path(finding.file).name == "guard.py"
        before, name = re.findall(r"^((?:async )?def )(\w+)", wrong, re.MULTILINE)[0]
        start = len(before) + 1
        assert finding.range == Range(Position(4, start), Position(4, start + len(name)))
    else:
        assert finding.range == Range(Position(4, 32), Position(4, 37))  # where the profile lists it
    assert finding.severity == ("warning" if code == "B209" and "guards" not in message else "error")
    assert plugin_findings(write, pipeline, f"@hookimpl\ndef render_outbound(): ...\n{right}") == ()


def test_a_function_below_several_decorators_is_pointed_at_by_its_name(write: Write) -> None:
    decorated = "@hookimpl(\n    tryfirst=True,\n)\nasync  def  load_sate(\n    state): ..."
    (finding,) = plugin_findings(write, LISTED, decorated)
    assert (finding.code, finding.range) == ("B201", Range(Position(6, 13), Position(6, 22)))


def test_a_hook_point_of_a_package_need_not_be_declared_if_it_is_optional(write: Write) -> None:
    hooks = "@hookimpl(optional=True, tryfirst=True)\ndef moderate(prompt): ...\n@hookimpl\ndef load_state(): ..."
    assert plugin_findings(write, LISTED, hooks) == ()
    declared = (
        f"{LISTED}hooks: {{moderate: {{kind: gate, takes: [prompt]}}}}\nstages: {{moderate: {{before: run_model}}}}\n"
    )
    assert plugin_findings(write, declared, hooks) == ()
    (finding,) = plugin_findings(write, declared, hooks.replace("moderate(prompt)", "moderate(promt)"))
    assert finding.code == "B202"


def test_a_hook_that_will_not_come_says_what_to_do_instead(write: Write) -> None:
    for name, instead in REFUSED.items():
        (finding,) = plugin_findings(write, LISTED, f"@hookimpl\ndef {name}(): ...")
        assert (finding.code, finding.help) == ("B201", instead)


def test_a_function_without_a_def_is_pointed_at_by_its_line(write: Write) -> None:
    (finding,) = plugin_findings(write, LISTED, "load_sate = hookimpl(lambda: 1)\n\ndef load_sate_too(): ...")
    assert (finding.code, finding.range) == ("B201", Range(Position(3, 1), Position(3, 1)))


def test_a_gate_that_nothing_implements_is_an_error_at_its_stage(write: Write) -> None:
    (finding,) = plugin_findings(write, GUARDED, "@hookimpl\ndef load_state(): ...")
    assert finding.code == "B204"
    assert finding.message == "stage `moderate` is a gate that no plugin of profile `default` implements"
    assert finding.range == Range(Position(6, 10), Position(6, 18))
    assert finding.profile == "default"
    assert plugin_findings(write, GUARDED, "@hookimpl\ndef moderate(prompt): ...") == ()


def test_a_declared_point_that_nothing_implements_is_an_error_at_its_key(write: Write) -> None:
    pipeline = LISTED + "hooks: {ticked: {kind: observer}}"
    (finding,) = plugin_findings(write, pipeline, "@hookimpl\ndef load_state(): ...")
    assert (finding.code, finding.range) == ("B204", Range(Position(5, 9), Position(5, 15)))
    fired = "@hookimpl\ndef ticked(): ...\n\n@hookimpl\nasync def build_prompt(fire):\n    await fire('ticked')\n"
    assert plugin_findings(write, pipeline, fired) == ()


def test_a_switched_off_gate_needs_nobody(write: Write) -> None:
    off = GUARDED.replace("run_model}", "run_model, enabled: false}")
    assert plugin_findings(write, off, "@hookimpl\ndef load_state(): ...") == ()


def test_a_plugin_without_hooks_is_reported_where_it_is_listed(write: Write) -> None:
    (finding,) = plugin_findings(write, LISTED, "def load_state(): ...")
    assert (finding.code, finding.range) == ("B207", Range(Position(4, 32), Position(4, 37)))
    assert finding.help is not None and finding.help.startswith("mark its functions with `@bub.hookimpl`, name a class")


@pytest.mark.parametrize(
    ("plugin", "code"),
    [
        ("import nothing_of_this_name", "B200"),
        ("@hookimpl\ndef moderat(prompt): ...", "B201"),
        ("@hookimpl\ndef moderate(promt): ...", "B202"),
        ("@hookimpl(wrapper=True)\ndef moderate(prompt):\n    yield", "B206"),
    ],
)
def test_a_gate_whose_plugin_is_broken_is_told_once(write: Write, plugin: str, code: str) -> None:
    assert [finding.code for finding in plugin_findings(write, GUARDED, plugin)] == [code]


def test_an_optional_plugin_that_is_missing_leaves_no_gate_unguarded(write: Write) -> None:
    pipeline = GUARDED.replace("plugins: [guard]", "plugins: [extra]")
    path = write("pipelines.yaml", f"{VERSION}plugins: {{extra: {{optional: true}}}}\n{pipeline}")
    with pytest.raises(PipelineError) as caught:
        BubFramework(config_file=path).load_hooks()
    assert [finding.code for finding in caught.value.diagnostics] == ["B204"]


def test_an_optional_plugin_that_breaks_is_a_warning_and_its_gate_an_error(write: Write) -> None:
    write("guard.py", "raise RuntimeError('boom')")
    path = write("pipelines.yaml", VERSION + "plugins: {guard: {path: guard.py, optional: true}}\n" + GUARDED)
    with pytest.raises(PipelineError) as caught:
        BubFramework(config_file=path).load_hooks()
    assert [(finding.code, finding.severity) for finding in caught.value.diagnostics] == [
        ("B200", "warning"),
        ("B204", "error"),
    ]


def test_every_mistake_of_all_plugins_is_told_together(write: Write) -> None:
    write("one.py", "from bub import hookimpl\n\n@hookimpl\ndef load_sate(): ...\n")
    write("two.py", "from bub import hookimpl\n\n@hookimpl\nasync def system_prompt(x): ...\n")
    write("three.py", "1 +\n")
    path = write(
        "pipelines.yaml",
        VERSION + "extends: bub:default\nplugins: {one: {path: one.py}, two: {path: two.py}, three: {path: three.py}}\n"
        "profiles: {default: {plugins: [one, two, three]}}\n",
    )
    with pytest.raises(PipelineError) as caught:
        BubFramework(config_file=path).load_hooks()
    assert sorted(finding.code for finding in caught.value.diagnostics) == ["B200", "B201", "B202", "B203"]
