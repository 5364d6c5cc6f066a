"""The turns that run and the last ones that ran, one of them with all that it did, and plots of the last hours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import trio

from bub.runtime.message_turn import MessageTurn
from bub.studio.requests import Asked
from bub.studio.rows import PastTurn, activities_of, describe_error, row_of_live, row_of_past
from bub.studio.studio import Studio
from bub.studio.views.loaded import NotThereError
from bub.studio.views.tapes import read_turn

_MOST = 500
_MOST_SHOWN = 2_000
"""Of a turn that runs, how many activities are shown."""

_AT_ONCE = 50
"""How many rows are made before others have their turn."""

_FIELDS = ("session", "channel", "profile", "outcome")


async def list_turns(studio: Studio, asked: Asked) -> dict[str, Any]:
    """List turns, those that run first, then those that ended last, as far as they are what is asked for."""
    state, limit = asked.name("state", "all"), asked.number("limit", 100, _MOST)
    wanted = {field: asked.name(field, "") for field in _FIELDS}
    query = asked.name("query", "").casefold()
    found = []
    for number, row in enumerate(_rows(studio, state)):
        if number % _AT_ONCE == _AT_ONCE - 1:
            await trio.lowlevel.checkpoint()  # turns go on meanwhile
        texts = (row["text"], row["session"], row["chat"], row["sender"], row["id"])
        if any(text and row[field] != text for field, text in wanted.items()):
            continue
        if query and not any(query in text.casefold() for text in texts):
            continue
        found.append(row)
        if len(found) >= limit:
            break
    return {"turns": found}


def _rows(studio: Studio, state: str) -> Iterator[dict[str, Any]]:
    mask = studio.framework.mask
    if state != "recent":
        for turn in reversed(list(studio.framework.turns_under_way)):
            yield row_of_live(turn, mask)
    if state != "running":
        for past in list(studio.recorder.newest()):
            yield row_of_past(past, mask)


async def describe_turn(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Describe one turn: its stages and what it did in them, with what its tape holds of it."""
    name = asked.name("id")
    past = studio.recorder.find(name)
    if past is not None:
        told = _describe_past(past)
        row = row_of_past(past, studio.framework.mask)
        session, held_at, ended = past.session, past.held_at, past.ended
    else:
        turn = next((one for one in studio.framework.turns_under_way if one.id == name), None)
        if turn is None:
            raise NotThereError("this turn is not remembered any more", help="its session's tape has what it said")
        told = _describe_live(turn)
        row = row_of_live(turn, studio.framework.mask)
        session, held_at, ended = turn.session_id, turn.held_at, time.time()
    store = studio.framework.get_tape_store()
    tape = []
    if store is not None and held_at is not None:
        tape = await read_turn(store, studio.framework.workspace, session, held_at, ended, studio.framework.mask)
    return {**row, **told, "tape": tape}


def _describe_past(past: PastTurn) -> dict[str, Any]:
    return {
        "stages": [_describe_stage(*stage) for stage in past.stages],
        "activities": [msgspec.structs.asdict(one) for one in past.activities],
        "error": past.error or None,
        "above": past.facts.above or None,
    }


def _describe_live(turn: MessageTurn) -> dict[str, Any]:
    above = turn.above
    return {
        "stages": [_describe_stage(*stage) for stage in turn.trace],
        "activities": [
            msgspec.structs.asdict(one) for one in activities_of(turn.activities.all[:_MOST_SHOWN], turn.began)
        ],
        "error": describe_error(turn.error) if turn.error is not None else None,
        "above": above.id if isinstance(above, MessageTurn) else None,
    }


def _describe_stage(stage: str, who: str, start: float, seconds: float, outcome: str) -> dict[str, Any]:
    return {"id": stage, "who": who, "start": start, "seconds": seconds, "outcome": outcome}


async def describe_plots(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Describe what ended in each minute of the last hours."""
    return studio.recorder.minutes.describe()
