"""The moments that a cron expression means in a time zone, over changes of the clock too.

`cronsim` counts as the cron of Debian does: what is to happen at a time that a change of the clock leaves out happens
right behind it, and what is to happen at a time that comes twice happens once. It is imported with the first schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice, pairwise
from math import inf

from bub.base.diagnostics import suggest
from bub.errors import BubError

FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
"""What the five fields of an expression are, in their order."""

_WITHOUT_YEAR = 0.0
"""Any time: whether an expression ever means one does not depend on when that is asked."""

MOST_COUNTED = 1_000
"""Up to how many moments are counted one by one."""

_MOST_COMPARED = 500
"""How many moments are compared to find the shortest pause between two."""

_WINDOWS = (3600.0, 86_400.0, 32 * 86_400.0, 367 * 86_400.0)
"""How far back the last moment is looked for, in seconds; one that is rarer may lie anywhere."""


class MomentsError(BubError):
    """An expression or a time zone means no moments."""

    is_about_zone = False


class ZoneError(MomentsError):
    """There is no such time zone here."""

    is_about_zone = True


class NeverError(MomentsError):
    """An expression can be read, and no day is like it."""


def find_zone(name: str) -> tzinfo:
    """Return the time zone of that name. Raises `ZoneError` if there is none, or this machine knows none at all."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
    if not known:
        problem = f"this machine does not know the time zone `{name}`, nor any other"
        raise ZoneError(problem, help="install them: `pip install tzdata`, or the package `tzdata` of the system")
    meant = suggest(name, known)
    hint = f"did you mean `{meant}`?" if meant else "write one such as `Europe/Berlin`, `America/New_York` or `UTC`"
    raise ZoneError(f"there is no time zone `{name}`", help=hint)


def check_moments(cron: str, zone: str) -> None:
    """Raise `MomentsError` if an expression cannot be read, `NeverError` if it means no moment at all."""
    place = find_zone(zone)
    fields = cron.split()
    if len(fields) != len(FIELDS):
        raise MomentsError(
            f"`{cron}` has {len(fields)} field{'' if len(fields) == 1 else 's'}, and a cron expression has five",
            help=f"write {', '.join(FIELDS)}: `0 8 * * 1-5` is 8:00 from Monday to Friday",
        )
    for position, (name, field) in enumerate(zip(FIELDS, fields, strict=True)):
        alone = ["*"] * len(FIELDS)
        alone[position] = field
        if not _can_be_read(" ".join(alone)):
            raise MomentsError(
                f"`{field}` is no {name} of a cron expression",
                help="write a number, `*`, a list `1,15`, a range `1-5`, or a step `*/5`",
            )
    if next(_moments(cron, place, _WITHOUT_YEAR), None) is None:
        raise NeverError(f"`{cron}` never fires: no day is like that", help="choose a day that the month has")


def moments_after(cron: str, zone: str, after: float) -> Iterator[float]:
    """Yield the moments behind one, as Unix times, each later than the last.

    Raises `ZoneError` if the time zone is unknown. An expression that cannot be read means none.
    """
    return _moments(cron, find_zone(zone), after)


def last_moment(cron: str, zone: str, after: float, until: float) -> float | None:
    """Return the last moment behind `after` that is not behind `until`, however far these are apart."""
    for window in (*_WINDOWS, until - after):
        found: float | None = None
        for moment in moments_after(cron, zone, max(after, until - window)):
            if moment > until:
                break
            found = moment
        if found is not None or until - window <= after:
            return found
    return None


def count_moments(cron: str, zone: str, after: float, until: float) -> int:
    """Count the moments behind `after` that are not behind `until`, up to `MOST_COUNTED`."""
    number = 0
    for moment in moments_after(cron, zone, after):
        if moment > until or number == MOST_COUNTED:
            break
        number += 1
    return number


def shortest_pause(cron: str, zone: str, after: float) -> float:
    """Return the fewest seconds between two of the moments that come next; infinity if there is but one."""
    coming = list(islice(moments_after(cron, zone, after), _MOST_COMPARED))
    return min((later - earlier for earlier, later in pairwise(coming)), default=inf)


def _moments(cron: str, place: tzinfo, after: float) -> Iterator[float]:
    from cronsim import CronSim, CronSimError

    try:
        found = CronSim(cron, datetime.fromtimestamp(int(after), place))
    except CronSimError:  # it sees that no month has such a day, if there is only one to look at
        return
    last = after
    for one in found:
        moment = one.timestamp()
        if moment > last:  # an hour that comes twice is entered again at its first time
            last = moment
            yield moment


def _can_be_read(cron: str) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(cron, datetime.fromtimestamp(0, UTC))
    except (CronSimError, AssertionError):  # it asserts that `L/2` is none
        return False
    return True
