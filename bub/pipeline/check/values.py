"""Values that a schema does not allow: what is there, what has to, and what to write instead."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bub.base.diagnostics import Diagnostic, Related, ask_for, suggest, sure_repair
from bub.pipeline.check.schema_finding import BAD_VALUE, UNKNOWN_VALUE, WRONG_TYPE, make_finding
from bub.pipeline.check.words import (
    COLLECTIONS,
    Path,
    describe,
    entry_word,
    join_names,
    may_be_told,
    name_value,
    pattern_of,
    shorten,
)
from bub.pipeline.source.document import Node
from bub.pipeline.source.schemas import Schema

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


def explain_empty(schema: Schema, node: Node, path: Path) -> Diagnostic:
    expected = schema.get("type")
    hint = {
        "object": "write `{}` if that is on purpose, or remove the line",
        "array": "write `[]` if that is on purpose, or remove the line",
    }.get(str(expected), "give it a value, or remove the line")
    return make_finding(WRONG_TYPE, f"{describe(path)} is empty", node.where, path, help=hint)


_EXPECTED = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "object": "a mapping",
    "array": "a list",
}
_TRUTHS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}


_VERSION = "write `version: 1`: it is the version of the format, not of the file"


def explain_wrong_type(schema: Schema, node: Node, path: Path, is_hidden: bool) -> Diagnostic:
    types = schema.get("type")
    expected = str(types[0] if isinstance(types, list) else types)
    if "enum" in schema:
        wanted = f"must be {join_names([str(value) for value in schema['enum']])}"
    elif isinstance(types, list) and "errorMessage" in schema:
        wanted = schema["errorMessage"]
    else:
        wanted = f"must be {_EXPECTED.get(expected, 'something else')}"
    hint, fix = _find_repair(expected, schema, node, path, is_hidden)
    actual = _describe_actual(node.value, expected, is_told=not is_hidden and may_be_told(path))
    message = f"{describe(path)} {wanted}, not {actual}"
    return make_finding(WRONG_TYPE, message, node.place, path, help=hint, fix=fix)


def explain_unknown_value(schema: Schema, node: Node, path: Path, is_hidden: bool) -> Diagnostic:
    values = [str(value) for value in schema["enum"]]
    message = f"{describe(path)} must be {join_names(values)}"
    if is_hidden:
        return make_finding(UNKNOWN_VALUE, message, node.place, path)
    written = str(node.value)
    meant = suggest(written, values)
    hint = _VERSION if path == ("version",) else ask_for(meant)
    fix = sure_repair(written, values) if isinstance(node.value, str) else None
    message = f"{message}, not `{shorten(written)}`"
    return make_finding(UNKNOWN_VALUE, message, node.place, path, help=hint, fix=fix, likely=meant)


def _describe_actual(value: Any, expected: str, *, is_told: bool) -> str:
    """What is where something else has to, with the value itself if that is to be told."""
    if isinstance(value, bool):
        return f"`{json.dumps(value)}`" if is_told else "true or false"
    if isinstance(value, float) and not math.isfinite(value):
        return "`.inf` or `.nan`"
    if value is None:
        return "nothing"
    if isinstance(value, dict | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        kind = "text"
    else:
        kind = "fraction" if isinstance(value, float) and expected == "integer" else "number"
    if is_told:
        return f"the {kind} {name_value(value)}"
    return kind if kind == "text" else f"a {kind}"


def _find_repair(
    expected: str, schema: Schema, node: Node, path: Path, is_hidden: bool
) -> tuple[str | None, str | None]:
    """What to do about a value of the wrong type, and the text to put in its place where that is sure."""
    value = node.value
    if path == ("version",) and value != "1":
        return _VERSION, ("1" if isinstance(value, float) and value == 1 else None)
    if is_hidden:
        return ("put it in quotes" if isinstance(value, int | float) else None), None
    if expected == "boolean" and isinstance(value, str) and value.lower() in _TRUTHS:
        truth = _TRUTHS[value.lower()]
        return f"write `{truth}`", truth
    if expected == "integer" and isinstance(value, str) and re.fullmatch("[1-9][0-9]{0,17}", value):
        return "write it without quotes", value
    if expected == "string" and isinstance(value, int | float) and "enum" not in schema:
        return "put it in quotes", _quote_as_written(node)
    if expected == "array" and isinstance(value, str):
        return "write it as a list: `[…]`", None
    if expected == "object":
        entry = entry_word(path)
        if entry and path[-1] in schema.get("properties", ()):
            return f"`{path[-1]}` is a key of a {entry}: write it below the name of the {entry}", None
        if isinstance(value, tuple) and pattern_of(path) in COLLECTIONS:
            return "write each name as a key, `name: {…}`, not as an item with `-`", None
    return None, None


def _quote_as_written(node: Node) -> str | None:
    """The number in quotes, when it is written as Python writes it; `0x1F` or `1E+20` may have meant anything."""
    value, text, span = node.value, json.dumps(node.value), node.place.range
    as_written = span.start.line == span.end.line and span.end.column - span.start.column == len(text)
    otherwise = isinstance(value, bool) or "e" in text or (isinstance(value, int) and len(text) == len(hex(value)))
    return f'"{text}"' if as_written and not otherwise else None


def explain_repeats(node: Node, path: Path) -> Iterator[Diagnostic]:
    seen: dict[str, tuple[int, Node]] = {}
    for index, item in enumerate(node.elements()):
        at, first = seen.setdefault(json.dumps(item.plain(), sort_keys=True), (index, item))
        if at != index:
            yield make_finding(
                BAD_VALUE,
                f"{describe((*path, index))} repeats item {at + 1}",
                item.place,
                (*path, index),
                help="remove one of them",
                related=(Related("the same item is here", first.place.file, first.place.range),),
            )


def describe_limit(error: ValidationError) -> str:
    limit = error.validator_value
    words = {
        "minimum": f"must be at least {limit}",
        "maximum": f"must be at most {limit}",
        "exclusiveMinimum": f"must be more than {limit}",
        "exclusiveMaximum": f"must be less than {limit}",
        "minLength": f"must have at least {limit} characters",
        "maxLength": f"must have at most {limit} characters",
        "minItems": f"must have at least {limit} items",
        "maxItems": f"must have at most {limit} items",
    }
    # The library's own message would print the value, which may be a secret.
    return words.get(str(error.validator), f"does not fit its schema (`{error.validator}`)")
