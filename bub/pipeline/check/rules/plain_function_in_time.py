"""A function that has a time-out can be interrupted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bub.hooks.blocking import find_blocking_call
from bub.hooks.facts import BUILTIN
from bub.hooks.implementations import Implementation
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of, names_of, text_of
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import SHIPPED

CODE = "B217"


class _Timed(msgspec.Struct, frozen=True):
    """A stage, or a hook that is fired, with a time-out."""

    who: str
    timeout: str
    is_own: bool
    """Whether somebody else than a shipped pipeline set it."""
    hook: HookPlan
    only: Node | None


def check(plan: Plan, offers: Offers) -> None:
    """Find plain functions if there is a time-out, which cannot interrupt them.

    One that surely waits for something is a warning. Most others are quick, so they are a note, and none where only a
    shipped pipeline sets the time-out: an answer that comes too late does not count anyhow.
    """
    told: set[int] = set()
    for timed in _all_timed(plan):
        for one in offers.implementing(timed.hook.point):
            if one.is_async or one.wrapper or one.plugin == BUILTIN or not _is_asked(one, timed):
                continue
            if timed.hook.point.sync_only or id(one.function) in told:
                continue
            waits = find_blocking_call(one.function)
            if not waits and not timed.is_own:
                continue
            told.add(id(one.function))
            plan.findings.add(
                CODE,
                f"plugin `{one.plugin}` implements `{one.hook}` as a plain function"
                + (f" that calls `{waits}`" if waits else "")
                + f", and the time-out of {timed.who} ({timed.timeout}) cannot interrupt it",
                offers.place_of(one),
                severity="warning" if waits else "note",
                help="say `thread: true` there, or write it as an `async def`",
            )


def _all_timed(plan: Plan) -> Iterator[_Timed]:
    asked = [(str(stage), stage.node, stage.hook) for stage in plan.stages if stage.enabled]
    fired = [(name, hook) for name, hook in plan.hooks.items() if name not in plan.callers and not hook.point.bootstrap]
    for who, node, hook in (*asked, *((f"hook `{name}`", None, hook) for name, hook in fired)):
        timeout, thread, only = (_value_of(node, hook, key) for key in ("timeout", "thread", "only"))
        if timeout is not None and flag_of(thread) is not True:
            is_own = not timeout.place.file.startswith(SHIPPED)
            yield _Timed(who, text_of(timeout) or "", is_own, hook, only)


def _value_of(node: Node | None, hook: HookPlan, key: str) -> Node | None:
    own = node.get(key) if node is not None else None
    return own or (hook.node.get(key) if hook.node is not None else None)


def _is_asked(implementation: Implementation, timed: _Timed) -> bool:
    return timed.only is None or any(name == implementation.plugin for name, _ in names_of(timed.only))
