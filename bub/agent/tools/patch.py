"""The tool `fs.patch`: changes to several files at once, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from bub.agent.tools.editing import CHANGING, encode, read_whole
from bub.agent.tools.reach import AllowedPath, Reach
from bub.agent.tools.unified import DiffError, FileDiff, apply_hunks, parse_diff
from bub.log import log_exception
from bub.tools import ToolContext, ToolError, ToolResult, tool

_BOM = "\ufeff"
_MOST_PROBLEMS = 20


class _File(msgspec.Struct):
    """A file that a patch touches: what it was, and what it will be; None if there is none."""

    place: AllowedPath
    before: bytes | None
    after: bytes | None
    status: os.stat_result | None

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@tool(name="fs.patch", counts_as=("fs.write", "fs.edit"), reaches=None)
def patch(
    patch: Annotated[
        str,
        "With unchanged lines around each change. /dev/null makes or deletes a file; "
        "`rename from` and `rename to` below `diff --git` rename one.",
    ],
    *,
    context: ToolContext,
) -> ToolResult:
    """Change several files, or many places, by a unified diff: all of it or nothing. Its line numbers may be wrong."""
    encode(patch)
    try:
        diffs = parse_diff(patch)
    except DiffError as error:
        raise _refuse(error.problems) from None
    touched = _Touched(Reach.of(context))
    with CHANGING:
        done, problems = [], []
        for diff in diffs:
            try:
                done.append(touched.apply(diff))
            except DiffError as error:
                problems += [f"{diff.name}: {problem}" for problem in error.problems]
            except ToolError as error:
                if error.kind == "denied":
                    raise
                problems.append(str(error))
        if problems:
            raise _refuse(problems)
        touched.write()
    return ToolResult("\n".join(done), paths=touched.paths)


def _refuse(problems: Iterable[str]) -> ToolError:
    told = list(problems)
    more = [f"… and {len(told) - _MOST_PROBLEMS} more"] if len(told) > _MOST_PROBLEMS else []
    return ToolError(
        "\n".join(["nothing was changed, since the patch does not fit", *told[:_MOST_PROBLEMS], *more]),
        kind="invalid_input",
    )


class _Touched:
    """The files of one patch, changed in memory first."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._files: dict[Path, _File] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are there now and were changed, or made."""
        return tuple(
            str(file.place.path) for file in self._files.values() if file.is_changed and file.after is not None
        )

    def apply(self, diff: FileDiff) -> str:
        """Change a file in memory, and say what was done. Raises `DiffError` and `ToolError` if that cannot be."""
        if diff.old is None and diff.new is None:
            raise DiffError("it has no name: only one side can be /dev/null")
        source = self._open(diff.old) if diff.old is not None else None
        target = self._open(diff.new) if diff.new is not None else None
        if source is None:
            assert target is not None
            return self._make(target, diff)
        if source.after is None:
            raise DiffError("there is no such file; to make one, write `--- /dev/null`")
        if target is None:
            return self._delete(source, diff)
        text, bom = source.after.decode("utf-8", errors="surrogateescape"), ""
        if text.startswith(_BOM):
            text, bom = text.removeprefix(_BOM), _BOM
        changed, lines = apply_hunks(text, diff.hunks)
        data = (bom + changed).encode("utf-8", errors="surrogateescape")
        at = f" at line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
        if target is source:
            source.after = data
            return f"changed {source.place.shown}{at}"
        if target.after is not None:
            raise DiffError(f"{source.place.shown} cannot get this name: there is such a file")
        self._refuse_link(diff.old or "", source)
        source.after, target.after, target.status = None, data, source.status
        return f"renamed {source.place.shown} to {target.place.shown}{f', changed{at}' if at else ''}"

    def write(self) -> None:
        """Write all changes. If one of them fails, those before it are taken back."""
        changed = [file for file in self._files.values() if file.is_changed]
        for file in changed:
            if _read(file.place) != file.before:
                raise ToolError(f"{file.place.shown} was changed by somebody else meanwhile", help="read it again")
        done: list[_File] = []
        try:
            # What is deleted goes last: until then nothing is lost.
            for file in sorted(changed, key=lambda file: file.after is None):
                _put(file, file.after)
                done.append(file)
        except BaseException:  # a Ctrl-C, too: all of the patch is written, or nothing
            for file in reversed(done):
                try:
                    _put(file, file.before)
                except ToolError as error:  # the first failure is the one to tell
                    log_exception("patch.not_taken_back", error, file=file.place.shown)
            raise

    def _open(self, name: str) -> _File:
        place = self._reach.place(name, writing=True)
        file = self._files.get(place.path)
        if file is None:
            status = None
            with suppress(FileNotFoundError):
                os.lstat(place.path)
                with place.parent() as folder:
                    status = place.status(folder)
            before = _read(place) if status is not None else None
            file = self._files[place.path] = _File(place, before, before, status)
        return file

    def _make(self, target: _File, diff: FileDiff) -> str:
        if target.after is not None:
            raise DiffError("there is such a file already; to change it, write its name behind `---`, too")
        text, _ = apply_hunks("", diff.hunks)
        target.after = encode(text)
        return f"made {target.place.shown}, {len(target.after):,} bytes"

    def _delete(self, source: _File, diff: FileDiff) -> str:
        assert source.after is not None
        self._refuse_link(diff.old or "", source)
        if diff.hunks:
            text = source.after.decode("utf-8", errors="surrogateescape").removeprefix(_BOM)
            left, _ = apply_hunks(text, diff.hunks)
            if left:
                raise DiffError("it is deleted, but the patch does not have all its lines: read the file again")
        source.after = None
        return f"deleted {source.place.shown}"

    def _refuse_link(self, name: str, file: _File) -> None:
        """What a link leads to is not what was named."""
        if Path(os.path.normpath(self._reach.workspace / name)) != file.place.path:
            raise DiffError("it is a link, or lies behind one: delete or rename the file itself")


def _read(place: AllowedPath) -> bytes | None:
    if not os.path.lexists(place.path):
        return None
    with place.parent() as folder:
        return read_whole(place, folder)


def _put(file: _File, data: bytes | None) -> None:
    with file.place.parent(make=True) as folder:
        if data is None:
            file.place.remove(folder)
        else:
            file.place.replace(folder, data, file.status)
