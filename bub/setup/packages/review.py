"""What a person reads before a package is installed: what it brings, what it can reach, and what changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bub.hookspecs import HOOK_POINTS
from bub.labels import Labels, PluginLabels
from bub.setup.packages.distributions import Distribution
from bub.setup.packages.offer import Offer, OfferedPlugin

_MOST_NAMED = 12
_MEGABYTE = 2**20


def review(
    offers: Sequence[Offer],
    packages: Mapping[str, Distribution],
    versions: Mapping[str, str],
    size: int,
    changes: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines; `packages` is all that would be installed, `versions` what is there, `size` is in bytes.

    If the packages take the place of others, `changes` is what is said of them.
    """
    yield from changes
    for offer in () if changes else offers:
        yield from _describe_package(offer)
    yield from _describe_changes(offers, packages, versions, size)
    yield "  A plugin can do whatever you can do on this machine. Labels are what its authors say, no more."


def _describe_package(offer: Offer) -> Iterator[str]:
    about = offer.package.about
    yield f"{about.name} {about.version}{f': {about.summary[:200]}' if about.summary else ''}"
    loop = ", on a loop of its own (`runtime: asyncio`)" if offer.runtime else ""
    for plugin in offer.plugins:
        yield f"  plugin `{plugin.name}`{loop}: {plugin.value}"
        yield from (f"    {line}" for line in _describe_plugin(plugin))
    for name in offer.pipelines:
        yield f"  a pipeline to extend: `{about.name}:{name}`"
    own = sorted(offer.code.hooks)
    more = "" if offer.code.is_whole else " (not all of its code could be read)"
    yield f"  hook points in its code: {_list([_mark(point) for point in own]) or 'none that can be found'}{more}"
    if offer.code.tools:
        yield f"  tools in its code: {_list(sorted(offer.code.tools))}"
    if offer.requires_other:
        yield "  It asks for the package `bub`, another program: Bub leaves it out, and takes its place."


def _mark(point: str) -> str:
    return point if point in HOOK_POINTS else f"{point} (of its own)"


def _describe_plugin(plugin: OfferedPlugin) -> Iterator[str]:
    if plugin.labels is None:
        yield "labels: none, so Bub treats what it gives as untrusted, and what it gets as sent outside"
    else:
        yield f"labels: {describe_labels(plugin.labels)}"
    if plugin.settings:
        yield f"settings: {_list(plugin.settings)}"


def describe_labels(labels: PluginLabels) -> str:
    """Say in a line what labels declare."""
    named = {**labels.tools, **{f"channel {name}": one for name, one in labels.channels.items()}}
    said = [f"{name} {_words(one)}" for name, one in named.items()]
    if labels.others is not None:
        said.append(f"{'all else ' if said else ''}{_words(labels.others)}")
    return "; ".join(said[:_MOST_NAMED]) or "nothing is said"


def _words(labels: Labels) -> str:
    said = [
        f"{verb} {value}"
        for verb, value in (("reads", labels.reads), ("brings", labels.brings), ("reaches", labels.reaches))
        if value is not None
    ]
    return ", ".join(said) or "does nothing of note"


def _describe_changes(
    offers: Sequence[Offer], packages: Mapping[str, Distribution], versions: Mapping[str, str], size: int
) -> Iterator[str]:
    new = [f"{one.about.name} {one.version}" for key, one in packages.items() if key not in versions]
    other = [
        f"{one.about.name} {versions[key]} → {one.version}"
        for key, one in packages.items()
        if versions.get(key, one.version) != one.version
    ]
    megabytes = f"{size / _MEGABYTE:.1f} MB"
    yield f"  new in this environment ({megabytes}): {_list(new) or 'no package'}"
    if other:
        yield f"  changed in this environment: {_list(other)}"
    yield from _describe_places(offers)


def _describe_places(offers: Sequence[Offer]) -> Iterator[str]:
    for what, found in (
        ("commands on the PATH", [name for offer in offers for name in offer.scripts]),
        ("files beside its modules", [path for offer in offers for path in offer.outside]),
        ("RUN AT EACH START of Python in this environment", [name for offer in offers for name in offer.at_start]),
    ):
        if found:
            yield f"  {what}: {_list(found)}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
