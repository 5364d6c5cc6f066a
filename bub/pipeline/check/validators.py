"""Validators for JSON Schema as pipeline files mean it; nothing here imports jsonschema before one is asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from bub.pipeline.check.quick import Fits, ends_at_the_end, quick_check
from bub.pipeline.source.schemas import Schema, pipeline_schema, settings_schema

if TYPE_CHECKING:  # importing jsonschema costs 100 ms, which only the checking functions pay
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator


@cache
def validator_class() -> type[Validator]:
    import jsonschema
    from jsonschema.validators import extend

    # 2.0 is no count and NaN no temperature: stricter than JSON Schema, since the engine needs real integers.
    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: (
                isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            ),
        }
    )

    def pattern(_: Validator, wanted: str, value: Any, __: Schema) -> Iterator[ValidationError]:
        if isinstance(value, str) and not re.search(ends_at_the_end(wanted), value):
            yield jsonschema.ValidationError("does not match its pattern")

    base = jsonschema.Draft202012Validator
    stricter: type[Validator] = extend(base, {"pattern": pattern}, type_checker=types)  # type: ignore[no-untyped-call]
    return stricter


@cache
def _resolved_schema() -> dict[str, Any]:
    resolved: dict[str, Any] = _inline_references(pipeline_schema())
    return resolved


@cache
def pipeline_validator() -> Validator:
    return validator_class()(_resolved_schema())


@cache
def pipeline_check() -> Fits:
    """What says of most pipeline files without a mistake that they have none; all others need the validator."""
    return quick_check(pipeline_schema(), _resolve)


_OF_PROPERTIES = ("properties", "patternProperties")
_OF_ONE = ("items", "additionalProperties", "propertyNames")
_LEFT_OUT = ("$schema", "$ref", "$defs", "allOf", "description", "markdownDescription", "defaultSnippets", "examples")


def _inline_references(schema: Any) -> Any:
    """The schema with every part of it as `_resolve` gives it: three times as fast to check."""
    if isinstance(schema, bool):
        return schema
    resolved = _resolve(schema)
    for keyword in resolved:
        if keyword in _OF_PROPERTIES:
            resolved[keyword] = {name: _inline_references(below) for name, below in resolved[keyword].items()}
        elif keyword in _OF_ONE:
            resolved[keyword] = _inline_references(resolved[keyword])
    return resolved


def _resolve(schema: Schema) -> dict[str, Any]:
    """One part of the schema without a reference of its own, annotations and the conditions about kinds."""
    if "$ref" in schema:
        schema = {**_definition(schema["$ref"].removeprefix("#/$defs/")), **schema}
    resolved = {keyword: value for keyword, value in schema.items() if keyword not in _LEFT_OUT}
    others = resolved.get("additionalProperties")
    for keyword in resolved.keys() & set(_OF_PROPERTIES):
        named = resolved[keyword].items()
        resolved[keyword] = {name: below for name, below in named if not _is_one_of(below, others)}
    return resolved


def _definition(name: str) -> Schema:
    # The sections of plugins are checked one by one, each against a schema of its own.
    definition: Schema = settings_schema() if name == "settings" else pipeline_schema()["$defs"][name]
    return definition


def _is_one_of(named: Any, others: Any) -> bool:
    """Whether a key is named for editors alone: its value is held to what any other key's is."""
    return (
        isinstance(named, dict) and isinstance(others, dict) and "$ref" in named and named["$ref"] == others.get("$ref")
    )
