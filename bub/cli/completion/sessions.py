"""The sessions of a folder that have a tape, newest first, read from the file that keeps tapes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

_PATIENCE = 0.05
_MOST = 200

_SESSIONS = """
select json_extract(first.meta, '$.session'), first.date from tapes
join entries as first on first.tape = tapes.id and first.id = 1
where tapes.name is not null and first.anchor = 'session/start' and json_extract(first.meta, '$.workspace') = ?
order by first.seq desc limit ?
"""


def sessions_of(home: Path, workspace: Path) -> Mapping[str, str]:
    """Return the sessions of a workspace, each with the day it began on.

    Only the usual file below Bub's own folder is looked into, and it stays as it is. Raises `sqlite3.Error`.
    """
    file = home / "tapes" / "tapes.db"
    if not file.is_file():
        return {}
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as db:
        rows = db.execute(_SESSIONS, (os.path.realpath(workspace), _MOST)).fetchall()
    return {str(session): f"began on {str(date)[:10]}" for session, date in rows if session}
