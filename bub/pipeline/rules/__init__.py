"""What a schema cannot know: one rule a module, each a function from a plan to its findings."""

from __future__ import annotations

from collections.abc import Callable

from bub.pipeline.plan import Plan
from bub.pipeline.rules import allowlist, cleanups, gates, hooks, kinds, order, routes, stages, values

Rule = Callable[[Plan], None]

RULES: tuple[Rule, ...] = (
    hooks.check,
    kinds.check,
    order.check,
    values.check,
    gates.check,
    cleanups.check,
    allowlist.check,
    routes.check,
    stages.check,
)
"""The rules that need no plugin, in the order they are applied; each adds to the plan's findings."""
