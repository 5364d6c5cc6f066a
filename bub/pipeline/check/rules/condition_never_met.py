"""Every condition on a message, in `when` or `match`, is one that some message can meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from functools import cache, partial

import msgspec

from bub.base.diagnostics import Related, Severity, is_slip, suggest
from bub.base.globs import is_glob, matcher, matches_nothing
from bub.hooks.facts import SESSION
from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.channels import channel_meant, known_channels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import StagePlan
from bub.plugins.shipped import SHIPPED_CHANNELS

CODE = "B184"

SESSION_STATE = "session"
"""The field that says whether a session is new; no route knows it (B166)."""

_SESSION_STATES = ("new", "known")
"""What `session` can be."""

_KINDS = ("normal", "command", "error", "denied")
"""The kinds of message that Bub makes; a channel may have others."""


_COMING_IN = ("normal", "command")
"""Those of them that a message has which comes in."""

_LIKE_A_PATTERN = r"^\^.|\.\*|.\$$"
"""What regular expressions have, and a glob takes for the letters themselves."""


class _Doubt(msgspec.Struct, frozen=True):
    """Why no message meets a glob, as a clause behind "asks for …", what would be right, and the glob that is meant."""

    reason: str
    help: str
    meant: str | None = None


def check(plan: Plan) -> None:
    """Find a `when` that never matches: an error for a gate, which would then never be asked."""
    channels = cache(partial(known_channels, plan.root))
    for stage in plan.stages:
        when = stage.node.get("when")
        for field, node in when.items() if when is not None else ():
            glob = text_of(node)
            if glob is None:
                continue
            doubt = _doubt(field, glob, channels)
            related: list[Related] = []
            if doubt is None and field == SESSION:
                doubt, related = _too_early(plan, stage, glob)
            if doubt is not None:
                plan.findings.add(
                    CODE,
                    f"{stage} asks for {field} `{glob}`, {doubt.reason}",
                    node.place,
                    severity=_severity(stage),
                    path=f"stages.{stage.id}.when.{field}",
                    help=doubt.help,
                    likely=doubt.meant,
                    related=related,
                )
            elif stage.each is None and (odd := _oddity(field, glob)) is not None:
                place, path = node.place, f"stages.{stage.id}.when.{field}"
                message = f"{stage} asks for {field} `{glob}`, {odd.reason}"
                plan.findings.add(CODE, message, place, severity="note", path=path, help=odd.help)


def check_routes(outline: Outline) -> None:
    """Find a `match` that never matches."""
    section = outline.document.root.get("routes")
    channels = cache(partial(known_channels, outline.document.root))
    for number, route in enumerate(section.elements() if section is not None else (), 1):
        match = route.get("match")
        for field, node in match.items() if match is not None else ():
            glob = text_of(node)
            if glob is None or field == SESSION_STATE:
                continue
            doubt = _made_later(glob) if field == SESSION else _doubt(field, glob, channels)
            if doubt is not None:
                outline.findings.warn(
                    CODE,
                    f"route {number} asks for {field} `{glob}`, {doubt.reason}",
                    node.place,
                    path=f"routes[{number - 1}].match.{field}",
                    help=doubt.help,
                    likely=doubt.meant,
                )
            elif (odd := _oddity(field, glob)) is not None:
                message, path = (
                    f"route {number} asks for {field} `{glob}`, {odd.reason}",
                    f"routes[{number - 1}].match.{field}",
                )
                outline.findings.add(CODE, message, node.place, severity="note", path=path, help=odd.help)


def _severity(stage: StagePlan) -> Severity:
    return "error" if stage.kind is not None and stage.kind.name == "gate" else "warning"


def _doubt(field: str, glob: str, channels: Callable[[], Set[str]]) -> _Doubt | None:
    """Why no message can meet a glob, whatever asks for it; None if one may."""
    if matches_nothing(glob):
        return _Doubt("but this glob matches nothing", "`[a-z]` is one letter from the first to the last")
    meant: str | None = None
    if field == SESSION_STATE and not any(map(matcher(glob), _SESSION_STATES)):
        meant = suggest(glob, _SESSION_STATES)
        return _Doubt(
            "but a session is `new` or `known`", f"did you mean `{meant}`?" if meant else "write `new`", meant
        )
    if field == "kind" and not is_glob(glob) and glob not in _KINDS:
        meant = next((kind for kind in _KINDS if is_slip(glob, kind)), None)
    elif field == "channel":
        meant = channel_meant(glob, channels())
    elif field == SESSION and ":" in glob and (meant := channel_meant(glob.partition(":")[0], channels())) is not None:
        return _Doubt("but Bub knows no channel of the name before the colon", f"did you mean `{meant}`?")
    if meant is None:
        return None
    if glob.rstrip("*").casefold() == meant.casefold():
        return _Doubt(
            f"but that {field} is `{meant}`: a glob tells capitals from small letters", f"write `{meant}`", meant
        )
    return _Doubt(f"but Bub knows no {field} of that name", f"did you mean `{meant}`?", meant)


def _oddity(field: str, glob: str) -> _Doubt | None:
    """Why a glob may not say what was meant, though some message may meet it."""
    if field == "kind" and not any(map(matcher(glob), _KINDS)):
        return _Doubt(
            "but Bub's own messages never have this kind",
            f"their kinds are {', '.join(_KINDS)}; a channel may have others",
        )
    if field == "kind" and not any(map(matcher(glob), _COMING_IN)):
        return _Doubt("but only replies have this kind", "a message that comes in is `normal` or `command`")
    if re.search(_LIKE_A_PATTERN, glob) or (field != "content" and "|" in glob):
        return _Doubt(
            "which looks like a regular expression, but Bub reads it as a glob",
            "`*` means any characters, `?` means one character",
        )
    return None


def _too_early(plan: Plan, stage: StagePlan, glob: str) -> tuple[_Doubt | None, list[Related]]:
    """Why the session's id is not known where a stage asks for it; it may ask whether there is one at all."""
    makers = plan.flow.makers.get(SESSION, ())
    if not glob.strip("*?") or any(plan.position[maker.id] <= plan.position[stage.id] for maker in makers):
        return None, []
    if not makers:
        return _Doubt("but no stage makes `session_id`", "match `channel` and `chat_id`"), []
    first = makers[0]
    return (
        _Doubt(f"but `{first.id}`, below it, makes `session_id`", f"move it below `{first.id}`, or match `channel`"),
        [first.making(SESSION)],
    )


def _made_later(glob: str) -> _Doubt | None:
    """Why a route does not meet the id of a session that a stage makes of a channel and a chat."""
    channel, colon, _ = glob.partition(":")
    if not colon or channel not in SHIPPED_CHANNELS:
        return None
    return _Doubt("but Bub chooses the profile before a stage finds the session", "match `channel` and `chat_id`")
