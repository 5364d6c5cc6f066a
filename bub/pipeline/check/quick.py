"""Tells of most values that fit a schema that they do, without the library for schemas and in a tenth of its time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType, NoneType
from typing import Any, TypeAlias

from bub.pipeline.source.schemas import Schema

Fits: TypeAlias = Callable[[Any], bool]
"""Whether a value surely fits; if not, a validator has to be asked."""

Resolve: TypeAlias = Callable[[Schema], Schema]
"""Gives one part of a schema without a reference of its own."""

_TYPES: Mapping[str, type] = MappingProxyType(
    {"string": str, "integer": int, "object": dict, "array": list, "boolean": bool, "null": NoneType}
)
_NOTES = frozenset(
    {"title", "errorMessage", "deprecationMessage", "markdownEnumDescriptions", "default", "deprecated", "writeOnly"}
)
"""What a schema says to people, or to tools of theirs."""

_OF_MAPPINGS = frozenset({"properties", "patternProperties", "additionalProperties"})


def quick_check(schema: Schema | bool, resolve: Resolve = lambda schema: schema) -> Fits:
    """Make the check of a schema without references, or that `resolve` takes them out of.

    One with a keyword that is not known here is sure of nothing.
    """
    if isinstance(schema, bool):
        return lambda _: schema
    checks = list(_checks_of(resolve(schema), resolve))
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def ends_at_the_end(pattern: str) -> str:
    """A pattern as other languages mean it: in Python `$` also matches before a last line break."""
    return pattern[:-1] + r"\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern


def _later(schema: Schema | bool, resolve: Resolve) -> Fits:
    """The check of a part, made once a value is held against it: a file says little of all that it could."""
    make = cache(partial(quick_check, schema, resolve))
    return lambda value: make()(value)


def _checks_of(schema: Schema, resolve: Resolve) -> Iterator[Fits]:
    for keyword, wanted in schema.items():
        if keyword in _MAKERS:
            yield _MAKERS[keyword](wanted)
        elif keyword in _MAKERS_OF_PARTS:
            yield _MAKERS_OF_PARTS[keyword](_later(wanted, resolve))
        elif keyword not in _OF_MAPPINGS and keyword not in _NOTES and not keyword.startswith("x-"):
            yield lambda _: False
    if not _OF_MAPPINGS.isdisjoint(schema):
        yield _entries(schema, resolve)


def _of_type(wanted: str | list[str]) -> Fits:
    names = [wanted] if isinstance(wanted, str) else wanted
    types = frozenset(_TYPES[name] for name in names if name != "number")
    if "number" not in names:
        return lambda value: type(value) in types
    return lambda value: type(value) in types or type(value) is int or (type(value) is float and math.isfinite(value))


def _one_of(wanted: list[Any]) -> Fits:
    known = {(type(one), one) for one in wanted}
    return lambda value: not isinstance(value, dict | list) and (type(value), value) in known


def _matching(wanted: str) -> Fits:
    find = re.compile(ends_at_the_end(wanted)).search
    return lambda value: not isinstance(value, str) or find(value) is not None


def _entries(schema: Schema, resolve: Resolve) -> Fits:
    named = {name: _later(part, resolve) for name, part in schema.get("properties", {}).items()}
    patterns = [
        (re.compile(pattern).search, _later(part, resolve))
        for pattern, part in schema.get("patternProperties", {}).items()
    ]
    others = _later(schema.get("additionalProperties", True), resolve)

    def fits(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        for name, below in value.items():
            own = named.get(name)
            if own is not None and not own(below):
                return False
            like = [check for find, check in patterns if find(name)]
            if not all(check(below) for check in like) or (own is None and not like and not others(below)):
                return False
        return True

    return fits


def _items(check: Fits) -> Fits:
    return lambda value: not isinstance(value, list) or all(check(item) for item in value)


def _names(check: Fits) -> Fits:
    return lambda value: not isinstance(value, dict) or all(check(name) for name in value)


def _required(wanted: list[str]) -> Fits:
    return lambda value: not isinstance(value, dict) or all(name in value for name in wanted)


def _unlike(wanted: bool) -> Fits:
    """That no two items are alike; of others than texts it is sure of nothing."""
    return lambda value: (
        not wanted
        or not isinstance(value, list)
        or (all(isinstance(item, str) for item in value) and len(set(value)) == len(value))
    )


def _at_least(kind: type[Any]) -> Callable[[int], Fits]:
    return lambda least: lambda value: not isinstance(value, kind) or len(value) >= least


_MAKERS: Mapping[str, Callable[[Any], Fits]] = MappingProxyType(
    {
        "type": _of_type,
        "enum": _one_of,
        "pattern": _matching,
        "required": _required,
        "uniqueItems": _unlike,
        "minLength": _at_least(str),
        "minItems": _at_least(list),
        "minProperties": _at_least(dict),
        "minimum": lambda least: lambda value: not isinstance(value, int | float) or value >= least,
        "maximum": lambda most: lambda value: not isinstance(value, int | float) or value <= most,
    }
)

_MAKERS_OF_PARTS: Mapping[str, Callable[[Fits], Fits]] = MappingProxyType({"items": _items, "propertyNames": _names})
