"""A worker thread is asked for if there is a plain function to run in it."""

from __future__ import annotations

from collections.abc import Iterable

from bub.pipeline.check.rules.key_without_effect import CODE
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of, names_of
from bub.pipeline.source.document import Node


def check(plan: Plan, offers: Offers) -> None:
    """Find `thread: true` where all that are asked are `async`: those run where all others do."""
    called = [(str(stage), f"stages.{stage.id}", stage.node, stage.hook) for stage in plan.stages if stage.enabled]
    fired = [(f"hook `{name}`", "", None, hook) for name, hook in plan.hooks.items() if name not in plan.callers]
    for who, stage, node, hook in (*called, *fired):
        said = [(path, each) for path, each in ((stage, node), (f"hooks.{hook.point.name}", hook.node)) if each]
        path, thread = _first(said, "thread")
        _, only = _first(said, "only")
        if thread is None or flag_of(thread) is not True:
            continue
        named = {name for name, _ in names_of(only)} if only is not None else None
        asked = [one for one in offers.implementing(hook.point) if named is None or one.plugin in named]
        if asked and all(one.is_async for one in asked):
            plan.findings.warn(
                CODE,
                f"{who} has `thread: true`, but it calls only `async` functions, and these run in no thread",
                thread.where,
                path=path,
                profile=plan.profile,
                help="take `thread` out; in an `async def`, run a blocking call with `trio.to_thread.run_sync`",
            )


def _first(said: Iterable[tuple[str, Node]], key: str) -> tuple[str, Node | None]:
    """What is said of a key first, and the path of that."""
    return next(((f"{path}.{key}", each.get(key)) for path, each in said if each.get(key) is not None), ("", None))
