"""The schema for editors: what it says about kinds is generated, so that editors and the compiler cannot disagree."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bub.base.resources import shipped_schema
from bub.hooks.facts import KIND_KEYS, KINDS
from bub.pipeline.check.words import join_names
from bub.pipeline.source.schemas import Schema, pipeline_schema, whole_settings_schema


def editor_schema(plugins: Iterable[str] = ()) -> dict[str, Any]:
    """Make the schema for editors, with the sections of the shipped plugins and what is installed for `plugins`.

    Without `plugins` it is the published one.
    """
    settings = whole_settings_schema(plugins, pointer="#/$defs/settings")
    return with_generated_parts(pipeline_schema(), settings)


def kind_conditions() -> list[dict[str, Any]]:
    """The `if/then` blocks by which editors refuse a stage key that the stage's kind does not know."""
    return [
        {
            "if": _match_kinds(kind for kind in KINDS if kind not in knowing),
            "then": {
                "properties": {key: False},
                "errorMessage": f"`{key}` is known only to {join_names(knowing, 'and')}",
            },
        }
        for key, knowing in KIND_KEYS.items()
    ]


def policy_conditions() -> list[dict[str, Any]]:
    """The `if/then` blocks by which editors refuse an `on_failure` that the kind does not know."""
    by_policies: dict[tuple[str, ...], list[str]] = {}
    for kind in KINDS.values():
        by_policies.setdefault(tuple(sorted(kind.policies)), []).append(kind.name)
    return [
        {
            "if": _match_kinds(kinds),
            "then": {
                "properties": {
                    "on_failure": {
                        "enum": list(policies),
                        "errorMessage": f"must be {join_names(policies)} with {join_names(kinds)}",
                    }
                }
            },
        }
        for policies, kinds in by_policies.items()
    ]


def with_generated_parts(schema: Schema, settings: Schema) -> dict[str, Any]:
    """Replace the generated parts of the published schema: the rules about kinds, and the settings in its `$defs`."""
    defs = {**schema["$defs"]}
    defs["stage"] = {**defs["stage"], "allOf": [*kind_conditions(), *policy_conditions()]}
    defs["hook"] = {**defs["hook"], "allOf": policy_conditions()}
    defs["settings"] = {keyword: value for keyword, value in settings.items() if keyword != "$schema"}
    return {**schema, "$defs": defs}


def _match_kinds(kinds: Iterable[str]) -> dict[str, Any]:
    return {"properties": {"kind": {"enum": list(kinds)}}, "required": ["kind"]}


if __name__ == "__main__":
    published = shipped_schema("pipeline.schema.json")
    published.write_text(json.dumps(editor_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
