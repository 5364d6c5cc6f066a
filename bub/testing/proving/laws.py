"""The laws of a turn: what holds whatever fails, as it follows from what the file declares. Nobody writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from bub.base.duration import format_duration
from bub.envelope import content_of, field_of
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.checks import checks_of, is_stream, shows_at_once
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.testing.proving.director import CLAIMED, DENIED, LATE_TEXT
from bub.testing.proving.seen import Seen, Visit
from bub.testing.proving.sites import OBSERVING, Site
from bub.testing.proving.ways import FAILING, Fault, Way, is_known_lie

SLACK = 1.02
"""By how much a clean-up may outlast its time: several of them share a cancel scope."""

_PRECISION = 0.01


class Rules(msgspec.Struct, frozen=True, eq=False):
    """What the laws know beside a turn: the plan of the profile, its sites, and a turn without any fault.

    `is_mocked` says that no real implementation was called. `bound` is how long a turn may take in all, and
    `is_steady` whether the replies of two turns without a fault are the same.
    """

    plan: Plan
    sites: tuple[Site, ...]
    calm: Seen
    bound: float
    is_mocked: bool
    is_steady: bool = True

    def at(self, stage: str) -> list[Site]:
        """The sites of one stage, in the order they are asked."""
        return [site for site in self.sites if site.where == stage and site.stage is not None]


class Broken(msgspec.Struct, frozen=True, eq=False):
    """A law that did not hold: what happened, and the stage it is about."""

    law: str
    what: str
    stage: str


Check = Callable[[Rules, Seen], Iterator[tuple[str, str]]]
"""Yields what is wrong with a turn, each with the stage that it is about."""


def judge(rules: Rules, seen: Seen) -> Iterator[Broken]:
    """Yield every law that a turn has broken."""
    for law, check in LAWS.items():
        for what, stage in check(rules, seen):
            yield Broken(law, what, stage)


# 1


def _behind_a_gate(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """Behind a gate that failed in any way run only clean-ups, and the delivery of its denial."""
    for visit in seen.struck:
        site, fault = visit.site, visit.fault
        if not site.is_gate or fault is None or fault.way is Way.NOTHING:
            continue
        if site.stage is None:
            yield from _behind_a_fired_gate(seen, visit)
        elif site.each is not None:
            yield from _behind_an_item(rules, seen, visit)
        else:
            behind = [one for one in seen.visits if one.outermost.site.position > site.position]
            for later in dict.fromkeys([*seen.after(visit), *behind]):
                if later.site.where != site.where and not _may_run_behind(later.outermost):
                    yield f"{later.site} ran behind the gate `{site.where}`, which had not allowed", site.where
                    break
            if not seen.is_cancelled and seen.ended_by != f"denied:{site.where}" and not _fails_in_delivery(seen):
                ended = f"ended as {seen.ended_by}" if seen.ended_by else "ran to its end"
                yield f"the turn {ended}, though the gate `{site.where}` had not allowed", site.where
        yield from _shown_behind(rules, seen, visit)


def _may_run_behind(visit: Visit) -> bool:
    site = visit.site
    if site.is_cleanup or site.is_error_observer:
        return True
    return site.each == OUTBOUNDS and field_of(visit.message, "kind") == "denied"


def _fails_in_delivery(seen: Seen) -> bool:
    """Whether a fault at a stage for each reply kept the denial from being delivered."""
    return any(seen.ended_by == f"failed:{fault.site.where}" for fault in seen.faults if fault.site.each == OUTBOUNDS)


def _behind_a_fired_gate(seen: Seen, visit: Visit) -> Iterator[tuple[str, str]]:
    index, where = seen.visits.index(visit), visit.site.where
    for fired in seen.fired:
        if fired.first <= index < fired.last and fired.name == where and not fired.raised:
            reason = fired.result.get("deny") if isinstance(fired.result, dict) else None
            if not isinstance(reason, str):
                yield f"who fired the gate `{where}` got {fired.result!r}, though it had not allowed", where


def _behind_an_item(rules: Rules, seen: Seen, visit: Visit) -> Iterator[tuple[str, str]]:
    site, item = visit.site, content_of(visit.message)
    kind = field_of(visit.message, "kind")
    for later in seen.after(visit):
        stage = later.site.stage
        if later.site.is_cleanup or stage is None or stage.each != site.each or stage.id == site.where:
            continue
        if content_of(later.message) == item and field_of(later.message, "kind") == kind:
            yield f"{later.site} ran for an item that the gate `{site.where}` had not allowed", site.where
            break
    left = [content_of(reply) for reply in seen.result.outbounds or ()]
    if site.each == OUTBOUNDS and seen.error is None and not seen.is_cancelled and item in left:
        yield f"a reply that the gate `{site.where}` had not allowed is among what the turn came to", site.where


def _shown_behind(rules: Rules, seen: Seen, visit: Visit) -> Iterator[tuple[str, str]]:
    """Nothing that a stream says is shown before, or although, a gate below it has failed."""
    gate, text = visit.site, "".join(seen.shown).strip()
    if gate.stage is None or not text:
        return
    for stream in rules.plan.stages:
        if not is_stream(stream) or shows_at_once(stream) or gate.stage not in checks_of(rules.plan, stream):
            continue
        allowed = [content_of(reply).strip() for reply in seen.result.outbounds or ()] if gate.each else []
        if text not in allowed:
            yield f"{text[:60]!r} was shown, though the gate `{gate.where}` had not allowed it", gate.where


# 2


def _cleanups(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """Every clean-up whose target began ran once, to its end."""
    if any(visit.outlasted for visit in seen.visits):
        return  # what hung to the very end is what the law about time is for
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
        yield f"the clean-up {site} was cancelled before its time was up", site.where


# 3


def _time(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """No turn outlasts the sum of its time-outs, and no stage its own."""
    excess = 0.0
    for visit in seen.struck:
        site, fault = visit.site, visit.fault
        most = time_of(visit)
        if fault is None or most is None:
            continue
        if fault.way is Way.LATE:
            excess += 1.0
        elif visit.outlasted:
            yield f"{site} hung for good, though it has {format_duration(most)}", _stage_of(visit)
            return
        took = (visit.ended if visit.ended is not None else visit.began) - visit.began
        if fault.way in (Way.HANG, Way.STALL) and took > most * SLACK + seen.real + _PRECISION:
            told = f"{format_duration(took)}, though it has {format_duration(most)}"
            yield f"{site} hung for {told}", _stage_of(visit)
    if seen.took > rules.bound + excess + seen.real + _PRECISION and not is_unbounded(seen):
        times = format_duration(seen.took), format_duration(rules.bound)
        yield "the turn took {}, and all its time-outs together are {}".format(*times), ""


def time_of(visit: Visit) -> float | None:
    """How long a call may take: as long as its point or any stage around it says; None if none does."""
    times = [visit.site.timeout] if visit.site.timeout is not None else []
    inside = visit.inside
    while inside is not None:
        if inside.site.timeout is not None:
            times.append(inside.site.timeout)
        inside = inside.inside
    return min(times, default=None)


def is_unbounded(seen: Seen) -> bool:
    """Whether something hung that nothing bounds."""
    return any(visit.outlasted and time_of(visit) is None for visit in seen.visits)


def _stage_of(visit: Visit) -> str:
    return visit.site.where if visit.site.stage is not None else visit.outermost.site.where


# 4


def _observers(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """An observer's failure changes no reply."""
    struck = seen.struck
    if not struck or seen.is_cancelled or not all(visit.site.watches for visit in struck):
        return
    if any(visit.site.timeout is None and visit.fault and visit.fault.way is Way.HANG for visit in struck):
        return  # it takes the time of the stage around it, or all there is
    who = struck[0].site
    if seen.error is not None and rules.calm.error is None:
        yield f"the turn failed ({type(seen.error).__name__}), though only the observer {who} did", who.where
    elif seen.ended_by != rules.calm.ended_by:
        yield f"the turn ended as {seen.ended_by}, though only the observer {who} failed", who.where
    elif (rules.is_steady and replies_of(seen) != replies_of(rules.calm)) or (
        len(seen.result.outbounds or ()) != len(rules.calm.result.outbounds or ())
    ):
        yield f"the replies are others than without the failure of the observer {who}", who.where


def replies_of(seen: Seen) -> str:
    """The replies of a turn, and what was handed to whoever delivers them, whatever the chat is called."""
    handed = [one.message for one in seen.visits if one.site.delivers and one.site.kind not in OBSERVING]
    return repr((seen.result.outbounds, handed)).replace(seen.chat, "CHAT")


# 5


def _one_outcome(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """Exactly one outcome is delivered, once."""
    for visit in seen.struck:
        if visit.fault is not None and visit.fault.way is Way.CANCEL and not visit.site.is_cleanup:
            for later in seen.after(visit):
                outer = later.outermost.site
                if not outer.is_cleanup and not outer.is_error_observer and not _is_beside(rules, visit, later):
                    yield f"{later.site} ran in a turn that was cancelled in `{visit.site.where}`", outer.where
                    break
    ended, _, stage = (seen.ended_by or "").partition(":")
    replies = seen.result.outbounds or []
    delivering = [site for site in rules.sites if site.delivers]
    for site in delivering:
        handed = [content_of(visit.message) for visit in seen.visited(site)]
        most = 1 + (site.retries if any(fault.site is site for fault in seen.faults) else 0)
        twice = next((text for text in handed if handed.count(text) > most), None)
        if twice is not None and [content_of(reply) for reply in replies].count(twice) <= 1:
            yield f"{site} was handed {twice[:60]!r} {handed.count(twice)} times", site.where
    if seen.is_cancelled or seen.error is not None:
        return
    if not ended and rules.is_steady and seen.faults and all(_denies_items(fault) for fault in seen.faults):
        denied = [content_of(visit.message) for visit in seen.struck]
        wanted = [content_of(reply) for reply in rules.calm.result.outbounds or ()]
        wanted = [text for text in wanted if text not in denied]
        if [content_of(reply) for reply in replies] != wanted:
            where = seen.faults[0].site.where
            yield f"{len(replies)} replies are left of {len(wanted)} that the gate `{where}` has allowed", where
    if ended in ("denied", "claimed"):
        if len(replies) > 1:
            yield f"a turn that was {ended} by `{stage}` ends with {len(replies)} replies", stage
        elif not replies and _has_to_be_delivered(rules, seen, ended):
            yield f"nothing is sent of a turn that was {ended} by `{stage}`", stage
        yield from _own_words(seen, stage)
    kept = [content_of(reply) for reply in replies]
    for site in delivering:
        if site.kind != "broadcast" or site.is_conditional or rules.at(site.where)[0] is not site:
            continue
        handed = [content_of(visit.message) for visit in seen.visited(site)]
        missing = [text for text in kept if text not in handed]
        if missing and rules.is_mocked and not _is_held_back(rules, site):
            yield f"{missing[0][:60]!r} was not delivered by {site}", site.where


def _denies_items(fault: Fault) -> bool:
    return fault.site.is_gate and fault.site.each == OUTBOUNDS and fault.way is not Way.NOTHING


def _has_to_be_delivered(rules: Rules, seen: Seen, ended: str) -> bool:
    """Whether a denial, or the reply of a claim, has to be sent: nobody has a say against it."""
    struck = seen.struck
    if ended == "claimed" and not any(visit.fault and visit.fault.way is Way.CLAIM for visit in struck):
        return False
    if not any(site.delivers for site in rules.sites) or any(visit.site.each == OUTBOUNDS for visit in struck):
        return False
    has_say = any(site.each == OUTBOUNDS and not site.delivers for site in rules.sites)
    return rules.is_mocked or not has_say


def _own_words(seen: Seen, stage: str) -> Iterator[tuple[str, str]]:
    """What is sent is what whoever ended the turn has said."""
    for visit in seen.struck:
        way = visit.fault.way if visit.fault is not None else None
        said = {Way.DENY: DENIED, Way.CLAIM: CLAIMED}.get(way) if way is not None else None
        is_it = visit.site.where == stage and visit.site.stage is not None and visit.site.each is None
        if said is not None and is_it and seen.result.outbounds is not None:
            texts = [content_of(reply) for reply in seen.result.outbounds]
            if texts and said not in texts:
                yield f"`{stage}` said {said!r}, and {texts[0][:60]!r} is what was sent", stage


def _is_held_back(rules: Rules, site: Site) -> bool:
    """Whether something between the replies and their delivery may have a say, such as a claim."""
    return any(other.each == OUTBOUNDS and other.kind == "claiming" for other in rules.sites)


def _is_beside(rules: Rules, visit: Visit, other: Visit) -> bool:
    """Whether two calls may be made at the same time."""
    if visit.site.kind == "void" and visit.site.where == other.site.where:
        return True
    return any(stage.needs is not None for stage in rules.plan.stages)


# 6


def _too_late(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """What comes after its time is up is not taken."""
    for visit in seen.struck:
        site = visit.site
        if visit.fault is None or visit.fault.way is not Way.LATE or site.is_cleanup or site.stage is None:
            continue
        later = [one for one in seen.after(visit) if LATE_TEXT in repr(one.arguments)]
        result = seen.result
        if later:
            yield f"{later[0].site} got what {site} had answered too late", site.where
        elif LATE_TEXT in repr((result.outbounds, result.model_output, result.state, result.prompt)):
            yield f"what {site} answered too late is among what the turn came to", site.where
        elif any(LATE_TEXT in text for text in seen.shown) and _is_held(rules, site.stage):
            yield f"what {site} answered too late was shown", site.where
        elif site.kind == "claiming" and (seen.ended_by or "") == f"claimed:{site.where}":
            yield f"the claim of {site} was taken, though it came too late", site.where


def _is_held(rules: Rules, stream: StagePlan) -> bool:
    """Whether what a stream says waits for somebody; what nobody judges is shown as it comes."""
    return not shows_at_once(stream) and any(rules.at(check.id) for check in checks_of(rules.plan, stream))


# 7


def _policies(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """What `on_failure` and `retry` say is what a failure does, and the error observers are told of it."""
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
        yield f"nobody was told that {site} had failed", site.where
    if site.is_gate or site.stage is None:
        return
    if visit.fault.way is Way.RAISE and site.each is None and len(struck) != 1 + site.retries:
        yield f"{site} failed and was called {_times(len(struck))}, not {_times(1 + site.retries)}", site.where
    if site.on_failure == "propagate":
        yield from _fails(rules, seen, visit)
    elif seen.ended_by == f"failed:{site.where}" and type(seen.error).__name__ != "NoAnswerError":
        yield f"{site} failed, and so did the turn, though the file says `on_failure: {site.on_failure}`", site.where


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
        yield f"the turn went on, though {site} failed and its failure is to end the turn", site.where
    if site.is_cleanup or site.each is not None or any(stage.needs is not None for stage in rules.plan.stages):
        return
    for later in seen.after(visit):
        outer = later.outermost.site
        if outer.where != site.where and not outer.is_cleanup and not outer.is_error_observer:
            yield f"{later.site} ran though {site} had failed, which is to end the turn", site.where
            break


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


# 8


def _all_asked(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
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
            yield f"{site} was not asked, though nothing failed", site.where


LAWS: dict[str, Check] = {
    "behind a gate that failed run only clean-ups and the delivery of its denial": _behind_a_gate,
    "every clean-up whose target began runs once": _cleanups,
    "no turn outlasts the sum of its time-outs": _time,
    "an observer's failure changes no reply": _observers,
    "exactly one outcome is delivered": _one_outcome,
    "what comes too late is not taken": _too_late,
    "a failure does what its policy says": _policies,
    "whoever has a say is asked": _all_asked,
}
"""Every law, in words, with what checks it."""
