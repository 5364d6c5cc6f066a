"""Settings that are loaded again while channels run: each takes over what it can, the log names the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bub.channels.channel import Channel
from bub.log import log_exception, log_info, log_warning
from bub.plugins.section import HasSettings


class Renewal:
    """Renews channels, which were made with the settings that `framework` has now.

    `brought` are all channels by name, each behind the plugin that brings it; those in `running` are renewed.
    """

    def __init__(
        self, framework: HasSettings, brought: Mapping[str, tuple[str, Channel]], running: Collection[str]
    ) -> None:
        self._framework = framework
        self._brought = brought
        self._running = running
        self._began_with = self._last = framework.settings

    def renew(self) -> None:
        """Hand settings that were loaded since to the channels, and log what they cannot take over.

        A channel that fails keeps the others from nothing.
        """
        settings = self._framework.settings
        if settings is self._last:
            return
        self._last = settings
        for name in sorted({name for channel in self._brought for name in self._find_fixed(channel)}):
            log_warning("pipeline.restart_needed", settings=name)

    def _find_fixed(self, name: str) -> Iterable[str]:
        """Renew one channel, if it runs, and find the settings that are other ones than those it goes on with."""
        plugin, channel = self._brought[name]
        fixed: Iterable[str] | None = None
        if name in self._running:
            try:
                fixed = channel.reload(self._framework)
            except Exception as error:  # noqa: BLE001 (what runs is not to suffer from it)
                log_exception("channel.reload_failed", error, channel=name)
        if fixed is not None:
            log_info("channel.renewed", channel=name)
            return tuple(fixed)
        return () if self._began_with.get(plugin) == self._last.get(plugin) else (plugin,)
