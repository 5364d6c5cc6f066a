"""The exceptions that a test names exist, as far as that can be known without importing the plugins."""

from __future__ import annotations

import builtins
import re

from bub import errors
from bub.base.diagnostics import sure_repair
from bub.pipeline.check.cases import Case, answers_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of

CODE = "B175"

_CLASS_NAME = "([A-Z][a-z0-9]*){2,}"

_OF_TRIO = (
    "BrokenResourceError",
    "BusyResourceError",
    "Cancelled",
    "ClosedResourceError",
    "EndOfChannel",
    "RunFinishedError",
    "TooSlowError",
    "TrioInternalError",
    "WouldBlock",
)
"""What trio raises, by name: a check of a file does not import trio."""


def check(plan: Plan, case: Case) -> None:
    """Find names that are almost those of an exception; others may be of a plugin's own (warnings)."""
    mocks = [(f"mock.{name}", mock) for name, mock in case.mocks()]
    named = [(f"{at}{path}.raise", answer.get("raise")) for at, mock in mocks for path, answer in answers_of(mock)]
    named += [(f"{at}.expect.error.type".lstrip("."), turn.get("expect", "error", "type")) for at, turn in case.turns()]
    for key, said in named:
        name = text_of(said)
        if said is None or name is None or re.fullmatch(_CLASS_NAME, name) is None:
            continue
        meant = sure_repair(name, _list_known_exceptions())
        if meant is not None:
            plan.findings.warn(
                CODE,
                f"{case} names the exception `{name}`, which does not exist",
                said.place,
                path=f"{case.path}.{key}",
                # No `fix`: a plugin may have an exception of that very name.
                help=f"did you mean `{meant}`?",
                likely=meant,
            )


def _list_known_exceptions() -> set[str]:
    classes = [*vars(builtins).items(), *vars(errors).items()]
    return {*_OF_TRIO, *(name for name, it in classes if isinstance(it, type) and issubclass(it, BaseException))}
