"""Which channels a message can come from and which profiles are reached, as far as a file and installed names tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Literal

import msgspec

from bub.base.diagnostics import Place, is_slip
from bub.base.globs import is_glob, matcher
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import mappings_in, names_of, text_of
from bub.pipeline.source.document import Node
from bub.plugins.packages import installed_names
from bub.plugins.shipped import SHIPPED_CHANNELS

_FIELD = "channel"

_SERVED = ("settings", "http")
"""The section whose clients and webhooks name the profiles that they reach."""


def known_channels(root: Node) -> frozenset[str]:
    """The channels that Bub has, and the plugins that a file names: a plugin brings the channel of its name."""
    return frozenset((*SHIPPED_CHANNELS, *plugins_named(root)))


def channel_meant(glob: str, known: Set[str]) -> str | None:
    """The channel that a glob is a slip for; None if it matches one, or is near none: a program may name its own.

    Beside those that are `known` it may be that of a plugin that is installed. That is asked last, since it takes its
    time.
    """
    letters = glob.rstrip("*")
    if is_glob(letters) or _matches_one(glob, known) or _matches_one(glob, installed_names()):
        return None
    return next((channel for channel in sorted(known | installed_names()) if is_slip(letters, channel)), None)


def unknown_channels(plan: Plan, brought: Callable[[], Iterable[str]]) -> Iterator[tuple[str, Place, str]]:
    """What stages and routes ask for and no channel matches, with its place and path.

    `brought` are the channels that the plugins bring; they are asked only if there is a channel that no name tells.
    """
    known = known_channels(plan.root)
    asked = [(glob, place, path) for glob, place, path in _channels_asked(plan) if not _matches_one(glob, known)]
    names = set(brought()) if asked else set()
    yield from (one for one in asked if not _matches_one(one[0], names))


def _channels_asked(plan: Plan) -> Iterator[tuple[str, Place, str]]:
    routes = plan.root.get("routes")
    conditions = [(stage.node.get("when", _FIELD), f"stages.{stage.id}.when") for stage in plan.stages]
    conditions += [
        (route.get("match", _FIELD), f"routes[{index}].match")
        for index, route in enumerate(routes.elements() if routes is not None else ())
    ]
    for node, path in conditions:
        glob = text_of(node)
        if node is not None and glob is not None:
            yield glob, node.place, f"{path}.{_FIELD}"


def _matches_one(glob: str, channels: Iterable[str]) -> bool:
    return any(map(matcher(glob), channels))


class ServedProfile(msgspec.Struct, frozen=True):
    """A profile that the client or the webhook called `name` reaches: the path and the node that say so.

    `profile` is None if only a reference names it, or nothing that can be read.
    """

    profile: str | None
    kind: Literal["client", "webhook"]
    name: str
    path: str
    node: Node


def profiles_served(root: Node) -> Iterator[ServedProfile]:
    """Yield the profiles that clients and webhooks of the channel `http` reach, each with the place that names it."""
    path = ".".join(_SERVED)
    for client, said in mappings_in(root.get(*_SERVED, "clients")):
        listed = said.get("profiles")
        for index, node in enumerate(listed.elements() if listed is not None else ()):
            yield ServedProfile(text_of(node), "client", client, f"{path}.clients.{client}.profiles[{index}]", node)
    for webhook, said in mappings_in(root.get(*_SERVED, "webhooks")):
        node_ = said.get("profile")
        if node_ is not None:
            yield ServedProfile(text_of(node_), "webhook", webhook, f"{path}.webhooks.{webhook}.profile", node_)


def plugins_named(root: Node) -> Iterator[str]:
    """The plugins that a file declares, and those that one of its profiles lists."""
    declared, profiles = root.get("plugins"), root.get("profiles")
    if declared is not None:
        yield from (name for name, _ in declared.items())
    for _, profile in profiles.items() if profiles is not None else ():
        yield from (name for name, _ in names_of(profile.get("plugins")))
