"""Every `{name}` in a default stands for something."""

from __future__ import annotations

from bub.base.diagnostics import Place, is_slip
from bub.envelope import FIELDS
from bub.hooks.facts import SESSION, START_VALUES
from bub.pipeline.plan.plan import Plan, is_readable
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.templates import template_places

CODE = "B185"


def check(plan: Plan) -> None:
    """Find names in a default that are neither a value nor a field of a message, and so stand for nothing."""
    if not is_readable(plan.root, plan.stages):
        return
    known = {*START_VALUES, *FIELDS, *plan.flow.makers, *plan.flow.slips.values(), *_fields_in_tests(plan)}
    shipped = {layer.file for layer in plan.document.layers if layer.shipped}
    for stage in plan.stages:
        if stage.node.get("into") is None:
            continue  # its default is never used, which is told
        for name, place in template_places(stage.node.get("default")):
            if name in known or (_may_be_a_field(plan, stage) and not any(is_slip(name, other) for other in known)):
                continue
            plan.findings.warn(
                CODE,
                f"the default of {stage} names `{{{name}}}`, which no stage makes and no message has",
                Place(plan.document.file) if place.file in shipped else place,
                path=f"stages.{stage.id}.default",
                help=plan.findings.did_you_mean(name, known)
                or f"let a stage above make it: `into: {name}`; to mean the characters themselves, write"
                f" `{{{{{name}}}}}`",
            )


def _fields_in_tests(plan: Plan) -> set[str]:
    """The fields that messages of the file's tests have: a program makes such messages, too."""
    tests = plan.document.root.get("tests")
    messages = (test.get("message") for _, test in (tests.items() if tests is not None else ()))
    return {name for message in messages if message is not None for name, _ in message.items()}


def _may_be_a_field(plan: Plan, stage: StagePlan) -> bool:
    """Whether the message there is one that a stage has made, with fields that only its maker knows."""
    makers = plan.flow.makers.get("message", ())
    return stage.each is not None or any(text_of(maker.node.get("into")) != SESSION for maker in makers)
