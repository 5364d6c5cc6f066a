"""What a stage runs for each item of is a list."""

from __future__ import annotations

from bub.hooks.facts import SESSION, START_VALUES
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import StagePlan

CODE = "B187"

_NO_LIST = {"merge": "a mapping", "join": "a text"}
"""What a `combine` makes that is no list."""


def check(plan: Plan) -> None:
    """Find a `for_each` over what is no list: an error if that makes a list of it, else a warning."""
    for stage in plan.stages:
        said = stage.node.get("for_each")
        if stage.each is None or said is None:
            continue
        made = "one value" if stage.each in START_VALUES else _made_above(plan, stage, stage.each)
        if made is None:
            continue
        plan.findings.add(
            CODE,
            f"{stage} runs for each item of `{stage.each}`, but `{stage.each}` is {made}, not a list"
            + (": the stage would take this value out of the turn, or make a list of it" if stage.sifts else ""),
            said.place,
            severity="error" if stage.sifts else "warning",
            path=f"stages.{stage.id}.for_each",
            help=f"take `for_each` out, and let the hook take `{stage.each}`; lists are `outbounds` and every value"
            " that a `broadcast` makes with `combine: list` or `combine: concat`",
        )


def _made_above(plan: Plan, stage: StagePlan, name: str) -> str | None:
    """What the last stage above makes under a name, in words; None if it is a list, or may be one."""
    makers = [maker for maker in plan.flow.makers.get(name, ()) if plan.position[maker.id] < plan.position[stage.id]]
    maker = next((one for one in reversed(makers) if text_of(one.node.get("into")) == name), None)
    if maker is None or maker.kind is None or maker.each is not None:
        return None
    if maker.kind.name == "stream" or name == SESSION or maker.hook.point.twin is not None:
        return "a text"
    if maker.kind.name == "broadcast":
        return _NO_LIST.get(text_of(maker.node.get("combine")) or "list")
    returns = maker.hook.point.returns
    if returns is None:
        return None
    return "a mapping" if dict in returns else "a text" if str in returns else None
