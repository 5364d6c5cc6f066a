"""Findings as an editor shows them, and the repairs it offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bub.base.diagnostics import Diagnostic
from bub.base.quoting import quotable
from bub.lsp.buffers import Encoding, Ruler
from bub.lsp.reading import Open, location_of
from bub.pipeline.check.opened.texts import where_named
from bub.pipeline.report.report import message_of
from bub.pipeline.report.sarif import repaired_text

SOURCE = "bub"

_SEVERITIES = {"error": 1, "warning": 2, "note": 3}
_QUICK_FIX = "quickfix"


def render_findings(pipeline: Open, findings: Iterable[Diagnostic], encoding: Encoding) -> list[dict[str, Any]]:
    """Return the findings of a file, and one for each other file with findings, at the place that names that file."""
    ruler = Ruler(pipeline.buffer.lines, encoding)
    own, others = [], dict[str, list[Diagnostic]]()
    for finding in findings:
        if finding.file == pipeline.document.file:
            own.append(_render(pipeline, finding, ruler))
        else:
            others.setdefault(finding.file, []).append(finding)
    return own + [_render_elsewhere(pipeline, file, found, ruler) for file, found in others.items()]


def _render(pipeline: Open, finding: Diagnostic, ruler: Ruler) -> dict[str, Any]:
    message = message_of(finding) + (f"\n{finding.help}" if finding.help else "")
    shown: dict[str, Any] = {
        "range": ruler.range(finding.range),
        "severity": _SEVERITIES[finding.severity],
        "code": finding.code,
        "source": SOURCE,
        "message": message,
    }
    related = [
        {"location": location, "message": other.message}
        for other in finding.related
        if (location := location_of(pipeline, other.file, other.range, ruler.encoding)) is not None
    ]
    return shown | ({"relatedInformation": related} if related else {})


def _render_elsewhere(pipeline: Open, file: str, found: list[Diagnostic], ruler: Ruler) -> dict[str, Any]:
    worst = min(found, key=lambda finding: _SEVERITIES[finding.severity])
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return {
        "range": ruler.range(where_named(pipeline.document, file)),
        "severity": _SEVERITIES[worst.severity],
        "code": worst.code,
        "source": SOURCE,
        "message": f"{quotable(file)}:{worst.range.start.line}: {message_of(worst)}{more}",
    }


def render_fixes(
    pipeline: Open, findings: Iterable[Diagnostic], wanted: Mapping[str, Any], encoding: Encoding
) -> list[dict[str, Any]]:
    """Return the sure repairs of the findings that touch a range of the client."""
    ruler = Ruler(pipeline.buffer.lines, encoding)
    first, last = ruler.place(wanted["start"]), ruler.place(wanted["end"])
    sources = {pipeline.document.file: pipeline.buffer.text.removeprefix("\ufeff")}
    actions = []
    for finding in findings:
        touches = finding.range.start <= last and first <= finding.range.end
        text = repaired_text(finding, sources) if touches and finding.file == pipeline.document.file else None
        if text is not None:
            edit = {"range": ruler.range(finding.range), "newText": text}
            actions.append(
                {
                    "title": f"Write {text}",
                    "kind": _QUICK_FIX,
                    "diagnostics": [_render(pipeline, finding, ruler)],
                    "isPreferred": True,
                    "edit": {"changes": {pipeline.buffer.uri: [edit]}},
                }
            )
    return actions
