"""The ways in which an implementation may fail, and which of them each site is tried with."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec

from bub.hooks.combining import COMBININGS
from bub.testing.proving.sites import Site

PLANTED = "a fault that bub prove has planted"
"""What a planted failure says."""


class Way(StrEnum):
    """What an implementation does; the last ones are no failures, but end a turn all the same."""

    RAISE = "raises"
    HANG = "hangs"
    LIE = "answers with a wrong type"
    LATE = "answers too late"
    NOTHING = "answers nothing"
    CANCEL = "is cancelled"
    BREAK = "fails in the middle of its stream"
    STALL = "hangs in the middle of its stream"
    DENY = "denies"
    CLAIM = "claims"


FAILING = frozenset({Way.RAISE, Way.HANG, Way.LIE, Way.LATE, Way.BREAK, Way.STALL})
"""What counts as a failure of the implementation."""

PAIRED = (Way.RAISE, Way.HANG, Way.CANCEL)
"""What is tried of two implementations at once."""

_GATE_LIES: tuple[Any, ...] = (False, {}, {"deny": None}, {"allow": True}, "no")
_GATE_ERRORS = ("RuntimeError", "TimeoutError", "TooSlowError", "OSError", "KeyError")


class Fault(msgspec.Struct, frozen=True, eq=False):
    """A site and the way in which it fails.

    `value` is what it answers if it lies, or the exception it raises. `is_plain`: it does so as a plain function does,
    when it is called and not when it is awaited.
    """

    site: Site
    way: Way
    value: Any = None
    is_plain: bool = False

    def __str__(self) -> str:
        what = f" {self.value}" if self.way is Way.RAISE else f" ({self.value!r})" if self.way is Way.LIE else ""
        return f"{self.site} {self.way}{what}"


def faults_at(site: Site) -> Iterator[Fault]:
    """Yield every fault that a site is tried with."""
    may_wait = not site.point.sync_only
    manners = [not site.is_async] if not (site.is_gate or site.is_cleanup) or not may_wait else [False, True]
    for error in _GATE_ERRORS if site.is_gate else ("RuntimeError", "TooSlowError") if site.is_cleanup else _ERRORS:
        for is_plain in manners if error == "RuntimeError" else manners[:1]:
            yield Fault(site, Way.RAISE, error, is_plain)
    if may_wait:
        yield Fault(site, Way.HANG)
    yield from (Fault(site, Way.LIE, lie) for lie in _lies(site))
    if site.timeout is not None and not site.is_error_observer:
        yield from (Fault(site, Way.LATE, None, is_plain) for is_plain in manners)
    yield Fault(site, Way.NOTHING)
    if may_wait:
        yield Fault(site, Way.CANCEL)
    if site.streams:
        yield Fault(site, Way.BREAK)
        yield Fault(site, Way.STALL)
    if site.is_gate:
        yield Fault(site, Way.DENY)
    if site.kind == "claiming":
        yield Fault(site, Way.CLAIM)


_ERRORS = ("RuntimeError",)


def _lies(site: Site) -> tuple[Any, ...]:
    if site.is_gate:
        return _GATE_LIES
    if site.watches:  # nobody looks at what it answers, whatever that is
        return ({"message": {"content": PLANTED}, "outbounds": [], "handled": True, "deny": PLANTED},)
    return (4711,)


def is_known_lie(site: Site) -> bool:
    """Whether the engine has to refuse an answer that is a number."""
    if site.kind in ("gate", "claiming", "modifying", "stream"):
        return True
    combining = COMBININGS.get(site.combine or "")
    is_combined = site.stage is not None and site.stage.into is not None
    return site.point.returns is not None or (is_combined and combining is not None and combining.returns is not None)
