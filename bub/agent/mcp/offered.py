"""What a server says that it can do, as tools of Bub: names made safe, schemas judged, everything bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from bub.base.json_schema import look_up
from bub.plugins.lock.facts import ToolFacts, describe_tool
from bub.plugins.served import make_tool
from bub.plugins.servers import ServerSpec
from bub.plugins.shipped import SERVED
from bub.tools import Tool

MOST_TOOLS = 256
"""How many tools of one server are offered."""

LONGEST_DESCRIPTION = 4_000
LONGEST_SCHEMA = 32_000
"""How many characters of a tool's description, and of its schema, a model gets."""

DEEPEST = 30
"""How deep a schema may be nested."""

_LONGEST_NAME = 100
_MOST_TOLD = 20
_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""What no reader sees, and a terminal or a model heeds."""

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_SCHEMAS = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
)
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")

Call = Callable[..., Awaitable[Any]]


class Described(Protocol):
    """A tool as the protocol describes it."""

    name: str
    description: str | None
    input_schema: Mapping[str, Any]


class Offered(msgspec.Struct, frozen=True):
    """The tools of a server by their names here, and what is wrong with those that are left out."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    facts: Mapping[str, ToolFacts] = msgspec.field(default_factory=dict)
    """What a lock keeps of each tool, by the last part of its name."""
    problems: tuple[str, ...] = ()


def offer(spec: ServerSpec, described: Iterable[Described], call: Call, flaws: Iterable[str] = ()) -> Offered:
    """Make tools of what a server describes; `call` is called with the name that the server knows, what is known of
    the tool, and the arguments.

    Of two whose safe names are one, neither is offered: which of them is meant is not known. `flaws` are those of what
    it describes beside.
    """
    tools: dict[str, Tool] = {}
    owners: dict[str, str] = {}
    facts: dict[str, ToolFacts] = {}
    problems = list(flaws)[:_MOST_TOLD]
    for number, one in enumerate(described):
        if number == MOST_TOOLS:
            problems.append(f"it has more than {MOST_TOOLS} tools: Bub offers only the first ones")
            break
        shown = repr(one.name[:_LONGEST_NAME])
        short = safe_name(one.name)
        if not short:
            problems.append(f"Bub does not offer its tool {shown}: the name has no letter")
            continue
        if short in owners:
            problems.append(
                f"its tools {owners[short]} and {shown} would both be `{short}` here, so Bub offers neither"
            )
            tools.pop(f"{SERVED}{spec.name}.{short}", None)
            facts.pop(short, None)
            continue
        owners[short] = shown
        annotations = getattr(one, "annotations", None)
        hints = annotations.model_dump(exclude_none=True) if annotations is not None else None
        facts[short] = describe_tool(one.description or "", one.input_schema, annotations=hints)
        name = f"{SERVED}{spec.name}.{short}"
        said = clean(one.description or "")[:LONGEST_DESCRIPTION] or f"The tool {short} of the server {spec.name}."
        tools[name] = make_tool(
            name, said, one.input_schema, partial(call, one.name, facts[short]), spec.labels_of(short)
        )
    return Offered(tools, facts, tuple(problems[:_MOST_TOLD]))


def safe_name(name: str) -> str:
    """Return a name in the letters that names of tools have here; "" if nothing is left of it."""
    safe = re.sub(r"[^a-z0-9]+", "_", clean(name).lower()).strip("_")[:_LONGEST_NAME]
    return safe if not safe[:1].isdigit() else f"_{safe}"


def clean(text: str) -> str:
    """Return a text of a stranger without what is invisible."""
    return _CONTROLS.sub("", text).strip()


def find_flaw(tool: Any) -> str:
    """Say why a tool, as a server has written it, cannot be offered; "" if it can."""
    name = tool.get("name") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(name, str):
        return "something in its list is no tool"
    said = tool.get("description")
    flaw = "its description is no text" if not isinstance(said, str | None) else _find_flaw(tool.get("inputSchema"))
    return f"Bub does not offer its tool {name[:_LONGEST_NAME]!r}: {flaw}" if flaw else ""


def _find_flaw(schema: Any) -> str:
    """Say why a schema cannot be shown to a model; "" if it can."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return "its arguments are no JSON object"
    try:
        if len(json.dumps(schema)) > LONGEST_SCHEMA:
            return f"its schema has more than {LONGEST_SCHEMA:,} characters"
    except (TypeError, ValueError, RecursionError):
        return "its schema is no JSON"
    return next(filter(None, _flaws(schema, schema, 0)), "")


def _flaws(schema: Any, whole: Mapping[str, Any], depth: int) -> Iterable[str]:
    """Yield what is wrong with a schema and those in it, as far as a provider would refuse it, or follow it out."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield "its schema is no JSON Schema"
        return
    if depth > DEEPEST:
        yield "its schema is nested too deep"
        return
    reference = schema.get("$ref")
    if reference is not None and not (
        isinstance(reference, str) and reference.startswith("#") and look_up(reference, whole)
    ):
        yield "its schema refers to something that is not in it"
    stated = schema.get("type", [])
    if not all(
        one in _TYPES for one in ([stated] if isinstance(stated, str) else stated if isinstance(stated, list) else [0])
    ):
        yield "its schema names an unknown type"
    required = schema.get("required", [])
    if not (isinstance(required, list) and all(isinstance(one, str) for one in required)):
        yield "its schema is no JSON Schema"
    for key in _SCHEMAS:
        if key in schema:
            yield from _flaws(schema[key], whole, depth + 1)
    for key in _SCHEMAS_BY_NAME:
        named = schema.get(key, {})
        yield from _flaws(named, whole, depth) if not isinstance(named, Mapping) else ()
        for inner in named.values() if isinstance(named, Mapping) else ():
            yield from _flaws(inner, whole, depth + 1)
    for key in _LISTS_OF_SCHEMAS:
        listed = schema.get(key, [])
        yield from _flaws(listed, whole, depth) if not isinstance(listed, list) else ()
        for inner in listed if isinstance(listed, list) else ():
            yield from _flaws(inner, whole, depth + 1)
