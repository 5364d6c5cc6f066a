"""A class of typed settings held against the schema of its section, which is the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bub.base.json_schema import follow_references
from bub.pipeline.plan.settings import types_of
from bub.pipeline.source.schemas import whole_settings_schema
from bub.plugins import section
from bub.secrets.verdict import is_marked

_BOUNDS = ("enum", "exclusiveMaximum", "exclusiveMinimum", "maximum", "maxLength", "minimum", "minLength")


def against_schema(settings: type[section.Settings], schema: Mapping[str, Any] | None = None) -> list[str]:
    """Return what a class of settings and the schema of its section say differently, a line each; [] if they agree.

    Without `schema` it is the one that is shipped or installed for the section. They have to have the same
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
        for name in follow_references(schema, schema).get("properties") or {}
        if is_marked((name,), schema) and name not in secrets
    ]
    return [*told, *_differences(ours, ours, schema, schema, "", settings.__name__)]


def _differences(
    ours: Any, our_whole: Mapping[str, Any], theirs: Any, their_whole: Mapping[str, Any], path: str, who: str
) -> Iterator[str]:
    ours, theirs = (
        _unwrap_optional(follow_references(ours, our_whole), our_whole),
        follow_references(theirs, their_whole),
    )
    our_types, their_types = (_types(one, whole) for one, whole in ((ours, our_whole), (theirs, their_whole)))
    if our_types != their_types:
        yield f"{path}: {_join_types(our_types)} in {who}, {_join_types(their_types)} in the schema"
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


def _unwrap_optional(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a setting is that may also be left out, which a class says as `… | None`."""
    inner = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return follow_references(inner[0], whole) if len(inner) == 1 else schema


def _types(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of a setting, except the text that a reference is, and for nothing at all."""
    types = frozenset(types_of(schema, whole)) - {"null"}
    if not types and "enum" in schema:
        return frozenset({"string"})
    return types - {"string"} or types


def _join_types(types: frozenset[str]) -> str:
    return " or ".join(sorted(types)) or "anything"
