"""Which channels run (BEHAVIOURS C3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bub.channels.channel import Channel
from bub.diagnostics import did_you_mean
from bub.errors import BubError, UsageError
from bub.pipeline.provided import ALL, EXCEPT

__all__ = ["ALL", "chosen"]


def chosen(channels: Mapping[str, Channel], names: Iterable[str]) -> list[Channel]:
    """The channels that `names` mean, in the order of `channels`.

    `all` are those that can run, but for interfaces, also where they are named beside it; `!name` leaves one out.
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
