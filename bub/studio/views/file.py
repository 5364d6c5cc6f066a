"""The pipeline file for the page: its text, and, if the page may write, another one that is proved and loaded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bub.base.diagnostics import Diagnostic, PipelineError, sort_diagnostics, without_notes
from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.base.rewrite import exchange
from bub.errors import BubError, UsageError
from bub.pipeline.check.opened.texts import own_root
from bub.pipeline.report.report import lines_to_show
from bub.pipeline.source.merge import Document
from bub.pipeline.source.yaml_reader import MAX_BYTES
from bub.runtime.generations import Generation
from bub.secrets.redactor import Redactor
from bub.studio.views.check import describe_findings, open_text
from bub.studio.views.limits import find_forbidden
from bub.studio.views.loaded import ChangedError
from bub.studio.views.proof import prove_text

Reload = Callable[[Callable[[Document], None]], None]
"""Loads the file again, once what it is given has seen the document and refused nothing: `BubFramework.reload`."""

_SWITCHED_OFF = "`gateway.studio.write` is not true"
_BOM = b"\xef\xbb\xbf"


def show_file(generation: Generation, mask: Redactor, *, may_write: bool) -> dict[str, Any]:
    """Return the pipeline file as it is on the disk now, and the files that it extends as they were loaded.

    `digest` is that of its bytes, and has to come back with a text that is to be loaded. `write` says whether the page
    may load another text, `why` why not. Secrets in plain text are covered, and then it may not: it would write the
    covers. To be called in a thread.
    """
    document, path = generation.snapshot.document, generation.snapshot.file
    parents = [
        {"name": layer.file, "text": _cover(layer.file, document.sources.get(layer.file, ""), mask)}
        for layer in reversed(document.layers)
        if layer.file != document.file or path is None
    ]
    if path is None:
        text = parents.pop(0)["text"] if parents else ""
        why = f"{document.file} is shipped with Bub: write a file of your own with `extends: {document.file}`"
        return _describe(document.file, None, text, "", parents, why)
    try:
        data = _read(path)
        text = _decode(data)
    except BubError as error:
        return _describe(document.file, path, "", "", parents, str(error))
    shown = _cover(document.file, text, mask)
    why = _reason(path, has_secrets=shown != text, may_write=may_write)
    return _describe(document.file, path, shown, _digest(data), parents, why)


def _describe(
    name: str, path: Path | None, text: str, digest: str, parents: list[dict[str, str]], why: str
) -> dict[str, Any]:
    return {
        "name": name,
        "path": str(path) if path is not None else None,
        "text": text,
        "digest": digest,
        "parents": parents,
        "write": not why,
        "why": why or None,
    }


def _reason(path: Path, *, has_secrets: bool, may_write: bool) -> str:
    """Say why the page may not write a file; "" if it may."""
    if not may_write:
        return _SWITCHED_OFF
    if has_secrets:
        return "the file holds a secret in plain text, which the page does not show: put it into `.env` beside the file"
    return "" if os.access(os.path.realpath(path), os.W_OK) else "the file is read-only"


def _cover(file: str, text: str, mask: Redactor) -> str:
    """Return a text with its secrets covered; the very text if there is none."""
    lines = lines_to_show({file: text}, file, 1, text.count("\n") + text.count("\r") + 1)
    return text if _is_same(text, lines) and mask.text(text) == text else mask.text("\n".join(lines))


def _is_same(text: str, lines: Iterable[str]) -> bool:
    """Whether lines are those of a text, however they end there."""
    return "".join(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) == "".join(lines)


# Proving and loading


def prove(generation: Generation, text: str, mask: Redactor, *, may_write: bool) -> dict[str, Any]:
    """Return `{outcome, findings, words}`: whether a text compiles with the plugins that are loaded.

    Nothing is imported, and the file stays as it is. To be called in a thread.
    """
    if not may_write:
        raise UsageError(f"{_SWITCHED_OFF}, so the page proves nothing", help="`bub prove` does that in a terminal")
    document, findings = _judge(generation, text)
    words = (
        "It compiles with the plugins that are loaded. No fault was tried: `bub prove` does that in a terminal."
        if not _errors(findings)
        else _count(findings)
    )
    return _answer(document, findings, mask, words)


def load(
    generation: Generation, text: str, digest: str, reload: Reload, mask: Redactor, *, may_write: bool
) -> dict[str, Any]:
    """Write a text to the pipeline file and load it, or return why not: `{outcome, findings, words}`.

    `digest` is that of the file as the page was given it. If the text is refused, the file is as it was. It is written
    as a whole or not at all, keeps its mode, and nothing beside it is written. Raises `ChangedError` if somebody else
    has written the file meanwhile, and `BubError` if the page may not write it or it cannot be written. To be called
    in a thread that is not abandoned.
    """
    path = generation.snapshot.file
    if path is None:
        raise UsageError(
            f"{generation.snapshot.document.file} is shipped with Bub, so it is not changed",
            help=f"write a file of your own with `extends: {generation.snapshot.document.file}`",
        )
    if not may_write:
        raise UsageError(f"{_SWITCHED_OFF}, so the page writes nothing", help="edit the file itself")
    old = _read(path)
    if _digest(old) != digest:
        raise ChangedError(
            f"somebody else changed {path.name} meanwhile", help="load the text again, and look at what they wrote"
        )
    shown = _cover(generation.snapshot.document.file, _decode(old), mask)
    if why := _reason(path, has_secrets=shown != _decode(old), may_write=may_write):
        raise UsageError(why, help="edit the file itself")
    document, findings = _judge(generation, text)
    if _errors(findings):
        return _answer(document, findings, mask, f"{_count(findings)}; the file is as it was.")
    new = _encode(text, old)
    if new == old:
        return {"outcome": "ok", "findings": [], "words": "The file says this already.", "digest": digest}
    exchange(path, old, new)
    try:
        reload(lambda read: _require_allowed(generation, read))
    except BaseException as error:
        kept = _put_back(path, new, old)
        if not isinstance(error, BubError):
            raise
        found = list(error.diagnostics) if isinstance(error, PipelineError) else []
        said = _count(found) if found else f"{error}{f' ({error.help})' if error.help else ''}"
        return _answer(document, found, mask, f"It was not loaded: {said.rstrip('.')}; {kept}", outcome="refused")
    return {
        **_answer(document, findings, mask, "It is loaded: turns that begin now run on it."),
        "digest": _digest(new),
    }


def _judge(generation: Generation, text: str) -> tuple[Document, tuple[Diagnostic, ...]]:
    """Read a text, and find all that keeps the page from loading it."""
    if len(text) > MAX_BYTES or len(_bytes_of(text)) > MAX_BYTES:
        raise UsageError(f"the text has more than {MAX_BYTES:,} bytes", help="a pipeline file is far shorter")
    document = open_text(generation, text).read({})
    forbidden = find_forbidden(generation.snapshot, document) if own_root(document) is not None else []
    if forbidden:
        return document, tuple(sort_diagnostics(forbidden))
    return document, prove_text(generation, document, os.environ)


def _require_allowed(generation: Generation, document: Document) -> None:
    forbidden = find_forbidden(generation.snapshot, document)
    if forbidden:
        raise PipelineError(forbidden)


def _put_back(path: Path, new: bytes, old: bytes) -> str:
    """Give the file the text that it had, and say what it holds now."""
    try:
        exchange(path, new, old)
    except BubError as error:
        return f"and the file could not be given its old text again: {error}"
    return "the file is as it was."


def _answer(
    document: Document, findings: Iterable[Diagnostic], mask: Redactor, words: str, outcome: str = ""
) -> dict[str, Any]:
    told = without_notes(tuple(findings))
    return {
        "outcome": outcome or ("refused" if _errors(told) else "ok"),
        "findings": describe_findings(document, told, mask),
        "words": mask.text(words),
    }


def _errors(findings: Iterable[Diagnostic]) -> int:
    return sum(finding.severity == "error" for finding in findings)


def _count(findings: Iterable[Diagnostic]) -> str:
    errors = _errors(findings)
    return f"It has {errors} errors" if errors > 1 else "It has an error"


# Bytes


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BubError(
            f"{path} cannot be read: {explain_os_error(error)}", help=remedy_for(path, "see that it is there and yours")
        ) from error


def _decode(data: bytes) -> str:
    try:
        return data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        raise BubError("the file is not text in UTF-8", help="edit the file itself") from error


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError("the text holds a character that is none", help="remove it") from error


def _encode(text: str, old: bytes) -> bytes:
    """Return the bytes of a text, with the ends of lines and the mark of the file that it takes the place of.

    A page knows one end of lines only.
    """
    data = _bytes_of(text.removeprefix("\ufeff"))
    if b"\r\n" in old and b"\r" not in data:
        data = data.replace(b"\n", b"\r\n")
    return _BOM + data if old.startswith(_BOM) else data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
