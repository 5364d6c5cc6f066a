"""What the tests of a file do not reach: stages that never ran, gates that never denied, failures that never came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bub.base.diagnostics import Place
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import SHIPPED, Document
from bub.testing.expectations import IDLE
from bub.testing.running import Verdict


@dataclass(frozen=True, slots=True)
class Branch:
    """One thing that can become of a stage: `ran`, `skipped`, `denied`, `claimed`, `default`, `timeout` or `failed`."""

    stage: str
    what: str
    place: Place


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many branches of a profile the tests reach, and which they do not."""

    file: str
    profile: str
    branches: int
    missing: tuple[Branch, ...]

    @property
    def percent(self) -> int:
        """The share that is reached, rounded down, so that 100 means all."""
        return 100 * (self.branches - len(self.missing)) // self.branches if self.branches else 100


def coverage_of(document: Document, profile: str, verdicts: Iterable[Verdict]) -> Coverage:
    """Return what the tests that ran in one profile reach of it.

    Of what a shipped pipeline says, it is enough that each stage ran.
    """
    plan = make_plan(document, profile)
    stages = [stage for stage in plan.stages if stage.enabled]
    branches = [branch for stage in stages for branch in _branches(stage)]
    reached = set[tuple[str, str]]()
    for verdict in verdicts:
        for record in verdict.trace:
            reached.add((record.stage, record.outcome))
            if record.outcome not in IDLE:
                reached.add((record.stage, "ran"))
        # A stage may go on without an implementation that failed: its record does not show that.
        failed = {(told.stage.partition(":")[0], told.is_late) for told in verdict.told if ":" in told.stage}
        for stage in stages:
            point = stage.hook.point
            for hook, late in failed:
                if hook in (point.name, point.twin):
                    reached |= {(stage.id, "failed"), *([(stage.id, "timeout")] if late else [])}
    missing = tuple(branch for branch in branches if (branch.stage, branch.what) not in reached)
    return Coverage(document.file, profile, len(branches), missing)


def _branches(stage: StagePlan) -> Iterator[Branch]:
    yield Branch(stage.id, "ran", stage.where)
    kind = stage.kind.name if stage.kind is not None else ""
    if kind == "gate":
        yield Branch(stage.id, "denied", stage.where)
    if kind == "claiming":
        yield Branch(stage.id, "claimed", stage.where)
    for key, what in (("when", "skipped"), ("default", "default"), ("timeout", "timeout"), ("on_failure", "failed")):
        said = _value_of_key(stage, key)
        if said is not None and said.value is not None and not said.where.file.startswith(SHIPPED):
            yield Branch(stage.id, what, said.where)


def _value_of_key(stage: StagePlan, key: str) -> Node | None:
    own = stage.node.get(key)
    return own if own is not None or stage.hook.node is None else stage.hook.node.get(key)
