"""What plugins bring is proved at every start: their tools, their commands, and what a profile says of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.installed import install_labels
from fakes.toys import Toy, Workshop
from typer.testing import CliRunner

from bub import BubFramework, tool
from bub.base.diagnostics import Diagnostic, PipelineError
from bub.errors import BubError, HookTypeError
from bub.labels import Labels
from bub.log import log_to


@pytest.fixture
def bub(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


def called(name: str) -> Any:
    """A tool that does nothing."""

    @tool(name=name)
    def nothing() -> str:
        """Do nothing."""
        return ""

    return nothing


def bringing(*names: str) -> Toy:
    """A plugin with tools of these names."""
    return Toy(provide_tools=lambda: [called(name) for name in names])


def commanding(*names: str) -> Toy:
    """A plugin with commands of these names."""

    def register(app: Any) -> None:
        for name in names:
            app.command(name)(lambda: None)

    return Toy(register_cli_commands=register)


def findings(start: Callable[[], BubFramework]) -> Sequence[Diagnostic]:
    """What a start finds: the errors that keep it from being one, else the warnings."""
    try:
        return start().warnings
    except PipelineError as error:
        return error.diagnostics


def told(found: Sequence[Diagnostic]) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found]


def with_tools(said: str, plugins: str = "drums", more: str = "") -> str:
    return f"""
        extends: bub:default
        plugins: {{drums: {{path: drums.py}}, {more}}}
        profiles: {{default: {{plugins: [{plugins}], tools: {said}}}}}
    """


# Two of one name.


def test_O1_two_tools_of_one_name_are_an_error_at_the_later_plugin_of_the_list(bub: Workshop) -> None:
    (finding,) = findings(lambda: bub(drums=bringing("drum.roll"), band=bringing("drum.roll", "drum.beat")))
    assert (finding.code, finding.severity) == ("B208", "error")
    assert finding.message == "plugins `drums` and `band` both bring the tool `drum.roll`"
    line = (bub.folder / "pipelines.yaml").read_text(encoding="utf-8").splitlines()[finding.range.start.line - 1]
    assert line[finding.range.start.column - 1 : finding.range.end.column - 1] == "band"
    assert [other.message for other in finding.related] == ["`drums` is listed here"]


def test_O1_a_tool_with_the_name_of_one_of_bubs_own_is_an_error(bub: Workshop) -> None:
    (finding,) = findings(lambda: bub(drums=bringing("fs.read")))
    assert finding.message == "plugins `builtin` and `drums` both bring the tool `fs.read`"
    assert finding.help == "take `drums` off the list, or rename it there"


def test_a_plugin_that_brings_a_tool_twice_is_an_error(bub: Workshop) -> None:
    (finding,) = findings(lambda: bub(drums=bringing("drum.roll", "drum.roll")))
    assert (finding.code, finding.message) == ("B208", "plugin `drums` brings the tool `drum.roll` twice")


def test_O1_all_commands_of_one_name_are_told_at_once(bub: Workshop) -> None:
    framework = bub(march=commanding("march", "halt"), parade=commanding("march", "halt", "run"))
    with pytest.raises(PipelineError) as caught:
        framework.create_cli_app()
    assert sorted(finding.message for finding in caught.value.diagnostics) == [
        "plugins `builtin` and `parade` both bring the command `run`",
        "plugins `march` and `parade` both bring the command `halt`",
        "plugins `march` and `parade` both bring the command `march`",
    ]


def test_a_framework_alone_has_bubs_commands_and_those_of_its_plugins(bub: Workshop, tmp_path: Path) -> None:
    app = bub(march=commanding("march")).create_cli_app()
    runner = CliRunner()
    listed = runner.invoke(app, ["--help"]).output
    assert {"run", "gateway", "chat", "hooks", "march"} <= set(re.findall(r"^  (\w+)\b", listed, re.M))
    assert runner.invoke(app, ["march"]).exit_code == 0
    hooks = runner.invoke(app, ["hooks"])
    assert (hooks.exit_code, "march" in hooks.output) == (0, True)  # of this framework's file, which no option named


def test_C1_two_channels_of_one_name_are_none(bub: Workshop) -> None:
    low, high = (Toy(provide_channels=lambda: [Toy(name=lambda: None)]) for _ in range(2))
    assert findings(lambda: bub(low=low, high=high)) == ()


# A plugin that fails when it is asked.


def failing() -> Any:
    raise OSError("the flute is locked away")


@pytest.mark.parametrize(
    ("provides", "why"),
    [
        (failing, "OSError: the flute is locked away"),
        (lambda: "fs.read", "must return list or tuple or None, but plugin `flute` returned str"),
        (lambda: [len], "must return a list of what `@bub.tool` makes, but plugin `flute` returned"),
        (lambda: exit(3), "SystemExit: 3"),
    ],
)
def test_a_plugin_that_cannot_say_which_tools_it_has_is_named(
    bub: Workshop, provides: Callable[[], Any], why: str
) -> None:
    log_to(bub.folder / "logs")
    (finding,) = findings(lambda: bub(flute=Toy(provide_tools=provides)))
    assert (finding.code, finding.severity) == ("B210", "error")
    assert finding.message.startswith("plugin `flute` does not bring its tools: ") and why in finding.message


def test_a_plugin_that_says_what_a_person_is_to_do_leaves_no_traceback(bub: Workshop) -> None:
    def lacking() -> None:
        raise BubError("the setting `flute.token` is missing", help="write it under `settings:`")

    log_to(bub.folder / "logs")
    (finding,) = findings(lambda: bub(flute=Toy(provide_tools=lacking)))
    assert finding.message == "plugin `flute` does not bring its tools: the setting `flute.token` is missing"
    assert finding.help == "write it under `settings:`"
    log = (bub.folder / "logs" / "bub.log").read_text(encoding="utf-8")
    assert "the setting `flute.token` is missing" in log and "Traceback" not in log


def test_an_optional_plugin_that_fails_so_is_a_warning_and_its_profile_runs_without_its_tools(bub: Workshop) -> None:
    log_to(bub.folder / "logs")
    text = with_tools("{allow: [drum.roll, flute.play]}", "flute, drums", "flute: {path: flute.py, optional: true}")
    framework = bub(text, drums=bringing("drum.roll"), flute=Toy(provide_tools=failing))
    assert sorted(told(framework.warnings)) == [("B210", "warning"), ("B211", "warning")]
    assert framework.tools.usable() == ["drum.roll"]


def test_a_plugin_that_cannot_register_its_commands_is_named(bub: Workshop) -> None:
    log_to(bub.folder / "logs")
    framework = bub(flute=Toy(register_cli_commands=lambda app: failing()))
    with pytest.raises(PipelineError, match="`flute` does not bring its commands: OSError: the flute") as caught:
        framework.create_cli_app()
    assert told(caught.value.diagnostics) == [("B210", "error")]


OPENING = """
    extends: bub:default
    plugins: {{flute: {{path: flute.py{more}}}}}
    profiles: {{default: {{plugins: [flute], channels: [flute]}}}}
"""


@pytest.mark.parametrize(
    ("provides", "why"),
    [
        (failing, "OSError: the flute is locked away"),
        (lambda: [len], "AttributeError: 'builtin_function_or_method' object has no attribute 'name'"),
        (lambda: exit(3), "SystemExit: 3"),
    ],
)
def test_a_plugin_that_cannot_say_which_channels_it_has_is_named(
    bub: Workshop, provides: Callable[[], Any], why: str
) -> None:
    log_to(bub.folder / "logs")
    framework = bub(OPENING.format(more=""), flute=Toy(provide_channels=provides))
    for ask in (framework.check_channels, lambda: framework.get_channels(lambda message: None)):
        with pytest.raises(PipelineError) as caught:
            ask()
        (finding,) = caught.value.diagnostics
        assert (finding.code, finding.severity) == ("B210", "error")
        assert finding.message.startswith("plugin `flute` does not bring its channels: ") and why in finding.message


def test_H31_channels_that_are_no_list_are_a_finding_of_a_start_and_an_error_of_its_type_for_a_program(
    bub: Workshop,
) -> None:
    framework = bub(OPENING.format(more=""), flute=Toy(provide_channels=lambda: "flute"))
    why = "must return list or tuple or None, but plugin `flute` returned str"
    with pytest.raises(PipelineError, match=why):
        framework.check_channels()
    with pytest.raises(HookTypeError, match=why):
        framework.get_channels(lambda message: None)


def test_an_optional_plugin_that_fails_so_is_a_warning_and_the_other_channels_are_there(bub: Workshop) -> None:
    log_to(bub.folder / "logs")
    framework = bub(OPENING.format(more=", optional: true"), flute=Toy(provide_channels=failing))
    framework.check_channels()
    assert told(framework.warnings) == [("B210", "warning")]
    assert list(framework.get_channels(lambda message: None)) == ["cli"]


def test_tools_are_asked_for_once_and_only_once(bub: Workshop) -> None:
    asked: list[str] = []
    framework = bub(drums=Toy(provide_tools=lambda: asked.append("drums") or [called("drum.roll")]))
    assert asked == ["drums"]
    assert "drum.roll" in framework.tools.tools
    assert asked == ["drums"]


# What a profile says of tools.


@pytest.mark.parametrize("key", ["allow", "deny", "ask"])
def test_a_name_in_a_profiles_tools_that_nobody_brings_is_an_error_that_says_what_was_meant(
    bub: Workshop, key: str
) -> None:
    (finding,) = findings(lambda: bub(with_tools(f"{{{key}: [drum.rol]}}"), drums=bringing("drum.roll")))
    assert (finding.code, finding.severity, finding.profile) == ("B211", "error", "default")
    assert (finding.path, finding.help) == (f"profiles.default.tools.{key}", "did you mean `drum.roll`?")


def test_a_glob_that_matches_no_tool_is_a_warning(bub: Workshop) -> None:
    text = with_tools('{allow: ["drum.*", "flute.*"], ask: ["*"]}')
    (finding,) = findings(lambda: bub(text, drums=bringing("drum.roll")))
    assert (finding.code, finding.severity) == ("B211", "warning")
    assert "`flute.*`" in finding.message


def test_a_tool_of_an_optional_plugin_that_is_not_there_is_a_warning(bub: Workshop) -> None:
    text = with_tools("{ask: [flute.play]}", "drums, flute", "flute: {path: gone.py, optional: true}")
    assert told(findings(lambda: bub(text, drums=bringing("drum.roll")))) == [("B211", "warning")]


def test_what_a_profile_inherits_of_tools_is_not_held_against_its_shorter_list(bub: Workshop) -> None:
    text = """
        extends: bub:default
        plugins: {drums: {path: drums.py}}
        profiles:
          default: {plugins: [drums], tools: {ask: [drum.roll]}}
          quiet: {extends: default, plugins: []}
        routes: [{match: {channel: quiet}, profile: quiet}]
    """
    assert findings(lambda: bub(text, drums=bringing("drum.roll"))) == ()


def test_a_tool_of_a_plugin_that_does_not_load_is_not_missed_too(bub: Workshop) -> None:
    log_to(bub.folder / "logs")
    text = with_tools("{allow: [drum.roll, nothing.at_all]}")
    (bub.folder / "drums.py").write_text("raise OSError\n", encoding="utf-8")
    assert told(findings(lambda: bub(text))) == [("B200", "error")]


def test_a_name_that_the_environment_gives_is_proved_too(bub: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOUD_TOOL", "drum.rol")
    text = with_tools('{deny: ["${env:LOUD_TOOL}"]}')
    assert told(findings(lambda: bub(text, drums=bringing("drum.roll")))) == [("B211", "error")]
    monkeypatch.setenv("LOUD_TOOL", "drum.roll")
    assert findings(lambda: bub(text, drums=bringing("drum.roll"))) == ()


# Whom something is for.


@pytest.mark.parametrize(
    "stage",
    [
        '{kind: gate, before: run_model, when: {channel: "${env:HOUSE}"}}',
        '{kind: gate, before: run_model, when: {kind: text, channel: "of-the-${env:HOUSE}"}}',
        '{kind: gate, before: run_model, only: ["${env:HOUSE}"]}',
    ],
)
def test_a_gate_whose_condition_needs_an_unset_variable_does_not_start(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    text = f"""
        extends: bub:default
        hooks: {{moderate: {{kind: gate, takes: [prompt]}}}}
        stages: {{moderate: {stage}}}
    """
    guard = Toy(moderate=lambda: {"deny": "no"})
    found = findings(lambda: bub(text, guard=guard))
    assert ("B031", "error") in told(found)
    assert next(one.help for one in found if one.code == "B031").endswith("write `${env:HOUSE:-default}`")
    monkeypatch.setenv("HOUSE", "guard")
    assert findings(lambda: bub(text, guard=guard)) == ()


@pytest.mark.parametrize("key", ["allow", "deny", "ask"])
def test_tools_that_an_unset_variable_was_to_name_are_an_error(bub: Workshop, key: str) -> None:
    text = with_tools(f'{{{key}: [drum.roll, "${{env:LOUD_TOOL}}"]}}')
    assert told(findings(lambda: bub(text, drums=bringing("drum.roll")))) == [("B031", "error")]


@pytest.mark.parametrize(
    ("said", "own", "labels"),
    [
        ("", {}, None),
        ("", {"reads": "private"}, Labels(reads="private")),
        ("labels: {}", {"reads": "private"}, Labels()),
        ("labels: {reaches: outside}", {"reads": "private"}, Labels(reaches="outside")),
        ("labels: {tools: {drums.hit: {brings: untrusted}}, reads: private}", {}, Labels(brings="untrusted")),
        ("labels: {tools: {drums.hit: {}}}", {}, Labels()),
    ],
)
def test_what_a_file_says_that_a_tool_does_goes_before_what_the_tool_says(
    bub: Workshop, said: str, own: dict[str, Any], labels: Labels | None
) -> None:
    made = tool(name="drums.hit", description="Hit them.", **own)(lambda: "")
    toy = Toy(provide_tools=lambda: [made])
    text = f"extends: bub:default\nplugins: {{drums: {{path: drums.py, {said}}}}}\n"
    framework = bub(f"{text}profiles: {{default: {{plugins: [drums]}}}}", drums=toy)
    assert framework.tools.tools["drums.hit"].labels == labels


def test_what_a_package_declares_counts_for_a_tool_that_declares_nothing(
    bub: Workshop, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
from bub import hookimpl, tool

@tool(name="weather.get")
def get() -> str:
    '''Get it.'''
    return ""

@tool(name="weather.keep", reads="private")
def keep() -> str:
    '''Keep it.'''
    return ""

@hookimpl
def provide_tools():
    return [get, keep]
"""
    place = install_labels(tmp_path / "site", {"brings": "untrusted"}, package="bub_rain", code=code)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setitem(sys.modules, "bub_rain", None)  # so that what is imported is forgotten at the end
    del sys.modules["bub_rain"]
    framework = bub("extends: bub:default\nplugins: {}\nprofiles: {default: {plugins: [weather]}}")
    labels = {name: one.labels for name, one in framework.tools.tools.items() if name.startswith("weather.")}
    assert labels == {"weather.get": Labels(brings="untrusted"), "weather.keep": Labels(reads="private")}


def test_labels_for_a_tool_that_nobody_brings_are_told(bub: Workshop) -> None:
    text = "extends: bub:default\nplugins: {drums: {path: drums.py, labels: {tools: {drums.hti: {}}}}}\n"
    found = findings(lambda: bub(f"{text}profiles: {{default: {{plugins: [drums]}}}}", drums=bringing("drums.hit")))
    assert [(one.code, one.severity, one.help) for one in found] == [("B239", "warning", "did you mean `drums.hit`?")]
