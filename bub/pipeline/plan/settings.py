"""The settings of a pipeline: what the file says, with the environment's own settings laid over it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from bub.base.diagnostics import NO_FILE, Diagnostic, Findings, Place
from bub.base.json_schema import Schema, follow_references, part_at
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import MALFORMED, Environment, dotenv_place, lone_reference, references, resolve
from bub.pipeline.source.scalars import read_scalar

PREFIX = "BUB_"

RESERVED = frozenset(
    {
        *("BUB_AGENT", "BUB_CONFIG", "BUB_DEBUG", "BUB_HOME", "BUB_LOCAL_MODEL", "BUB_PROFILE"),
        *("BUB_TRUST_WORKSPACE", "BUB_WORKER"),
    }
)
"""Variables that steer Bub itself and are never settings."""

RESERVED_BEGINNINGS = ("BUB_ONBOARD_", "BUB_ACTION_")
"""How variables begin that answer the wizard, or steer the GitHub Action."""

_REFERENCE = r"^\$\{"
"""How the pattern of a text begins that can only be a reference."""

_UNREADABLE: Final = object()
_NO_FOLDERS: Mapping[str, Path] = MappingProxyType({})
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list such as `a, b`",
    }
)


def resolve_settings(
    root: Node,
    environment: Environment,
    *,
    base: Path | None,
    schema: Schema,
    folders: Mapping[str, Path] = _NO_FOLDERS,
    variables: Environment | None = None,
    providers: Iterable[str] = (),
) -> tuple[dict[str, Any], tuple[Diagnostic, ...]]:
    """The plain settings of an effective `root`: references replaced, `BUB_…` variables on top.

    `schema` is the JSON Schema of the settings: it says which variables are settings and of what type a variable or a
    lone reference is. `base` and `folders` are as in `interpolate.resolve`. `variables` are those that may set
    something, if not the whole `environment`; `providers` are names that they may mean beside those in the file.
    Findings never hold a value.
    """
    findings = Findings()
    node = root.get("settings")
    written: dict[str, Any] = {}
    trouble: tuple[Diagnostic, ...] = ()
    if node is not None and node.is_mapping:
        written, trouble = resolve(node, environment, base=base, folders=folders, path="settings")
        _type_references(written, node, schema, schema, "settings", findings)
    variables = environment if variables is None else variables
    chosen = dict(environment_settings(variables, schema, with_providers(written, providers)))
    overridden = {".".join(("settings", *path)) for path in chosen}
    # What a variable sets on its own need not be readable in the file as well.
    findings.items[:] = [
        item for item in (*trouble, *findings.items) if item.code == MALFORMED or item.path not in overridden
    ]
    for path, variable in chosen.items():
        inner = _at(schema, schema, path)
        value = _coerce(variables[variable], inner, schema)
        if value is _UNREADABLE:
            findings.add(
                "B034",
                f"the environment variable `{variable}` {_refusal(variables[variable], inner, schema)}",
                dotenv_place(variable, variables[variable], base) or Place(NO_FILE),
                path=".".join(("settings", *path)),
                help=f"it sets `settings.{'.'.join(path)}`; change or unset it",
            )
            continue
        put_setting(written, path, value)
    return written, tuple(findings.items)


def with_providers(written: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    """Settings that have entries for providers of these names, too, so that a variable finds their spelling."""
    own = written.get("providers")
    known = dict.fromkeys(names)
    return {**written, "providers": {**known, **own} if isinstance(own, Mapping) else known} if known else written


def environment_settings(
    environment: Environment, schema: Schema, written: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The settings that the environment sets: each path with the variable that sets it.

    A name that the file wrote into an open mapping (a provider's) is found again, whatever its spelling.
    """
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in RESERVED and environment[variable]:
            path = _find(variable.removeprefix(PREFIX), schema, schema, written)
            if path is not None:
                yield path, variable


def all_settings(root: Node) -> Iterator[tuple[str | None, Node]]:
    """The file's own settings and those of each profile that has some, with the profile's name."""
    own, profiles = root.get("settings"), root.get("profiles")
    if own is not None:
        yield None, own
    for name, profile in profiles.items() if profiles is not None else ():
        settings = profile.get("settings")
        if settings is not None:
            yield name, settings


def settings_of_tests(root: Node) -> Iterator[tuple[str, Node]]:
    """The settings of each test that has some, with the test's name."""
    tests = root.get("tests")
    for name, test in tests.items() if tests is not None else ():
        settings = test.get("settings")
        if settings is not None:
            yield name, settings


def unknown_variables(environment: Environment, schema: Schema, written: Mapping[str, Any]) -> list[str]:
    """The variables that begin as those of settings do and set none."""
    known = {variable for _, variable in environment_settings(environment, schema, written)}
    return [variable for variable in named_like_settings(environment) if variable not in known]


def named_like_settings(environment: Environment) -> list[str]:
    """The variables that begin as those of settings do, whether there is such a setting or not."""
    return [
        variable
        for variable in sorted(environment)
        if variable.startswith(PREFIX)
        and environment[variable]
        and variable not in RESERVED
        and not variable.startswith(RESERVED_BEGINNINGS)
    ]


def variables_of(schema: Schema, written: Mapping[str, Any]) -> Iterator[str]:
    """The variables that there are: one for each setting of a schema, also below the names `written` in open parts."""
    for path in _paths(schema, schema, written):
        yield variable_of(path)


def _paths(schema: Schema, whole: Schema, written: Any) -> Iterator[tuple[str, ...]]:
    here = follow_references(schema, whole)
    names = dict.fromkeys([*(here.get("properties") or {}), *(written if isinstance(written, Mapping) else ())])
    for name in names:
        inner = _at(here, whole, (name,))
        if inner is None:
            continue
        if _is_leaf(inner, whole):
            yield (name,)
        else:
            below = written.get(name) if isinstance(written, Mapping) else None
            yield from ((name, *path) for path in _paths(inner, whole, below))


def variable_of(path: Iterable[str]) -> str:
    """The environment variable that sets the setting at `path`: `telegram`, `token` → `BUB_TELEGRAM_TOKEN`."""
    return PREFIX + "_".join(_capitals(name) for name in path)


def _capitals(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _find(rest: str, schema: Schema, whole: Schema, written: Any) -> tuple[str, ...] | None:
    """The path below `schema` whose name in capitals is `rest`; a property wins over a name in an open mapping."""
    schema = follow_references(schema, whole)
    known: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    for name, part in properties.items():
        capitals = _capitals(name)
        if rest == capitals:
            return (name,) if _is_leaf(part, whole) else None
        if rest.startswith(f"{capitals}_"):
            below = _find(rest[len(capitals) + 1 :], part, whole, known.get(name))
            if below is not None:
                return (name, *below)
    others = schema.get("additionalProperties")
    if not isinstance(others, Mapping):
        return None
    spelling = {_capitals(name): name for name in known if name not in properties}
    if _is_leaf(others, whole):
        return (spelling.get(rest, rest.lower()),)
    for split in re.finditer("_", rest):
        first, last = rest[: split.start()], rest[split.end() :]
        name = spelling.get(first, first.lower())
        below = _find(last, others, whole, known.get(name)) if first and last else None
        if below is not None:
            return (name, *below)
    return None


def types_of(schema: Schema, whole: Schema) -> Iterator[str]:
    """The types that a schema admits, as it names them; `whole` is what its references lead into."""
    schema = follow_references(schema, whole)
    stated = schema.get("type", ())
    yield from (stated,) if isinstance(stated, str) else stated
    for union in ("anyOf", "oneOf"):
        for part in schema.get(union, ()):
            yield from types_of(part, whole)


def _is_leaf(schema: Schema, whole: Schema) -> bool:
    """Whether a variable can hold the whole value, which is so for everything but a mapping."""
    types = set(types_of(schema, whole))
    return types != {"object"} and ("properties" not in follow_references(schema, whole))


def _expected_type(schema: Schema | None, whole: Schema) -> str:
    """Return the type that a text is read as: a typed field also admits text, since a reference is text."""
    types = set(types_of(schema, whole)) if schema is not None else set()
    return next((name for name in ("boolean", "integer", "number", "array") if name in types), "string")


def _coerce(text: str, schema: Schema | None, whole: Schema) -> Any:
    wanted = _expected_type(schema, whole)
    if wanted == "string" or schema is None:
        return text
    if wanted == "array":
        listed = _split_list(text)
        if listed is None:
            return _UNREADABLE
        items = [_coerce(item, follow_references(schema, whole).get("items"), whole) for item in listed]
        return _UNREADABLE if _UNREADABLE in items else items
    value = read_scalar(text.strip())
    if wanted == "boolean":
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        return _TRUTH.get(text.strip().casefold(), _UNREADABLE)
    bounds = follow_references(schema, whole)
    if not _is_number(value, wanted):
        word = text.strip()
        is_word = _takes_words(bounds) and not references(word) and re.search(bounds["pattern"], word) is not None
        return word if is_word else _UNREADABLE
    within = bounds.get("minimum", value) <= value <= bounds.get("maximum", value)
    return value if within else _UNREADABLE


def read_text(text: str, schema: Schema, whole: Schema) -> Any:
    """Return the value that a text from outside means for `schema`; `whole` is what its references lead into.

    Raises `ValueError` with the reason, a clause such as "is not a whole number" that never holds the text.
    """
    value = _coerce(text, schema, whole)
    if value is _UNREADABLE:
        raise ValueError(_refusal(text, schema, whole))
    return value


def _takes_words(bounds: Schema) -> bool:
    """Return whether a number can also be a word, such as `low`; a text is usually only a reference there."""
    return not str(bounds.get("pattern", _REFERENCE)).startswith(_REFERENCE)


def _is_number(value: Any, wanted: str) -> bool:
    fits = isinstance(value, int) or (wanted == "number" and isinstance(value, float))
    return fits and not isinstance(value, bool)


def _refusal(text: str, schema: Schema | None, whole: Schema) -> str:
    """What is wrong with a text that `_coerce` could not read, without the text."""
    wanted = _expected_type(schema, whole)
    bounds = follow_references(schema, whole)
    if "errorMessage" in bounds and _takes_words(bounds):
        return str(bounds["errorMessage"])
    if wanted not in ("integer", "number") or not _is_number(read_scalar(text.strip()), wanted):
        return f"is not {_WORDS[wanted]}"
    if "errorMessage" in bounds:
        return str(bounds["errorMessage"])
    least, most = bounds.get("minimum"), bounds.get("maximum")
    if least is not None and most is not None:
        return f"must be from {least} to {most}"
    return f"must be at least {least}" if most is None else f"must be at most {most}"


def _wanted(name: str, schema: Schema, whole: Schema) -> str:
    """What the value of a reference has to be, without it."""
    if _takes_words(follow_references(schema, whole)):
        return "change the value, or write it here in place of the reference"
    return f"`{name}` takes {_WORDS[_expected_type(schema, whole)]}"


def _split_list(text: str) -> list[str] | None:
    """Split a list in a variable: `a, b`, or JSON, which other programs write; None for broken JSON."""
    if text.lstrip().startswith("["):
        try:
            return [str(item) for item in msgspec.json.decode(text, type=list[str | int])]
        except msgspec.DecodeError:
            return None
    return [item.strip() for item in text.split(",") if item.strip()]


_TRUTH: Mapping[str, bool] = MappingProxyType(
    {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
)
"""Variables have no syntax of their own, so the usual words are taken."""


def _at(schema: Schema, whole: Schema, path: tuple[str, ...]) -> Schema | None:
    for name in path:
        below = part_at(follow_references(schema, whole), name)
        if not isinstance(below, Mapping):
            return None
        schema = below
    return schema


def _type_references(
    plain: dict[str, Any], node: Node, schema: Schema, whole: Schema, path: str, findings: Findings
) -> None:
    """Give each value that is only a reference the type that its field has in the schema."""
    for name, child in node.items():
        inner, below = _at(schema, whole, (name,)), f"{path}.{name}"
        if name not in plain or inner is None:
            continue
        if child.is_mapping:
            _type_references(plain[name], child, inner, whole, below, findings)
        elif isinstance(child.value, str) and lone_reference(child.value) is not None:
            value = _coerce(plain[name], inner, whole)
            if value is _UNREADABLE:
                what = f"the value of the reference {_refusal(plain[name], inner, whole)}"
                findings.add("B034", what, child.place, path=below, help=_wanted(name, inner, whole))
                del plain[name]
            else:
                plain[name] = value


def put_setting(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value at a path, whatever is in the way."""
    for name in path[:-1]:
        inner = settings.get(name)
        if not isinstance(inner, dict):
            inner = settings[name] = {}
        settings = inner
    settings[path[-1]] = value
