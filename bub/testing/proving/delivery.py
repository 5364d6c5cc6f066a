"""Laws of what is let through: nothing behind a guard that failed, one outcome, and nothing that came too late."""

from __future__ import annotations

from collections.abc import Iterator

from bub.envelope import content_of, field_of
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.checks import checks_of, is_stream, shows_at_once
from bub.pipeline.plan.stages import StagePlan
from bub.testing.proving.director import CLAIMED, DENIED, LATE_TEXT
from bub.testing.proving.rules import Rules
from bub.testing.proving.seen import Seen, Visit
from bub.testing.proving.sites import Site
from bub.testing.proving.ways import Fault, Way


def behind_a_gate(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
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
                    yield f"the gate `{site.where}` did not allow, but {later.site} ran", site.where
                    break
            if not seen.is_cancelled and seen.ended_by != f"denied:{site.where}" and not _fails_in_delivery(seen):
                ended = f"ended as {seen.ended_by}" if seen.ended_by else "ran to its end"
                yield f"the gate `{site.where}` did not allow, but the turn {ended}", site.where
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
                got = f"the code that fired the gate got {fired.result!r} instead of a denial"
                yield f"the gate `{where}` did not allow, but {got}", where


def _behind_an_item(rules: Rules, seen: Seen, visit: Visit) -> Iterator[tuple[str, str]]:
    site, item = visit.site, content_of(visit.message)
    kind = field_of(visit.message, "kind")
    for later in seen.after(visit):
        stage = later.site.stage
        if later.site.is_cleanup or stage is None or stage.each != site.each or later.site.position <= site.position:
            continue
        if content_of(later.message) == item and field_of(later.message, "kind") == kind:
            yield f"`{site.where}` took an item out, but {later.site} ran for this item", site.where
            break
    left = [content_of(reply) for reply in seen.result.outbounds or ()]
    if site.each == OUTBOUNDS and seen.error is None and not seen.is_cancelled and item in left:
        yield f"`{site.where}` took a reply out, but the result of the turn has this reply", site.where


def _behind_a_claim(rules: Rules, seen: Seen, visit: Visit) -> Iterator[tuple[str, str]]:
    """Behind a claim run only clean-ups and the delivery of its reply; one of an item takes that item out."""
    site = visit.site
    if site.stage is None:
        return
    if site.each is not None:
        yield from _behind_an_item(rules, seen, visit)
        return
    for later in seen.after(visit):
        outer = later.outermost
        is_reply = outer.site.each == OUTBOUNDS and content_of(outer.message) == CLAIMED
        if not (is_reply or outer.site.is_cleanup or outer.site.is_error_observer or outer.site.where == site.where):
            yield f"{site} claimed the turn, but {later.site} ran after that", site.where
            break


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
            yield f"the gate `{gate.where}` did not allow {text[:60]!r}, but Bub showed this text", gate.where


def one_outcome(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """Exactly one outcome is delivered, once."""
    for visit in seen.struck:
        if visit.fault is not None and visit.fault.way is Way.CLAIM:
            yield from _behind_a_claim(rules, seen, visit)
        if visit.fault is not None and visit.fault.way is Way.CANCEL and not visit.site.is_cleanup:
            for later in seen.after(visit):
                outer = later.outermost.site
                if not outer.is_cleanup and not outer.is_error_observer and not _is_beside(rules, visit, later):
                    yield (
                        f"the turn was cancelled in `{visit.site.where}`, but {later.site} ran after that",
                        outer.where,
                    )
                    break
    ended, _, stage = (seen.ended_by or "").partition(":")
    replies = seen.result.outbounds or []
    delivering = [site for site in rules.sites if site.delivers]
    for site in delivering:
        handed = [content_of(visit.message) for visit in seen.visited(site)]
        most = 1 + (site.retries if any(fault.site is site for fault in seen.faults) else 0)
        twice = next((text for text in handed if handed.count(text) > most), None)
        if twice is not None and [content_of(reply) for reply in replies].count(twice) <= 1:
            yield f"Bub handed {twice[:60]!r} to {site} {handed.count(twice)} times", site.where
    if seen.is_cancelled or seen.error is not None:
        return
    if not ended and rules.is_steady and seen.faults and all(_denies_items(fault) for fault in seen.faults):
        denied = [content_of(visit.message) for visit in seen.struck]
        wanted = [content_of(reply) for reply in rules.calm.result.outbounds or ()]
        wanted = [text for text in wanted if text not in denied]
        if [content_of(reply) for reply in replies] != wanted:
            where = seen.faults[0].site.where
            yield f"the gate `{where}` allowed {len(wanted)} replies, but {len(replies)} are left", where
    if ended in ("denied", "claimed"):
        if len(replies) > 1:
            yield f"`{stage}` {ended} the turn, but the turn ends with {len(replies)} replies instead of one", stage
        elif not replies and _has_to_be_delivered(rules, seen, ended):
            yield f"`{stage}` {ended} the turn, but Bub sends no reply", stage
        yield from _own_words(seen, stage)
    kept = [content_of(reply) for reply in replies]
    for site in delivering:
        if site.kind != "broadcast" or site.is_conditional or rules.at(site.where)[0] is not site:
            continue
        handed = [content_of(visit.message) for visit in seen.visited(site)]
        missing = [text for text in kept if text not in handed]
        if missing and rules.is_mocked and not _is_held_back(rules, site):
            yield f"{site} did not deliver {missing[0][:60]!r}", site.where


def _denies_items(fault: Fault) -> bool:
    return fault.site.is_gate and fault.site.each == OUTBOUNDS and fault.way is not Way.NOTHING


def _has_to_be_delivered(rules: Rules, seen: Seen, ended: str) -> bool:
    """Whether a denial, or the reply of a claim, has to be sent: nobody may object."""
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
                yield f"`{stage}` answered {said!r}, but Bub sent {texts[0][:60]!r}", stage


def _is_held_back(rules: Rules, site: Site) -> bool:
    """Whether something between the replies and their delivery may have a say, such as a claim."""
    return any(other.each == OUTBOUNDS and other.kind == "claiming" for other in rules.sites)


def _is_beside(rules: Rules, visit: Visit, other: Visit) -> bool:
    """Whether two calls may be made at the same time."""
    if visit.site.kind == "void" and visit.site.where == other.site.where:
        return True
    return any(stage.needs is not None for stage in rules.plan.stages)


def too_late(rules: Rules, seen: Seen) -> Iterator[tuple[str, str]]:
    """What comes after its time is up is not taken."""
    for visit in seen.struck:
        site = visit.site
        if visit.fault is None or visit.fault.way is not Way.LATE or site.is_cleanup or site.stage is None:
            continue
        later = [one for one in seen.after(visit) if LATE_TEXT in repr(one.arguments)]
        result = seen.result
        if later:
            yield f"{site} answered too late, but {later[0].site} got this answer", site.where
        elif LATE_TEXT in repr((result.outbounds, result.model_output, result.state, result.prompt)):
            yield f"{site} answered too late, but the result of the turn has this answer", site.where
        elif any(LATE_TEXT in text for text in seen.shown) and _is_held(rules, site.stage):
            yield f"{site} answered too late, but Bub showed this answer", site.where
        elif site.kind == "claiming" and (seen.ended_by or "") == f"claimed:{site.where}":
            yield f"{site} claimed the turn too late, but Bub took the claim", site.where


def _is_held(rules: Rules, stream: StagePlan) -> bool:
    """Whether what a stream says waits for somebody; what nobody judges is shown as it comes."""
    return not shows_at_once(stream) and any(rules.at(check.id) for check in checks_of(rules.plan, stream))
