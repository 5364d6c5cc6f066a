"""What one check says, and running checks so that none of them hides or holds up the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

import trio

from bub.agent.models.probe import Served
from bub.base.diagnostics import Diagnostic
from bub.base.layout import Line, Span, Tone, indent_text, label_text, line
from bub.base.locate import Found
from bub.errors import BubError
from bub.framework import BubFramework
from bub.log import log_exception, redact_text
from bub.runtime.view import RuntimeView

PATIENCE = 10.0
"""How long, in seconds, one check may take."""

Status = Literal["ok", "warn", "broken", "skipped"]

_TONES: Mapping[Status, Tone] = MappingProxyType({"ok": "good", "warn": "warn", "broken": "bad", "skipped": "faint"})
_MARK, _SUBJECT = 8, 12

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Check:
    """What was found about one thing; `help` says what to do if it is not `ok`."""

    subject: str
    status: Status
    message: str
    help: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"check": self.subject, "status": self.status, "message": self.message, "help": self.help or None}


@dataclass(slots=True)
class Patient:
    """What is examined, and what the checks so far have found out for those behind them.

    `found` is the pipeline file, None if none can be used, and `findings` what a check of it alone finds. `unloaded`
    says in a clause why the plugins are not loaded, "" if they are. `served` is what the model's server said.
    `profile` is the one that is looked at by itself.
    """

    framework: BubFramework
    config: Path | None
    workspace: Path
    environ: Mapping[str, str]
    offline: bool = False
    found: Found | None = None
    findings: Sequence[Diagnostic] = ()
    trusted: bool = False
    unloaded: str = "they were not checked"
    served: Served | None = None
    profile: str | None = None

    @property
    def seen(self) -> RuntimeView:
        """The framework as `profile` sees it, else as a whole."""
        return self.framework.seen_by(self.profile) if self.profile is not None else self.framework

    def in_each_profile(self) -> Iterator[Patient]:
        """Yield the patient as each profile that can get a turn finds it, the one chosen at start first."""
        for profile in self.framework.profiles:
            yield replace(self, profile=profile)

    def skip(self, subject: str) -> list[Check]:
        """Return the check of something that is unknown without loaded plugins."""
        return [Check(subject, "skipped", f"not known, because the plugins are not loaded: {self.unloaded}")]


Look: TypeAlias = Callable[[Patient], Awaitable[Sequence[Check]]]
"""One check: what it finds, which is one line or a few. What it raises is a finding, too."""


async def examine(
    patient: Patient, looks: Mapping[str, Look], tell: Callable[[Check], None], *, patience: float = PATIENCE
) -> bool:
    """Run checks one after another and `tell` what each finds as soon as it is known; whether nothing is broken.

    One that fails, or takes longer than `patience` seconds, counts as broken, and the others go on. Secrets are
    covered.
    """
    sound = True
    for subject, look in looks.items():
        for check in await _run_check(patient, subject, look, patience):
            tell(replace(check, message=redact_text(check.message), help=redact_text(check.help)))
            sound = sound and check.status != "broken"
    return sound


async def _run_check(patient: Patient, subject: str, look: Look, patience: float) -> Iterable[Check]:
    with trio.move_on_after(patience):
        try:
            return await look(patient)
        except BubError as error:
            return [Check(subject, "broken", str(error), error.help or "")]
        except (Exception, SystemExit) as error:  # noqa: BLE001 (the code of plugins is asked: it may raise anything)
            log_exception("doctor.check_failed", error, check=subject)
            what = f"the check failed: {type(error).__name__}: {error}"
            return [Check(subject, "broken", what, "the details are in the log")]
    return [Check(subject, "broken", f"not known: it took longer than {patience:g} s", "find out what it waits for")]


def merge_profiles(told: Iterable[tuple[str, Check]]) -> list[Check]:
    """Merge what was found for each profile, by its name: a finding that several share is kept for the first only.

    The others than the first are named.
    """
    seen: list[Check] = []
    checks: list[Check] = []
    for profile, check in told:
        if check not in seen:
            named = f"profile `{profile}`: {check.message}" if seen else check.message
            checks.append(replace(check, message=named))
            seen.append(check)
    return checks


async def in_thread(work: Callable[[], _T]) -> _T:
    """Return what `work` gives, done in a thread that is left to itself if it takes too long."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


# As a person reads it


def check_lines(check: Check, width: int) -> list[Line]:
    """Return one check in lines of at most `width` cells: its status, what it is about, what was found, what to do."""
    indent = _MARK + _SUBJECT
    head, *more = label_text(" " * _MARK + check.subject, check.message, width, indent)
    mark = Span(("-" if check.status == "skipped" else check.status).ljust(_MARK), _TONES[check.status])
    subject, *rest = head
    lines = [(mark, Span(subject.text[_MARK:]), *rest), *more]
    return [*lines, *(indent_text(f"→ {check.help}", width, indent) if check.help else [])]


def summarize(checks: Iterable[Check]) -> Line:
    """Return one line that closes the report."""
    counted = [check.status for check in checks]
    broken, warnings = counted.count("broken"), counted.count("warn")
    warned = f"{warnings} warning{'s' if warnings > 1 else ''}"
    if broken:
        return line(f"{broken} broken{f', {warned}' if warnings else ''}", "bad")
    return line(f"nothing is broken{f', {warned}' if warnings else ''}", "good")
