"""On which ways strangers can make the agent leak that they could not before."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.ways import Way, find_ways
from bub.pipeline.show.differences.changes import Changes


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell the ways that nothing cuts and that were cut before, or not there; a sure one is dangerous."""
    before = {_name(way): way.is_sure for way in find_ways(old) if way.is_open}
    for way in sorted(find_ways(new), key=lambda way: not way.is_sure):
        # What may have been there is told once it is sure.
        if not way.is_open or (way.is_sure, True) <= (before.get(_name(way), False), _name(way) in before):
            continue
        before[_name(way)] = True
        *_, last = way.steps
        unless = "".join(f", unless {cut.words}" for cut in way.cuts)
        path = f"profiles.{new.profile}.tools"
        changes.add("tools.way", f"{way.words}{unless}", path, last.place, new=way.reader.name, danger=way.is_sure)


def _name(way: Way) -> tuple[str, str]:
    """From whom to what: which tool carries it out makes no difference to people."""
    return way.start_name, way.reader.name
