"""What the model says becomes a reply."""

from __future__ import annotations

from collections.abc import Sequence

from bub.base.diagnostics import Place
from bub.hooks.facts import OUTBOUNDS, SESSION
from bub.pipeline.plan.plan import Plan, is_readable
from bub.pipeline.plan.stages import StagePlan

CODE = "B192"

_MODEL = ("run_model", "run_model_stream")
"""The hooks that ask a model."""

_PREPARING = ("normalize_inbound", "resolve_session", "load_state", "build_prompt", "system_prompt")
"""The hooks that make what others need."""

_RENDER = "render_outbound"
"""The hook that makes replies, which no plugin of Bub's own implements."""

_DISPATCH = "dispatch_outbound"
"""The hook that hands replies to who asked."""


def check(plan: Plan) -> None:
    """Find pipelines that ask a model and make no replies, and note those that make replies and dispatch none."""
    if not is_readable(plan.root, plan.stages):
        return
    asking = next((stage for stage in plan.stages if stage.enabled and stage.hook.point.name in _MODEL), None)
    makers = plan.flow.makers.get(OUTBOUNDS, ())
    making = [stage for stage in makers if stage.enabled or _has_replies(stage)]
    if asking is not None and not making:
        plan.findings.warn(
            CODE,
            f"{asking} answers, but no stage makes `{OUTBOUNDS}`, so nobody gets the answer",
            _place(plan, makers or (asking,)),
            path=f"stages.{(*makers, asking)[0].id}",
            help="switch it on, or give it a `default`"
            if makers
            else "add a stage such as `render_outbound: {kind: broadcast, combine: concat, into: outbounds, default:"
            ' [{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}]}`',
        )
    elif asking is None and not makers and plan.flow.makers.get(SESSION) and all(map(_only_prepares, plan.stages)):
        plan.findings.warn(
            CODE,
            "no stage answers, sends or looks at anything, so Bub does nothing with a message",
            _place(plan, plan.stages),
            path="stages",
            help="extend a shipped pipeline, such as `extends: bub:default`, or add the stages that answer",
        )
    elif asking is not None and not _may_have_replies(plan, making):
        plan.findings.warn(
            CODE,
            f"{asking} answers, but no plugin makes replies, and the `default` of {making[0]} has none, so nobody gets"
            " the answer",
            making[0].place_of("default"),
            path=f"stages.{making[0].id}.default",
            help='write one: `[{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}]`',
        )
    elif making and not any(_may_send(stage) for stage in plan.flow.takers.get(OUTBOUNDS, ())):
        off = plan.callers.get(_DISPATCH, ())
        plan.findings.add(
            CODE,
            f"no stage dispatches `{OUTBOUNDS}`: `bub run` prints them, but in `bub chat` and `bub gateway` nobody gets"
            " them",
            _place(plan, off or making),
            severity="warning" if off else "note",
            path=f"stages.{(*off, *making)[0].id}",
            help="switch it on" if off else f"add the stage `{_DISPATCH}: {{kind: broadcast, for_each: {OUTBOUNDS}}}`",
        )


def _only_prepares(stage: StagePlan) -> bool:
    """Whether a stage makes what others need, as the shipped pipelines have it, and no more."""
    return not stage.enabled or (stage.hook.point.name in _PREPARING and stage.hook.known)


def _may_have_replies(plan: Plan, making: Sequence[StagePlan]) -> bool:
    """Whether replies may come from a plugin, or from a default: not if it says in plain words that there are none."""
    says_none = (stage.node.get("default") is not None and not _has_replies(stage) for stage in making)
    is_own = (stage.hook.point.name != _RENDER for stage in making)
    return not plan.has_shipped_plugins_only or any(is_own) or not all(says_none)


def _has_replies(stage: StagePlan) -> bool:
    """Whether a stage makes replies although it is off: those of its default."""
    default = stage.node.get("default")
    return default is not None and bool(default.value)


def _may_send(stage: StagePlan) -> bool:
    """Whether a stage that gets the replies may do more with them than to change them, or to leave some out."""
    return stage.enabled and not stage.makes


def _place(plan: Plan, stages: Sequence[StagePlan]) -> Place:
    """Where the user's file switches one of the stages off, or says anything of it; else the file itself."""
    places = [stage.place_of(*key) for key in (("enabled",), ()) for stage in stages]
    return next((place for place in places if place.file == plan.document.file), Place(plan.document.file))
