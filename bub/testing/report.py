"""What came of the tests of pipeline files, as a program reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bub.base.diagnostics import Diagnostic, Place
from bub.testing.coverage import Coverage
from bub.testing.matching import Failure
from bub.testing.running import Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """The findings about some files, and what came of each of their tests; `coverage` if it was asked for."""

    files: int
    findings: tuple[Diagnostic, ...]
    verdicts: tuple[Verdict, ...]
    coverage: tuple[Coverage, ...] | None = None

    @property
    def ok(self) -> bool:
        """Whether no file has an error, and every test passed."""
        return not self.failed and not any(finding.severity == "error" for finding in self.findings)

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return sum(not verdict.passed for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as the JSON object of `bub test --format json`."""
        return {
            "version": 1,
            "ok": self.ok,
            "files": self.files,
            "passed": len(self.verdicts) - self.failed,
            "failed": self.failed,
            "tests": [_verdict(verdict) for verdict in self.verdicts],
            "diagnostics": [finding.as_dict() for finding in self.findings],
            "coverage": None if self.coverage is None else [_coverage(one) for one in self.coverage],
        }

    def __str__(self) -> str:
        """Return what is wrong, a line each; empty if nothing is."""
        lines = [f"{Place(one.file, one.range)}: {one.severity}[{one.code}] {one.message}" for one in self.findings]
        for verdict in self.verdicts:
            lines += [f"{verdict.trial.id}: {describe_failure(failure)}" for failure in verdict.failures]
        return "\n".join(lines)


def describe_failure(failure: Failure) -> str:
    """Return one failure in one line, with its place."""
    return f"{failure.place}: {explain_failure(failure)}"


def explain_failure(failure: Failure) -> str:
    """Return what came in place of what was expected."""
    if not failure.path:
        return str(failure.got)
    if failure.how:
        is_not = {"contains": "does not contain", "matches": "does not match"}[failure.how]
        return f"`{failure.path}` is {failure.got!r}, which {is_not} {failure.expected!r}"
    return f"`{failure.path}` is {failure.got!r}, not {failure.expected!r}"


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        **verdict.trial.place.as_dict(),
        "name": verdict.trial.name,
        "profile": verdict.profile,
        "passed": verdict.passed,
        "took": round(verdict.took, 6),
        "failures": [_failure(failure) for failure in verdict.failures],
        "trace": [
            {"turn": turn, "stage": record.stage, "implementation": record.implementation, "outcome": record.outcome}
            for turn, trace in enumerate(verdict.traces)
            for record in trace
        ],
        "told": [{"stage": told.stage, "error": told.text} for told in verdict.told],
    }


def _failure(failure: Failure) -> dict[str, Any]:
    said = {"path": failure.path, "how": failure.how or "equals", "expected": failure.expected, "got": failure.got}
    return {**said, **failure.place.as_dict()}


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "file": coverage.file,
        "profile": coverage.profile,
        "percent": coverage.percent,
        "branches": coverage.branches,
        "missing": [
            {"stage": branch.stage, "what": branch.what, **branch.place.as_dict()} for branch in coverage.missing
        ],
    }
