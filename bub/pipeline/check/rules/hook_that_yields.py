"""A hook answers; one that yields would never begin to run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B220"

_ANSWERING = ("firstresult", "broadcast", "stream")
"""The kinds whose answer may be something to iterate over."""


def check(plan: Plan, offers: Offers) -> None:
    """Find implementations that are generators although nobody iterates: an error for a gate, else a warning."""
    for implementation, point in offers.fitting():
        hook = offers.hooks.get(point.name)
        kind = kind_of(plan, hook) if hook is not None else None
        if implementation.plugin == BUILTIN or kind is None or kind.name in _ANSWERING or point.bootstrap:
            continue
        if not _yields(implementation.function):
            continue
        is_gate = offers.is_gate(point.name)
        plan.findings.add(
            CODE,
            f"plugin `{implementation.plugin}` implements `{point.name}` with a function that yields, so none of its"
            " code runs" + (", and the gate denies everything" if is_gate else ""),
            offers.place_of(implementation),
            severity="error" if is_gate else "warning",
            help="return the answer instead of yielding it",
        )


def _yields(function: Callable[..., Any]) -> bool:
    written = inspect.unwrap(function)
    return inspect.isgeneratorfunction(written) or inspect.isasyncgenfunction(written)
