"""Findings as code scanning reads them: a log in SARIF 2.1.0 (OASIS)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from bub import __version__
from bub.base.diagnostics import NO_FILE, START, STDIN, Diagnostic, Position, Range, sort_diagnostics
from bub.pipeline.report.handbook import address_of, codes, page_of
from bub.pipeline.report.report import message_of, no_command_in_json, path_below, printable_line, repair_of
from bub.pipeline.source.splice import Edit, splice

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
"""What stands for the repository's folder in a log, wherever that lies on the machine that wrote it."""

_FINGERPRINT = "bubFinding/v1"


def render_sarif(
    diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], root: Path, pages: str | None = None
) -> str:
    """Render findings as a SARIF log, ending with a line break; paths are relative to `root`, the repository's folder.

    `sources` is the text of each file by the name its findings bear. The log holds the page of each code it tells of,
    and where that is to be read: at `pages`, else on this machine.
    """
    items = [_in_a_file(item, sources) for item in sort_diagnostics(diagnostics)]
    rules = sorted({item.code for item in items})
    driver = {"name": "bub", "version": __version__, "rules": [_rule(code, pages) for code in rules]}
    occurrences: dict[str, int] = {}
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, rules.index(item.code), sources, root, occurrences) for item in items],
            }
        ],
    }
    return no_command_in_json(json.dumps(log, indent=2)) + "\n"


def _in_a_file(item: Diagnostic, sources: Mapping[str, str]) -> Diagnostic:
    """Move a finding about a variable to the top of the file it was found for: code scanning wants a file."""
    if item.file != NO_FILE:
        return item
    return replace(item, file=next((name for name in sources if not name.startswith("bub:")), NO_FILE), range=START)


def _rule(code: str, pages: str | None) -> dict[str, Any]:
    title, page = codes().get(code, code), page_of(code) or code
    return {
        "id": code,
        "shortDescription": {"text": title},
        "helpUri": address_of(code, pages),
        "help": {"text": page, "markdown": page},
    }


def _result(
    item: Diagnostic, rule: int, sources: Mapping[str, str], root: Path, occurrences: dict[str, int]
) -> dict[str, Any]:
    uri, message = _artifact(item.file, root), message_of(item)
    location = {"physicalLocation": {"artifactLocation": uri, "region": _region(item.range)}}
    # Lines move with every edit, and so are no part of what makes a finding the same one as before.
    identity = "\0".join((item.code, uri["uri"], item.path, message))
    occurrences[identity] = occurrences.get(identity, 0) + 1
    fingerprint = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:32]
    result = {
        "ruleId": item.code,
        "ruleIndex": rule,
        "level": item.severity,
        "message": {"text": f"{message} ({printable_line(item.help)})" if item.help else message},
        "locations": [location] if item.file != NO_FILE else [],
        "partialFingerprints": {_FINGERPRINT: f"{fingerprint}:{occurrences[identity]}"},
        "properties": {"repair": repair_of(item)},
    }
    if item.related:
        result["relatedLocations"] = [
            {
                "physicalLocation": {"artifactLocation": _artifact(other.file, root), "region": _region(other.range)},
                "message": {"text": printable_line(other.message)},
            }
            for other in item.related
        ]
    repaired = repaired_text(item, sources)
    if repaired is not None:
        replacement = {"deletedRegion": _region(item.range), "insertedContent": {"text": repaired}}
        result["fixes"] = [{"artifactChanges": [{"artifactLocation": uri, "replacements": [replacement]}]}]
    return result


def _artifact(file: str, root: Path) -> dict[str, str]:
    below = path_below(root, file)
    if below is not None:
        return {"uri": quote(os.fsencode(below)), "uriBaseId": _ROOT}
    if file == STDIN or file.startswith("bub:"):
        return {"uri": quote(os.fsencode(file), safe=":")}
    return {"uri": Path(file).absolute().as_uri()}


def _region(span: Range) -> dict[str, int]:
    start, end = span
    return {"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column}


def repaired_text(item: Diagnostic, sources: Mapping[str, str]) -> str | None:
    """Return the text that `--fix` would put in the place of the finding's range, or None if nothing is sure."""
    start, end = item.range
    if item.fix is None or start.line != end.line:
        return None
    lines = re.split(r"\r\n|\r|\n", sources.get(item.file, ""))
    written = lines[start.line - 1][start.column - 1 : end.column - 1] if start.line <= len(lines) else ""
    whole = Range(START.start, Position(1, len(written) + 1))
    return splice(written, [Edit(whole, item.fix, keep_quotes=True)])
