"""The tools for files: `fs.read`, `fs.write`, `fs.edit`, `fs.list`, `fs.search` and others, inside the workspace."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import islice
from typing import Annotated, Any, BinaryIO

import trio
from msgspec import Meta

from bub.agent.documents.pdf import read_pdf
from bub.agent.tools import search as searching
from bub.agent.tools.editing import CHANGING, Edit, encode, make_edits, read_whole
from bub.agent.tools.patch import patch
from bub.agent.tools.reach import AllowedPath, Reach
from bub.agent.tools.view import view
from bub.channels.attachments import LARGEST_FILE, PDF, mime_type_of
from bub.tools import Tool, ToolContext, ToolError, tool

LONGEST_READ = 256 * 1024
"""How many bytes of a file one call shows."""

SEARCH_SECONDS = 20.0
"""How long a search may take before it is stopped, and what it has found by then is the result."""

LIST_SECONDS = 20.0
"""How long a listing may take."""

LONGEST_PATTERN = 10_000
LONGEST_GLOB = 1000

_BOM = "\ufeff"


def file_tools() -> list[Tool]:
    """The tools for files."""
    return [read, view, write, edit, patch, list_, search]


@tool(name="fs.write", path="path", reaches=None)
def write(
    path: Annotated[str, "The file, from the workspace; folders that are missing are made."],
    content: Annotated[str, "Its whole new text."],
    *,
    context: ToolContext,
) -> str:
    """Write a file as a whole, over an older one of that name. To change a part of a file, use fs.edit."""
    place = Reach.of(context).place(path, writing=True)
    data = encode(content)
    with CHANGING, place.parent(make=True) as folder:
        before = place.status(folder)
        place.replace(folder, data, before)
    over = f", over {before.st_size:,} bytes" if before is not None else ""
    return f"wrote {len(data):,} bytes to {place.shown}{over}"


@tool(name="fs.edit", path="path", reaches=None)
def edit(
    path: Annotated[str, "The file, from the workspace."],
    old: Annotated[str, "The text to replace, exactly as it is there, and long enough to occur only once."] = "",
    new: Annotated[str, "The text that takes its place."] = "",
    all: Annotated[bool, "Replace every place where `old` occurs."] = False,  # noqa: A002 (the model's word)
    edits: Annotated[tuple[Edit, ...], "Instead of `old` and `new`: several edits in this order, all or none."] = (),
    *,
    context: ToolContext,
) -> str:
    """Replace a text in a file, or several. Line endings, the final newline and the file's mode stay as they are."""
    if edits and (old or new):
        raise ToolError("`edits` and `old` are both given", help="put all edits into `edits`", kind="invalid_input")
    place = Reach.of(context).place(path, writing=True)
    with CHANGING, place.parent() as folder:
        status = place.status(folder)
        data = read_whole(place, folder)
        # Bytes that are no UTF-8 go through unchanged, as everything does that is not replaced.
        text = data.decode("utf-8", errors="surrogateescape")
        changed, where = make_edits(place.shown, text, edits or [Edit(old, new, all)])
        if read_whole(place, folder) != data:
            raise ToolError(f"{place.shown} was changed by somebody else meanwhile", help="read it again")
        place.replace(folder, changed.encode("utf-8", errors="surrogateescape"), status)
    return f"edited {place.shown} at {where}"


@tool(name="fs.read", read_only=True, path="path", reads="private")
def read(
    path: Annotated[str, "The file, from the workspace."],
    offset: Annotated[int, "The number of the first line to show.", Meta(ge=1)] = 1,
    limit: Annotated[int, "How many lines to show at most.", Meta(ge=1, le=100_000)] = 2000,
    *,
    context: ToolContext,
) -> str:
    """Read a text file, or the text of a PDF. Long output is cut, and its end says how to go on."""
    place = Reach.of(context).place(path)
    with place.parent() as folder:
        file, status = place.open(folder)
        with file:
            beginning = file.read(8192)
            if mime_type_of(beginning) == PDF:
                return _render_pdf(beginning + file.read(LARGEST_FILE), place.shown, offset, limit)
            if b"\0" in beginning:
                what = f"{place.shown} is binary, {status.st_size:,} bytes"
                raise ToolError(what, help="fs.read shows text and PDFs, fs.view images")
            file.seek(0)
            return _render_lines(file, place.shown, offset, limit)


@tool(name="fs.list", read_only=True, path="path", reads="private")
def list_(
    path: Annotated[str, "The folder, from the workspace."] = ".",
    glob: Annotated[
        str, "Which files to show, such as `*.py`, or `src/**/*.py` with `recursive`.", Meta(max_length=LONGEST_GLOB)
    ] = "*",
    recursive: Annotated[bool, "Show what is in the folders below, too."] = False,
    limit: Annotated[int, "How many to show at most.", Meta(ge=1, le=10_000)] = 500,
    *,
    context: ToolContext,
) -> str:
    """List the files of a folder; the names of folders end in `/`. `.git` is left out below."""
    place = Reach.of(context).place(path)
    with place.folder() as folder:
        found = list(islice(_names(place, folder, glob, recursive=recursive), limit + 1))
    if not found:
        return f"[nothing in {place.shown} matches `{glob}`]" if glob != "*" else f"[{place.shown} is empty]"
    return _printable("\n".join(found[:limit])) + (
        f"\n[cut after {limit}: there are more]" if len(found) > limit else ""
    )


@tool(name="fs.search", read_only=True, path="path", reads="private")
async def search(
    pattern: Annotated[
        str, "A regular expression, as Python writes them, for one line.", Meta(max_length=LONGEST_PATTERN)
    ],
    path: Annotated[str, "The folder or file, from the workspace."] = ".",
    glob: Annotated[
        str, "Which files to search, such as `*.py` or `src/**/*.py`.", Meta(max_length=LONGEST_GLOB)
    ] = "*",
    ignore_case: Annotated[bool, "Ignore case."] = False,
    limit: Annotated[int, "How many lines to show at most.", Meta(ge=1, le=2000)] = 100,
    *,
    context: ToolContext,
) -> str:
    """Find lines in files by a regular expression; each is shown with its file and number. `.git` is left out."""
    place = Reach.of(context).place(path)
    in_folder = place.is_folder
    wanted = {
        "pattern": pattern,
        "glob": glob,
        "ignore_case": ignore_case,
        "limit": limit,
        "name": None if in_folder else place.path.name,
        "kept": sorted(place.kept),
    }
    with place.folder() if in_folder else place.parent() as folder:
        if not in_folder:
            place.open(folder)[0].close()  # says what is wrong with it, if anything is
        found, in_time = await _search(folder, wanted)
    above = "" if place.shown == "." else place.shown
    lines = [f"{_below(above, name) if in_folder else above}:{number}: {line}" for name, number, line in found]
    if not in_time:
        lines.append(f"[stopped after {SEARCH_SECONDS:g} s: not everything was searched]")
    elif len(found) == limit:
        lines.append(f"[cut after {limit}: there may be more]")
    return _printable("\n".join(lines)) or "[nothing was found]"


# Reading


def _render_lines(file: BinaryIO, name: str, offset: int, limit: int) -> str:
    """The lines of a file from `offset` on, and in brackets what is not shown of it."""
    for number in range(1, offset):
        if not _skip_line(file):
            raise ToolError(f"{name} has no line {offset}: it has {number - 1}", kind="invalid_input")
    shown = bytearray()
    number = offset
    notes = []
    while number < offset + limit and (line := file.readline(LONGEST_READ - len(shown) + 1)):
        if len(shown) + len(line) > LONGEST_READ:
            # A single line may be longer than all that is shown.
            shown += line[: LONGEST_READ - len(shown)] if not shown else b""
            notes.append(f"cut after {len(shown):,} bytes")
            number += number == offset
            break
        shown += line
        number += 1
    if file.read(1) or notes:
        notes.append(f"go on with offset={number}")
    text = shown.decode("utf-8", errors="replace").removeprefix(_BOM).replace("\r\n", "\n")
    if "\ufffd" in text:
        notes.append("what is not UTF-8 is shown as \ufffd")
    if not text:
        notes.append("the file is empty" if offset == 1 else f"there is nothing from line {offset} on")
    if not notes:
        return text
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{'; '.join(notes)}]"


def _render_pdf(data: bytes, name: str, offset: int, limit: int) -> str:
    if len(data) > LARGEST_FILE:
        raise ToolError(f"{name} is too large for a PDF: more than {LARGEST_FILE:,} bytes")
    pdf = read_pdf(data)
    if pdf.problem:
        raise ToolError(f"{name} is a PDF that cannot be read: {pdf.problem}")
    return _render_lines(BytesIO(pdf.text.encode("utf-8", "replace")), name, offset, limit)


def _skip_line(file: BinaryIO) -> bool:
    """Read one line and forget it, however long it is; false at the end of the file."""
    piece = file.readline(LONGEST_READ)
    found = bool(piece)
    while piece and not piece.endswith(b"\n"):
        if b"\0" in piece:  # a file can say that it is as large as no disk, and be nothing but a hole
            raise ToolError("what comes before that line is binary", help="fs.read shows text only")
        piece = file.readline(LONGEST_READ)
    return found


def _names(place: AllowedPath, folder: int, glob: str, *, recursive: bool) -> Iterator[str]:
    above = "" if place.shown == "." else place.shown
    until = time.monotonic() + LIST_SECONDS
    for top, folders, files, _ in searching.walk(folder, sorted(place.kept)):
        for name in sorted([*files, *(f"{name}/" for name in folders)]):
            below = _below(top, name)
            if searching.fits(below.removesuffix("/"), glob):
                yield _below(above, below)
        if not recursive:
            return
        if time.monotonic() > until:
            said = f"to list {place.shown} took longer than {LIST_SECONDS:g} s"
            raise ToolError(said, help="list a folder further down", kind="timeout")


def _printable(names: str) -> str:
    """Names of files, which can be any bytes, as text that every encoding can write."""
    return names.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


async def _search(folder: int, wanted: Mapping[str, Any]) -> tuple[list[tuple[str, int, str]], bool]:
    """What the program `search` finds, and whether it ended in time."""
    command = [sys.executable, "-I", "-S", str(searching.__file__), json.dumps({**wanted, "folder": folder})]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as trouble:
        with trio.move_on_after(SEARCH_SECONDS) as scope:
            done = await trio.run_process(
                command, pass_fds=(folder,), stdout=output, stderr=trouble, check=False, env={}
            )
            if done.returncode != 0:
                trouble.seek(0)
                said = trouble.read(2000).decode("utf-8", errors="replace").strip().rpartition("\n")[2]
                raise ToolError(f"this cannot be searched for: {said}", kind="invalid_input")
        output.seek(0)
        # A program that was stopped may have written only a half of its last line.
        lines = [line for line in output if line.endswith(b"\n")]
    return [tuple(json.loads(line)) for line in lines], not scope.cancelled_caught
