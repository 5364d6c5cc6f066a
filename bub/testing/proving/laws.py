"""The laws of a turn: what holds whatever fails, as it follows from what the file declares. Nobody writes them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bub.testing.proving.delivery import behind_a_gate, one_outcome, too_late
from bub.testing.proving.failing import all_asked, cleanups, in_time, observers, policies
from bub.testing.proving.rules import Check, Rules
from bub.testing.proving.seen import Seen


class Broken(msgspec.Struct, frozen=True, eq=False):
    """A law that did not hold: what happened, and the stage it is about."""

    law: str
    what: str
    stage: str


def judge(rules: Rules, seen: Seen) -> Iterator[Broken]:
    """Yield every law that a turn has broken; of one that hung for good, only the law of time says anything."""
    hung = any(visit.outlasted for visit in seen.visits)
    for law, check in LAWS.items():
        for what, stage in check(rules, seen) if not hung or check is in_time else ():
            yield Broken(law, what, stage)


LAWS: dict[str, Check] = {
    "after a gate failed, only clean-ups and the delivery of its denial run": behind_a_gate,
    "every clean-up runs once if its target began": cleanups,
    "no turn outlasts the sum of its time-outs": in_time,
    "an observer's failure changes no reply": observers,
    "exactly one outcome is delivered": one_outcome,
    "no answer that comes too late counts": too_late,
    "a failure does what its policy says": policies,
    "if nothing fails, Bub calls every plugin": all_asked,
}
"""Every law, in words, with what checks it."""
