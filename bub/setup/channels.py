"""What a set-up asks about channels: which of them run, and which profile answers on each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bub.asking import Asking, Choice
from bub.channels.enabling import ProfileChannels
from bub.pipeline.edit.paths import Keys
from bub.pipeline.plan.routes import Route, choose
from bub.pipeline.run.provided import ALL, EXCEPT
from bub.pipeline.source.merge import Document


def ask_for_channels(ask: Asking, channels: ProfileChannels, wanted: Collection[str]) -> list[str]:
    """Ask which channels are to run; those of the plugins that are `wanted` are ticked beforehand."""
    if not channels.offered:
        return []
    choices = [Choice(name, name if channels.can_run(name) else f"{name}: not set up yet") for name in channels.offered]
    default = channels.include_plugins(wanted)
    return ask.checkbox("channels", "Which channels is `bub gateway` to run?", choices, default=default)


def open_channels(channels: ProfileChannels, chosen: Sequence[str]) -> list[str] | None:
    """Return what the profile's `channels:` has to be for the chosen ones to run; None if it can stay as it is.

    A profile that says nothing opens every channel that is set up, and so needs a word only if one of these was
    turned down.
    """
    running, brought, said = set(channels.running), channels.brought, channels.opened or ()
    is_gone = channels.complete and any(name.removeprefix(EXCEPT) not in (ALL, *brought) for name in said)
    if not is_gone and (set(chosen) == running or (channels.opened is None and running <= set(chosen))):
        return None
    opened = [] if ALL in said else said
    kept = [name for name in opened if name in chosen or (name in brought and name not in channels.offered)]
    return [*kept, *(name for name in chosen if name not in kept)]


def ask_for_profiles(
    ask: Asking,
    channels: Sequence[str],
    profiles: Sequence[str],
    *,
    document: Document,
    routes: Sequence[Route],
    chosen_at_start: str,
) -> dict[Keys, Any]:
    """Return the changes of routes in the file, by the profile that is to answer on each channel.

    Asked is for the messages that no narrower route takes. The route that is for just this channel gets another
    profile; if there is none, one is put before the first that would take all of its messages, else at the end.
    """
    if len(profiles) < 2:
        return {}
    section = document.root.get("routes")
    listed = [node.plain() for node in section.elements()] if section is not None else []
    changes: dict[Keys, Any] = {}
    added: list[tuple[int, dict[str, Any]]] = []
    for channel in channels:
        now = choose(routes, {"channel": channel}, chosen_at_start)
        profile = ask.select(f"routes.{channel}", f"Which profile answers on {channel}?", profiles, default=now.profile)
        if profile == now.profile:
            continue
        match, at = {"channel": channel}, now.taken.number - 1 if now.taken is not None else len(listed)
        if now.taken is not None and now.taken.match == match:
            listed[at] = {**listed[at], "profile": profile}
            changes["routes", str(at), "profile"] = profile
        else:
            added.append((at, {"match": match, "profile": profile}))
    for at, route in sorted(added, key=lambda each: each[0], reverse=True):
        listed.insert(at, route)
    is_inherited = document.layers[-1].root.get("routes") is None
    if is_inherited and (changes or added):  # routes of one's own take the place of those that are inherited
        return {("routes",): listed}
    return {**changes, ("routes",): listed} if added else changes
