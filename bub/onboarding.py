"""From answers to a file: questions out of a plugin's settings schema, and what the answers change in the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any

from bub.asking import Asking, Check
from bub.diagnostics import Place
from bub.pipeline.amend import REMOVED, Keys
from bub.pipeline.document import Node
from bub.pipeline.interpolate import lone_reference
from bub.pipeline.merge import DEFAULT_PROFILE, Document, effective
from bub.pipeline.schema import check_section
from bub.pipeline.sections import Schema
from bub.settings import read_text

ONBOARD = "x-onboard"
"""The key of a schema that steers its questions: `{order: 1, when: {mode: webhook}}`, or false for none."""

_NOWHERE = Place("")
_LAST = 1_000


# Questions out of a schema


def ask_for_section(plugin: str, schema: Schema, current: Mapping[str, Any], ask: Asking) -> dict[str, Any]:
    """What changes of a plugin's section (`current`, references unresolved) when it is asked for as its schema says.

    Each property is a question: `title` or `description` is what is asked, `default` what an empty answer means,
    `enum` is a list to choose from, `writeOnly` a secret. `x-onboard: {order, when}` says when it is asked: the lower
    `order` first, and only where `when` names what other properties are by then; false leaves it out. A property
    that need not be there and gets no answer is left out of the file.
    """
    return _Section(plugin, schema, ask).asked((), schema, current)


class _Section:
    """The questions of one section."""

    def __init__(self, plugin: str, schema: Schema, ask: Asking) -> None:
        self._plugin = plugin
        self._whole = schema
        self._ask = ask

    def asked(self, above: Keys, schema: Schema, current: Mapping[str, Any]) -> dict[str, Any]:
        """What the answers change of the mapping at `above`, which is `current`."""
        changed: dict[str, Any] = {}
        required = schema.get("required", ())
        for name, inner in _in_order(schema, self._whole):
            so_far = {**current, **changed}
            if not _is_meant(inner, so_far, schema, self._whole):
                continue
            keys, now = (*above, name), current.get(name)
            if "properties" in inner:
                below = self.asked(keys, inner, now if isinstance(now, Mapping) else {})
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
        if schema.get("writeOnly"):
            return ask.secret(name, title, kept=now, optional=not required, check=self._check(keys, schema))
        if "enum" in schema:
            choices = [str(value) for value in schema["enum"] if value is not None]
            none = [""] if not required and usual is None else []
            chosen = ask.select(name, title, [*none, *choices], default=_shown(usual) or (none or choices)[0])
            return next((value for value in schema["enum"] if str(value) == chosen), now)
        if kind == "boolean" and not isinstance(usual, str):
            return ask.confirm(name, title, default=bool(usual))
        items = schema.get("items") or {}
        if kind == "array" and "enum" in items:
            return ask.checkbox(name, title, [str(item) for item in items["enum"]], default=usual or ())
        default = _shown(usual) if usual is not None else None if required else ""
        text = ask.text(name, title, default=default, check=self._check(keys, schema)).strip()
        if text == default:
            return usual
        return _typed(text, schema, self._whole)

    def _check(self, keys: Keys, schema: Schema) -> Check:
        """Hold an answer against the schema as the file will be."""

        def wrong(text: str) -> str | None:
            node = _node(_typed(text.strip(), schema, self._whole))
            for key in reversed(keys):
                node = Node({key: node}, _NOWHERE)
            path = ".".join(("settings", self._plugin, *keys))
            for finding in check_section(self._plugin, node, self._whole):
                if finding.path is not None and finding.path.startswith(path):
                    said = finding.message.removeprefix(f"`{path}` ")
                    return said if not schema.get("writeOnly") else "has not the form that it should have"
            return None

        return wrong


def _in_order(schema: Schema, whole: Schema) -> list[tuple[str, Schema]]:
    """The properties, those with the lowest `order` first, the others as they are written."""

    def order(item: tuple[str, Schema]) -> float:
        steered = item[1].get(ONBOARD)
        return float(steered.get("order", _LAST)) if isinstance(steered, Mapping) else _LAST

    properties = schema.get("properties") or {}
    return sorted(((name, _part(inner, whole)) for name, inner in properties.items()), key=order)


def _is_meant(schema: Schema, so_far: Mapping[str, Any], above: Schema, whole: Schema) -> bool:
    """Whether a property is asked for, with what its neighbours are by now."""
    steered = schema.get(ONBOARD)
    if not isinstance(steered, Mapping):
        return steered is not False
    for name, wanted in (steered.get("when") or {}).items():
        usual = _part((above.get("properties") or {}).get(name), whole).get("default")
        value = so_far.get(name, usual)
        if value not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def _part(schema: Any, whole: Schema) -> Schema:
    """A schema behind its `$ref`; what is no schema knows nothing."""
    if not isinstance(schema, Mapping):
        return {}
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    found: Any = whole
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return {**(found if isinstance(found, Mapping) else {}), **schema}


def _is_usual(value: Any, schema: Schema) -> bool:
    """Whether a value need not be written, since it says no more than leaving it out."""
    usual = schema.get("default")
    return value == usual if usual is not None else value is None or value is False or value == []


def _kind(schema: Schema) -> str | None:
    """The type that is asked for; text where a reference may stand for it, None for what no line can answer."""
    stated = schema.get("type", "string" if "enum" in schema else ())
    types = (stated,) if isinstance(stated, str) else tuple(stated)
    if "array" in types and _part(schema.get("items"), {}).get("type", "string") != "string":
        return None
    return next((name for name in ("boolean", "integer", "number", "array", "string") if name in types), None)


def _typed(text: str, schema: Schema, whole: Schema) -> Any:
    """A line of text as a value of the schema's type; a reference, and what cannot be one, stays text."""
    if not text or lone_reference(text) is not None:
        return text or None
    try:
        return read_text(text, schema, whole)
    except ValueError:
        return text


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _node(value: Any) -> Node:
    return Node(tuple(map(_node, value)) if isinstance(value, list) else value, _NOWHERE)


# What the answers change


def changes_of(
    document: Document, profile: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[Keys, Any]:
    """Where in the file the settings of a profile change from `before` to `after`, for `amend`; None takes one out.

    A value that the profile itself sets changes there. Other changes belong to all profiles where they are made for
    `default`, else to the profile alone.
    """
    chain = effective(document, profile).chain
    usual: Keys = () if profile == DEFAULT_PROFILE else ("profiles", profile)

    def home(keys: Keys) -> Keys:
        own = ("profiles", profile)
        is_own = profile in chain and document.root.get(*own, "settings", *keys) is not None
        return (*(own if is_own else usual), "settings", *keys)

    return {home(keys): REMOVED if value is None else value for keys, value in _leaves(before, after)}


def _leaves(before: Mapping[str, Any], after: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    for name, value in after.items():
        keys, old = (*above, name), before.get(name)
        if isinstance(value, Mapping):
            yield from _leaves(old if isinstance(old, Mapping) else {}, value, keys)
        elif value != old or type(value) is not type(old):
            yield keys, value


def difference(file: str, before: str, after: str) -> list[str]:
    """The lines that tell two texts of a file apart, in the unified form; none where they are the same."""
    lines = unified_diff(before.splitlines(), after.splitlines(), file, file, n=1, lineterm="")
    return [line for line in lines if line.strip() not in ("---", "+++")]
