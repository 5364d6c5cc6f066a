"""Settings: the file below, the environment's own settings above, each value of the type its schema wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import Write

from bub import BubFramework
from bub.base.diagnostics import Diagnostic
from bub.pipeline.plan.layers.said import for_the_same_provider
from bub.pipeline.plan.settings import RESERVED, resolve_settings, variable_of
from bub.pipeline.source.merge import load_text
from bub.pipeline.source.profiles import effective

REFERENCE = r"^\$\{"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"flag": {"type": ["boolean", "string"], "pattern": REFERENCE}},
    "properties": {
        "model": {"type": "string"},
        "api_key": {"type": "string", "writeOnly": True},
        "api_base": {"type": "string"},
        "max_tokens": {"type": ["integer", "string"], "pattern": REFERENCE},
        "temperature": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": REFERENCE}]},
        "reasoning": {
            "type": ["integer", "string"],
            "pattern": r"^(off|low|medium|high|\$\{(env|file):[^{}]+\})$",
            "minimum": 1,
            "errorMessage": "must be `off`, `low`, `medium`, `high` or a number of tokens",
        },
        "providers": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"api_key": {"type": "string", "writeOnly": True}, "api_base": {"type": "string"}},
            },
        },
        "telegram": {
            "type": "object",
            "properties": {
                "token": {"type": "string", "writeOnly": True},
                "enabled": {"$ref": "#/$defs/flag"},
                "allow_chats": {"type": "array", "items": {"type": "string"}},
            },
        },
        "local_model": {"type": "object", "properties": {"threads": {"type": "integer"}}},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}


def resolved(
    text: str = "version: 1", base: Path | None = None, **environment: str
) -> tuple[dict[str, Any], tuple[Diagnostic, ...]]:
    root = effective(load_text(text), "default").root
    return resolve_settings(root, environment, base=base, schema=SCHEMA)


def settings_of(text: str = "version: 1", **environment: str) -> dict[str, Any]:
    plain, findings = resolved(text, **environment)
    assert findings == ()
    return plain


def test_without_a_section_there_are_no_settings() -> None:
    assert settings_of() == {}
    assert settings_of("settings: [a]") == {}


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("BUB_MODEL", "a:b", {"model": "a:b"}),
        ("BUB_API_KEY", "k", {"api_key": "k"}),
        ("BUB_API_BASE", "u", {"api_base": "u"}),
        ("BUB_MAX_TOKENS", "12", {"max_tokens": 12}),
        ("BUB_TEMPERATURE", "0.5", {"temperature": 0.5}),
        ("BUB_TEMPERATURE", "1", {"temperature": 1}),
        ("BUB_REASONING", "low", {"reasoning": "low"}),
        ("BUB_REASONING", " off ", {"reasoning": "off"}),
        ("BUB_REASONING", "2000", {"reasoning": 2000}),
        ("BUB_TELEGRAM_TOKEN", "12:x", {"telegram": {"token": "12:x"}}),
        ("BUB_TELEGRAM_ENABLED", "True", {"telegram": {"enabled": True}}),
        ("BUB_TELEGRAM_ENABLED", "off", {"telegram": {"enabled": False}}),
        ("BUB_TELEGRAM_ENABLED", "0", {"telegram": {"enabled": False}}),
        ("BUB_TELEGRAM_ALLOW_CHATS", "-1, 2", {"telegram": {"allow_chats": ["-1", "2"]}}),
        ("BUB_TELEGRAM_ALLOW_CHATS", '["-1", 2]', {"telegram": {"allow_chats": ["-1", "2"]}}),
        ("BUB_PROVIDERS_OPENROUTER_API_KEY", "k", {"providers": {"openrouter": {"api_key": "k"}}}),
        ("BUB_PROVIDERS_MY_OWN_API_KEY", "k", {"providers": {"my_own": {"api_key": "k"}}}),
        ("BUB_HEADERS_X_TITLE", "t", {"headers": {"x_title": "t"}}),
        ("BUB_LOCAL_MODEL_THREADS", "2", {"local_model": {"threads": 2}}),
        ("BUB_MODEL", "${env:HOME} $$", {"model": "${env:HOME} $$"}),
        ("BUB_MODEL", "", {}),
        ("BUB_PROVIDERS", "x", {}),
        ("BUB_PROVIDERS_OPENROUTER", "x", {}),
        ("BUB_NONSENSE", "x", {}),
        ("MODEL", "x", {}),
    ],
)
def test_a_variable_sets_the_setting_of_its_name(variable: str, value: str, expected: dict[str, Any]) -> None:
    assert settings_of(**{variable: value}) == expected


@pytest.mark.parametrize("variable", sorted(RESERVED))
def test_reserved_variables_are_never_settings(variable: str) -> None:
    open_schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert resolve_settings(load_text("version: 1").root, {variable: "x"}, base=None, schema=open_schema) == ({}, ())


def test_O7_the_environment_beats_the_file_and_every_profile() -> None:
    text = "settings: {model: file, telegram: {token: t}}\nprofiles: {default: {settings: {model: profile}}}\n"
    assert settings_of(text) == {"model": "profile", "telegram": {"token": "t"}}
    assert settings_of(text, BUB_MODEL="mine") == {"model": "mine", "telegram": {"token": "t"}}


def test_O7_dotenv_beats_the_file_and_the_environment_beats_dotenv(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("pipelines.yaml", "version: 1\nextends: bub:default\nsettings: {model: 'a:file', retries: 1}\n")
    write(".env", "BUB_MODEL=a:dotenv\nBUB_RETRIES=2\n")
    monkeypatch.setenv("BUB_MODEL", "a:real")
    framework = BubFramework(file)
    framework.load_hooks()
    assert (framework.settings["model"], framework.settings["retries"]) == ("a:real", 2)


def test_a_name_in_the_file_is_found_again_whatever_its_spelling() -> None:
    text = "settings: {providers: {My-Own: {api_base: u}}}\n"
    assert settings_of(text, BUB_PROVIDERS_MY_OWN_API_KEY="k") == {
        "providers": {"My-Own": {"api_base": "u", "api_key": "k"}}
    }


def test_a_lone_reference_takes_the_type_that_the_schema_wants() -> None:
    telegram = "{enabled: '${env:T}', allow_chats: '${env:C}'}"
    text = f"settings: {{model: '${{env:N}}', max_tokens: '${{env:N}}', telegram: {telegram}}}"
    assert settings_of(text, N="12", T="true", C="1,2") == {
        "model": "12",
        "max_tokens": 12,
        "telegram": {"enabled": True, "allow_chats": ["1", "2"]},
    }


@pytest.mark.parametrize(
    ("variable", "what"),
    [
        ("BUB_MAX_TOKENS", "a whole number"),
        ("BUB_TEMPERATURE", "a number"),
        ("BUB_TELEGRAM_ENABLED", "true or false"),
        ("BUB_TELEGRAM_ALLOW_CHATS", "a list such as `a, b`"),
    ],
)
def test_a_variable_of_the_wrong_type_is_named_without_its_value(variable: str, what: str) -> None:
    plain, (finding,) = resolved(**{variable: "[hush"})
    assert plain == {}
    assert (finding.code, finding.severity) == ("B034", "error")
    assert finding.message == f"the environment variable `{variable}` is not {what}"
    assert "hush" not in repr(finding)


@pytest.mark.parametrize("word", ["lo", "0", "${env:N}"])
def test_a_variable_that_is_neither_a_number_nor_one_of_the_words_is_named_with_what_it_may_be(word: str) -> None:
    plain, (finding,) = resolved(BUB_REASONING=word)
    assert plain == {}
    assert finding.message == (
        "the environment variable `BUB_REASONING` must be `off`, `low`, `medium`, `high` or a number of tokens"
    )


@pytest.mark.parametrize(("word", "value"), [("high", "high"), ("500", 500)])
def test_a_reference_may_stand_for_a_word_where_a_number_can_be(word: str, value: object) -> None:
    assert settings_of("settings: {reasoning: '${env:R}'}", R=word) == {"reasoning": value}


def test_a_reference_that_stands_for_no_such_word_is_named_with_what_it_may_be() -> None:
    plain, (finding,) = resolved("settings: {reasoning: '${env:R}'}", R="hush")
    assert plain == {}
    assert finding.message == "the value of the reference must be `off`, `low`, `medium`, `high` or a number of tokens"
    assert "hush" not in repr(finding)


def test_a_reference_of_the_wrong_type_is_named_without_its_value() -> None:
    plain, (finding,) = resolved("settings: {max_tokens: '${env:N}'}", N="hush")
    assert plain == {}
    assert (finding.code, finding.path, finding.range.start.column) == ("B034", "settings.max_tokens", 24)
    assert "hush" not in repr(finding)


def test_what_a_variable_sets_need_not_be_readable_in_the_file() -> None:
    text = "settings: {api_key: '${env:GONE}', max_tokens: '${file:gone}', model: '${MODEL}'}"
    plain, findings = resolved(text, BUB_API_KEY="k", BUB_MAX_TOKENS="1", BUB_MODEL="m")
    assert plain == {"api_key": "k", "max_tokens": 1, "model": "m"}
    assert [item.code for item in findings] == ["B030"]
    assert [item.code for item in resolved(text)[1]] == ["B031", "B032", "B030"]


def test_a_setting_knows_its_variable() -> None:
    assert variable_of(["telegram", "token"]) == "BUB_TELEGRAM_TOKEN"
    assert variable_of(["providers", "my-own", "api_key"]) == "BUB_PROVIDERS_MY_OWN_API_KEY"


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ({"minimum": 0, "maximum": 10}, "must be from 0 to 10"),
        ({"minimum": 0}, "must be at least 0"),
        ({"maximum": 10}, "must be at most 10"),
        ({"minimum": 0, "errorMessage": "must be 0 or more"}, "must be 0 or more"),
    ],
)
def test_a_number_out_of_bounds_is_told_its_bounds(inner: dict[str, object], said: str) -> None:
    schema = {"properties": {"retries": {"type": "integer", **inner}}}
    value = "99" if inner.get("maximum") else "-7"
    _, (found,) = resolve_settings(load_text("version: 1").root, {"BUB_RETRIES": value}, base=None, schema=schema)
    assert (found.code, found.message) == ("B034", f"the environment variable `BUB_RETRIES` {said}")
    root = load_text("settings: {retries: '${env:N}'}").root
    _, (found,) = resolve_settings(root, {"N": value}, base=None, schema=schema)
    assert found.message == f"the value of the reference {said}"
    assert found.range.start.line == 1


def test_a_finding_about_a_variable_stands_in_no_file() -> None:
    root = load_text("version: 1", file="mine.yaml").root
    schema = {"properties": {"retries": {"type": "integer"}}}
    _, (found,) = resolve_settings(root, {"BUB_RETRIES": "x"}, base=None, schema=schema)
    assert found.file == "the environment"


def test_a_number_in_the_environment_keeps_to_the_bounds_of_its_schema() -> None:
    schema = {"properties": {"retries": {"type": "integer", "minimum": 0, "maximum": 10}}}
    root = load_text("version: 1").root
    assert resolve_settings(root, {"BUB_RETRIES": "10"}, base=None, schema=schema) == ({"retries": 10}, ())
    _, found = resolve_settings(root, {"BUB_RETRIES": "99"}, base=None, schema=schema)
    assert [finding.code for finding in found] == ["B034"]


class TestAKeyGoesToItsOwnProvider:
    FILE: ClassVar = {"model": "openai:x", "api_key": "k", "api_base": "http://one/v1"}

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ([FILE], {"api_key", "api_base"}),
            ([FILE, {"model": "openai:y"}], {"api_key", "api_base"}),
            ([FILE, {"model": "groq:y"}], set()),
            ([FILE, {"model": "groq:y", "api_key": "other"}], {"api_key"}),
            ([{"api_key": "k"}, {"model": "groq:y"}], {"api_key"}),
            ([{"api_key": "k"}, {"model": "groq:y"}, {"model": "openai:x"}], set()),
            ([{"model": "openai:x"}, {"api_key": "k"}], {"api_key"}),
            ([{"model": "openai:x"}, {"model": "groq:y"}, {"api_key": "k"}], {"api_key"}),
            ([{"model": "bare", "api_key": "k", "api_base": "b"}], {"api_key", "api_base"}),
            ([{"model": "bare", "api_key": "k"}, {"model": "openai:x"}], set()),
        ],
    )
    def test_what_a_layer_gives_belongs_to_the_model_in_force_there(
        self, said: list[dict[str, str]], kept: set[str]
    ) -> None:
        merged: dict[str, str] = {name: value for layer in said for name, value in layer.items()}
        settings = for_the_same_provider(merged, said)
        assert set(settings) - {"model"} == kept
        assert settings["model"] == merged["model"]
