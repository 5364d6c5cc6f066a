"""A list takes back nothing that it says itself."""

from __future__ import annotations

from collections.abc import Iterator

from bub.base.diagnostics import Place, Related
from bub.base.globs import covers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.source.document import Node

CODE = "B238"

_EXCEPT = "!"

_Named = tuple[str, Place]
"""A name or a glob of a list, and where it is."""


def check(plan: Plan) -> None:
    """Find tools that a profile allows and denies as a whole, and channels that it names and excludes.

    Only what one file says of one profile is compared: to deny what a parent allows is how less is allowed.
    """
    for layer in plan.document.layers:
        profile = layer.root.get("profiles", plan.profile)
        if layer.shipped or profile is None:
            continue
        for key, (name, place), (by, where), what in (*_tools(profile), *_channels(profile)):
            plan.findings.warn(
                CODE,
                f"`{key}` has `{name}`, but {what} `{by}`, which comes first",
                place,
                path=f"profiles.{plan.profile}.{key}",
                profile=plan.profile,
                help=f"take out one of the two, `{name}` or `{by}`",
                related=(Related("here", where.file, where.range),),
            )


def _tools(profile: Node) -> Iterator[tuple[str, _Named, _Named, str]]:
    denied = names_of(profile.get("tools", "deny"))
    for name, place in names_of(profile.get("tools", "allow")):
        by = next(((glob, where) for glob, where in denied if "${" not in glob + name and covers(glob, name)), None)
        if by is not None:
            yield "tools.allow", (name, place), by, "`tools.deny` has"


def _channels(profile: Node) -> Iterator[tuple[str, _Named, _Named, str]]:
    said = names_of(profile.get("channels"))
    excluded = {name.removeprefix(_EXCEPT): place for name, place in said if name.startswith(_EXCEPT)}
    for name, place in said:
        if name in excluded:
            yield "channels", (name, place), (f"{_EXCEPT}{name}", excluded[name]), "also"
