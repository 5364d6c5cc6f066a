"""From a topic that a person names (`settings.model`, a stage, a hook point) to what it means in a pipeline."""

from __future__ import annotations

import re

from bub.base.diagnostics import ask_for, did_you_mean
from bub.base.json_schema import Steps, join_steps
from bub.base.quoting import hide_passwords
from bub.errors import UsageError
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.origins import (
    Lookup,
    origins_of,
    schema_at,
    value_at,
)
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan, StagePlan
from bub.pipeline.source.merge import DEFAULT_PROFILE
from bub.pipeline.source.other_names import name_here
from bub.pipeline.source.schemas import pipeline_schema

_NAMED = ("stages", "hooks", "plugins", "profiles", "tests")
"""Sections whose keys are names: what nobody wrote there does not exist."""


def find_stage(plan: Plan, topic: str) -> StagePlan | None:
    name = topic.removeprefix("stages.")
    return next((stage for stage in plan.stages if stage.id == name), None)


def find_hook(plan: Plan, topic: str) -> HookPlan | None:
    name = topic.removeprefix("hooks.")
    said = plan.hooks.get(name) or next((stage.hook for stage in plan.stages if stage.hook.point.name == name), None)
    known = HOOK_POINTS.get(name)
    if said is not None or known is None:
        return said
    return HookPlan(known, None, None, known.takes, narrowed=False, known=True)


def resolve_path(lookup: Lookup, topic: str) -> Steps:
    """Return the path that a topic means; UsageError, with the nearest one there is, for a path of nothing."""
    steps: list[str | int] = []
    rest = topic
    while rest:
        index = re.match(r"\[([0-9]{1,6})\]\.?", rest) if steps else None
        if index:
            steps.append(int(index[1]))
            rest = rest[index.end() :]
            if value_at(lookup, tuple(steps)) is None:
                raise UsageError(
                    f"there is no `{join_steps(tuple(steps))}`", help=f"look at `{join_steps(tuple(steps[:-1]))}`"
                )
            continue
        # A name may have dots in it, as those of plugins do.
        names = [name for name in _names_at(lookup, tuple(steps)) if re.match(re.escape(name) + r"(?:$|[.\[])", rest)]
        name = max(names, key=len) if names else re.split(r"[.\[]", rest)[0]
        if not name or not _is_there(lookup, (*steps, name)):
            raise _unknown(lookup, topic, tuple(steps), name, rest[len(name) :])
        steps.append(name)
        rest = rest[len(name) :].removeprefix(".")
    if not steps:
        raise _unknown(lookup, topic, (), topic, "")
    return tuple(steps)


def _names_at(lookup: Lookup, steps: Steps) -> list[str]:
    """Return the keys that there are, or could be, at a path."""
    node = value_at(lookup, steps) if steps else lookup.plan.effective.root
    schema = schema_at(lookup, steps) or {}
    written = [name for name, _ in node.items()] if node is not None else []
    own = {"stages": [stage.id for stage in lookup.plan.stages], "hooks": list(HOOK_POINTS)}
    points = own.get(str(steps[0]), []) if len(steps) == 1 else []
    return list(dict.fromkeys([*written, *schema.get("properties", ()), *points]))


def _is_there(lookup: Lookup, steps: Steps) -> bool:
    if value_at(lookup, steps) is not None or origins_of(lookup, steps):
        return True
    if len(steps) == 2 and steps[0] in _NAMED:
        return steps[1] in _names_at(lookup, steps[:1]) or steps == ("profiles", DEFAULT_PROFILE)
    schema = schema_at(lookup, steps)
    return schema is not None and "description" in schema and schema.get("title") != "plugin section"


def _unknown(lookup: Lookup, topic: str, above: Steps, name: str, rest: str) -> UsageError:
    known = _names_at(lookup, above)
    if above:
        near = ask_for(name_here(name, above, known)) or did_you_mean(name, known)
        if near is not None:
            near = near.replace("`", f"`{join_steps(above)}.", 1).replace("`?", f"{rest}`?")
        listed = ", ".join(f"`{one}`" for one in known[:20])
        hint = near or (f"known there: {listed}" if known else "`bub explain` shows the whole pipeline")
        return _refusal(f"`{join_steps(above)}` has no `{name}`", hint)
    stages = [stage.id for stage in lookup.plan.stages]
    profiles = lookup.document.root.get("profiles")
    if profiles is not None and profiles.get(name) is not None:
        return _refusal(f"`{topic}` is a profile", f"explain `profiles.{topic}`, or `--profile {name}`")
    known = [*stages, *lookup.plan.hooks, *HOOK_POINTS, *pipeline_schema()["properties"]]
    hint = did_you_mean(name, known) or f"stages are {', '.join(f'`{one}`' for one in stages)}"
    return _refusal(f"this pipeline has no stage, hook point or path `{topic}`", hint)


def _refusal(message: str, hint: str) -> UsageError:
    return UsageError(hide_passwords(message), help=hide_passwords(hint))  # a name may be an address
