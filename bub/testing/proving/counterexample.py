"""Counter-examples: a turn that broke a law, as an entry under `tests:` that fails for as long as it does."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bub.base.duration import format_duration
from bub.envelope import content_of
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document, load_text
from bub.secrets.redactor import Redactor
from bub.testing.proving.answers import ANSWER, answer_of
from bub.testing.proving.seen import Seen
from bub.testing.proving.sites import Site
from bub.testing.proving.trials import Trial
from bub.testing.proving.ways import PLANTED, Fault, Way
from bub.testing.running import run_trial
from bub.testing.trials import trials_of

_PATIENCE = 30.0
_LONG = "100000h"


@dataclass(frozen=True)
class Counterexample:
    """The law that was broken, and the entry to paste; `fails` says that `bub test` finds it failing here, too.

    Without an entry, a test has no word for what happened.
    """

    law: str
    profile: str
    entry: str | None
    fails: bool


def counterexample_of(
    document: Document, profile: str, law: str, stage: str, trial: Trial, workspace: Path
) -> Counterexample:
    """Return a turn that broke a law as a test, and try it."""
    mocks = _mocks(trial)
    expected = _expected(law, stage, trial)
    if mocks is not None and "calls" in expected:
        mocks.setdefault(stage, {"return": None})
    if mocks is None or not expected:
        return Counterexample(law, profile, None, fails=False)
    faults = " and ".join(f"{fault.site.where} {fault.way}" for fault in trial.faults)
    test = {
        "profile": profile,
        "message": {"content": "hello", **trial.setting.message},
        "mock": mocks,
        "expect": expected,
    }
    lines = [f"  {_quoted(f'{law}, if {faults}')}:"]
    lines += [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in test.items()]
    entry = "\n".join(["tests:", *lines]) + "\n"
    return Counterexample(law, profile, entry, fails=_fails(document, entry, workspace))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _mocks(trial: Trial) -> dict[str, Any] | None:
    """What stands in for whom; None if a test has no word for a fault."""
    mocks: dict[str, Any] = {}
    for visit in trial.seen.visits:
        site = visit.site
        if site.stage is not None and (site.kind == "stream" or site.hook in ("run_model", "run_model_stream")):
            mocks.setdefault(site.where, {"return": "".join(ANSWER)})
        elif site.stage is not None and visit.fault is None and trial.setting.script.is_mocked(site):
            answer = answer_of(site, visit.message, ())
            if site.is_gate or site.kind == "claiming":
                mocks.setdefault(site.where, {"return": answer})
    for fault in trial.faults:
        said = _mock(fault)
        if said is None:
            return None
        mocks[fault.site.where] = said
    return mocks


def _mock(fault: Fault) -> dict[str, Any] | None:
    match fault.way:
        case Way.RAISE:
            return {"raise": f"{fault.value}: {PLANTED}"}
        case Way.HANG:
            return {"delay": _LONG}
        case Way.LIE:
            return {"return": fault.value}
        case Way.LATE:
            return {"delay": f"{(fault.site.timeout or 0) + 1:g}s"}
        case Way.NOTHING:
            return {"return": None}
        case Way.BREAK:
            return {"return": [ANSWER[0]], "raise": f"RuntimeError: {PLANTED}"}
        case Way.DENY:
            return {"return": {"deny": PLANTED}}
        case Way.CLAIM:
            return {"return": {"handled": True, "reply": PLANTED}}
    return None


def _expected(law: str, stage: str, trial: Trial) -> dict[str, Any]:
    """What has to come of the turn, of which something does not."""
    if law.startswith("every clean-up"):
        return {"calls": {stage: 1}}
    gate = next((fault.site for fault in trial.faults if fault.site.is_gate and fault.way is not Way.NOTHING), None)
    if gate is not None and gate.stage is not None:
        return _after(gate, trial.seen)
    for fault in trial.faults:
        site = fault.site
        if fault.way in (Way.HANG, Way.LATE) and site.timeout is not None and site.stage is not None:
            if site.on_failure == "propagate":
                return {"error": {"stage": site.where}, "took": format_duration(site.timeout)}
            return {"ended_by": None, "took": format_duration(site.timeout)}
        if site.stage is not None and fault.way in (Way.RAISE, Way.BREAK, Way.LIE):
            if site.on_failure == "propagate":
                return {"error": {"stage": site.where}, "calls": {site.where: 1 + site.retries}}
            return {"ended_by": None, "outbounds": _contents(trial.setting.calm)}
        if fault.way is Way.CLAIM:
            return {"ended_by": f"claimed:{site.where}", "outbounds": [{"content": PLANTED}]}
    return {"ended_by": None, "outbounds": _contents(trial.setting.calm)}


def _after(gate: Site, seen: Seen) -> dict[str, Any]:
    if gate.each is not None:
        return {"outbounds": []}
    behind = [
        visit.site
        for visit in seen.visits
        if visit.site.position > gate.position and not visit.site.is_cleanup and visit.site.each is None
    ]
    expected: dict[str, Any] = {"ended_by": f"denied:{gate.where}", "outbounds": [{"kind": "denied"}]}
    return {**expected, **({"skipped": list(dict.fromkeys(site.where for site in behind))} if behind else {})}


def _contents(calm: Seen) -> list[Mapping[str, str]]:
    return [{"content": content_of(reply)} for reply in calm.result.outbounds or ()]


def _fails(document: Document, entry: str, workspace: Path) -> bool:
    """Whether `bub test` finds that an entry fails."""
    tests = load_text(f"version: 1\n{entry}").root.get("tests")
    root = replace(document.root, value={**dict(document.root.items()), "tests": tests})
    environment, _ = read_environment(document.base, os.environ)
    (trial,) = trials_of(replace(document, root=root), environment)
    bare = replace(document.root, value={key: node for key, node in document.root.items() if key != "tests"})
    verdict = run_trial(
        trial,
        replace(document, root=bare),
        start=None,
        workspace=workspace,
        timeout=_PATIENCE,
        mask=Redactor(()),
    )
    return not verdict.passed
