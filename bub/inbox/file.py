"""The file of the inbox: its place, and the lock of whoever works there on a workspace."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.base.private import lock_file, make_private, open_private
from bub.inbox.store import MailboxError


def inbox_file(home: Path) -> Path:
    """Return the file of the inbox in Bub's own folder: beside the tapes."""
    return home / "tapes" / "inbox.db"


def lock_workspace(path: Path, workspace: str) -> FileIO:
    """The file beside the inbox that whoever works on this workspace holds; the system lets go of it with the process.

    Raises MailboxError when another process holds it.
    """
    name = sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    beside = path.with_name(f"{path.stem}-{name}.lock")
    try:
        make_private(path.parent)
        file = FileIO(open_private(beside), "r+")
    except OSError as error:
        problem = f"{beside} cannot be opened: {explain_os_error(error)}"
        raise MailboxError(problem, help=remedy_for(beside, "make the folder writable for yourself")) from error
    try:
        lock_file(file.fileno(), wait=False)
    except OSError as error:
        holder = _holder(file)
        file.close()
        if isinstance(error, BlockingIOError):
            problem, remedy = f"another gateway works on {workspace}{holder}", "end it, or name another --workspace"
        else:
            problem, remedy = f"{beside} cannot be locked: {explain_os_error(error)}", "keep it on a disk of your own"
        raise MailboxError(problem, help=remedy) from error
    with suppress(OSError):  # the lock holds without the id; on a full disk, the inbox itself fails
        file.truncate(0)
        file.write(str(os.getpid()).encode())
    return file


def _holder(file: FileIO) -> str:
    with suppress(OSError):  # Windows lets nobody read what is locked
        said = file.read(32) or b""
        return f" (process {said.decode()})" if said.isdigit() else ""
    return ""
