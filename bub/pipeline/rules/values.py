"""Every value that a stage takes has been made above it, and by one stage only (B130-B133)."""

from __future__ import annotations

from bub.diagnostics import Related, did_you_mean, suggest
from bub.kinds import START_VALUES
from bub.pipeline.plan import Plan, StagePlan, known_values


def check(plan: Plan) -> None:
    """Find values that nobody makes, that are made too late or twice, and that a stage may not yield at all."""
    makers: dict[str, list[StagePlan]] = {}
    for stage in plan.stages:
        for name in stage.makes:
            makers.setdefault(name, []).append(stage)
    for stage in plan.stages:
        _check_made(plan, stage, makers)
        _check_twice(plan, stage)
    _check_misspelt(plan, makers)
    _check_yielded(plan, makers)


def _check_made(plan: Plan, stage: StagePlan, makers: dict[str, list[StagePlan]]) -> None:
    above = set(START_VALUES) | {name for other in plan.above(stage) for name in other.makes}
    asked = {name: place for name, place in stage.asks if name not in above}
    for name, place in asked.items():
        if name not in makers or set(map(id, makers[name])) == {id(stage)}:
            plan.findings.add(
                "B130",
                f"{stage} takes `{name}`, which no stage makes",
                place,
                path=f"stages.{stage.id}",
                help=did_you_mean(name, known_values(plan) - {name}),
            )
    for name in (*asked, *stage.takes, *stage.templated):
        late = [other for other in makers.get(name, ()) if other is not stage]
        if name in above or not late or stage.kind is None:
            continue
        place = asked.get(name) or stage.place_of("after" if stage.node.get("after") else "before")
        plan.findings.add(
            "B130",
            f"{stage} takes `{name}`, which is made below it",
            place,
            path=f"stages.{stage.id}",
            help=f"move it below `{late[0].id}`",
            related=[_made_here(late[0], name)],
        )
        above.add(name)


def _check_twice(plan: Plan, stage: StagePlan) -> None:
    into = stage.node.get("into")
    if into is None or into.value in (*stage.takes, *stage.templated, *(name for name, _ in stage.asks)):
        return
    earlier = [other for other in plan.above(stage) if into.value in other.makes]
    if into.value in START_VALUES:
        message = f"{stage} makes `{into.value}`, which exists from the start, without taking it"
    elif earlier:
        message = f"{stage} makes `{into.value}`, which {earlier[0]} makes already"
    else:
        return
    plan.findings.add(
        "B131",
        message,
        into.place,
        path=f"stages.{stage.id}.into",
        help="give it a name of its own, or take the value and make a new version of it",
        related=[_made_here(other, into.value) for other in earlier[:1]],
    )


def _check_misspelt(plan: Plan, makers: dict[str, list[StagePlan]]) -> None:
    """A value that nobody takes and a missing one that is spelt almost alike (B133)."""
    taken = {name for stage in plan.stages for name in (*stage.takes, *stage.templated)}
    taken.update(name for stage in plan.stages for name, _ in stage.asks)
    missing = taken - set(makers) - set(START_VALUES)
    for stage in plan.stages:
        into = stage.node.get("into")
        if into is None or not isinstance(into.value, str) or into.value in taken:
            continue
        meant = suggest(into.value, missing)
        if meant is not None:
            plan.findings.add(
                "B133",
                f"{stage} makes `{into.value}`, which nobody takes, while `{meant}` is taken and never made",
                into.place,
                path=f"stages.{stage.id}.into",
                help=f"did you mean `{meant}`?",
                fix=meant,
            )


def _check_yielded(plan: Plan, makers: dict[str, list[StagePlan]]) -> None:
    """A stage that may yield nothing, though its value is taken (B132)."""
    for stage in plan.stages:
        if stage.kind is None or stage.kind.name not in ("firstresult", "stream") or stage.yields_something:
            continue
        why, key = _why_nothing(stage)
        value = stage.node.get("into")
        if not why or value is None:
            continue
        index = plan.stages.index(stage)
        taker = next((other for other in plan.stages[index + 1 :] if _takes(other, value.value)), None)
        if taker is not None:
            plan.findings.add(
                "B132",
                f"`{stage.id}` {why}, but `{taker.id}` takes `{value.value}`",
                stage.place_of(key),
                path=f"stages.{stage.id}.{key}",
                help="give it a `default`: what it yields then",
                related=[Related(f"`{taker.id}` stands here", taker.where.file, taker.where.range)],
            )


def _why_nothing(stage: StagePlan) -> tuple[str, str]:
    if not stage.enabled:
        return "is switched off", "enabled"
    if stage.node.get("when") is not None:
        return "may be skipped by its `when`", "when"
    if stage.on_failure == "skip":
        return "may be left out when it fails", "on_failure"
    return "", ""


def _takes(stage: StagePlan, value: str) -> bool:
    return stage.enabled and value in (*stage.takes, *stage.templated, *(name for name, _ in stage.asks))


def _made_here(stage: StagePlan, name: str) -> Related:
    place = stage.place_of("into")
    return Related(f"{stage} makes `{name}` here", place.file, place.range)
