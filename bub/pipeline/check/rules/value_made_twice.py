"""A value is made by one stage only; another that takes it may make a new version of it."""

from __future__ import annotations

from bub.hooks.facts import START_VALUES
from bub.pipeline.plan.plan import Plan

CODE = "B131"


def check(plan: Plan) -> None:
    """Find stages that make a value which is there already, without taking it."""
    for stage in plan.stages:
        into = stage.node.get("into")
        if into is None or not isinstance(into.value, str) or into.value in stage.taken:
            continue
        first = next(iter(plan.flow.makers.get(into.value, ())), stage)
        if into.value in START_VALUES:
            message = f"{stage} makes `{into.value}`, which exists from the start, without taking it"
        elif first is not stage:
            message = f"{stage} makes `{into.value}`, which {first} makes already"
        else:
            continue
        plan.findings.add(
            CODE,
            message,
            into.place,
            path=f"stages.{stage.id}.into",
            help="give it a name of its own, or take the value and make a new version of it",
            related=[first.making(into.value)] if first is not stage else [],
        )
