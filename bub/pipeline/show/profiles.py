"""The profiles of a file side by side: what each may do, and which messages it gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bub.base.diagnostics import Place
from bub.base.layout import EMPTY, Line, Span, cells, indent_text, label_text, line
from bub.hookspecs import PERSONALITY_POINT
from bub.pipeline.check.validate import profiles_of
from bub.pipeline.plan.channels import profiles_served
from bub.pipeline.plan.layers.person import Person
from bub.pipeline.plan.origins import Lookup, flow, lookup_of, origins_of
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.plan.routes import match_in_words
from bub.pipeline.plan.scalars import flag_of, names_of, text_of
from bub.pipeline.plan.schedules.schedule import nodes_of
from bub.pipeline.plan.shown import document_to_show
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document
from bub.pipeline.source.referred import ReadText, reader, unknown_in
from bub.plugins.shipped import BY_NAME

_LABEL = 9


@dataclass(frozen=True, slots=True)
class Lead:
    """A route that leads to a profile: its place, and the messages it is for.

    With `unknown`, which is a text with a reference whose value is not known, it may as well lead to another profile.
    """

    match: Mapping[str, Any]
    place: Place
    unknown: str | None = None

    @property
    def words(self) -> str:
        """The messages it is for."""
        return match_in_words(self.match)

    def as_dict(self) -> dict[str, Any]:
        return {"match": dict(self.match), "unknown": self.unknown, **_place(self.place)}


@dataclass(frozen=True, slots=True)
class Naming:
    """What names a profile for its messages beside routes, and where: `name` is "" for the sessions of people.

    With `unknown`, which is a text with a reference whose value is not known, it may as well name another profile.
    """

    kind: Literal["schedule", "client", "webhook", "session"]
    name: str
    place: Place
    unknown: str | None = None

    @property
    def words(self) -> str:
        """The messages that the profile gets because of it, if it names the profile."""
        return {
            "schedule": f"the messages of the schedule `{self.name}`",
            "client": f"the requests of the HTTP client `{self.name}` that name it",
            "webhook": f"the requests to the webhook `{self.name}`",
            "session": "the messages of sessions that choose it",
        }[self.kind]

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name or None, "unknown": self.unknown, **_place(self.place)}


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a profile as it says them; `allow` is None for those that only read."""

    allow: tuple[str, ...] | None
    deny: tuple[str, ...]
    ask: tuple[str, ...]
    unasked: tuple[str, ...] = ()
    """How commands of `bash` begin that nobody is asked about."""

    @property
    def words(self) -> str:
        """What the agent may use there."""
        parts = [_describe_allowed(self.allow)]
        if self.deny:
            parts.append(f"never {', '.join(self.deny)}")
        if self.ask:
            but = f" (but not before {', '.join(f'`{one}`' for one in self.unasked)})" if self.unasked else ""
            parts.append(f"asks a person before {', '.join(self.ask)}{but}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """One profile as a turn in it would find it, what it takes over from others included.

    `plugins` are its allowlist without `builtin`, lowest priority first, with what is said of each. `place` is None for
    a `default` that nobody wrote. `at_start` says whether it is the one for messages that no route takes. Values that
    are secrets are shown as their source.
    """

    name: str
    place: Place | None
    at_start: bool
    bases: tuple[str, ...]
    description: str
    plugins: Mapping[str, str]
    tools: Tools
    channels: tuple[str, ...] | None
    model: str | None
    limits: Mapping[str, Any]
    leads: tuple[Lead, ...]
    named_by: tuple[Naming, ...]

    def as_dict(self) -> dict[str, Any]:
        allow = list(self.tools.allow) if self.tools.allow is not None else None
        return {
            "name": self.name,
            "place": _place(self.place) if self.place is not None else None,
            "chosen_at_start": self.at_start,
            "extends": list(self.bases),
            "description": self.description or None,
            "plugins": [{"name": name, "note": note or None} for name, note in self.plugins.items()],
            "tools": {
                "allow": allow,
                "deny": list(self.tools.deny),
                "ask": list(self.tools.ask),
                "unasked": {BY_NAME: list(self.tools.unasked)} if self.tools.unasked else {},
            },
            "channels": list(self.channels) if self.channels is not None else None,
            "model": self.model,
            **{name: self.limits.get(name) for name in ("budget", "concurrency")},
            "routes": [lead.as_dict() for lead in self.leads],
            "named_by": [naming.as_dict() for naming in self.named_by],
        }


def profiles(
    document: Document, chosen_at_start: str, environ: Mapping[str, str], person: Person | None = None
) -> tuple[ProfileFacts, ...]:
    """Return every profile of a document in the order they are written; a broken one as far as it can be read.

    `environ` is the real environment, and `person` what holds in every folder: both can choose the model.
    """
    document = document_to_show(document)
    names = profiles_of(document)
    plans = {name: make_plan(document, name) for name in dict.fromkeys((*names, chosen_at_start))}
    read = reader(document, read_environment(document.base, environ)[0])
    named = list(profiles_named(plans, chosen_at_start, read))
    return tuple(
        _facts(plans[name], lookup_of(plans[name], environ, person), named, read, at_start=name == chosen_at_start)
        for name in names
    )


def _facts(
    plan: Plan, lookup: Lookup, named: Iterable[tuple[str, Naming]], read: ReadText, *, at_start: bool
) -> ProfileFacts:
    document, name = plan.document, plan.profile
    written = document.root.get("profiles", name)
    profile = lookup.redact(plan.effective.profile_node or Node({}, Place(document.file)), ("profiles", name))
    channels = profile.get("channels")
    return ProfileFacts(
        name=name,
        place=written.where if written is not None else None,
        at_start=at_start,
        bases=tuple(reversed(plan.effective.chain[:-1])),
        description=text_of(profile.get("description")) or "",
        plugins={plugin: _note_on_plugin(plan.root.get("plugins", plugin)) for plugin, _ in plan.allowlist},
        tools=_tools(profile.get("tools")),
        channels=_texts(channels) if channels is not None else None,
        model=_model(lookup),
        limits={key: node.plain() for key, node in profile.items() if key in ("budget", "concurrency")},
        leads=tuple(_leads(document, name, read)),
        named_by=tuple(naming for profile_named, naming in named if profile_named == name),
    )


def _note_on_plugin(plugin: Node | None) -> str:
    if plugin is None:
        return ""
    optional = "optional" if flag_of(plugin.get("optional")) else None
    return ", ".join(part for part in (text_of(plugin.get("path")), optional) if part)


def _tools(said: Node | None) -> Tools:
    allow, deny, ask = (said.get(key) if said is not None else None for key in ("allow", "deny", "ask"))
    unasked = said.get("unasked", BY_NAME) if said is not None else None
    return Tools(_texts(allow) if allow is not None else None, _texts(deny), _texts(ask), _texts(unasked))


def _texts(listed: Node | None) -> tuple[str, ...]:
    return tuple(name for name, _ in names_of(listed))


def _model(lookup: Lookup) -> str | None:
    origins = origins_of(lookup, ("settings", "model"))
    value = origins[-1].value.plain() if origins else None
    return value if isinstance(value, str) and value else None


def _leads(document: Document, profile: str, read: ReadText) -> Iterator[Lead]:
    for route in _elements(document.root.get("routes")):
        match = route.get("match")
        target = route.get("profile")
        unknown = unknown_in(target, read)
        if match is not None and match.is_mapping and (unknown is not None or read(target) == profile):
            yield Lead({name: glob.plain() for name, glob in match.items()}, route.place, unknown)


def profiles_named(plans: Mapping[str, Plan], start: str, read: ReadText) -> Iterator[tuple[str, Naming]]:
    """Yield each profile that something beside routes names, as Bub reads it when it starts with the profile `start`.

    The sessions of people may choose every profile if a profile that can get a turn has the hook point for that. What
    `read` cannot tell of a reference may be every profile, too.
    """
    root = plans[start].root
    reached = [start, *(read(route.get("profile")) or "" for route in _elements(root.get("routes")))]
    for node, naming in _namings(root):
        profile = read(node)
        if profile is not None:
            reached.append(profile)
            yield profile, naming
        elif (unknown := unknown_in(node, read)) is not None:
            yield from ((name, replace(naming, unknown=unknown)) for name in plans)
    for profile in reached:
        point = plans[profile].root.get("hooks", PERSONALITY_POINT) if profile in plans else None
        if point is not None:
            yield from ((name, Naming("session", "", point.where)) for name in plans)
            return


def _namings(root: Node) -> Iterator[tuple[Node, Naming]]:
    """Yield the values that name a profile, each with what it does that for."""
    for name, schedule in nodes_of(root):
        node = schedule.get("profile")
        if node is not None:
            yield node, Naming("schedule", name, node.place)
    for served in profiles_served(root):
        yield served.node, Naming(served.kind, served.name, served.node.place)


def _elements(node: Node | None) -> tuple[Node, ...]:
    return node.elements() if node is not None else ()


def _describe_allowed(allow: Sequence[str] | None) -> str:
    if allow is None:
        return "the read-only ones"
    if "*" not in allow:
        return ", ".join(allow) or "none"
    return "all" if BY_NAME in allow else f"all but {BY_NAME}"


def _place(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.range.start.line, "column": place.range.start.column}


# As a person reads it


def profiles_page(found: Iterable[ProfileFacts], width: int) -> list[Line]:
    """Return the profiles one below the other, in lines of at most `width` cells."""
    lines: list[Line] = []
    for facts in found:
        lines += [*([EMPTY] if lines else []), *_profile(facts, width)]
    return lines


def _profile(facts: ProfileFacts, width: int) -> Iterator[Line]:
    yield from _title(facts, width)
    yield from indent_text(facts.description, width, 2)
    plugins = (f"{name} ({note})" if note else name for name, note in facts.plugins.items())
    yield from label_text("  plugins", ", ".join(["builtin", *plugins]), width, _LABEL + 2)
    yield from label_text("  tools", facts.tools.words, width, _LABEL + 2)
    if facts.channels is not None:
        yield from label_text("  channels", ", ".join(facts.channels) or "none", width, _LABEL + 2)
    yield from label_text("  model", facts.model or "none is chosen", width, _LABEL + 2)
    for name, limit in facts.limits.items():
        yield from label_text(f"  {name}", flow(limit), width, max(_LABEL + 2, len(name) + 3))
    label = "  gets"
    for words in _gets(facts):
        yield from label_text(label, words, width, _LABEL + 2)
        label = ""


def _gets(facts: ProfileFacts) -> Iterator[str]:
    ways: list[Lead | Naming] = [*facts.leads, *facts.named_by]
    yield from (f"{way.words} ({way.place})" for way in ways if way.unknown is None)
    if facts.at_start and all(lead.match for lead in facts.leads if lead.unknown is None):
        yield "every message that no route takes"
    elif not ways:
        yield f"no message, unless `--profile {facts.name}` chooses it"
    for way in ways:
        if way.unknown is not None:
            yield f"perhaps {way.words}: Bub does not know the value of `{way.unknown}` ({way.place})"


def _title(facts: ProfileFacts, width: int) -> Iterator[Line]:
    over = f" over {', over '.join(facts.bases)}" if facts.bases else ""
    place = str(facts.place) if facts.place is not None else "not written, and always there"
    if cells(facts.name) + cells(over) + 2 + cells(place) <= width:
        yield (Span(facts.name, "strong"), Span(over), Span(f"  {place}", "faint"))
    else:
        yield line(facts.name, "strong")
        yield from indent_text(f"{over} {place}", width, 2, "faint")
