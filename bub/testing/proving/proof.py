"""Proving a file: all faults of all its profiles, and what is to be said of them."""

from __future__ import annotations

import linecache
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from bub.base.diagnostics import (
    Diagnostic,
    PipelineError,
    Place,
    Position,
    Range,
    Related,
    sort_diagnostics,
    without_notes,
)
from bub.log import silent
from bub.pipeline.check.ignores import ignores_of, settle
from bub.pipeline.check.validate import check_loaded, profiles_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document
from bub.testing.bounds import run_bounded
from bub.testing.clock import VirtualClock
from bub.testing.mocks import Mocks
from bub.testing.proving.counterexample import Counterexample, counterexample_of
from bub.testing.proving.director import Director
from bub.testing.proving.guards import Leak, leaks_of
from bub.testing.proving.laws import LAWS
from bub.testing.proving.shelter import sheltered
from bub.testing.proving.sites import Site, sites_of
from bub.testing.proving.trials import Pairs, Trial, Trials
from bub.testing.proving.turns import Stage
from bub.testing.proving.witness import ModelWitness
from bub.testing.rehearsal import Rehearsal

PATIENCE = 600.0
"""How many seconds of real time the proof of one profile may take if nobody says it."""

BROKEN, LEAKING, UNBOUNDED = "B227", "B228", "B229"
"""The findings: a law is broken, a gate allows though it failed, nothing ends a stage that hangs."""

_MOST_TESTS = 8
"""How many turns are tried as a test for each law that is broken."""

Tell = Callable[[int], None]
"""Gets the number of turns so far."""


@dataclass
class Proof:
    """What came of proving one file: `faults` were tried, `unreached` implementations were never called.

    It `ran` unless the file, or a plugin of its profiles, has an error.
    """

    document: Document
    findings: tuple[Diagnostic, ...] = ()
    counterexamples: list[Counterexample] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    faults: int = 0
    ran: bool = False
    here: Path = field(default_factory=Path.cwd)

    @property
    def laws(self) -> int:
        """How many laws every turn was held against."""
        return len(LAWS)

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


def prove(
    document: Document,
    *,
    profiles: Sequence[str] | None = None,
    workspace: Path | None = None,
    is_mocked: bool = False,
    pairs: Pairs = "guards",
    timeout: float = PATIENCE,
    tell: Tell = lambda done: None,
) -> Proof:
    """Try every fault at every implementation of the `profiles` of a file (None: all), and hold each turn to the laws.

    Implementations run in a copy of the `workspace` (None: an empty folder) and out of reach of everything else; with
    `is_mocked` none of them is called. Nothing is tried if the file has an error. Raises `UsageError` for a workspace
    that is too large.
    """
    proof = Proof(document)
    environment, read = read_environment(document.base, os.environ)
    found = [*read, *check_loaded(document, environment=environment).diagnostics]
    if not any(finding.severity == "error" for finding in found):
        found = []  # what else there is to say, `bub validate` says
        try:
            with sheltered(None if is_mocked else workspace) as folder, _unheard():
                for profile in profiles or profiles_of(document):
                    found += _Profile(proof, profile, folder, is_mocked, pairs, tell).prove(timeout)
            proof.ran = True
        except PipelineError as error:
            found = [finding for finding in error.diagnostics if finding.severity == "error"]
    proof.findings = sort_diagnostics(settle(without_notes(found), ignores_of(document)))
    return proof


@contextmanager
def _unheard() -> Iterator[None]:
    """Let nothing be heard of what runs: hundreds of failures, all of them meant."""
    with ExitStack() as stack:
        stack.enter_context(silent())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123 (it is no file)
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))
        yield


class _Profile:
    """The proof of one profile."""

    def __init__(self, proof: Proof, profile: str, workspace: Path, is_mocked: bool, pairs: Pairs, tell: Tell) -> None:
        self._proof, self._profile = proof, profile
        self._is_mocked, self._pairs, self._tell = is_mocked, pairs, tell
        self._clock = VirtualClock()
        self._director = Director(profile, self._clock)
        self._workspace = workspace
        self._rehearsal = Rehearsal(
            proof.document,
            Mocks({}, {}),
            own=profile,
            start=None,
            workspace=workspace,
            recast=self._director.recast,
            witness=ModelWitness,
        )
        self._broken: dict[tuple[str, str], dict[tuple[str, ...], Trial]] = {}
        self._times: Counter[tuple[str, str]] = Counter()
        self._unbounded: dict[str, None] = {}
        self._leaks: list[tuple[Site, Leak]] = []

    def prove(self, timeout: float) -> Iterator[Diagnostic]:
        """Load the profile, try it, and yield what was found. Raises `PipelineError` if it does not load."""
        with self._rehearsal.load():
            plan = self._rehearsal.plan
            director = self._director
            sites = sites_of(plan, director.raw)
            director.sites = {site.number: site for site in sites}
            director.lists = frozenset(stage.each for stage in plan.stages if stage.each is not None)
            director.takes = {name: hook.takes for name, hook in plan.hooks.items()}
            run_bounded(partial(self._run, plan, sites), self._clock, timeout)
        yield from self._laws_broken(plan)
        yield from self._gates_that_leak(plan)
        yield from self._without_end(plan)

    async def _run(self, plan: Plan, sites: Sequence[Site]) -> None:
        proof = self._proof
        async with self._rehearsal.running():
            stage = Stage(self._rehearsal, self._director, self._clock)
            trials = Trials(stage, plan, sites, is_mocked=self._is_mocked, pairs=self._pairs)
            async for trial in trials.run():
                proof.faults += bool(trial.faults)
                self._tell(proof.faults)
                if trial.unbounded:
                    self._unbounded[trial.unbounded] = None
                for law in trial.broken:
                    ways = tuple(fault.way for fault in trial.faults)
                    self._broken.setdefault((law.law, law.stage), {}).setdefault(ways, trial)
                    self._times[law.law, law.stage] += 1
            for site in sites if not self._is_mocked else ():
                calls = trials.calls_of(site) if site.is_gate else ()
                if calls:
                    leaks = await leaks_of(site.function, calls[0].arguments)
                    self._leaks += [(site, leak) for leak in leaks]
        proof.unreached += [str(site) for site in trials.unreached if str(site) not in proof.unreached]

    def _laws_broken(self, plan: Plan) -> Iterator[Diagnostic]:
        for (law, stage), by_ways in self._broken.items():
            trial = next(iter(by_ways.values()))
            what = next(one.what for one in trial.broken if (one.law, one.stage) == (law, stage))
            faults = " and ".join(map(str, trial.faults)) or "nothing fails"
            more = self._times[law, stage] - 1
            often = f" (and in {more} more turns)" if more else ""
            place = _place_of(plan, stage)
            self._proof.counterexamples.append(self._counterexample(law, stage, by_ways.values()))
            yield Diagnostic(
                BROKEN,
                "error",
                f"{what}, if {faults}{often}",
                place.file,
                place.range,
                path=f"stages.{stage}" if stage in plan.position else "",
                profile=self._profile,
                help=f"the law is: {law}",
            )

    def _counterexample(self, law: str, stage: str, trials: Iterable[Trial]) -> Counterexample:
        """Return the first of some turns that is a failing test, too; else the first that is a test at all."""
        document, found = self._proof.document, []
        for trial in islice(trials, _MOST_TESTS):
            found.append(counterexample_of(document, self._profile, law, stage, trial, self._workspace))
            if found[-1].fails:
                return found[-1]
        return next((one for one in found if one.entry is not None), found[0])

    def _gates_that_leak(self, plan: Plan) -> Iterator[Diagnostic]:
        for site, leak in self._leaks:
            place = _place_of(plan, site.where)
            text = linecache.getline(leak.file, leak.line)
            start = Position(leak.line, len(text) - len(text.lstrip()) + 1)
            end = Position(leak.line, len(text.rstrip()) + 1)
            yield Diagnostic(
                LEAKING,
                "error",
                f"the gate `{site.where}` of plugin `{site.plugin}` allows if {leak.what} fails here ({leak.how})",
                _name_for_people(leak.file, self._proof.here),
                Range(start, end),
                profile=self._profile,
                help="let the failure leave the gate, so that it denies, or return a denial",
                related=(Related(f"the gate is `{site.where}`", place.file, place.range),),
            )

    def _without_end(self, plan: Plan) -> Iterator[Diagnostic]:
        for stage in self._unbounded:
            place = _place_of(plan, stage)
            yield Diagnostic(
                UNBOUNDED,
                "warning",
                f"a turn is unbounded: nothing ends stage `{stage}` if a plugin hangs there",
                place.file,
                place.range,
                path=f"stages.{stage}",
                profile=self._profile,
                help="give the stage a `timeout`",
            )


def _place_of(plan: Plan, stage: str) -> Place:
    """Where a stage or a fired point stands; the file itself if it is neither."""
    if stage in plan.position:
        return plan.stage(stage).where
    hook = plan.hooks.get(stage)
    return hook.node.where if hook is not None and hook.node is not None else Place(plan.document.file)


def _name_for_people(file: str, here: Path) -> str:
    """The name of a file as people know it."""
    path = Path(file)
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
