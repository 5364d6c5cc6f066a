"""The settings of installed plugins are checked against the schema each brings, and no plugin is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bub.base.diagnostics import Diagnostic
from bub.framework import BubFramework
from bub.pipeline.check.validate import check_document
from bub.pipeline.source.merge import load_text
from bub.pipeline.source.schemas import embed_section
from bub.plugins import schemas as sections
from bub.plugins.schemas import installed_section

WEATHER: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "token": {"$ref": "#/$defs/secret"},
        "retries": {"type": ["integer", "string"], "pattern": r"^\$\{(env|file):[^{}]+\}$", "minimum": 0},
        "units": {"enum": ["metric", "imperial"]},
    },
    "additionalProperties": False,
    "$defs": {"secret": {"type": "string", "writeOnly": True}},
}

IMPORTED = 'raise SystemExit("the plugin was imported")\n'

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package that brings the schema of one plugin's section, as pip leaves it; returns its folder."""

    def installed(
        schema: Any = WEATHER,
        *,
        plugin: str = "weather",
        package: str = "bub_weather",
        value: str | None = None,
        code: str = IMPORTED,
        source: Path | None = None,
    ) -> Path:
        site = tmp_path / f"site-{package}"
        metadata = site / f"{package}-1.2.dist-info"
        metadata.mkdir(parents=True)
        names = f"[bub]\n{plugin} = {package}\n[bub.schema]\n{plugin} = {value or f'{package}:settings.schema.json'}\n"
        (metadata / "entry_points.txt").write_text(names, encoding="utf-8")
        text = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n"
        (metadata / "METADATA").write_text(text, encoding="utf-8")
        folder = (source or site) / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code, encoding="utf-8")
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            (folder / "settings.schema.json").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(site)
        if source is not None:
            monkeypatch.syspath_prepend(source)
        return folder

    return installed


def found(text: str) -> list[Diagnostic]:
    return check_document(load_text(f"version: 1\nextends: bub:default\n{text}\n"))


# Checking


@pytest.mark.parametrize(
    ("place", "path", "profile"),
    [
        ("settings: %s", "settings.weather", None),
        ("profiles: {ci: {settings: %s}}", "profiles.ci.settings.weather", "ci"),
    ],
)
def test_a_section_is_held_against_the_schema_that_its_package_brings(
    install: Install, place: str, path: str, profile: str | None
) -> None:
    install()
    findings = found(place % "{weather: {unit: metric, retries: -1, token: abc}}")
    assert [(item.code, item.severity, item.path, item.profile) for item in findings] == [
        ("B100", "error", f"{path}.unit", profile),
        ("B105", "error", f"{path}.retries", profile),
        ("B040", "warning", f"{path}.token", profile),
    ]
    assert findings[0].fix == "units"
    assert "bub_weather" not in sys.modules


def test_a_right_section_is_fine(install: Install) -> None:
    install()
    assert found("settings: {weather: {units: metric, retries: '${env:N}', token: '${env:T}'}}") == []


def test_a_section_that_no_package_speaks_of_may_hold_anything(install: Install) -> None:
    install()
    assert found("settings: {thunder: {anything: [1, 2]}}") == []


def test_a_package_installed_for_development_is_found_where_its_source_is(install: Install, tmp_path: Path) -> None:
    install(source=tmp_path / "src")
    assert [item.code for item in found("settings: {weather: {unit: metric}}")] == ["B100"]
    assert "bub_weather" not in sys.modules


def test_the_file_may_lie_in_a_package_of_the_package(install: Install, tmp_path: Path) -> None:
    folder = install(None, value="bub_weather.inner.data:weather.schema.json", source=tmp_path / "src")
    (folder / "inner" / "data").mkdir(parents=True)
    (folder / "inner" / "__init__.py").write_text(IMPORTED, encoding="utf-8")
    (folder / "inner" / "data" / "weather.schema.json").write_text(json.dumps(WEATHER), encoding="utf-8")
    assert [item.code for item in found("settings: {weather: {unit: metric}}")] == ["B100"]
    assert not [name for name in sys.modules if name.startswith("bub_weather")]


def test_a_plugin_that_comes_from_a_file_has_nothing_to_do_with_a_package_of_its_name(install: Install) -> None:
    install()
    assert found("settings: {weather: {unit: metric}}\nplugins: {weather: {path: weather.py}}") == []


def test_what_is_installed_while_bub_runs_is_seen(install: Install) -> None:
    assert found("settings: {weather: {unit: metric}}") == []
    install()
    assert found("settings: {weather: {unit: metric}}") != []


@pytest.mark.parametrize("name", ["model", "local_model"])
def test_nobody_speaks_for_bubs_own_settings_or_those_of_a_shipped_plugin(install: Install, name: str) -> None:
    install({"additionalProperties": False}, plugin=name)
    assert found("settings: {model: 'a:b', local_model: {threads: 2}}") == []


def test_packages_are_not_asked_where_all_sections_are_known() -> None:
    code = (
        "import sys; from bub.pipeline.check.sections import sections_of\n"
        "from bub.pipeline.source.yaml_reader import parse\n"
        "text = b'settings: {model: x, local_model: {threads: 2}, other: 5}'\n"
        "sections_of(parse(text, file='p', layer='p').root); print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Schemas that cannot be used


SUBSCHEMA = {"additionalProperties": {"$ref": "https://example.com/schema.json"}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "brings settings.schema.json, which cannot be read: it is not JSON"),
        ("[" * 100_000, "brings settings.schema.json, which cannot be read: it is not JSON"),
        ("[]", "brings settings.schema.json, which is not a JSON object"),
        (None, "names `bub_weather:settings.schema.json`, and there is no such file in the package"),
        ({"properties": 5}, "brings settings.schema.json, which is not a valid JSON Schema: at $.properties"),
        (
            {"properties": {"a": {"pattern": "("}}},
            "brings settings.schema.json, which is not a valid JSON Schema: at $.properties.a.pattern",
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#"},
            "brings settings.schema.json, which is written for another draft of JSON Schema than 2020-12",
        ),
        (
            SUBSCHEMA,
            "brings settings.schema.json, which refers to `https://example.com/schema.json`, which is not in it",
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/b"}}},
            "brings settings.schema.json, which refers to `#/$defs/b`, which is not in it",
        ),
        (
            {"$id": "https://example.com/a"},
            "brings settings.schema.json, which uses `$id`; use only `$ref` with `#/$defs/…`",
        ),
        ('{"title": "' + "x" * 1_000_000 + '"}', "brings settings.schema.json, which is larger than 1 MB"),
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_broken_schema_is_a_warning_that_names_the_package(install: Install, schema: Any, problem: str) -> None:
    install(schema)
    [finding] = found("settings: {weather: {unit: metric}}")
    assert (finding.code, finding.severity, finding.path) == ("B106", "warning", "settings.weather")
    assert finding.message == f"Bub does not check the settings of plugin `weather`: bub_weather 1.2 {problem}"
    assert (finding.range.start.line, finding.range.start.column) == (3, 12)


@pytest.mark.parametrize(
    "value", ["bub_weather", "bub_weather:thing", "a-b:x.json", "..:x.json", "bub_weather:../x.json"]
)
def test_a_value_of_another_form_is_told(install: Install, value: str) -> None:
    install(value=value)
    [finding] = found("settings: {weather: {}}")
    assert finding.message.endswith(f"names `{value}`, which is not of the form `package:file.json`")


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"properties": {"unit": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}]
)
def test_a_schema_that_goes_in_a_circle_is_told(install: Install, schema: Any) -> None:
    install(schema)
    [finding] = found("settings: {weather: {unit: metric}}")
    assert (finding.code, finding.severity) == ("B106", "warning")
    assert finding.message.endswith("its schema refers to itself in a circle")


def test_a_schema_may_be_recursive(install: Install) -> None:
    install({"properties": {"a": {"$ref": "#"}}, "additionalProperties": False})
    assert [item.path for item in found("settings: {weather: {a: {a: {b: 1}}}}")] == ["settings.weather.a.a.b"]


def test_a_fraction_is_no_whole_number_however_deep_it_stands(install: Install) -> None:
    schema = {**WEATHER, "properties": {"inner": {"$ref": "#"}, "count": {"type": "integer"}}}
    install(schema)
    findings = found("settings: {weather: {count: 2.0, inner: {count: 2.0}}}")
    assert {item.path for item in findings} == {"settings.weather.count", "settings.weather.inner.count"}


def test_two_packages_that_speak_for_one_plugin_are_told(install: Install) -> None:
    install()
    install(package="bub_storm")
    [finding] = found("settings: {weather: {unit: metric}}")
    assert finding.message.endswith("`weather`: bub_storm 1.2 and bub_weather 1.2 each bring a schema for it")


# The settings that a plugin is given


def test_variables_and_references_get_the_types_of_the_section(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        package="bub_weather_ok", code="from bub import hookimpl\n\n@hookimpl\ndef run_model(prompt): return prompt\n"
    )
    file = tmp_path / "pipelines.yaml"
    file.write_text(
        "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [weather]}}\n"
        "settings: {weather: {retries: '${env:RETRIES}'}}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("RETRIES", "3")
    monkeypatch.setenv("BUB_WEATHER_TOKEN", "wagtail-96")
    framework = BubFramework(file)
    framework.load_hooks()
    assert framework.settings["weather"] == {"retries": 3, "token": "wagtail-96"}


# As a part of another schema


def test_references_lead_to_the_same_place_from_within_another_schema() -> None:
    placed = embed_section(WEATHER, "#/properties/weather")
    assert placed["properties"]["token"] == {"$ref": "#/properties/weather/$defs/secret"}
    assert "$schema" not in placed
    assert WEATHER["properties"]["token"] == {"$ref": "#/$defs/secret"}


def test_what_is_read_once_is_not_read_again(install: Install) -> None:
    install()
    assert installed_section("weather") is installed_section("weather")
    assert sections.installed_section("nothing") is None
