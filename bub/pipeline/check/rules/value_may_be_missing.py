"""A stage whose value is taken always yields one."""

from __future__ import annotations

import msgspec

from bub.base.diagnostics import Place, Related
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.source.profiles import profile_of

CODE = "B132"


def check(plan: Plan) -> None:
    """Find stages that are off, or may be skipped or fail, have nothing to yield then, and whose value is taken."""
    for index, stage in enumerate(plan.stages):
        if stage.kind is None or stage.kind.name not in ("firstresult", "stream") or stage.yields_something:
            continue
        missing = _why_missing(plan, stage)
        if missing is None or stage.into is None or stage.into not in stage.makes:
            continue
        takers = (other for other in plan.flow.takers.get(stage.into, ()) if other.enabled)
        taker = next((other for other in takers if plan.position[other.id] > index), None)
        if taker is not None:
            plan.findings.add(
                CODE,
                f"`{stage.id}` {missing.why} `{taker.id}` takes `{stage.into}`",
                missing.place,
                path=missing.path,
                profile=profile_of(missing.place),
                help=missing.advice.format(into=stage.into),
                related=[Related(f"`{taker.id}` takes it here", taker.where.file, taker.where.range)],
            )


_DEFAULT = "give it a `default`, the value for this case"


class _Missing(msgspec.Struct, frozen=True):
    """Why a stage may yield nothing, what to do, and the key that says so."""

    why: str
    place: Place
    path: str
    advice: str = _DEFAULT


def _why_missing(plan: Plan, stage: StagePlan) -> _Missing | None:
    """Why a stage may yield nothing; None where it always yields something."""
    if stage.replaced_by:
        other = plan.stage(stage.replaced_by[0])
        why = f"is replaced by `{other.id}`, which does not make its value, but"
        advice = f"let a stage in its place make it with `into: {{into}}`, or give `{stage.id}` a `default`"
        return _Missing(why, other.place_of(REPLACE), f"stages.{other.id}.{REPLACE}", advice)
    if not stage.enabled:
        # Whoever reads the pipeline finds the stage there, and not the profile that switches it off.
        profile = profile_of(stage.place_of("enabled"))
        why = f"is defined, but off in profile `{profile}`, and" if profile else "is switched off, but"
        advice = f"{_DEFAULT}; or let another stage make the value with `into: {{into}}`"
        return _key(stage, why, "enabled", advice)
    if stage.node.get("when") is not None:
        return _key(stage, "may be skipped by its `when`, but", "when")
    if stage.on_failure == "skip":
        return _key(stage, "may be left out when it fails, but", "on_failure")
    return None


def _key(stage: StagePlan, why: str, key: str, advice: str = _DEFAULT) -> _Missing:
    return _Missing(why, stage.place_of(key), f"stages.{stage.id}.{key}", advice)
