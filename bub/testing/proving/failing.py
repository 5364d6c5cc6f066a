"""Laws of what a failure does: to clean-ups, to the time of a turn, to what others do, and to the error observers."""

from __future__ import annotations

from collections.abc import Iterator

from bub.base.duration import format_duration
from bub.hooks.facts import OUTBOUNDS
from bub.testing.proving.rules import Rules, is_unbounded, replies_of, time_of
from bub.testing.proving.seen import Seen, Visit
from bub.testing.proving.sites import OBSERVING
from bub.testing.proving.ways import FAILING, Way, is_known_lie

SLACK = 1.02
"""By how much a clean-up may outlast its time: several of them share a cancel scope."""

_PRECISION = 0.01


def cleanups(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """Every clean-up whose target began ran once, to its end."""
    trace = {record.stage for record in seen.result.trace if record.outcome not in ("skipped", "off")}
    begun = trace | {visit.site.where for visit in seen.visits if visit.site.stage is not None}
    for stage in rules.plan.stages:
        if stage.cleanup_for is None or not stage.enabled or stage.each is not None:
            continue
        target_began = not begun.isdisjoint(rules.plan.meant_by(stage.cleanup_for))
        for number, site in enumerate(rules.at(stage.id)):
            ran = seen.visited(site)
            least = 1 if target_began and not site.is_conditional and (number == 0 or site.kind in _ALL) else 0
            most = 1 + (site.retries if any(visit.how == "raised" or visit.fault for visit in ran) else 0)
            if len(ran) < least:
                yield f"the clean-up {site} did not run, though `{stage.cleanup_for}` had begun", stage.id
            elif len(ran) > most:
                yield f"the clean-up {site} ran {len(ran)} times", stage.id
            for visit in ran:
                yield from _interrupted(visit)


_ALL = ("broadcast", *OBSERVING)


def _interrupted(visit: Visit) -> Iterator[tuple[str, str]]:
    site = visit.site
    took = (visit.ended if visit.ended is not None else visit.began) - visit.began
    is_early = site.timeout is None or took < site.timeout * 0.9
    if visit.how == "cancelled" and is_early:
        yield f"Bub cancelled the clean-up {site} before its time-out", site.where


def in_time(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """No turn outlasts the sum of its time-outs, and no stage its own."""
    excess = 0.0
    for visit in seen.struck:
        site, fault = visit.site, visit.fault
        most = _time_left(visit)
        if fault is None or most is None:
            continue
        if fault.way is Way.LATE:
            excess += 1.0
        elif visit.outlasted:
            yield f"Bub never ended {site}, which hung, though it may take {format_duration(most)}", _stage_of(visit)
            return
        took = (visit.ended if visit.ended is not None else visit.began) - visit.began
        if fault.way in (Way.HANG, Way.STALL) and took > most * SLACK + seen.real + _PRECISION:
            told = f"{format_duration(took)}, though it may take {format_duration(most)}"
            yield f"{site} hung for {told}", _stage_of(visit)
    if seen.took > rules.bound + excess + seen.real + _PRECISION and not is_unbounded(seen):
        times = format_duration(seen.took), format_duration(rules.bound)
        yield "the turn took {}, but all its time-outs together are {}".format(*times), ""


def _time_left(visit: Visit) -> float | None:
    """How long a call may hang; a stream that says nothing, no longer than it may be silent."""
    most, site, fault = time_of(visit), visit.site, visit.fault
    stalls = fault is not None and (fault.way is Way.STALL or (fault.way is Way.HANG and site.point.form == "stream"))
    if site.idle is None or not stalls:
        return most
    return site.idle if most is None else min(most, site.idle)


def _stage_of(visit: Visit) -> str:
    return visit.site.where if visit.site.stage is not None else visit.outermost.site.where


def observers(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """An observer's failure changes no reply."""
    struck = seen.struck
    if not struck or seen.is_cancelled or not all(visit.site.watches for visit in struck):
        return
    if any(visit.site.timeout is None and visit.fault and visit.fault.way is Way.HANG for visit in struck):
        return  # it takes the time of the stage around it, or all there is
    who = struck[0].site
    if seen.error is not None and rules.calm.error is None:
        yield f"the turn failed ({type(seen.error).__name__}), though only the observer {who} failed", who.where
    elif seen.ended_by != rules.calm.ended_by:
        yield f"the turn ended as {seen.ended_by}, though only the observer {who} failed", who.where
    elif (rules.is_steady and replies_of(seen) != replies_of(rules.calm)) or (
        len(seen.result.outbounds or ()) != len(rules.calm.result.outbounds or ())
    ):
        yield f"the failure of the observer {who} changed the replies", who.where


def policies(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """What `on_failure` and `retry` say is what a failure does, and the error observers get it."""
    if len({id(fault.site) for fault in seen.faults}) != 1 or seen.is_cancelled or is_unbounded(seen):
        return
    struck = [visit for visit in seen.struck if _failed(visit)]
    if not struck:
        return
    visit, site = struck[0], struck[0].site
    assert visit.fault is not None
    # Of those that run at once nobody knows who was late, if all have ended.
    ended_late = site.kind == "void" and visit.fault.way is Way.LATE
    if not site.is_error_observer and not seen.told and not ended_late:
        yield f"{site} failed, but Bub called no error observer", site.where
    twice = [error for _, error in seen.told if sum(error is other for _, other in seen.told) > 1]
    if twice:
        yield f"{site} failed, and the error observers got {type(twice[0]).__name__} twice", site.where
    if site.is_gate or site.stage is None:
        return
    if visit.fault.way is Way.BREAK and len(struck) != 1 and site.each is None:
        yield f"Bub called {site} {_times(len(struck))}, though its stream had begun", site.where
    if visit.fault.way is Way.RAISE and site.each is None and len(struck) != 1 + site.retries:
        yield f"{site} failed, and Bub called it {_times(len(struck))}, not {_times(1 + site.retries)}", site.where
    if site.on_failure == "propagate":
        yield from _fails(rules, seen, visit)
    elif seen.ended_by == f"failed:{site.where}" and type(seen.error).__name__ != "NoAnswerError":
        yield (
            f"{site} failed, and the turn failed too, though the file says `on_failure: {site.on_failure}`",
            site.where,
        )


def _failed(visit: Visit) -> bool:
    """Whether an implementation surely failed, and has used up its time if that was how."""
    fault, site = visit.fault, visit.site
    if fault is None or fault.way not in FAILING:
        return False
    if fault.way is Way.LIE:
        return is_known_lie(site) and not site.watches
    if fault.way in (Way.HANG, Way.STALL, Way.LATE):
        return site.timeout is not None
    return True


def _fails(rules: Rules, seen: Seen, visit: Visit) -> Iterator[tuple[str, str]]:
    site = visit.site
    if seen.error is None and seen.ended_by is None:
        yield f"{site} failed and has `on_failure: propagate`, but the turn went on", site.where
    if site.is_cleanup or site.each is not None or any(stage.needs is not None for stage in rules.plan.stages):
        return
    for later in seen.after(visit):
        outer = later.outermost.site
        if outer.where != site.where and not outer.is_cleanup and not outer.is_error_observer:
            yield f"{site} failed and has `on_failure: propagate`, but {later.site} ran after that", site.where
            break


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def all_asked(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """In a turn without a fault that runs to its end, all are asked who have no reason to be left out."""
    if seen.faults or seen.error is not None or seen.ended_by is not None or seen is not rules.calm:
        return
    for site in rules.sites:
        stage = site.stage
        if stage is None or site.is_conditional or site.kind in ("firstresult", "stream"):
            continue
        if stage.each is not None and (stage.each != OUTBOUNDS or not seen.result.outbounds):
            continue
        if not seen.visited(site):
            yield f"Bub did not call {site}, though nothing failed", site.where
