"""Asking for a plugin's section of the settings: questions out of its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.asking import Asking, Check
from bub.base.diagnostics import Place
from bub.base.json_schema import follow_references
from bub.pipeline.check.sections import check_section
from bub.pipeline.edit.paths import Keys
from bub.pipeline.plan.settings import read_text
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import lone_reference
from bub.pipeline.source.scalars import read_scalar
from bub.plugins.schemas import Schema
from bub.secrets.verdict import is_marked, is_named

ONBOARD = "x-onboard"
"""The key of a schema that steers its questions: `{order: 1, when: {mode: webhook}}`, or false for none."""

_NOWHERE = Place("")
_LAST = 1_000


def ask_for_section(plugin: str, schema: Schema, current: Mapping[str, Any], ask: Asking) -> dict[str, Any]:
    """What changes of a plugin's section (`current`, references unresolved) when it is asked for as its schema says.

    Each property is a question: `title` or `description` is what is asked, `default` what an empty answer means,
    `enum` is a list to choose from, `writeOnly` a secret. `x-onboard: {order, when}` says when it is asked: the lower
    `order` first, and only where `when` names what other properties are by then; false leaves it out. A property
    that need not be there and gets no answer is left out of the file.
    """
    return _SectionQuestions(plugin, schema, ask).ask_for((), schema, current)


class _SectionQuestions:
    """The questions of one section."""

    def __init__(self, plugin: str, schema: Schema, ask: Asking) -> None:
        self._plugin = plugin
        self._whole = schema
        self._ask = ask

    def ask_for(self, above: Keys, schema: Schema, current: Mapping[str, Any]) -> dict[str, Any]:
        """What the answers change of the mapping at `above`, which is `current`."""
        changed: dict[str, Any] = {}
        required = schema.get("required", ())
        for name, inner in _sort_properties(schema, self._whole):
            so_far = {**current, **changed}
            if not _is_meant(inner, so_far, schema, self._whole):
                continue
            keys, now = (*above, name), current.get(name)
            if "properties" in inner:
                below = self.ask_for(keys, inner, now if isinstance(now, Mapping) else {})
                if below:
                    changed[name] = below
                continue
            if _kind(inner) is None:
                continue
            value = self._answer(keys, inner, now, required=name in required)
            if value != now and (now is not None or name in required or not _is_usual(value, inner)):
                changed[name] = value
        return changed

    def _answer(self, keys: Keys, schema: Schema, now: Any, *, required: bool) -> Any:
        """The value of one property; None where it is to be left out."""
        ask, name = self._ask, ".".join((self._plugin, *keys))
        title = str(schema.get("title") or schema.get("description") or f"`{'.'.join(keys)}`?")
        usual = now if now is not None else schema.get("default")
        kind = _kind(schema)
        if is_marked(keys, self._whole) or ("enum" not in schema and is_named(keys)):
            return ask.secret(name, title, kept=now, optional=not required, check=self._check(keys, schema))
        if "enum" in schema:
            choices = [str(value) for value in schema["enum"] if value is not None]
            none = [""] if not required and usual is None else []
            chosen = ask.select(name, title, [*none, *choices], default=_render_value(usual) or (none or choices)[0])
            return next((value for value in schema["enum"] if str(value) == chosen), now)
        if kind == "boolean" and not isinstance(usual, str):
            return ask.confirm(name, title, default=bool(usual))
        items = schema.get("items") or {}
        if kind == "array" and "enum" in items:
            return ask.checkbox(name, title, [str(item) for item in items["enum"]], default=usual or ())
        default = None if required else ""
        if usual is not None:
            default = _render_value(usual)
        text = ask.text(name, title, default=default, check=self._check(keys, schema)).strip()
        if text == default:
            return usual
        return _parse_value(text, schema, self._whole)

    def _check(self, keys: Keys, schema: Schema) -> Check:
        """Hold an answer against the schema as the file will be."""
        is_hidden = is_named((self._plugin, *keys)) or is_marked(keys, self._whole)

        def find_problem(text: str) -> str | None:
            node = _node(_parse_value(text.strip(), schema, self._whole))
            for key in reversed(keys):
                node = Node({key: node}, _NOWHERE)
            path = ".".join(("settings", self._plugin, *keys))
            for finding in check_section(self._plugin, node, self._whole):
                if finding.path is not None and finding.path.startswith(path):
                    said = finding.message.removeprefix(f"`{path}` ")
                    return said if not is_hidden else "does not have the right form"
            return None

        return find_problem


def _sort_properties(schema: Schema, whole: Schema) -> list[tuple[str, Schema]]:
    """The properties, those with the lowest `order` first, the others as they are written."""

    def order(item: tuple[str, Schema]) -> float:
        steered = item[1].get(ONBOARD)
        return float(steered.get("order", _LAST)) if isinstance(steered, Mapping) else _LAST

    properties = schema.get("properties") or {}
    return sorted(((name, follow_references(inner, whole)) for name, inner in properties.items()), key=order)


def _is_meant(schema: Schema, so_far: Mapping[str, Any], above: Schema, whole: Schema) -> bool:
    """Whether a property is asked for, with what its neighbours are by now."""
    steered = schema.get(ONBOARD)
    if not isinstance(steered, Mapping):
        return steered is not False
    for name, wanted in (steered.get("when") or {}).items():
        usual = follow_references((above.get("properties") or {}).get(name), whole).get("default")
        value = so_far.get(name, usual)
        if value not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def _is_usual(value: Any, schema: Schema) -> bool:
    """Whether a value need not be written, since it says no more than leaving it out."""
    usual = schema.get("default")
    return value == usual if usual is not None else value is None or value is False or value == []


def _kind(schema: Schema) -> str | None:
    """The type that is asked for; text where a reference may stand for it, None for what no line can answer."""
    stated = schema.get("type", "string" if "enum" in schema else ())
    types = (stated,) if isinstance(stated, str) else tuple(stated)
    if "array" in types and follow_references(schema.get("items"), {}).get("type", "string") != "string":
        return None
    return next((name for name in ("boolean", "integer", "number", "array", "string") if name in types), None)


def _parse_value(text: str, schema: Schema, whole: Schema) -> Any:
    """A line of text as a value of the schema's type; a reference, and what cannot be one, stays text."""
    if not text or lone_reference(text) is not None:
        return text or None
    try:
        return read_text(text, schema, whole)
    except ValueError:  # a number out of its bounds is told of as one
        value = read_scalar(text)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def _render_value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _node(value: Any) -> Node:
    return Node(tuple(map(_node, value)) if isinstance(value, list) else value, _NOWHERE)
