"""The schemas that installed plugins bring for their sections of `settings`, found without importing a plugin."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bub.base.failures import explain_os_error
from bub.base.json_schema import look_up
from bub.hookspecs import BUB_HOOK_NAMESPACE

if TYPE_CHECKING:  # importing it costs 40 ms, which only a file with such a section pays
    from importlib.metadata import EntryPoint

Schema = Mapping[str, Any]

GROUP = "bub.schema"
"""The group of the entry points that say where the schemas are."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MOST_BYTES = 1_000_000
_NAME = "[A-Za-z][A-Za-z0-9_.-]*"
_OWN_ADDRESSES = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor")
"""What gives a schema an address of its own, under which it could not be found as a part of another."""


class InstalledSection(msgspec.Struct, frozen=True):
    """The schema that an installed package brings for the section of a plugin.

    `source` names the package. `schema` is None when it cannot be used, and `problem` says why, in one clause.
    """

    plugin: str
    source: str
    schema: Schema | None
    problem: str = ""


def installed_section(plugin: str) -> InstalledSection | None:
    """What the installed packages bring for one plugin's section, or None when they bring nothing."""
    return _section(plugin, _whereabouts())


def installed_sections() -> tuple[InstalledSection, ...]:
    """What the installed packages bring for every plugin's section, by the plugins' names."""
    found = (installed_section(name) for name in sorted(_offers(_whereabouts())))
    return tuple(section for section in found if section is not None)


def embed_section(schema: Schema, pointer: str) -> dict[str, Any]:
    """Make a section's schema part of another one, in which it stands at `pointer` (`#/properties/telegram`)."""
    moved: dict[str, Any] = _move_references(schema, pointer)
    return {**{keyword: value for keyword, value in moved.items() if keyword != "$schema"}, "type": "object"}


def _move_references(value: Any, pointer: str) -> Any:
    if isinstance(value, list):
        return [_move_references(item, pointer) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: pointer + inner[1:] if name == "$ref" and isinstance(inner, str) else _move_references(inner, pointer)
        for name, inner in value.items()
    }


def installed_names() -> frozenset[str]:
    """The names of all plugins that installed packages bring, or bring a schema for; nothing is imported."""
    return _names(_whereabouts())


# Finding


def _whereabouts() -> tuple[tuple[str, int], ...]:
    """Where packages are installed, and when each place was last changed: what was found there holds until then."""
    return tuple((place, _time_of_change(place)) for place in sys.path)


def _time_of_change(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns  # noqa: PTH116 (asked for every file that is checked)
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _names(whereabouts: tuple[tuple[str, int], ...]) -> frozenset[str]:
    """Read the names alone: a tenth of what it costs to import what knows all of a package's metadata."""
    groups = (f"[{GROUP}]", f"[{BUB_HOOK_NAMESPACE}]")
    names = set()
    for text in _entry_point_texts(place for place, _ in whereabouts):
        group = ""
        for line in map(str.strip, text.splitlines()):
            name, equals, _ = line.partition("=")
            if line.startswith("["):
                group = line
            elif group in groups and equals:
                names.add(name.rstrip())
    return frozenset(names)


def _entry_point_texts(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        with suppress(OSError), os.scandir(place or ".") as entries:
            folders = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
            for folder in folders:
                with suppress(OSError, UnicodeDecodeError):
                    yield Path(folder, "entry_points.txt").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _offers(_: tuple[tuple[str, int], ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each name: more than one if packages disagree."""
    from importlib.metadata import entry_points

    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        others = offers.get(entry.name, ())
        if re.fullmatch(_NAME, entry.name) and all(other.value != entry.value for other in others):
            offers[entry.name] = (*others, entry)
    return offers


@lru_cache(maxsize=256)
def _section(plugin: str, whereabouts: tuple[tuple[str, int], ...]) -> InstalledSection | None:
    entries = _offers(whereabouts).get(plugin, ())
    if not entries:
        return None
    source = " and ".join(_package(entry) for entry in entries)
    if len(entries) > 1:
        return InstalledSection(plugin, source, None, "each bring a schema for it")
    schema, problem = _read(entries[0])
    return InstalledSection(plugin, source, schema, problem)


def _package(entry: EntryPoint) -> str:
    try:
        return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
    except Exception:  # noqa: BLE001 (broken metadata of others; the entry point itself was read all the same)
        return entry.value


def _read(entry: EntryPoint) -> tuple[Schema | None, str]:
    """The schema an entry point names, or None and what is wrong with it."""
    import json  # only for a section of such a plugin

    try:
        package, file = entry.module, entry.attr or ""
    except (AssertionError, AttributeError, ValueError):  # what a Python raises if it cannot take the value apart
        package = file = ""
    if not file.endswith(".json") or not all(part.isidentifier() for part in package.split(".")):
        return None, f"names `{entry.value}`, which is not of the form `package:file.json`"
    try:
        found = next((path for path in _candidates(entry, package, file) if path.is_file()), None)
        if found is None:
            return None, f"names `{entry.value}`, and there is no such file in the package"
        with found.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            return None, f"brings {file}, which is larger than 1 MB"
        schema = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else "it is not JSON"
        return None, f"brings {file}, which cannot be read: {reason}"
    problem = _problem(schema)
    return (schema, "") if problem is None else (None, f"brings {file}, which {problem}")


def _candidates(entry: EntryPoint, package: str, file: str) -> Iterator[Path]:
    """Where the file may lie: beside the package's own metadata, else where its import would find it (editable)."""
    top, *below = package.split(".")
    if entry.dist is not None:
        yield Path(str(entry.dist.locate_file("/".join((top, *below, file)))))
    # The spec of a top-level package is found without running any of it; that of a package in it would import it.
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(folder, *below, file)


# Judging


def _problem(schema: Any) -> str | None:
    """Why a schema cannot be that of a section, as a clause that follows its name."""
    if not isinstance(schema, dict):
        return "is not a JSON object"
    if schema.get("$schema", _DRAFT) != _DRAFT:
        return "is written for another draft of JSON Schema than 2020-12"
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"is not a valid JSON Schema: at {error.json_path}"
    except RecursionError:
        return "is nested too deep"
    return next(_foreign(schema, schema), None)


def _foreign(value: Any, whole: Schema) -> Iterator[str]:
    """What in a schema points out of it, or nowhere."""
    if isinstance(value, list):
        for item in value:
            yield from _foreign(item, whole)
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if name in _OWN_ADDRESSES and isinstance(inner, str):
            yield f"uses `{name}`; keep to `$ref` with `#/$defs/…`"
        elif name == "$ref" and isinstance(inner, str):
            if not isinstance(look_up(inner, whole), dict | bool):
                yield f"refers to `{inner[:80]}`, which is not in it"
        else:
            yield from _foreign(inner, whole)
