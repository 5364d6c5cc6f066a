"""Which channels run (BEHAVIOURS C3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bub.base.diagnostics import did_you_mean
from bub.channels.channel import Channel
from bub.errors import BubError, UsageError
from bub.pipeline.run.provided import ALL, EXCEPT

__all__ = ["ALL", "ProfileChannels", "choose_channels"]


@dataclass(frozen=True, slots=True)
class ProfileChannels:
    """The channels of a profile by name, each behind its plugin, and those that the profile opens (None: it is silent).

    `complete` says whether all plugins of the profile are there.
    """

    brought: Mapping[str, tuple[str, Any]]
    opened: Sequence[str] | None
    complete: bool = True

    @property
    def offered(self) -> list[str]:
        """The channels that a person may choose from: those in which people write.

        A terminal runs only if it is named, and services run along.
        """
        return [name for name, (_, channel) in self.brought.items() if getattr(channel, "role", "chat") == "chat"]

    @property
    def running(self) -> list[str]:
        """The channels that a gateway runs: all that are set up, and those that the profile opens by name (C3)."""
        opened = [ALL] if self.opened is None else self.opened
        return [
            name
            for name in self.offered
            if f"{EXCEPT}{name}" not in opened and (name in opened or (ALL in opened and self.can_run(name)))
        ]

    def can_run(self, name: str) -> bool:
        """Tell whether a channel is set up."""
        return bool(getattr(self.brought[name][1], "enabled", True))

    def include_plugins(self, plugins: Iterable[str]) -> list[str]:
        """Return the channels that run by now, and those that some plugins bring."""
        running, wanted = self.running, set(plugins)
        return [name for name in self.offered if name in running or self.brought[name][0] in wanted]

    def find_unused_plugins(self, chosen: Iterable[str]) -> set[str]:
        """Return the plugins whose channels were all turned down."""
        plugins = {self.brought[name][0] for name in self.offered}
        return plugins - {self.brought[name][0] for name in chosen}


def choose_channels(channels: Mapping[str, Channel], names: Iterable[str]) -> list[Channel]:
    """Choose the channels that `names` mean, in the order of `channels`.

    `all` means those that can run, without interfaces, even if one is named beside it; `!name` leaves one out.
    Naming a chat or an interface brings the services along; naming services only, no others.
    Raises `UsageError` for a name that nobody has, `BubError` for one that cannot run as it is set up.
    """
    wanted = {name for name in names if not name.startswith(EXCEPT)}
    refused = {name.removeprefix(EXCEPT) for name in names if name.startswith(EXCEPT)}
    for name in sorted((wanted | refused) - {ALL} - channels.keys()):
        known = ", ".join(f"`{one}`" for one in channels) or "none"
        raise UsageError(
            f"there is no channel `{name}`", help=did_you_mean(name, channels) or f"the profile's plugins bring {known}"
        )
    if ALL in wanted:
        meant = {name for name, channel in channels.items() if channel.role != "interface"}
    else:
        meant = set(wanted)
        if any(channels[name].role != "service" for name in wanted):
            meant |= {name for name, channel in channels.items() if channel.role == "service"}
    for name in sorted((wanted & meant) - refused):
        if not channels[name].enabled:
            raise BubError(f"the channel `{name}` cannot run as it is set up", help=channels[name].why_disabled or None)
    return [channel for name, channel in channels.items() if name in meant - refused and channel.enabled]
