"""What can go wrong with an island, in words for people."""

from __future__ import annotations

from bub.errors import BubError


class IslandError(BubError):
    """A call to a plugin that runs on asyncio did not end; `plugin` names it."""

    def __init__(self, plugin: str, message: str, *, help: str | None = None) -> None:  # noqa: A002 (as in BubError)
        super().__init__(message, help=help)
        self.plugin = plugin


class IslandBlockedError(IslandError):
    """The plugin keeps its loop from running; `place` is where it does so."""

    def __init__(self, plugin: str, place: str, seconds: float) -> None:
        super().__init__(
            plugin,
            f"plugin `{plugin}` has blocked its asyncio loop for {seconds:g} seconds, at {place}",
            help="await what waits there, or run it with `asyncio.to_thread`",
        )
        self.place = place


def stopped_by_itself(plugin: str) -> IslandError:
    """The error of a call whose task the plugin, or the end of its loop, has cancelled."""
    return IslandError(plugin, f"plugin `{plugin}` cancelled the task that answers", help="the log says what it did")


def not_given_up(plugin: str, seconds: float) -> IslandError:
    """The error of a call that was cancelled, and whose task goes on all the same."""
    return IslandError(
        plugin,
        f"plugin `{plugin}` goes on {seconds:g} seconds after its call was cancelled",
        help="let `asyncio.CancelledError` through",
    )
