"""A document as one profile sees it: what the profile and those it extends say, laid over the pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, Findings, Place, did_you_mean, suggest, sure_repair
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document, Layer, merge, without

_LAYER = "profile "
"""What the name of a profile's layer begins with."""

_OVERLAY = ("stages", "hooks", "settings", "schedules", "mcp")
"""The keys of a profile that are laid over the pipeline itself."""

_MOST_LISTED = 100
"""Among how many profiles a misspelt one is looked for."""

_OWN = ("extends", "description")
"""The keys of a profile that the profiles built on it do not take over."""


class Effective(msgspec.Struct, frozen=True):
    """A document as one profile sees it.

    `chain` names the profile behind all that it extends; `layers` are the document's, followed by what each profile
    of the chain says in each file. `allowlist` is the `plugins` list that counts, `profile_node` the whole profile.
    """

    root: Node
    layers: tuple[Layer, ...]
    chain: tuple[str, ...]
    findings: tuple[Diagnostic, ...]
    allowlist: Node | None
    profile_node: Node | None


def effective(document: Document, profile: str) -> Effective:
    """Return the document as `profile` sees it: the profile's stages, hooks and settings laid over the pipeline's.

    An unknown profile is a finding. `default` always exists, with nothing in it if nobody wrote it.
    """
    findings = Findings()
    chain = _follow_profiles(document, profile, findings)
    root, layers = document.root, list(document.layers)
    merged: Node | None = None
    for name in chain:
        node = _profile(document.root, name)
        if node is None:
            continue
        merged = node if merged is None else merge(without(merged, _OWN), node)
        label = f"{_LAYER}{name}"
        # The document stays where it is: only what a profile says has the profile's place.
        root = replace(root, value=merge(root, relabel(_overlay(node), label)).value)
        for layer in document.layers:
            written = _profile(layer.root, name)
            if written is not None:
                layers.append(Layer(label, layer.file, relabel(_overlay(written), label), layer.shipped))
    allowlist = merged.get("plugins") if merged is not None else None
    return Effective(root, tuple(layers), chain, tuple(findings.items), allowlist, merged)


def profile_of(place: Place) -> str | None:
    """The profile that says what is at a place; None if the file says it for all of them."""
    return place.layer.removeprefix(_LAYER) if place.layer.startswith(_LAYER) else None


def _profile(root: Node, name: str) -> Node | None:
    node = root.get("profiles", name)
    return node if node is not None and node.is_mapping else None


def _follow_profiles(document: Document, profile: str, findings: Findings) -> tuple[str, ...]:
    profiles = document.root.get("profiles")
    known: dict[str, Node] = profiles.value if profiles is not None and profiles.is_mapping else {}
    if profile not in known and profile != DEFAULT_PROFILE:
        place = Place(document.file)
        if profiles is not None and profiles.where.file == document.file:
            place = profiles.where
        findings.add(
            "B162", f"there is no profile `{profile}`", place, profile=profile, help=_suggest_profile(profile, known)
        )
        return ()
    chain = [profile]
    while True:
        parent = document.root.get("profiles", chain[-1], "extends")
        if parent is None or not isinstance(parent.value, str):
            break
        name, path = parent.value, f"profiles.{chain[-1]}.extends"
        if name in chain:
            # Told alike wherever it is entered: from the profile that is written first.
            circle = chain[chain.index(name) :]
            at = circle.index(min(circle, key=list(known).index))
            circle = [*circle[at:], *circle[: at + 1]]
            closing = document.root.get("profiles", circle[-2], "extends")
            findings.add(
                "B163",
                f"profiles extend each other in a circle: {' → '.join(circle)}",
                (closing or parent).place,
                path=f"profiles.{circle[-2]}.extends",
                help="remove one `extends`",
            )
            break
        if name not in known and name != DEFAULT_PROFILE:
            repair = sure_repair(name, {*known, DEFAULT_PROFILE} - {chain[-1]}) if len(known) <= _MOST_LISTED else None
            message = f"there is no profile `{name}`"
            likely = suggest(name, known) if repair is None else None
            advice = _suggest_profile(name, known)
            findings.add("B162", message, parent.place, path=path, help=advice, fix=repair, likely=likely)
            break
        chain.append(name)
    return tuple(reversed(chain))


def _suggest_profile(name: str, known: Iterable[str]) -> str:
    names = sorted({*known, DEFAULT_PROFILE})
    if len(names) > _MOST_LISTED:
        return f"name one of the {len(names)} profiles"
    return did_you_mean(name, names) or "profiles are " + ", ".join(f"`{other}`" for other in names)


def _overlay(profile: Node) -> Node:
    """Return the part of a profile that is laid over the pipeline; the schema reports parts that are no mappings."""
    parts = {name: child for name, child in profile.items() if name in _OVERLAY and child.is_mapping}
    return replace(profile, value=parts)


def relabel(node: Node, label: str) -> Node:
    """Return the same values, said to come from the layer `label`."""

    def move(place: Place) -> Place:
        return Place(place.file, place.span, label)

    value: Any = node.value
    if isinstance(value, dict):
        value = {name: relabel(child, label) for name, child in value.items()}
    elif isinstance(value, tuple):
        value = tuple(relabel(child, label) for child in value)
    return Node(
        value,
        move(node.place),
        move(node.key) if node.key is not None else None,
        tuple(move(origin) for origin in node.origins),
        node.quoted,
    )
