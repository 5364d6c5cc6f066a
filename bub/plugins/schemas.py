"""The schemas that installed plugins bring for their sections of `settings`, found without importing a plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from bub.base.json_schema import look_up
from bub.plugins.packages import SCHEMAS, InstalledFile, Whereabouts, file_of, offering, whereabouts

Schema = Mapping[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
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
    return _section(plugin, whereabouts())


def installed_sections() -> tuple[InstalledSection, ...]:
    """What the installed packages bring for every plugin's section, by the plugins' names."""
    found = (installed_section(name) for name in offering(SCHEMAS))
    return tuple(section for section in found if section is not None)


@lru_cache(maxsize=256)
def _section(plugin: str, _: Whereabouts) -> InstalledSection | None:
    found = file_of(SCHEMAS, plugin, "a schema")
    if found is None:
        return None
    problem = found.problem or _problem(found)
    return InstalledSection(plugin, found.source, None if problem else found.value, problem)


# Judging


def _problem(found: InstalledFile) -> str:
    """Why a schema cannot be that of a section, as a clause that follows the package's name; "" if it can."""
    problem = _flaw(found.value)
    return f"brings {found.file}, which {problem}" if problem is not None else ""


def _flaw(schema: Any) -> str | None:
    """What is wrong with a schema, as a clause that follows its name."""
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
            yield f"uses `{name}`; use only `$ref` with `#/$defs/…`"
        elif name == "$ref" and isinstance(inner, str):
            if not isinstance(look_up(inner, whole), dict | bool):
                yield f"refers to `{inner[:80]}`, which is not in it"
        else:
            yield from _foreign(inner, whole)
