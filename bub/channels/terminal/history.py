"""What was typed in a workspace, kept for the next time; only its owner may read it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from bub.base.private import open_private
from bub.log import log_warning


def history_file(home: Path, workspace: Path) -> Path:
    """Return the file for a workspace, below Bub's own folder."""
    return home / "history" / hashlib.sha256(os.fsencode(workspace.absolute())).hexdigest()[:16]


def history_in(file: Path) -> Any:
    """Return the history in a file, for prompt_toolkit; if there can be no file, one that ends with the program."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(open_private(file))
        file.chmod(0o600)
    except OSError as error:
        log_warning("chat.no_history", file=file, error=error)
        return InMemoryHistory()
    return FileHistory(file)
