"""The tests of pipeline files as a whole: find what is wrong with the files, then run test after test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, PipelineError, sort_diagnostics, without_notes
from bub.pipeline.check.validate import check_loaded, profiles_of
from bub.pipeline.plan.secret_values import redactor_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document, load_document, without
from bub.secrets.redactor import Redactor
from bub.testing.coverage import Coverage, coverage_of
from bub.testing.mocks import Mocks
from bub.testing.rehearsal import Rehearsal
from bub.testing.report import Report
from bub.testing.running import Verdict, run_trial
from bub.testing.selection import choose
from bub.testing.surroundings import environment as variables
from bub.testing.surroundings import with_settings
from bub.testing.trials import Trial, trials_of

PATIENCE = 60.0
"""How many seconds of real time a test may take if nobody says it."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one file; if a finding is an error, none of them can run."""

    document: Document
    trials: tuple[Trial, ...]
    findings: tuple[Diagnostic, ...]
    start: str | None
    workspace: Path
    mask: Redactor

    @property
    def can_run(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def run(self, timeout: float = PATIENCE) -> Iterator[Verdict]:
        """Run one test after another, each for `timeout` seconds of real time at most."""
        for trial in self.trials:
            yield run_trial(
                trial, self.document, start=self.start, workspace=self.workspace, timeout=timeout, mask=self.mask
            )

    def coverage(self, verdicts: Sequence[Verdict]) -> Iterator[Coverage]:
        """Yield what these tests reach of each profile of the file."""
        for profile in profiles_of(self.document):
            ran = [one for one in verdicts if one.trial.file == self.document.file and one.profile == profile]
            yield coverage_of(self.document, profile, ran)


def open_suite(
    file: Path, *, profile: str | None = None, chosen: str | None = None, workspace: Path | None = None
) -> Suite:
    """Read the tests of a file, and prove that the file and the plugins of its profiles fit together.

    `profile` is the one that runs if neither test nor route says another, `chosen` an expression as `choose` takes
    it, `workspace` the folder to work in (the file's own by default). Raises `UsageError` for a file that cannot be
    read and for what is no expression.
    """
    is_meant = choose(chosen) if chosen is not None else lambda name: True
    document = load_document(file)
    workspace = workspace or file.absolute().parent
    environment, found = read_environment(document.base, os.environ)
    findings = [*found, *check_loaded(document, environment=environment).diagnostics]
    if any(finding.severity == "error" for finding in findings):
        return Suite(document, (), sort_diagnostics(without_notes(findings)), profile, workspace, Redactor(()))
    trials = tuple(trial for trial in trials_of(document, environment) if is_meant(trial.id))
    whole, document = document, _without_tests(document)
    settings: dict[str, Mapping[str, object]] = {}
    for number, trial in enumerate(_apart(trials)):
        with variables(trial.env):
            laid = with_settings(document, trial.settings)
            rehearsal = Rehearsal(laid, Mocks({}, {}), own=trial.profile, start=profile, workspace=workspace)
            try:
                with redirect_stdout(sys.stderr), rehearsal.load():
                    settings.update({f"{name} {number}": own for name, own in rehearsal.all_settings.items()})
            except PipelineError as error:
                # Warnings are reported above; without its tests, a file may have others.
                findings += [finding for finding in error.diagnostics if finding.severity == "error"]
    mask = redactor_of(whole, environment, settings)
    return Suite(document, trials, sort_diagnostics(without_notes(findings)), profile, workspace, mask)


def _apart(trials: Iterable[Trial]) -> Iterable[Trial]:
    """Return one test of each profile, environment and settings: whatever else they say, they load the same."""
    loaded: dict[tuple[object, ...], Trial] = {}
    for trial in trials:
        said = repr(trial.settings.plain()) if trial.settings is not None else None
        loaded.setdefault((trial.profile, tuple(sorted(trial.env.items())), said), trial)
    return loaded.values()


def _without_tests(document: Document) -> Document:
    """Return the document as each test loads it: to check all tests for each would take the square of their time."""

    def bare(root: Node) -> Node:
        return without(root, ["tests"])

    layers = tuple(replace(layer, root=bare(layer.root)) for layer in document.layers)
    return replace(document, layers=layers, root=bare(document.root))


def run_tests(
    file: str | Path,
    *,
    profile: str | None = None,
    chosen: str | None = None,
    workspace: str | Path | None = None,
    timeout: float = PATIENCE,
) -> Report:
    """Run the `tests:` of a pipeline file: `report = run_tests("pipelines.yaml"); assert report.ok, str(report)`.

    `profile` is the one that runs if neither a test nor a route says another, `chosen` an expression such as
    `greeting and not slow`, `workspace` the folder to work in (the file's own by default), `timeout` how many seconds
    of real time each test may take. Nothing runs if the file, or a plugin of its profiles, has an error.
    """
    folder = Path(workspace) if workspace is not None else None
    suite = open_suite(Path(file), profile=profile, chosen=chosen, workspace=folder)
    return Report(1, suite.findings, tuple(suite.run(timeout)) if suite.can_run else ())
