"""The channels in which strangers can write to a profile, and the routes that lead their messages there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Place
from bub.base.globs import matcher
from bub.hookspecs import PERSONALITY_POINT
from bub.labels import Labels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import mappings_in, text_of
from bub.pipeline.plan.ways.declared import DeclaredPlugin, declared_in
from bub.pipeline.plan.ways.guests import GUESTS, Strangers, find_strangers
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE
from bub.pipeline.source.profiles import Effective, effective
from bub.pipeline.source.referred import read_default, unknown_in
from bub.plugins.shipped import VOUCHED_IDS

_TELEGRAM, _HTTP = "telegram", "http"
_ALL, _LISTEN = "all", "listen"
_CHANNEL, _PERSON = "channel", ("sender_id", "chat_id")


class Entrance(msgspec.Struct, frozen=True):
    """A channel in which strangers can write to a profile: why they can, and which route leads from there.

    `labels` are None if the plugin does not declare what its channel does. With `unknown`, which is a text with a
    reference whose value is not known, the route may as well lead to another profile.
    """

    channel: str
    strangers: Strangers
    labels: Labels | None
    route: Place | None = None
    unknown: str | None = None

    @property
    def is_certain(self) -> bool:
        """Whether strangers can write there, and so to the profile, for sure."""
        return self.strangers.is_certain and self.labels is not None and self.unknown is None

    def over(self, node: Node) -> Entrance:
        """Return the entrance with the value that names the profile for its messages."""
        return replace(self, route=node.place, unknown=unknown_in(node, read_default))


def entrances_of(plan: Plan) -> tuple[Entrance, ...]:
    """Find where strangers can write to a profile: if it is chosen at start, and over the routes of the default one."""
    found: dict[str, Entrance] = {}
    for start in dict.fromkeys((plan.profile, DEFAULT_PROFILE)):
        is_own = start == plan.profile
        choosing = _choosing(plan)
        if not is_own and choosing is None and not _leads_here(plan):
            continue
        view = plan.effective if is_own else effective(plan.document, start)
        for entrance in _opened(plan, view):
            reached = _lead(plan, entrance, is_start=is_own)
            if choosing is not None and (reached is None or reached.unknown is not None):
                reached = replace(entrance, route=choosing)
            if reached is not None:
                found.setdefault(entrance.channel, reached)
    return tuple(found.values())


# Which channels are open


def _opened(plan: Plan, view: Effective) -> Iterator[Entrance]:
    """The channels of a profile that run, and in which strangers can write."""
    listed = view.profile_node.get("channels") if view.profile_node is not None else None
    chosen = {str(item.value) for item in listed.elements()} if listed is not None else {_ALL}
    for item in view.allowlist.elements() if view.allowlist is not None else ():
        if not isinstance(item.value, str):
            continue
        plugin = declared_in(plan, view.root, item.value, item.place)
        section = view.root.get("settings", plugin.name)
        for channel in sorted({plugin.name, *plugin.channels}):
            if chosen & {_ALL, channel} and f"!{channel}" not in chosen:
                strangers = _find_strangers(plugin, channel, section)
                if strangers is not None:
                    yield Entrance(channel, strangers, plugin.of_channel(channel))


def _find_strangers(plugin: DeclaredPlugin, channel: str, section: Node | None) -> Strangers | None:
    """What lets strangers write in a channel; one that is declared to bring nothing untrusted has none."""
    labels = plugin.of_channel(channel)
    if labels is not None and labels.brings is None:
        return None
    if plugin.name == _TELEGRAM and (section is None or section.get("token") is None):
        return None
    if plugin.name == _HTTP:  # its clients are known by their tokens
        webhooks = section.get("webhooks") if section is not None else None
        passed_on = "what a webhook passes on may be a stranger's"
        if webhooks is None or not _entries(webhooks):
            return None
        return Strangers(webhooks.where, passed_on, is_certain=False)
    if plugin.name == _TELEGRAM or any(_elements(section.get(key)) for key in GUESTS if section is not None):
        return find_strangers(section)
    if labels is not None:
        return Strangers(plugin.place, "strangers may write there")
    listen = section.get(_LISTEN) if section is not None else None
    return Strangers(listen.where, "it listens for messages", is_certain=False) if listen is not None else None


def _entries(node: Node | None) -> dict[str, Node]:
    return dict(mappings_in(node))


def _elements(node: Node | None) -> tuple[Node, ...]:
    return node.elements() if node is not None else ()


# Where their messages go


def _lead(plan: Plan, entrance: Entrance, *, is_start: bool) -> Entrance | None:
    """An entrance with the route that leads strangers to the profile, if one does or none takes them elsewhere."""
    perhaps: list[Node] = []
    if entrance.channel == _HTTP:
        named = _profiles_of_webhooks(plan)
        for node in named:
            if read_default(node) == plan.profile:
                return entrance.over(node)
        perhaps += filter(_is_unknown, named)
        if len(named) == len(_entries(plan.root.get("settings", _HTTP, "webhooks"))):
            return _perhaps(entrance, perhaps)  # each leads to a profile of its own, whatever routes say
    for route in _elements(plan.root.get("routes")):
        match, profile = route.get("match"), route.get("profile")
        if match is None or not match.is_mapping or not _may_take(match, entrance.channel):
            continue
        if read_default(profile) == plan.profile:
            return replace(entrance, route=route.place)
        if profile is not None and _is_unknown(profile):
            perhaps.append(profile)
        if _takes_all(match):
            return _perhaps(entrance, perhaps)
    return entrance if is_start else _perhaps(entrance, perhaps)


def _perhaps(entrance: Entrance, named: Iterable[Node]) -> Entrance | None:
    """An entrance with the first reference that may lead strangers to the profile; None if there is none."""
    return next(map(entrance.over, named), None)


def _is_unknown(node: Node) -> bool:
    """Whether nobody knows which profile a reference stands for."""
    return unknown_in(node, read_default) is not None


def _choosing(plan: Plan) -> Place | None:
    """Where it is said that a session may choose among all profiles, with a command that anybody may write."""
    node = plan.root.get("hooks", PERSONALITY_POINT)
    return node.where if node is not None else None


def _leads_here(plan: Plan) -> bool:
    """Whether some route or webhook leads to the profile, or may."""
    routed = [route.get("profile") for route in _elements(plan.root.get("routes"))]
    named = [node for node in (*routed, *_profiles_of_webhooks(plan)) if node is not None]
    return any(read_default(node) == plan.profile or _is_unknown(node) for node in named)


def _profiles_of_webhooks(plan: Plan) -> list[Node]:
    """Where webhooks name the profiles that answer them."""
    said = [webhook.get("profile") for webhook in _entries(plan.root.get("settings", _HTTP, "webhooks")).values()]
    return [node for node in said if node is not None]


def _may_take(match: Node, channel: str) -> bool:
    """Whether a route may take what a stranger writes in a channel."""
    glob = text_of(match.get(_CHANNEL))
    if glob is not None and not matcher(glob)(channel):
        return False
    # An id that nobody can choose or share is one person, whom the file names; so is their chat with the bot.
    persons = [text_of(match.get(field)) or "" for field in _PERSON]
    pattern = VOUCHED_IDS.get(channel)
    return pattern is None or not any(re.fullmatch(pattern, person) for person in persons)


def _takes_all(match: Node) -> bool:
    """Whether a route that takes some messages of a channel takes all of them."""
    return all(name == _CHANNEL or node.value == "*" for name, node in match.items()) and all(
        text_of(node) is not None for _, node in match.items()
    )
