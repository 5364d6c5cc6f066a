"""The walk over a JSON Schema: what one says of a value, wherever it says it.

A schema is a document of its own: its references lead to places in it (`#/$defs/secret`), as RFC 6901 writes them in
an address: percent-encoded, with `~1` for a slash and `~0` for a tilde. Whatever a plugin's schema holds, nothing here
raises, and circles end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = Mapping[str, Any]

Steps: TypeAlias = tuple[str | int, ...]
"""The way to a value: the keys above it and its own, and indexes into lists."""

_LISTS = ("allOf", "anyOf", "oneOf")
_PARTS = ("if", "then", "else")
_OPEN = (None, "object", "array")


def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct, the object itself at its top.

    Types that it refers to are written where they are used, without their docstrings, since not every reader follows
    references; a type that holds itself has no end without them.
    """
    whole = msgspec.json.schema(struct)
    shared = dict(whole.pop("$defs", {}))
    own = shared.pop(whole["$ref"].rpartition("/")[2])
    kept = {key: own[key] for key in ("type", "properties", "required") if key in own}
    plain = {**kept, "additionalProperties": False}
    try:
        return {key: _inline(value, shared) for key, value in plain.items()}
    except RecursionError:
        return {**plain, "$defs": shared}


def _inline(value: Any, shared: Schema) -> Any:
    if isinstance(value, list):
        return [_inline(each, shared) for each in value]
    if not isinstance(value, Mapping):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        beside = {key: each for key, each in value.items() if key != "$ref"}
        found = {
            key: each
            for key, each in shared[reference.rpartition("/")[2]].items()
            if key not in ("title", "description")
        }
        return _inline({**found, **beside}, shared)
    return {key: _inline(each, shared) for key, each in value.items()}


def join_steps(steps: Steps) -> str:
    """Write a path as people do: `stages.prompt.needs[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def look_up(reference: str, whole: Any) -> Any:
    """What a `$ref` leads to in its own document; None when it leads nowhere, or out of the document."""
    from referencing import Registry  # 30 ms that only a schema with references pays
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    head, _, pointer = reference.partition("#")
    if head or not reference or (pointer and not pointer.startswith("/")):
        return None
    document, resolver = DRAFT202012.create_resource(whole), Registry[Any]().resolver()
    try:
        return document.pointer(pointer=pointer, resolver=resolver).contents
    except (Unresolvable, TypeError, ValueError):  # no such key, a step into a text, or a list's item by a name
        return None


def follow_references(schema: Any, whole: Schema) -> Schema:
    """Merge a schema with what its `$ref` leads to, over all hops; its own words win. Without a schema it is {}."""
    found: Schema = schema if isinstance(schema, Mapping) else {}
    seen: set[str] = set()
    while isinstance(reference := found.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target = look_up(reference, whole)
        own = {keyword: value for keyword, value in found.items() if keyword != "$ref"}
        found = {**(target if isinstance(target, Mapping) else {}), **own}
    return found


def part_at(schema: Schema, step: str | int) -> Any:
    """What a schema without references says of the value at `step`: a schema, true or false; None for nothing."""
    if isinstance(step, int):
        first = schema.get("prefixItems") or ()
        return first[step] if step < len(first) else schema.get("items")
    named = schema.get("properties") or {}
    if step in named:
        return named[step]
    patterns = (schema.get("patternProperties") or {}).items()
    return next((free for pattern, free in patterns if re.search(pattern, step)), schema.get("additionalProperties"))


def speakers(schema: Any, whole: Schema) -> list[Schema]:
    """Return every schema that may decide about a value.

    That is `schema`, what its references lead to, and the parts of its `allOf`, `anyOf`, `oneOf`, `if`, `then`, `else`
    and `dependentSchemas`, whether they hold in the end or not.
    """
    found: dict[int, Schema] = {}
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if one is True:
            one = _ANYTHING
        if not isinstance(one, Mapping) or id(one) in found:
            continue
        found[id(one)] = one
        if isinstance(one.get("$ref"), str):
            waiting.append(look_up(one["$ref"], whole))
        for keyword in _LISTS:
            waiting += one.get(keyword) or ()
        waiting += (one[keyword] for keyword in _PARTS if keyword in one)
        waiting += (one.get("dependentSchemas") or {}).values()
    return list(found.values())


def schemas_along(whole: Schema, steps: Sequence[str | int]) -> Iterator[list[Schema]]:
    """The schemas that stand for the whole value, then for each part of it on the way that `steps` go.

    What they refer to is found with `speakers`. A list is empty when no schema knows of such a part, since there are
    other names, or none at all; a schema for anything is {}.
    """
    here: list[Schema] = [whole]
    yield here
    for step in steps:
        here = _below(_all_speakers(here, whole), step)
        yield here


def _all_speakers(schemas: list[Schema], whole: Schema) -> list[Schema]:
    return [one for schema in schemas for one in speakers(schema, whole)]


def _below(schemas: list[Schema], step: str | int) -> list[Schema]:
    said = [_ANYTHING if one is True else one for schema in schemas for one in _parts_said_by(schema, step)]
    found = {id(one): one for one in said if isinstance(one, Mapping)}
    if found or not schemas or any(_is_closed(schema) for schema in schemas):
        return list(found.values())
    return [_ANYTHING]


def _parts_said_by(schema: Schema, step: str | int) -> Iterator[Any]:
    """What one schema by itself says of a part of a value: all that may hold for it."""
    if isinstance(step, int):
        yield part_at(schema, step)
        yield from (schema.get(keyword) for keyword in ("contains", "unevaluatedItems"))
        return
    yield part_at(schema, step)
    yield from (free for pattern, free in (schema.get("patternProperties") or {}).items() if re.search(pattern, step))
    yield schema.get("unevaluatedProperties")


def _is_closed(schema: Schema) -> bool:
    """Whether a schema names all that there is, so that another name is a slip; one for a text has no room for any."""
    stated = schema.get("type")
    types = stated if isinstance(stated, list) else [stated]
    return bool(schema.get("properties")) or part_at(schema, "") is False or not any(one in _OPEN for one in types)


def fits(value: Any, schema: Any, whole: Schema) -> bool:
    """Whether a text or a number is of a type that a schema wants, and of its `pattern`; the rest is not looked at."""
    return _fits(value, schema, whole, frozenset())


def _fits(value: Any, schema: Any, whole: Schema, above: frozenset[int]) -> bool:
    if not isinstance(schema, Mapping):
        return schema is not False
    if id(schema) in above:
        return True
    above |= {id(schema)}
    stated = schema.get("type", list(_TYPES))
    types = [stated] if isinstance(stated, str) else stated
    if not any(isinstance(value, _TYPES.get(name, ())) for name in types):
        return False
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if isinstance(reference := schema.get("$ref"), str) and not _fits(value, look_up(reference, whole), whole, above):
        return False
    if not all(_fits(value, part, whole, above) for part in schema.get("allOf") or ()):
        return False
    choices = [schema[keyword] for keyword in ("anyOf", "oneOf") if schema.get(keyword)]
    return all(any(_fits(value, part, whole, above) for part in parts) for parts in choices)


_ANYTHING: Schema = MappingProxyType({})
_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType({"string": (str,), "integer": (int,), "number": (int, float)})
