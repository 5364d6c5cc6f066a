"""`bub.Settings`: a plugin's section as a typed object, whose errors name the setting and never show a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import pytest
from conftest import Write
from fakes.command_line import bub

import bub as public
from bub import BubFramework, Settings
from bub.base.diagnostics import PipelineError
from bub.errors import BubError
from bub.testing import against_schema

MARKED = {"writeOnly": True}


class Chat(Settings):
    id: str
    quiet: bool = False


class TelegramSettings(Settings, section="telegram"):
    allow_chats: tuple[str, ...] = ()
    token: str
    pin: Annotated[str, msgspec.Meta(extra_json_schema=MARKED)] | None = None
    retries: Annotated[int, msgspec.Meta(ge=0)] = 3
    mode: Literal["poll", "push"] = "poll"
    chats: dict[str, Chat] = msgspec.field(default_factory=dict)


@dataclass
class Framework:
    settings: dict[str, Any] = field(default_factory=dict)


def read(**section: Any) -> TelegramSettings:
    return TelegramSettings.of(Framework({"telegram": section}))


def test_a_section_is_read_into_typed_fields_and_what_is_left_out_has_its_default() -> None:
    own = read(token="12:x", allow_chats=["-1"], retries="5", chats={"home": {"id": "1", "quiet": "true"}})
    assert (own.token, own.allow_chats, own.retries, own.mode) == ("12:x", ("-1",), 5, "poll")
    assert own.chats["home"] == Chat(id="1", quiet=True)


def test_they_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        read(token="x").token = "y"  # type: ignore[misc]


def test_a_section_that_nobody_wrote_is_one_of_defaults() -> None:
    class Empty(Settings, section="empty"):
        name: str = "nobody"

    assert Empty.of(Framework()).name == Empty.of(Framework({"empty": None})).name == "nobody"


@pytest.mark.parametrize(
    ("section", "said", "advice"),
    [
        ({}, "the setting `telegram.token` is missing", "under `settings:`"),
        ({"token": "s", "retires": 1}, "there is no setting `telegram.retires`", "did you mean `retries`?"),
        ({"token": "s", "zzz": 1}, "there is no setting `telegram.zzz`", "there are allow_chats, token, pin"),
        (
            {"token": "s", "retries": "hush"},
            "the setting `telegram.retries` is wrong: expected `int`, got `str`",
            "cor",
        ),
        ({"token": "s", "retries": -1}, "the setting `telegram.retries` is wrong: expected `int` >= 0", "correct it"),
        ({"token": "s", "mode": "hush"}, "the setting `telegram.mode` has a value that it cannot have", "correct it"),
        ({"token": "s", "chats": {"a": {}}}, "the setting `telegram.chats[...].id` is missing", "under `settings:`"),
        ("hush", "the setting `telegram` is wrong: expected `object`, got `str`", "correct it"),
    ],
)
def test_what_is_wrong_is_told_with_its_path_and_without_its_value(section: Any, said: str, advice: str) -> None:
    with pytest.raises(BubError) as caught:
        TelegramSettings.of(Framework({"telegram": section}))
    assert str(caught.value) == said
    assert advice in (caught.value.help or "")
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_secret_is_shown_where_settings_are_printed() -> None:
    shown = repr(read(token="12:hush", pin="hush-too", allow_chats=["-1"]))
    assert shown.startswith("TelegramSettings(allow_chats=('-1',), token='***', pin='***', retries=3")
    assert "hush" not in f"{shown}{[read(token='hush')]}{read(token='hush').__rich_repr__()}"
    assert "pin=None" in repr(read(token="x"))


def test_a_class_without_a_section_cannot_be_read() -> None:
    with pytest.raises(TypeError, match="Chat has no section"):
        Chat.of(Framework())


def test_a_class_that_extends_another_is_of_its_section() -> None:
    class More(TelegramSettings):
        topic: str = "news"

    assert More.of(Framework({"telegram": {"token": "x", "topic": "weather"}})).topic == "weather"


def test_it_is_public() -> None:
    assert public.Settings is Settings


def test_a_plugin_that_is_told_too_little_ends_the_start_with_the_setting(write: Write) -> None:
    write(
        "work/lamp.py",
        """
        from bub import Settings, hookimpl

        class LampSettings(Settings, section="lamp"):
            token: str
            level: int = 1

        class Lamp:
            def __init__(self, framework):
                self.settings = LampSettings.of(framework)

            @hookimpl
            def run_model(self):
                return f"level {self.settings.level + 1}"

        plugin = Lamp
        """,
    )
    text = (
        "version: 1\nextends: bub:default\nplugins: {lamp: {path: lamp.py}}\nprofiles: {default: {plugins: [lamp]}}\n"
    )
    file = write("work/pipelines.yaml", text)
    with pytest.raises(PipelineError) as caught:
        BubFramework(file).load_hooks()
    (finding,) = caught.value.diagnostics
    assert (finding.code, "the setting `lamp.token` is missing" in finding.message) == ("B200", True)
    write("work/pipelines.yaml", text + 'settings: {lamp: {token: "${env:LAMP}", level: "${env:LEVEL}"}}\n')
    ended = bub(file.parent, "--config", str(file), "run", "hi", LAMP="hush", LEVEL="2")
    assert ended.stdout == "[cli:local]\nlevel 3\n"


# Against the schema

SCHEMA = {
    "type": "object",
    "$defs": {"chat": {"type": "object", "properties": {"id": {"type": "string"}, "quiet": {"type": "boolean"}}}},
    "properties": {
        "token": {"type": "string", "writeOnly": True},
        "pin": {"type": "string", "writeOnly": True},
        "allow_chats": {"type": "array", "items": {"type": "string"}},
        "retries": {"type": ["integer", "string"], "pattern": "^\\$", "minimum": 0, "maximum": 9},
        "mode": {"enum": ["poll", "push"]},
        "chats": {"type": "object", "additionalProperties": {"$ref": "#/$defs/chat"}},
    },
}


def test_a_class_that_says_what_its_schema_says_differs_in_nothing() -> None:
    assert against_schema(TelegramSettings, SCHEMA) == []


@pytest.mark.parametrize(
    ("name", "inner", "told"),
    [
        ("retries", {"type": "string", "minimum": 0}, "retries: integer in TelegramSettings, string in the schema"),
        ("retries", {"type": "integer", "minimum": 1}, "retries: `minimum` is 0 in TelegramSettings, 1 in the schema"),
        ("mode", {"enum": ["poll"]}, "mode: `enum` is ['poll', 'push'] in TelegramSettings, ['poll'] in the schema"),
        ("mode", None, "mode: only in TelegramSettings"),
        ("topic", {"type": "string"}, "topic: only in the schema"),
        ("mode", {"enum": ["poll", "push"], "writeOnly": True}, "mode: the schema keeps it secret, and"),
        ("allow_chats", {"type": "array", "items": {"type": "integer"}}, "allow_chats[]: string in Telegram"),
        (
            "chats",
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"id": {"type": "string"}}}},
            "chats.*.quiet: only in TelegramSettings",
        ),
    ],
)
def test_each_difference_from_the_schema_is_told(name: str, inner: Any, told: str) -> None:
    properties = {key: value for key, value in {**SCHEMA["properties"], name: inner}.items() if value}  # type: ignore[dict-item]
    (difference,) = against_schema(TelegramSettings, {**SCHEMA, "properties": properties})
    assert difference.startswith(told)


def test_a_section_that_no_schema_describes_is_said_to_have_none() -> None:
    class Pigeons(Settings, section="pigeons"):
        home: str

    assert against_schema(Pigeons) == ["there is no schema for the section `pigeons`"]
