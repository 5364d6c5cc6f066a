"""The ways from what strangers write to the outside, past something private, and what cuts each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bub.base.diagnostics import Place
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.cuts import Cut, agents_of, gate_of_tools, gates_before
from bub.pipeline.plan.ways.doers import Doer, doers_of
from bub.pipeline.plan.ways.entrances import Entrance, entrances_of

_FILES = ("fs.read", "fs.view", "fs.list", "fs.search")
"""The tools that Bub asks about before they touch what looks like a secret."""


class Step(msgspec.Struct, frozen=True):
    """One step of a way, as a sentence, and the place in a file that lets it be."""

    words: str
    place: Place


class Way(msgspec.Struct, frozen=True):
    """How strangers can get at something private: from `start`, past what `reader` reads, out by `outlet`.

    `start` is a channel, else a tool that brings what strangers have written. `outlet` is None if the answer itself
    carries it out. It is not certain if a step of it is not declared, or if the file cannot tell who may write.
    """

    start: Entrance | Doer
    reader: Doer
    outlet: Doer | None
    cuts: tuple[Cut, ...]
    is_certain: bool

    @property
    def is_open(self) -> bool:
        """Whether nothing cuts it for sure."""
        return not any(cut.is_certain for cut in self.cuts)

    @property
    def is_sure(self) -> bool:
        """Whether it leads out for sure: a certain way that nothing may cut."""
        return self.is_certain and not self.cuts

    @property
    def begins_outside(self) -> bool:
        """Whether strangers write to the agent, so that nobody has to have it read a page."""
        return isinstance(self.start, Entrance)

    @property
    def start_name(self) -> str:
        """The name of the channel, or of the tool, at which it begins."""
        return self.start.channel if isinstance(self.start, Entrance) else self.start.name

    @property
    def words(self) -> str:
        """What can happen on it."""
        can = "can" if self.is_certain else "may be able to"
        start, reader = self.start, self.reader
        who = f"strangers on `{start.channel}`" if isinstance(start, Entrance) else f"what {start.words} brings"
        return f"{who} {can} make the agent leak what {reader.words} read{'' if reader.is_many else 's'}"

    @property
    def help(self) -> str:
        """What closes it."""
        reader, channel = self.reader, self.start if isinstance(self.start, Entrance) else None
        unsaid = reader.name.partition(".")[0] if reader.labels is None else None
        if unsaid is None and channel is not None and channel.labels is None:
            unsaid = channel.channel
        if unsaid is not None:
            entry = f"`plugins: {{{unsaid}: {{labels: …}}}}`"
            return f"write what it does, under {entry}; if it does none of this, write `labels: {{}}`"
        asked = f"{reader.name}.*" if reader.is_many else reader.name
        closing = f", or name who may write on `{channel.channel}`" if channel is not None else ""
        return f"have Bub ask a person: `tools: {{ask: [{_quote(asked)}]}}`, or deny it{closing}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """The way from its beginning to its end."""
        return tuple(_steps(self))


def _quote(name: str) -> str:
    return f'"{name}"' if "*" in name else name


def find_ways(plan: Plan) -> tuple[Way, ...]:
    """Find every way of a profile, cut or not; none if it has no agent."""
    agents = agents_of(plan)
    if not agents:
        return ()
    doers, entrances = doers_of(plan), entrances_of(plan)
    readers = [doer for doer in doers if doer.may_read]
    gates, gate = tuple(gates_before(plan, agents)), gate_of_tools(plan)
    starts: list[Entrance | Doer] = [*entrances, *_bringing(doers)]
    return tuple(
        Way(
            start,
            reader,
            outlet,
            tuple(_cuts(plan, start, reader, outlet, gates, gate)),
            _is_certain(start, reader, outlet),
        )
        for start in starts
        for reader in readers
        for outlet in _outlets(start, reader, doers)
        if isinstance(start, Entrance) or reader.is_certain
    )


def _bringing(doers: Iterable[Doer]) -> list[Doer]:
    """The tool that brings what strangers have written; of several one that does no more, since all begin the same."""
    found = [doer for doer in doers if doer.is_certain and doer.may_bring]
    return sorted(found, key=lambda doer: (doer.asks is not None, doer.may_read))[:1]


def _outlets(start: Entrance | Doer, reader: Doer, doers: Iterable[Doer]) -> Iterator[Doer | None]:
    if isinstance(start, Entrance) and (start.labels is None or start.labels.reaches is not None):
        yield None
    yield from (doer for doer in doers if doer.may_reach)


def _is_certain(start: Entrance | Doer, reader: Doer, outlet: Doer | None) -> bool:
    links = [start, reader, *([outlet] if outlet is not None else [])]
    return all(link.is_certain for link in links) and not reader.confined


def _cuts(
    plan: Plan, start: Entrance | Doer, reader: Doer, outlet: Doer | None, gates: Iterable[Cut], gate: Cut | None
) -> Iterator[Cut]:
    for doer in dict.fromkeys((start, reader, outlet)):
        if isinstance(doer, Doer) and doer.asks is not None:
            yield Cut(f"a person is asked before {doer.words}", doer.asks)
    if reader.name in _FILES and not reader.is_many and not _reads_more(plan):
        yield Cut("a person is asked before a tool for files reads what looks like a secret")
    if outlet is not None and outlet != reader:
        yield Cut("a person is asked before something leaves, once the session holds both private and untrusted text")
    if isinstance(start, Entrance):
        yield from gates
    if gate is not None:
        yield gate


def _reads_more(plan: Plan) -> bool:
    """Whether the tools for files reach what lies outside of the workspace."""
    folders = plan.root.get("settings", "files", "folders")
    return folders is not None and folders.value not in ((), None)


def _steps(way: Way) -> Iterator[Step]:
    start, reader, outlet = way.start, way.reader, way.outlet
    if isinstance(start, Entrance):
        yield Step(f"channel `{start.channel}`: {start.strangers.words}", start.strangers.place)
        if start.route is not None and start.unknown is not None:
            doubt = f"because Bub does not know the value of `{start.unknown}`"
            yield Step(f"this may lead their messages to the profile, {doubt}", start.route)
        elif start.route is not None:
            yield Step("this leads their messages to the profile", start.route)
    elif start != reader:
        yield Step(f"{start.words} brings what strangers have written", start.place)
    if outlet == reader:
        yield Step(f"{reader.words} {_may(reader)}read what is private and carry it outside in one call", reader.place)
        return
    yield Step(f"{reader.words} {_may(reader)}read what is private", reader.place)
    if outlet is not None:
        yield Step(f"{outlet.words} {_may(outlet)}carry it outside", outlet.place)
    elif isinstance(start, Entrance):
        yield Step("the answer goes back to them", start.strangers.place)


def _may(doer: Doer) -> str:
    if doer.labels is not None:
        return "can "
    return "declare nothing, so they may " if doer.is_many else "declares nothing, so it may "
