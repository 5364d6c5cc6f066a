"""The schema for editors: what it says about kinds is generated, so that editors and the compiler cannot disagree."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bub.base.resources import shipped_pipelines, shipped_schema
from bub.hooks.facts import KIND_KEYS, KINDS
from bub.hookspecs import HOOK_POINTS, HookPoint
from bub.pipeline.check.words import join_names
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.source.merge import DEFAULT_PROFILE, load_shipped
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
    stage = {**defs["stage"], "properties": _with_examples(defs["stage"]["properties"])}
    defs["stage"] = {**stage, "allOf": [*kind_conditions(), *policy_conditions()]}
    defs["hook"] = {**defs["hook"], "allOf": policy_conditions()}
    defs["settings"] = {keyword: value for keyword, value in settings.items() if keyword != "$schema"}
    defs["profile"] = {**defs["profile"], "properties": _with_known_names(defs["profile"]["properties"])}
    return {**schema, "properties": _with_known_names(schema["properties"]), "$defs": defs}


# The names that editors complete


def _with_known_names(sections: Schema) -> dict[str, Any]:
    """Name the stages of the shipped pipelines and the known hook points, so that editors offer and explain them."""
    stages = {name: _describe("stage", point.doc) for name, point in _stages().items()}
    hooks = {name: _describe("hook", point.doc) for name, point in _points().items()}
    known = {"stages": stages, "hooks": hooks}
    return {**sections, **{name: {**sections[name], "properties": names} for name, names in known.items()}}


def _with_examples(keys: Schema) -> dict[str, Any]:
    """Give the keys of a stage that name something the names that Bub knows."""
    stages, points = sorted(_stages()), sorted(_points())
    examples = {"hook": points, "before": stages, "after": stages, "cleanup_for": stages}
    return {**keys, **{key: {**keys[key], "examples": names} for key, names in examples.items()}}


def _describe(definition: str, doc: str) -> dict[str, Any]:
    text = " ".join(doc.split())
    said = {"description": text.replace("`", ""), "markdownDescription": text} if text else {}
    return {**said, "$ref": f"#/$defs/{definition}"}


def _points() -> dict[str, HookPoint]:
    return {name: point for name, point in HOOK_POINTS.items() if not point.bootstrap}


def _stages() -> dict[str, HookPoint]:
    """Return the stages of the shipped pipelines by their ids, each with the hook point that it calls."""
    plans = [make_plan(load_shipped(name), DEFAULT_PROFILE) for name in shipped_pipelines()]
    return {stage.id: stage.hook.point for plan in plans for stage in plan.stages}


def _match_kinds(kinds: Iterable[str]) -> dict[str, Any]:
    return {"properties": {"kind": {"enum": list(kinds)}}, "required": ["kind"]}


if __name__ == "__main__":
    published = shipped_schema("pipeline.schema.json")
    published.write_text(json.dumps(editor_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
