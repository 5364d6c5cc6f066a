"""Every value that a stage takes has been made above it, and by one stage only (B130-B134)."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from bub.diagnostics import Place, Related
from bub.kinds import SESSION, START_VALUES
from bub.pipeline.plan import Plan, StagePlan, known_values, names_of, text_of


def check(plan: Plan) -> None:
    """Find values that nobody makes, that are made too late or twice, and that a stage may not yield at all."""
    makers: dict[str, list[StagePlan]] = {}
    for stage in plan.stages:
        for name in stage.makes:
            makers.setdefault(name, []).append(stage)
    missing = set() if _is_unreadable(plan) else _missing(plan, makers)
    misspelt = _check_misspelt(plan, missing)
    told: set[Place] = set()
    for stage in plan.stages:
        _check_asked(plan, stage, missing - misspelt, told)
        _check_made(plan, stage, makers)
        _check_changed(plan, stage)
        _check_twice(plan, stage)
    _check_yielded(plan)


def _is_unreadable(plan: Plan) -> bool:
    """Whether a stage, or what it makes, cannot be read: the value that is missed may be made there."""
    stages = plan.root.get("stages")
    return any(not node.is_mapping for _, node in (stages.items() if stages is not None else ())) or any(
        node is not None and text_of(node) is None for node in (stage.node.get("into") for stage in plan.stages)
    )


def _missing(plan: Plan, makers: dict[str, list[StagePlan]]) -> set[str]:
    """The values that some stage takes and no other stage makes."""
    return {
        name
        for stage in plan.stages
        for name in _taken(stage)
        if name not in START_VALUES and all(maker is stage for maker in makers.get(name, ()))
    }


def _taken(stage: StagePlan) -> tuple[str, ...]:
    return (*stage.takes, *stage.templated, *(name for name, _ in stage.asks))


def _check_asked(plan: Plan, stage: StagePlan, missing: set[str], told: set[Place]) -> None:
    """Find values that the file asks for by name and nobody makes (B130); what a hook merely may take is None."""
    for name, place in stage.asks:
        # Stages that call one hook ask for its `takes` at one place.
        if name in missing and place not in told and not _is_made_by_another(plan, stage, name):
            told.add(place)
            plan.findings.add(
                "B130",
                f"{stage} takes `{name}`, which no stage makes",
                place,
                path=f"stages.{stage.id}",
                help=plan.findings.did_you_mean(name, known_values(plan) - {name}),
            )


def _is_made_by_another(plan: Plan, stage: StagePlan, name: str) -> bool:
    return any(name in other.makes for other in plan.stages if other is not stage)


def _check_made(plan: Plan, stage: StagePlan, makers: dict[str, list[StagePlan]]) -> None:
    """Find values that are taken above the stage that makes them (B130)."""
    above = set(START_VALUES) | {name for other in plan.above(stage) for name in other.makes}
    asked = {name: place for name, place in stage.asks if name not in above}
    for name in (*asked, *stage.takes, *stage.templated):
        late = [other for other in makers.get(name, ()) if other is not stage]
        if name in above or not late or stage.kind is None or not plan.adrift.isdisjoint((stage.id, late[0].id)):
            continue
        if late[0].id in (stage.cleanup_for, *(stage.needs or ())):
            continue  # that it stands below is said already
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


def _check_changed(plan: Plan, stage: StagePlan) -> None:
    """What a modifying stage may not change: the session under way, and for each item more than the item (B134)."""
    for name, place in names_of(stage.node.get("changes")):
        if name == SESSION:
            message = f"{stage} changes `{SESSION}`, but the turn has taken its place in that session already"
            advice = "let the stage that makes it decide"
        elif stage.each is not None and name != "message":
            message = f"{stage} runs for each of `{stage.each}` and changes `{name}`, which the items share"
            advice = "only `message`, the item, can be changed there"
        else:
            continue
        plan.findings.add("B134", message, place, path=f"stages.{stage.id}.changes", help=advice)


def _check_twice(plan: Plan, stage: StagePlan) -> None:
    into = stage.node.get("into")
    if into is None or into.value in _taken(stage):
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


def _check_misspelt(plan: Plan, missing: set[str]) -> set[str]:
    """A value that nobody takes, while a hook takes a missing one that is spelt almost alike (B133).

    Returns those that are missing because of it. What only the file asks for may be misspelt itself (B130).
    """
    taken = {name for stage in plan.stages for name in _taken(stage)}
    taken.update(name for hook in plan.hooks.values() for name in hook.takes)
    expected = {name for stage in plan.stages if stage.hook.known for name in stage.takes} & missing
    misspelt = set()
    for stage in plan.stages:
        into = stage.node.get("into")
        if into is None or not isinstance(into.value, str) or into.value in taken:
            continue
        meant = _nearly(into.value, expected)
        if meant is not None:
            misspelt.add(meant)
            plan.findings.add(
                "B133",
                f"{stage} makes `{into.value}`, which nobody takes, while `{meant}` is taken and never made",
                into.place,
                path=f"stages.{stage.id}.into",
                help=f"did you mean `{meant}`?",
                fix=meant,
            )
    return misspelt


def _nearly(name: str, expected: Iterable[str]) -> str | None:
    """What a name is a slip for, or the end of; stricter than a suggestion, since the name itself may be right."""
    close = get_close_matches(name, sorted(expected), n=1, cutoff=0.81)
    ends = [other for other in sorted(expected) if other.endswith(f"_{name}")]
    return next(iter([*close, *ends]), None)


def _check_yielded(plan: Plan) -> None:
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
    return stage.enabled and value in _taken(stage)


def _made_here(stage: StagePlan, name: str) -> Related:
    place = stage.place_of("into")
    return Related(f"{stage} makes `{name}` here", place.file, place.range)
