"""What a set-up asks about channels: which of them run, and which profile answers on each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bub.asking import Asking, Choice
from bub.pipeline.amend import Keys
from bub.pipeline.merge import Document
from bub.pipeline.provided import ALL, EXCEPT
from bub.pipeline.routes import Route, choose


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a profile by name, each behind its plugin, and those that the profile opens (None: it is silent).

    `complete` says whether all of its plugins are there. Asked about are the channels where people write: a terminal
    runs only where it is named, and services run along.
    """

    brought: Mapping[str, tuple[str, Any]]
    opened: Sequence[str] | None
    complete: bool = True

    @property
    def offered(self) -> list[str]:
        """Those that a person may choose from."""
        return [name for name, (_, channel) in self.brought.items() if getattr(channel, "role", "chat") == "chat"]

    def can_run(self, name: str) -> bool:
        """Whether a channel is set up."""
        return bool(getattr(self.brought[name][1], "enabled", True))

    @property
    def running(self) -> list[str]:
        """Those that a gateway runs as all is set up, and those that the profile opens by name (BEHAVIOURS C3)."""
        opened = [ALL] if self.opened is None else self.opened
        return [
            name
            for name in self.offered
            if f"{EXCEPT}{name}" not in opened and (name in opened or (ALL in opened and self.can_run(name)))
        ]

    def ask(self, ask: Asking, wanted: Collection[str]) -> list[str]:
        """The channels that are to run; those of the plugins that are `wanted` are ticked beforehand."""
        if not self.offered:
            return []
        choices = [Choice(name, name if self.can_run(name) else f"{name}: not set up yet") for name in self.offered]
        return ask.checkbox(
            "channels", "Which channels is `bub gateway` to run?", choices, default=self.with_those_of(wanted)
        )

    def with_those_of(self, plugins: Collection[str]) -> list[str]:
        """Those that run by now, and those that some plugins bring."""
        running = self.running
        return [name for name in self.offered if name in running or self.brought[name][0] in plugins]

    def not_of(self, chosen: Collection[str]) -> set[str]:
        """The plugins whose channels were all turned down."""
        plugins = {self.brought[name][0] for name in self.offered}
        return plugins - {self.brought[name][0] for name in chosen}

    def to_open(self, chosen: Sequence[str]) -> list[str] | None:
        """What the profile's `channels:` is to be for the chosen ones to run; None where it can stay as it is.

        A profile that says nothing opens every channel that is set up, and so needs a word only where one of these was
        turned down.
        """
        running, said = set(self.running), self.opened or ()
        is_gone = self.complete and any(name.removeprefix(EXCEPT) not in (ALL, *self.brought) for name in said)
        if not is_gone and (set(chosen) == running or (self.opened is None and running <= set(chosen))):
            return None
        opened = [] if ALL in said else said
        kept = [name for name in opened if name in chosen or (name in self.brought and name not in self.offered)]
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
    """Where in the file the routes change, by the profile that is to answer on each channel.

    Asked is for the messages that no narrower route takes. The route that is for just this channel gets another
    profile; where there is none, one is put before the first that would take all of its messages, else at the end.
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
