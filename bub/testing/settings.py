"""A class of typed settings held against the schema of its section, which is the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bub import section
from bub.pipeline.schema import whole_settings_schema
from bub.settings import deref, types_of

_BOUNDS = ("enum", "exclusiveMaximum", "exclusiveMinimum", "maximum", "maxLength", "minimum", "minLength")


def against_schema(settings: type[section.Settings], schema: Mapping[str, Any] | None = None) -> list[str]:
    """What a class of settings and the schema of its section say differently, a line each; [] where they agree.

    `schema` is the one that is shipped or installed for the section, where it is left out. They have to have the same
    settings, of the same types. The class may leave out bounds, which the schema holds to, but not have others, and it
    has to keep secret what the schema does.
    """
    if schema is None:
        schema = whole_settings_schema([settings.__section__])["properties"].get(settings.__section__)
        if schema is None:
            return [f"there is no schema for the section `{settings.__section__}`"]
    ours = msgspec.json.schema(settings)
    secrets = section.secrets_of(settings)
    told = [
        f"{name}: the schema keeps it secret, and {settings.__name__} does not"
        for name, inner in (deref(schema, schema).get("properties") or {}).items()
        if deref(inner, schema).get("writeOnly") and name not in secrets
    ]
    return [*told, *_differences(ours, ours, schema, schema, "", settings.__name__)]


def _differences(
    ours: Any, our_whole: Mapping[str, Any], theirs: Any, their_whole: Mapping[str, Any], path: str, who: str
) -> Iterator[str]:
    ours, theirs = _alone(deref(ours, our_whole), our_whole), deref(theirs, their_whole)
    our_types, their_types = (_types(one, whole) for one, whole in ((ours, our_whole), (theirs, their_whole)))
    if our_types != their_types:
        yield f"{path}: {_listed(our_types)} in {who}, {_listed(their_types)} in the schema"
    for bound in _BOUNDS:
        if bound in ours and ours[bound] != theirs.get(bound):
            yield f"{path}: `{bound}` is {ours[bound]} in {who}, {theirs.get(bound)} in the schema"
    mine, other = ours.get("properties") or {}, theirs.get("properties") or {}
    prefix = f"{path}." if path else ""
    yield from (f"{prefix}{name}: only in {who}" for name in mine if name not in other)
    yield from (f"{prefix}{name}: only in the schema" for name in other if name not in mine)
    for name in mine:
        if name in other:
            yield from _differences(mine[name], our_whole, other[name], their_whole, f"{prefix}{name}", who)
    for inner, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(ours.get(inner), Mapping) and isinstance(theirs.get(inner), Mapping):
            yield from _differences(ours[inner], our_whole, theirs[inner], their_whole, f"{path}{step}", who)


def _alone(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a setting is that may also be left out, which a class says as `… | None`."""
    inner = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return deref(inner[0], whole) if len(inner) == 1 else schema


def _types(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> frozenset[str]:
    """The types of a setting, but for the text that a reference is, and for nothing at all."""
    types = frozenset(types_of(schema, whole)) - {"null"}
    if not types and "enum" in schema:
        return frozenset({"string"})
    return types - {"string"} or types


def _listed(types: frozenset[str]) -> str:
    return " or ".join(sorted(types)) or "anything"
