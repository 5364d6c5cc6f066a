"""What the model says becomes a reply."""

from __future__ import annotations

from bub.base.diagnostics import Place
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.plan import Plan, is_readable
from bub.pipeline.plan.stages import StagePlan

CODE = "B192"

_MODEL = ("run_model", "run_model_stream")
"""The hooks that ask a model."""

_DISPATCH = "dispatch_outbound"
"""The hook that hands replies to who asked."""


def check(plan: Plan) -> None:
    """Find pipelines that ask a model and make no replies, and note those that make replies and dispatch none.

    If something else is wrong already, that may be why.
    """
    if plan.findings.has_errors or not is_readable(plan.root, plan.stages):
        return
    asking = next((stage for stage in plan.stages if stage.enabled and stage.hook.point.name in _MODEL), None)
    making = [stage for stage in plan.flow.makers.get(OUTBOUNDS, ()) if stage.enabled or stage.yields_something]
    if asking is not None and not making:
        plan.findings.warn(
            CODE,
            f"{asking} answers, but no stage makes `{OUTBOUNDS}`, so nobody gets the answer",
            _place(plan, asking),
            path=f"stages.{asking.id}",
            help="add a stage such as `render_outbound: {kind: broadcast, combine: concat, into: outbounds, default:"
            ' [{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}]}`',
        )
    elif making and not any(_may_send(stage) for stage in plan.flow.takers.get(OUTBOUNDS, ())):
        plan.findings.add(
            CODE,
            f"no stage dispatches `{OUTBOUNDS}`: `bub run` prints them, but in `bub chat` and `bub gateway` nobody gets"
            " them",
            _place(plan, making[-1]),
            severity="note",
            path=f"stages.{making[-1].id}",
            help=f"add the stage `{_DISPATCH}: {{kind: broadcast, for_each: {OUTBOUNDS}}}`",
        )


def _may_send(stage: StagePlan) -> bool:
    """Whether a stage that gets the replies may do more with them than to change them, or to leave some out."""
    return stage.enabled and not stage.makes


def _place(plan: Plan, stage: StagePlan) -> Place:
    """Where the user's file says something of the stage; the file itself if only a parent does."""
    return stage.where if stage.where.file == plan.document.file else Place(plan.document.file)
