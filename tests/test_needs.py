"""What a turn needs of this machine is looked for at the start: variables, the model's provider, required settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.toys import Toy, Workshop

from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError
from bub.cli.proof import prove

GUARD = Toy(moderate=lambda: None)
MODERATED = """
extends: bub:default
hooks: {moderate: {kind: gate, takes: [prompt]}}
stages: {moderate: {before: run_model}}
"""


@pytest.fixture
def bub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.chdir(tmp_path)
    for variable in ("BUB_MODEL", "BUB_API_KEY", "BUB_API_BASE"):
        monkeypatch.delenv(variable, raising=False)
    return Workshop(tmp_path, monkeypatch)


def found_by(start: Callable[[], Any]) -> Sequence[Diagnostic]:
    """What keeps a start from being one."""
    try:
        start()
    except PipelineError as error:
        return [finding for finding in error.diagnostics if finding.severity == "error"]
    return ()


def codes(found: Sequence[Diagnostic]) -> list[str]:
    return [finding.code for finding in found]


# Variables in what the pipeline says.


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('stages: {moderate: {timeout: "${env:SAID}"}}', "5s"),
        ('stages: {moderate: {enabled: "${env:SAID}"}}', "true"),
        ('stages: {moderate: {thread: "${env:SAID}"}}', "true"),
        ('stages: {run_model: {retry: {times: "${env:SAID}"}}}', "2"),
        ('stages: {run_model: {idle_timeout: "${env:SAID}"}}', "5s"),
        ('stages: {build_prompt: {default: "in ${env:SAID}: {content}"}}', "haste"),
        ('hooks: {moderate: {timeout: "${env:SAID}"}}', "5s"),
        ('plugins: {guard: {optional: "${env:SAID}"}}', "true"),
        ('routes: [{match: {chat_id: "${env:SAID}"}, profile: default}]', "7"),
        ('profiles: {default: {budget: {tool_calls: "${env:SAID}"}}}', "5"),
        ('profiles: {default: {channels: ["${env:SAID}"]}}', "cli"),
        ('profiles: {default: {reach: {read: ["${env:SAID}"]}}}', "/srv"),
        ('profiles: {default: {reach: {write: [workspace, "/srv/${env:SAID}"]}}}', "books"),
        ('profiles: {default: {approvers: {telegram: ["${env:SAID}"]}}}', "77"),
    ],
)
def test_a_pipeline_that_an_unset_variable_would_change_does_not_start(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch, said: str, value: str
) -> None:
    base = MODERATED + "plugins: {guard: {path: guard.py}}\nprofiles: {default: {plugins: [guard]}}\n"
    (bub.folder / "base.yaml").write_text(f"version: 1\n{base}", encoding="utf-8")
    text = f"extends: base.yaml\n{said}\n"
    text += "" if "plugins:" in said else "plugins: {}\n"
    text += "" if "profiles:" in said else "profiles: {}\n"
    assert codes(found_by(lambda: bub(text, guard=GUARD))) == ["B031"]
    file = bub.folder / "pipelines.yaml"
    proved = prove(file, bub.folder, ["default"])
    assert {finding.severity for finding in proved} == {"note"}, proved
    monkeypatch.setenv("SAID", value)
    assert found_by(lambda: bub(text, guard=GUARD)) == ()


@pytest.mark.parametrize("said", ["reach: {read: ['${file:nowhere}']}", "approvers: {telegram: ['${file:nowhere}']}"])
def test_a_profile_that_refers_to_a_file_that_is_not_there_does_not_start(bub: Workshop, said: str) -> None:
    text = f"extends: bub:default\nprofiles: {{default: {{plugins: [], {said}}}}}\n"
    assert codes(found_by(lambda: bub(text))) == ["B032"]


def test_what_nobody_needs_may_lack_its_variable(bub: Workshop) -> None:
    text = """
        extends: bub:default
        hooks: {moderate: {kind: gate, takes: [prompt], description: "for ${env:HOUSE}"}}
        stages: {moderate: {before: run_model}, load_state: {enabled: false, timeout: "${env:PATIENCE}"}}
        settings: {temperature: "${env:WARMTH}"}
    """
    framework = bub(text, guard=GUARD)
    assert {(one.code, one.severity) for one in framework.warnings} == {("B031", "warning")}
    assert found_by(framework.check_needs) == ()


# The model.


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ('{model: "opnai:gpt-5-mini"}', {("B197", "settings.model")}),
        ("{model: gpt-5-mini}", {("B197", "settings.model")}),
        ('{model: "local:smollm2"}', {("B197", "settings.model")}),  # the plugin that runs it is not listed
        ('{model: "ollama:qwen3", fallback_models: ["acme:large"]}', {("B197", "settings.fallback_models")}),
        ('{model: "${env:NOWHERE}"}', {("B031", "settings.model")}),
        (
            '{model: "acme:large", providers: {acme: {api_base: "${env:NOWHERE}"}}}',
            {("B031", "settings.providers.acme.api_base")},
        ),
        ('{model: "openai:gpt-5", api_key: k, api_base: "${env:NOWHERE}"}', {("B031", "settings.api_base")}),
        ('{model: "openai:gpt-5", api_key: "${env:NOWHERE}"}', {("B031", "settings.api_key")}),
    ],
)
def test_a_model_that_nobody_can_be_asked_for_keeps_turns_from_beginning(
    bub: Workshop, settings: str, places: set[tuple[str, str]]
) -> None:
    framework = bub(f"extends: bub:default\nprofiles: {{default: {{plugins: []}}}}\nsettings: {settings}")
    assert {(one.code, one.path) for one in found_by(framework.check_needs)} == places
    proved = prove(bub.folder / "pipelines.yaml", bub.folder, ["default"])
    assert "error" not in {finding.severity for finding in proved}


@pytest.mark.parametrize(
    "settings",
    [
        "{}",
        '{model: "ollama:qwen3"}',
        '{model: "acme:large", providers: {acme: {api_base: "http://127.0.0.1:9"}}}',
        '{model: large, api_base: "http://127.0.0.1:9"}',
        '{model: "ollama:qwen3", providers: {openai: {api_key: "${env:NOWHERE}"}}}',  # of another provider
        '{model: "acme:large", providers: {acme: {api_base: "http://127.0.0.1:9", api_key: "${env:NOWHERE}"}}}',
    ],
)
def test_a_model_that_can_be_asked_keeps_nothing(bub: Workshop, settings: str) -> None:
    framework = bub(f"extends: bub:default\nprofiles: {{default: {{plugins: []}}}}\nsettings: {settings}")
    assert found_by(framework.check_needs) == ()


@pytest.mark.parametrize(
    "hook", [{"call_model": lambda request: "hi"}, {"run_model": lambda prompt: "hi"}], ids=["call_model", "run_model"]
)
def test_a_model_that_a_plugin_brings_needs_no_provider(bub: Workshop, hook: dict[str, Any]) -> None:
    framework = bub('extends: bub:default\nsettings: {model: "acme:large"}', own=Toy(**hook))
    assert found_by(framework.check_needs) == ()


def test_each_profile_that_can_get_a_turn_is_looked_at_and_no_other(bub: Workshop) -> None:
    text = """
        extends: bub:default
        settings: {model: "ollama:qwen3"}
        profiles:
          default: {plugins: []}
          routed: {settings: {model: "acme:large"}}
          unused: {settings: {model: "acme:small"}}
        routes: [{match: {chat_id: "7"}, profile: routed}]
    """
    (finding,) = found_by(bub(text).check_needs)
    assert (finding.profile, "acme:large" in finding.message) == ("routed", True)


def test_a_variable_goes_before_the_file_here_too(bub: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'extends: bub:default\nprofiles: {default: {plugins: []}}\nsettings: {model: "acme:large"}'
    monkeypatch.setenv("BUB_MODEL", "ollama:qwen3")
    assert found_by(bub(text).check_needs) == ()
    monkeypatch.setenv("BUB_MODEL", "acme:small")
    (finding,) = found_by(bub(text).check_needs)
    assert finding.file == "the environment"
    assert finding.message == "the provider of `model: acme:small` is not known; `BUB_MODEL` names this model"


def test_a_reload_that_would_leave_turns_without_a_model_is_refused(bub: Workshop) -> None:
    text = 'extends: bub:default\nprofiles: {default: {plugins: []}}\nsettings: {model: "ollama:qwen3"}'
    framework = bub(text)
    framework.check_needs()
    file = bub.folder / "pipelines.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("ollama", "acme"), encoding="utf-8")
    assert codes(found_by(framework.reload)) == ["B197"]
    assert framework.settings["model"] == "ollama:qwen3"


# The settings of plugins.


def test_a_setting_that_the_schema_of_a_plugin_requires_needs_its_variable(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = bub.folder / "site"
    (package / "night_watch-1.0.dist-info").mkdir(parents=True)
    (package / "night_watch-1.0.dist-info" / "METADATA").write_text("Name: night_watch\nVersion: 1.0\n")
    points = "[bub.schema]\nnight_watch = night_watch:settings.json\n[bub]\nnight_watch = night_watch\n"
    (package / "night_watch-1.0.dist-info" / "entry_points.txt").write_text(points)
    (package / "night_watch").mkdir()
    (package / "night_watch" / "__init__.py").write_text(
        "from bub import hookimpl\n\n@hookimpl\ndef load_state():\n    return {}\n"
    )
    schema = {
        "type": "object",
        "properties": {"token": {"type": "string"}, "name": {"type": "string"}},
        "required": ["token"],
    }
    (package / "night_watch" / "settings.json").write_text(json.dumps(schema))
    monkeypatch.syspath_prepend(str(package))

    def start() -> BubFramework:
        return bub(
            "extends: bub:default\n"
            'settings: {night_watch: {token: "${env:NOWHERE}", name: "${env:NOWHERE}"}}\n'
            "profiles: {default: {plugins: [night_watch]}}\n"
        )

    (finding,) = found_by(start().check_needs)
    assert (finding.code, finding.path) == ("B031", "settings.night_watch.token")
    monkeypatch.setenv("NOWHERE", "not-a-real-token")
    assert found_by(start().check_needs) == ()


# What commands reach.


def test_a_reach_that_cannot_be_enforced_keeps_turns_from_beginning(bub: Workshop) -> None:
    framework = bub('extends: bub:default\nprofiles: {default: {reach: {read: ["/no/such/folder"]}}}')
    (found,) = found_by(framework.check_needs)
    assert (found.code, found.path) == ("B237", "profiles.default.reach")
    assert found.message.startswith("this machine cannot enforce `reach` of profile `default`: ")
