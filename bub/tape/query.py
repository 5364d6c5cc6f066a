"""A question to a tape, put together step by step; every store answers it alike."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from bub.errors import TapeError
from bub.tape.entry import TapeEntry, mend, words_of


class _LastAnchor:
    """The anchor that was set last, whatever its name."""

    def __repr__(self) -> str:
        return "LAST_ANCHOR"


LAST_ANCHOR: Final = _LastAnchor()
AnchorSelector = str | _LastAnchor | None


@dataclass(frozen=True, slots=True)
class TapeQuery:
    """Which entries of a tape are wanted (BEHAVIOURS P9, P10); each method returns a narrower question.

    All conditions hold together. The answer is in the order of writing, or the other way round with `newest`, and
    `limit` counts from its beginning.
    """

    tape: str
    text: str | None = None
    after: AnchorSelector = None
    anchors: tuple[str, str] | None = None
    since: str | None = None
    until: str | None = None
    only: tuple[str, ...] = ()
    most: int | None = None
    backwards: bool = False
    below: int | None = None

    def query(self, text: str) -> TapeQuery:
        """Entries whose payload has this text somewhere, in whatever case; an empty text asks nothing."""
        return replace(self, text=mend(text) or None)

    def after_anchor(self, name: str) -> TapeQuery:
        """Entries behind the last anchor of this name; an empty name asks nothing."""
        return replace(self, after=mend(name) or None)

    def last_anchor(self) -> TapeQuery:
        """Entries behind the anchor that was set last."""
        return replace(self, after=LAST_ANCHOR)

    def between_anchors(self, start: str, end: str) -> TapeQuery:
        """Entries between the last anchor `start` and the first anchor `end` behind it."""
        return replace(self, anchors=(mend(start), mend(end)))

    def between_dates(self, start: str | date, end: str | date) -> TapeQuery:
        """Entries from `start` to `end`, both included; a plain date is the whole day in UTC.

        Raises TapeError when one of them is no date, or when they are the wrong way round.
        """
        since, until = _moment(start, "start", end_of_day=False), _moment(end, "end", end_of_day=True)
        if since > until:
            raise TapeError(f"{start} is later than {end}", help="name the earlier date first")
        return replace(self, since=_format_moment(since), until=_format_moment(until))

    def kinds(self, *kinds: str) -> TapeQuery:
        """Entries of these kinds only; none named asks nothing."""
        return replace(self, only=kinds)

    def before_entry(self, number: int) -> TapeQuery:
        """Entries that were written before the one with this id, as a page of a long tape asks for those before it."""
        return replace(self, below=number)

    def limit(self, most: int) -> TapeQuery:
        """So many entries at most. Raises TapeError for a number below 0."""
        if most < 0:
            raise TapeError(f"a limit cannot be {most}", help="name a number from 0 on")
        return replace(self, most=most)

    def newest(self) -> TapeQuery:
        """The newest entry first."""
        return replace(self, backwards=True)

    def wants(self, entry: TapeEntry) -> bool:
        """Whether a query asks for an entry of its stretch."""
        if self.below is not None and entry.id >= self.below:
            return False
        if self.only and entry.kind not in self.only:
            return False
        if self.since is not None and not self.since <= entry.date <= (self.until or ""):
            return False
        return self.text is None or self.text.casefold() in words_of(entry.payload).casefold()


def part_as_written(text: str) -> str:
    """The longest part of a text, in small letters, that JSON has as it is; an entry without it has not the text."""
    return max(re.findall(r'[^"\\/\x00-\x1f]+', text.casefold()), key=len, default="")


def no_anchor(tape: str, name: AnchorSelector) -> TapeError:
    """The error about an anchor that a tape does not have."""
    what = f"no anchor `{name}`" if isinstance(name, str) else "no anchor yet"
    return TapeError(f"tape `{tape}` has {what}", help="`tape.anchors` lists those it has", reason="not_found")


def _moment(given: str | date, which: str, *, end_of_day: bool) -> datetime:
    if isinstance(given, datetime):
        moment: date = given
    elif isinstance(given, date):
        moment = given
    else:
        text = given.strip()
        try:
            moment = date.fromisoformat(text) if len(text) <= len("2026-11-22") else datetime.fromisoformat(text)
        except ValueError:
            problem = f"the {which} date is missing" if not text else f"`{text}` is not a date"
            raise TapeError(problem, help="write it like 2026-11-22 or 2026-11-22T08:30:00Z") from None
    if isinstance(moment, datetime):
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    start = datetime.combine(moment, time(), UTC)
    return start + timedelta(days=1, microseconds=-1) if end_of_day else start


def _format_moment(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
