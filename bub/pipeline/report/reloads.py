"""Loading the pipeline file again while turns run, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
import trio

from bub.base.diagnostics import Diagnostic, PipelineError, Place, without_notes
from bub.errors import BubError
from bub.log import log_exception, redact_text

MOST_KEPT = 20
"""How many reloads are remembered."""


class Reload(msgspec.Struct, frozen=True):
    """What became of a reload at a Unix time, and what was found; with an error among that, nothing was changed.

    `outcome` is "ok" or "refused". `findings` are lines, secrets covered. `diagnostics` are the findings that are about
    a file, whose text is in `sources`.
    """

    at: float
    outcome: str
    findings: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, str] = msgspec.field(default_factory=dict)


class Reloadable(Protocol):
    """What can be loaded again (`BubFramework`)."""

    @property
    def warnings(self) -> tuple[Diagnostic, ...]: ...

    @property
    def sources(self) -> Mapping[str, str]: ...

    def reload(self) -> None: ...


async def reload_file(framework: Reloadable) -> Reload:
    """Load the files of a framework again, in a thread; what is wrong with them changes nothing of what runs."""
    try:
        await trio.to_thread.run_sync(framework.reload, abandon_on_cancel=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (code of plugins: what runs is not to suffer from it)
        return describe_refusal(framework, error)
    return describe_reload(framework)


def describe_reload(framework: Reloadable) -> Reload:
    """Return what was found in a reload that is over."""
    return _describe(framework, "ok", framework.warnings)


def describe_refusal(framework: Reloadable, error: BaseException) -> Reload:
    """Return why a reload was refused, by what it raised; what is no error for people is in the log, too."""
    if isinstance(error, PipelineError):
        return _describe(framework, "refused", without_notes(error.diagnostics))
    if isinstance(error, BubError):
        return _refused(f"{error} ({error.help})" if error.help else str(error))
    log_exception("pipeline.reload_failed", error)
    return _refused(f"{type(error).__name__}: {error}")


def _describe(framework: Reloadable, outcome: str, found: Iterable[Diagnostic]) -> Reload:
    diagnostics = tuple(found)
    lines = tuple(redact_text(format_finding(finding)) for finding in diagnostics)
    return Reload(time.time(), outcome, lines, diagnostics, framework.sources)


def format_finding(finding: Diagnostic) -> str:
    """Return a finding as a line of the log: the place, the problem, and what to do."""
    hint = f" ({finding.help})" if finding.help else ""
    return f"{Place(finding.file, finding.range)}: {finding.severity}[{finding.code}] {finding.message}{hint}"


def _refused(why: str) -> Reload:
    return Reload(time.time(), "refused", (redact_text(why),))
