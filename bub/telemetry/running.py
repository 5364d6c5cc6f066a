"""Telemetry of a runtime: found out at its start, under way while it runs, and over within a second of its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Protocol

import trio

from bub.base.counts import Counts
from bub.base.installing.extras import install_command
from bub.errors import BubError
from bub.log import log_exception, log_info, log_warning
from bub.plugins.section import HasSettings
from bub.secrets.redactor import Redactor
from bub.telemetry.sampling import read_sampler
from bub.telemetry.series import Series, read_series
from bub.telemetry.settings import Destination, is_installed, read_destination, secret_headers
from bub.telemetry.wanted import is_named_in_settings
from bub.telemetry.watching import TelemetryWatcher, new_instance
from bub.telemetry.worker import Worker

PATIENCE = 1.0
"""How long, in seconds, the end of a runtime waits for the collector."""


class Watched(HasSettings, Protocol):
    """A runtime as telemetry sees it."""

    @property
    def counts(self) -> Counts: ...
    @property
    def mask(self) -> Redactor: ...
    def watch(self, watcher: Any) -> AbstractContextManager[None]:
        """Let somebody see each turn that begins and ends."""


def find_destination(framework: HasSettings, environ: Mapping[str, str]) -> Destination | None:
    """Find where telemetry goes; None, after a line in the log, if the environment names what cannot be used.

    The variables of the environment may be meant for other programs. What the settings say is meant for Bub: what is
    wrong with them, or if its packages are not installed, is raised as `BubError`.
    """
    try:
        destination = read_destination(framework, environ)
        if not is_installed():
            raise BubError(
                "telemetry is wanted, and the packages of OpenTelemetry are not installed",
                help=f"run `{install_command('otel')}`",
            )
    except BubError as error:
        if is_named_in_settings(framework.settings):
            raise
        log_warning("telemetry.off", why=str(error), do=error.help or "")
        return None
    return destination


@asynccontextmanager
async def open_telemetry(
    framework: Watched, environ: Mapping[str, str], keep_secret: Callable[[Iterable[str]], None]
) -> AsyncIterator[None]:
    """Send what happens in a runtime until the block is left; nothing, if telemetry cannot be had.

    `keep_secret` gets the strings that nobody may see. The end waits a second at most for the collector. Raises what
    `find_destination` raises.
    """
    destination = find_destination(framework, environ)
    if destination is None:
        yield
        return
    counts = framework.counts
    keep_secret(secret_headers(destination, environ))
    worker = Worker(
        destination,
        lambda text: framework.mask.text(text),  # a reload may make it know more
        new_instance(),
        environ,
        ask=trio.lowlevel.current_trio_token().run_sync_soon,
        read=lambda: _read_all(counts),
    )
    counts.total("telemetry_spans_sent", lambda: worker.sent)
    counts.total("telemetry_spans_dropped", lambda: worker.dropped)
    log_info("telemetry.on", collector=destination.host, content=destination.content)
    worker.start()
    try:
        with framework.watch(TelemetryWatcher(worker, read_sampler(environ), content=destination.content)):
            yield
    finally:
        worker.finish(_read_all(counts))
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(worker.join, PATIENCE)


def _read_all(counts: Counts) -> list[Series]:
    """Read all metrics; none, after a line in the log, if what one of them asks fails, as it may at the end."""
    try:
        return list(read_series(counts))
    except Exception as error:  # noqa: BLE001 (in the event loop it would end all turns)
        log_exception("telemetry.unreadable", error)
        return []
