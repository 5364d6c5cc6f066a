"""The JSON Schemas of pipeline files and of settings: those that are shipped, and those that plugins bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from bub.base.resources import shipped_schema
from bub.pipeline.source import late

Schema = Mapping[str, Any]


@cache
def pipeline_schema() -> Schema:
    """Return the schema of a pipeline file as it is published for editors."""
    return _load("pipeline.schema.json")


@cache
def settings_schema() -> Schema:
    """Return the schema of `settings`: Bub's own keys; any other key is a plugin's section and a mapping."""
    return _load("settings", "builtin.schema.json")


@cache
def names_of_settings() -> list[str]:
    """Return the keys of `settings` that are Bub's own."""
    return list(settings_schema()["properties"])


@cache
def shipped_sections() -> Mapping[str, Schema]:
    """Return the schemas of the shipped plugins' sections of `settings`, by plugin."""
    names = (path.name for path in shipped_schema("settings").glob("*.schema.json"))
    plugins = sorted(name.removesuffix(".schema.json") for name in names if not name.startswith("builtin."))
    return {plugin: _load("settings", f"{plugin}.schema.json") for plugin in plugins}


def whole_settings_schema(plugins: Iterable[str] = (), *, pointer: str = "#") -> dict[str, Any]:
    """Return the schema of `settings` with plugins' sections: the shipped ones, and what is installed for `plugins`.

    `pointer` says at which place it will be in another schema.
    """
    own, shipped, installed = settings_schema(), shipped_sections(), {}
    for plugin in plugins:
        found = late.installed_section(plugin) if plugin not in shipped and plugin not in own["properties"] else None
        if found is not None and found.schema is not None:
            installed[plugin] = found.schema
    if installed:
        return settings_schema_with({**shipped, **installed}, pointer=pointer)
    return dict(_shipped_settings_schema(pointer))


@cache
def _shipped_settings_schema(pointer: str) -> Schema:
    return settings_schema_with(shipped_sections(), pointer=pointer)


def settings_schema_with(sections: Mapping[str, Schema], *, pointer: str = "#") -> dict[str, Any]:
    """Return the schema of `settings` with these schemas for the plugins' sections in it; `pointer` is as above."""
    own = settings_schema()
    placed = {plugin: embed_section(sections[plugin], f"{pointer}/properties/{plugin}") for plugin in sorted(sections)}
    return {**own, "properties": {**own["properties"], **placed}}


def embed_section(schema: Schema, pointer: str) -> dict[str, Any]:
    """Make a section's schema part of another one, in which it is at `pointer` (`#/properties/telegram`)."""
    moved: dict[str, Any] = _move_references(schema, pointer)
    return {**{keyword: value for keyword, value in moved.items() if keyword != "$schema"}, "type": "object"}


def _move_references(value: Any, pointer: str) -> Any:
    if isinstance(value, list):
        return [_move_references(item, pointer) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: pointer + inner[1:] if name == "$ref" and isinstance(inner, str) else _move_references(inner, pointer)
        for name, inner in value.items()
    }


def _load(*parts: str) -> Schema:
    loaded: Schema = msgspec.json.decode(shipped_schema(*parts).read_bytes())
    return loaded
