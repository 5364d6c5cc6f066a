"""What channels remember from one process to the next: a text under a name, such as the newest message of a chat."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from bub.tape.entry import mend

Name = tuple[str, str]
"""A channel, and its name for a note."""

_TABLE = """
create table if not exists notes (
    workspace integer not null, channel text not null, number integer not null, name text not null, value text not null,
    primary key (workspace, channel, number), unique (workspace, channel, name)
) without rowid
"""
"""A note that is taken again gets a new number: those with the lowest ones are forgotten first.

The table is made at its first use, since files were made before there was one.
"""


def write_notes(db: sqlite3.Connection, workspace: int, notes: Mapping[Name, str], *, most: int) -> None:
    """Keep notes, and forget the oldest of each channel above `most`."""
    db.execute(_TABLE)
    for (channel, name), value in notes.items():
        own = (workspace, mend(channel))
        (last,) = db.execute(
            "select coalesce(max(number), 0) from notes where workspace = ? and channel = ?", own
        ).fetchone()
        db.execute("delete from notes where workspace = ? and channel = ? and name = ?", (*own, mend(name)))
        db.execute("insert into notes values (?, ?, ?, ?, ?)", (*own, last + 1, mend(name), mend(value)))
    for channel in {channel for channel, _ in notes}:
        own = (workspace, mend(channel))
        db.execute(
            "delete from notes where workspace = ? and channel = ? and number <= (select number from notes"
            " where workspace = ? and channel = ? order by number desc limit 1 offset ?)",
            (*own, *own, most),
        )


def read_notes(db: sqlite3.Connection, workspace: int, channel: str) -> dict[str, str]:
    """Return the notes of a channel, the oldest first."""
    db.execute(_TABLE)
    return dict(
        db.execute(
            "select name, value from notes where workspace = ? and channel = ? order by number",
            (workspace, mend(channel)),
        ).fetchall()
    )
