"""What can be written at the place of the cursor: keys, the values they take, and names of this pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from bub.base.diagnostics import Position, Range
from bub.base.json_schema import Steps, speakers
from bub.base.resources import shipped_pipelines
from bub.hookspecs import HOOK_POINTS, MODEL_POINT
from bub.lsp.buffers import Buffer, Encoding, Ruler, split_lines
from bub.lsp.places import parts_of
from bub.lsp.reading import read
from bub.pipeline.plan.origins import Lookup, schema_at
from bub.pipeline.plan.providers import PROVIDERS
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import SHIPPED
from bub.pipeline.source.schemas import pipeline_schema
from bub.pipeline.source.yaml_reader import parse
from bub.plugins.finding import read_entry_points
from bub.plugins.installed.pipelines import installed_pipelines
from bub.plugins.shipped import SHIPPED_TOOLS

_MARK = "bub0cursor"
_WORD = r"[^\s,\[\]{}\"'#]*"
_OPENING, _CLOSING = "[{", {"[": "]", "{": "}"}

_PROPERTY, _VALUE, _REFERENCE = 10, 12, 18
"""What a client calls a key, a value and a name of something else."""

_STAGE_NAMES = ("needs", "before", "after", "cleanup_for", "replace")


class _Cursor(NamedTuple):
    """Where the cursor is: in the keys of the mapping at `steps`, or in the value there; `used` are its other keys.

    `text` is the whole text as it could be read: with a mark in the place of the word at the cursor.
    """

    steps: Steps
    is_key: bool
    used: frozenset[str]
    text: str = ""


class _Offer(NamedTuple):
    label: str
    doc: str = ""
    kind: int = _VALUE


def render_completion(
    buffer: Buffer, texts: Mapping[str, str], at: Position, encoding: Encoding
) -> list[dict[str, Any]]:
    """Return what fits at a position, with its documentation; nothing if nobody can tell what belongs there.

    `texts` are the open files, for what this one extends.
    """
    lines = split_lines(buffer.text.removeprefix("\ufeff"))
    line = lines[at.line - 1]
    before, after = line[: at.column - 1], line[at.column - 1 :]
    if re.search(r"(^|\s)#", before):
        return []
    found = re.search(f"{_WORD}$", before)
    word = found[0] if found is not None else ""
    rest = re.match(f"{_WORD}", after.partition(":")[0])
    cursor = _find_cursor(lines, at, len(word), len(rest[0]) if rest is not None else 0)
    if cursor is None:
        return []
    lookup = read(Buffer(buffer.uri, None, cursor.text), texts).lookup(cursor.steps)
    if not cursor.is_key and _is_section(lookup, cursor.steps):
        cursor = _Cursor(cursor.steps, True, frozenset())  # its first key has no colon yet, and so looks like a value
    offers = _keys(lookup, cursor) if cursor.is_key else _values(lookup, cursor.steps)
    start, end = at.column - len(word), at.column + (len(rest[0]) if rest is not None else 0)
    span = Ruler(buffer.lines, encoding).range(Range(Position(at.line, start), Position(at.line, end)))
    colon = "" if not cursor.is_key or after.lstrip(rest[0] if rest else "").startswith(":") else ": "
    return [
        {
            "label": offer.label,
            "kind": offer.kind,
            "filterText": offer.label,
            "textEdit": {"range": span, "newText": f"{offer.label}{colon}"},
        }
        | ({"documentation": {"kind": "markdown", "value": offer.doc}} if offer.doc else {})
        for offer in {offer.label: offer for offer in offers if offer.label != _MARK}.values()
    ]


# Where the cursor is


def _find_cursor(lines: list[str], at: Position, before: int, behind: int) -> _Cursor | None:
    """Put a mark in the place of the word at the cursor, and read where it is; brackets that are open are closed first.

    Other lines may be half written too: if the text cannot be read with those below, it is read without them.
    """
    line = lines[at.line - 1]
    head, tail = line[: at.column - 1 - before], line[at.column - 1 + behind :]
    open_ones = _open_brackets([*lines[: at.line - 1], head + tail])
    quote = head[-1:] if head[-1:] in ("'", '"') and head.count(head[-1:]) % 2 else ""
    if quote and not tail.startswith(quote):
        tail = quote + tail
    for below in (lines[at.line :], []):
        for close in dict.fromkeys(("".join(_CLOSING[one] for one in reversed(open_ones)), "")):
            for colon in ("", ": "):
                text = "\n".join([*lines[: at.line - 1], f"{head}{_MARK}{colon}{tail}{close}", *below])
                root = parse(text.encode("utf-8", errors="surrogatepass"), file="", layer="").root
                cursor = _read_cursor(root) if root is not None else None
                if cursor is not None:
                    return cursor._replace(text=text)
    return None


def _open_brackets(lines: Iterable[str]) -> list[str]:
    """Return the brackets that are open behind these lines; quotes and comments are passed over."""
    found: list[str] = []
    for line in lines:
        plain = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:^|\s)#.*", "", line)
        for one in plain:
            if one in _OPENING:
                found.append(one)
            elif found and one == _CLOSING[found[-1]]:
                found.pop()
    return found


def _read_cursor(root: Node) -> _Cursor | None:
    if not root.is_mapping:  # the first word of a file
        return _Cursor((), True, frozenset()) if root.value == _MARK else None
    return _read_below(root, ())


def _read_below(node: Node, steps: Steps) -> _Cursor | None:
    names = [name for name, _ in node.items()]
    if _MARK in names:
        return _Cursor(steps, True, frozenset(names) - {_MARK})
    for step, child in parts_of(node):
        inner = (*steps, step)
        if child.value == _MARK:
            return _Cursor(inner, False, frozenset())
        found = _read_below(child, inner)
        if found is not None:
            return found
    return None


# What fits there


def _keys(lookup: Lookup, cursor: _Cursor) -> Iterator[_Offer]:
    steps = cursor.steps
    for offer in (*_names_for(lookup, steps), *_schema_keys(lookup, steps)):
        if offer.label not in cursor.used:
            yield offer


def _is_section(lookup: Lookup, steps: Steps) -> bool:
    return {name for schema in _schemas_at(lookup, steps) for name in _types(schema)} == {"object"}


def _types(schema: Mapping[str, Any]) -> list[str]:
    said = schema.get("type")
    return said if isinstance(said, list) else [said] if isinstance(said, str) else []


def _schema_keys(lookup: Lookup, steps: Steps) -> Iterator[_Offer]:
    for schema in _schemas_at(lookup, steps):
        for name, said in (schema.get("properties") or {}).items():
            yield _Offer(name, _doc(said), _PROPERTY)


def _schemas_at(lookup: Lookup, steps: Steps) -> list[Mapping[str, Any]]:
    schema = schema_at(lookup, steps)
    return [] if schema is None else speakers(schema, pipeline_schema())


def _doc(schema: Any) -> str:
    said = schema if isinstance(schema, Mapping) else {}
    return str(said.get("markdownDescription") or said.get("description") or "")


def _names_for(lookup: Lookup, steps: Steps) -> Iterator[_Offer]:
    """Yield names that can be keys of a section: stages and hook points, plugins, profiles."""
    section = steps[-1] if steps else None
    in_part = len(steps) == 1 or (len(steps) == 3 and steps[0] == "profiles")
    if section == "stages" and in_part:
        for stage in lookup.plan.stages:
            yield _Offer(stage.id, stage.hook.point.doc, _REFERENCE)
    if section in ("stages", "hooks") and in_part:
        for point in HOOK_POINTS.values():
            yield _Offer(point.name, point.doc, _REFERENCE)
    if steps == ("plugins",):
        yield from (_Offer(name, kind=_REFERENCE) for name in read_entry_points())
    if steps[:1] == ("tests",):
        yield from _names_in_test(lookup, steps)


def _names_in_test(lookup: Lookup, steps: Steps) -> Iterator[_Offer]:
    """Yield what a test can mock, and the mocks whose calls it can look at."""
    if steps[2:] == ("mock",):
        yield from (_Offer(stage.id, stage.hook.point.doc, _REFERENCE) for stage in lookup.plan.stages)
        yield _Offer(MODEL_POINT, HOOK_POINTS[MODEL_POINT].doc, _REFERENCE)
    elif steps[2:] == ("mock_tools",):
        yield from (_Offer(name, kind=_REFERENCE) for name in SHIPPED_TOOLS)
    elif steps[-2:] == ("expect", "calls"):
        mocks = lookup.document.root.get("tests", str(steps[1]), "mock")
        yield from (_Offer(name, kind=_REFERENCE) for name, _ in (mocks.items() if mocks is not None else ()))


def _values(lookup: Lookup, steps: Steps) -> Iterator[_Offer]:
    yield from _known_values(lookup, steps)
    for schema in _schemas_at(lookup, steps):
        said = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
        docs = dict(zip(said, schema.get("markdownEnumDescriptions", ()), strict=False))
        for value in said:
            yield _Offer(str(value).lower() if isinstance(value, bool) else str(value), docs.get(value, ""))
        if "boolean" in _types(schema):
            yield from (_Offer("true"), _Offer("false"))


def _known_values(lookup: Lookup, steps: Steps) -> Iterator[_Offer]:
    """Yield names of this pipeline, and of what Bub brings, that a key takes."""
    names = [step for step in steps if isinstance(step, str)]
    key, plan = names[-1] if names else "", lookup.plan
    if "stages" in names[:-2] or "hooks" in names[:-2]:
        if key in _STAGE_NAMES:
            yield from (_Offer(stage.id, stage.hook.point.doc, _REFERENCE) for stage in plan.stages)
        elif key == "hook":
            yield from (_Offer(point.name, point.doc, _REFERENCE) for point in HOOK_POINTS.values())
            yield from (_Offer(name, hook.point.doc, _REFERENCE) for name, hook in plan.hooks.items())
        elif key in ("into", "for_each", "changes", "takes"):
            yield from (_Offer(name, kind=_REFERENCE) for name in plan.flow.makers)
        elif key == "only":
            yield from (_Offer(name, kind=_REFERENCE) for name in ("builtin", *(name for name, _ in plan.allowlist)))
    elif key == "plugins" and names[:1] == ["profiles"]:
        declared = lookup.document.root.get("plugins")
        own = [name for name, _ in declared.items()] if declared is not None else []
        yield from (_Offer(name, kind=_REFERENCE) for name in sorted({*own, *read_entry_points()}))
    elif key in ("allow", "deny", "ask") and "tools" in names:
        yield from (_Offer(name, kind=_REFERENCE) for name in SHIPPED_TOOLS)
    elif key == "extends" and len(names) == 1:
        shipped = [f"{SHIPPED}{name}" for name in shipped_pipelines()]
        yield from (_Offer(name, kind=_REFERENCE) for name in (*shipped, *installed_pipelines()))
    elif key in ("profile", "extends"):
        profiles = lookup.document.root.get("profiles")
        yield from (_Offer(name, kind=_REFERENCE) for name, _ in (profiles.items() if profiles is not None else ()))
    elif key in ("model", "fallback_models"):
        yield from (_Offer(f"{name}:", kind=_REFERENCE) for name in PROVIDERS)
    elif key in ("ran", "skipped"):
        yield from (_Offer(stage.id, kind=_REFERENCE) for stage in plan.stages)
