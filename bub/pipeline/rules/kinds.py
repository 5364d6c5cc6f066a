"""Every stage has a kind that its point permits, and only the keys and policies of that kind (B110-B114)."""

from __future__ import annotations

from bub.diagnostics import Place, Related
from bub.kinds import KIND_KEYS, KINDS
from bub.pipeline.document import Node
from bub.pipeline.plan import HookPlan, Plan, StagePlan, text_of


def check(plan: Plan) -> None:
    """Find stages without a kind, with the wrong one, or with what their kind does not know."""
    for name, hook in plan.hooks.items():
        if hook.node is None:
            continue
        who, path = f"hook `{name}`", f"hooks.{name}"
        if _is_changed(plan, who, path, "declare a hook of another name"):
            continue
        if hook.kind is not None:
            _check_permitted(plan, who, hook, hook.kind.name, hook.node, path)
        kind = _kind_of(plan, hook)
        if kind is not None:
            _check_policy(plan, who, kind, hook.node, path)
    for stage in plan.stages:
        path = f"stages.{stage.id}"
        if _is_changed(plan, str(stage), path, "switch the stage off and add one of your own beside it"):
            continue
        if stage.kind is None:
            if stage.node.get("kind") is None and (stage.hook.known or stage.hook.point.name in plan.hooks):
                usual = stage.hook.point.kinds[0] or "observer"
                plan.findings.add(
                    "B110",
                    f"{stage} has no kind",
                    stage.where,
                    path=path,
                    help=f"say how `{stage.hook.point.name}` is called, such as `kind: {usual}`",
                )
            continue
        _check_permitted(plan, str(stage), stage.hook, stage.kind.name, stage.node, path)
        _check_policy(plan, str(stage), stage.kind.name, stage.node, path)
        _check_keys(plan, stage)


def _kind_of(plan: Plan, hook: HookPlan) -> str | None:
    """How a hook is called: as it says, else as a stage that calls it says, else as its point usually is."""
    called = (stage.kind for stage in plan.stages if stage.hook.point.name == hook.point.name)
    kind = hook.kind or next((kind for kind in called if kind is not None), None) or KINDS.get(hook.point.kinds[0])
    return kind.name if kind is not None else None


def _check_permitted(plan: Plan, who: str, hook: HookPlan, kind: str, node: Node, path: str) -> None:
    permitted = hook.point.kinds if hook.known else ((hook.kind.name,) if hook.kind else (kind,))
    said = node.get("kind")
    if kind not in permitted and said is not None:
        plan.findings.add(
            "B111",
            f"{who} is of kind `{kind}`, which the hook `{hook.point.name}` does not permit",
            said.place,
            path=f"{path}.kind",
            help=f"`{hook.point.name}` can be " + " or ".join(f"`{other}`" for other in permitted),
        )


def _check_policy(plan: Plan, who: str, kind: str, node: Node, path: str) -> None:
    said = node.get("on_failure")
    policy = text_of(said)
    if said is None or policy not in ("propagate", "skip", "deny") or policy in KINDS[kind].policies:
        return
    if kind == "gate":
        message, advice = f"{who} is a gate, and a gate that fails always denies", "leave `on_failure` out"
    else:
        message, advice = f"{who} cannot deny: only a gate can", "use `propagate` or `skip`, or make it a gate"
    plan.findings.add("B114", message, said.place, path=f"{path}.on_failure", help=advice)


def _check_keys(plan: Plan, stage: StagePlan) -> None:
    assert stage.kind is not None
    for key, kinds in KIND_KEYS.items():
        node = stage.node.get(key)
        if node is not None and stage.kind.name not in kinds:
            plan.findings.add(
                "B113",
                f"{stage} is of kind `{stage.kind.name}`, which knows no `{key}`",
                node.where,
                path=f"stages.{stage.id}.{key}",
                help=f"`{key}` is for " + ", ".join(f"`{kind}`" for kind in kinds),
            )


def _is_changed(plan: Plan, who: str, path: str, advice: str) -> bool:
    """Whether a child file or a profile changes the kind of an inherited stage or hook, which it cannot (B112)."""
    first: Place | None = None
    kind: str | None = None
    changed = False
    for layer in plan.effective.layers:
        said = layer.root.get(*path.split("."), "kind")
        if said is None or said.value not in KINDS:
            continue
        if kind is None:
            kind, first = said.value, said.place
        elif said.value != kind and first is not None:
            changed = True
            plan.findings.add(
                "B112",
                f"{who} is of kind `{kind}`, which `{layer.name}` cannot change to `{said.value}`",
                said.place,
                path=f"{path}.kind",
                help=advice,
                related=[Related(f"`{kind}` is said here", first.file, first.range)],
            )
    return changed
