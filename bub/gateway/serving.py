"""A gateway: the channels of a framework run until a signal ends them, while its files may change."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

import trio

from bub import __version__
from bub.base.installing.extras import install_command
from bub.base.redis.settings import store_address
from bub.channels.server import ListenAddress
from bub.errors import BubError
from bub.framework import BubFramework
from bub.gateway import late
from bub.gateway.garbage import look_through, looking_later, looking_less_often
from bub.gateway.hangup import HANGUP, find_terminal, held_hangup
from bub.gateway.monitor import Monitor
from bub.gateway.systemd import Systemd
from bub.inbox.manager import ChannelManager
from bub.inbox.schedules.scheduler import Wall
from bub.inbox.shared.opening import inbox_of
from bub.inbox.shared.share import ROLES
from bub.inbox.shared.store import Worker
from bub.log import add_to_log, log_info, log_warning
from bub.pipeline.report.reloads import MOST_KEPT, Reload, reload_file
from bub.runtime.capacity import allow_open_files

_LOOK_EVERY = 0.5
"""How often, in seconds, watched files are looked at. A change counts once it is the same for two looks."""

_LONGEST_LITTER = 3600
"""How many seconds what was loaded before may stay in memory because there is always a turn under way."""

_ONE_SIGNAL = 0.2
"""Within how many seconds two equal signals are one: `timeout` and the like tell a process and then its group."""

_Looks: TypeAlias = Mapping[Path, tuple[int, int, int] | None]
"""What tells one state of a file from another: when and how long it was written, and which file it is."""


class Gateway:
    """Runs the channels that `names` mean until they have ended, or a signal ends them.

    SIGTERM and SIGINT let the turns under way finish within `shutdown_grace`; the second one ends them at once. SIGHUP
    loads the files of the framework again; with `watch`, so does a change of one of them. A file that does not compile
    changes nothing. With `listen`, `/healthz` and `/metrics` are served there. `systemd` learns what it is doing.
    Schedules fire by the `wall` clock. Of several gateways on one store, this one has the `roles`. If the settings say
    where its page is served, `announce` gets the address, with the token that is for the operator alone.
    """

    def __init__(
        self,
        framework: BubFramework,
        names: Iterable[str],
        *,
        listen: ListenAddress | None = None,
        watch: bool = False,
        systemd: Systemd | None = None,
        wall: Wall = time.time,
        roles: Sequence[str] = ROLES,
        announce: Callable[[str], None] = lambda url: None,
    ) -> None:
        self._roles = tuple(roles)
        self._announce = announce
        self._framework = framework
        self._names = tuple(names)
        self._listen = listen
        self._watches = watch
        self._wall = wall
        self._ended_by: int | None = None
        self._systemd = systemd if systemd is not None else Systemd(None)
        self._begun = _StartFlag(self._systemd)
        self.reloads: deque[Reload] = deque(maxlen=MOST_KEPT)
        """What became of the last reloads, the oldest first."""
        self.times_reloaded = 0
        self._want, self._wanted = trio.open_memory_channel[None](1)
        self._held = held_hangup()
        self._manager: ChannelManager | None = None
        self._terminal = self._held.terminal if self._held is not None else find_terminal()

    async def run(self) -> int | None:
        """Run to the end; the signal that ended it, None if the channels have ended by themselves.

        Raises `BubError` if no channel can run, if one cannot begin, if they have ended and one was refused for good,
        and if the port cannot be had.
        """
        framework = self._framework
        allow_open_files()
        with looking_less_often(), trio.open_signal_receiver(*_signals()) as signals:
            async with framework.running(), trio.open_nursery() as beside:
                mailbox = inbox_of(framework.home, framework.workspace, framework.settings)
                worker = self._describe_worker() if store_address(framework.settings) is not None else None
                if worker is None and set(self._roles) != set(ROLES):
                    raise no_store()
                page = self._make_page(is_shared=worker is not None)
                manager = ChannelManager(
                    framework,
                    self._names,
                    mailbox=mailbox,
                    counts=framework.counts,
                    wall=self._wall,
                    worker=worker,
                    beside=page.channels if page is not None else (),
                )
                self._manager = manager
                if not manager.names:
                    raise _no_channel(self._names, manager.disabled)
                for name, why in manager.disabled.items():
                    log_info("channel.disabled", channel=name, help=why)
                with trio.CancelScope() as work:
                    beside.start_soon(self._hear, signals, manager, work)
                    if HANGUP is not None and self._held is not None and self._held.has_come:
                        signal.raise_signal(HANGUP)  # it came before anybody could obey it
                    if self._listen is not None:
                        monitor = Monitor(framework.counts, partial(self._health, manager))
                        await beside.start(monitor.serve, self._listen)
                    if page is not None:
                        await beside.start(page.serve, self, manager, mailbox, self._announce)
                    beside.start_soon(self._serve_reloads, manager, beside)
                    if self._watches:
                        beside.start_soon(self._watch)
                    await manager.run(task_status=self._begun)
                beside.cancel_scope.cancel()
        log_info("gateway.ended", signal=_name_of(self._ended_by))
        if self._ended_by is None and manager.refusal is not None:
            raise manager.refusal
        return self._ended_by

    def _make_page(self, *, is_shared: bool) -> Any:
        """Return the page that the settings want; None if they want none."""
        gateway = self._framework.settings.get("gateway")
        section = gateway.get("studio") if isinstance(gateway, Mapping) else None
        if not isinstance(section, Mapping) or not section.get("listen"):
            return None
        try:
            page = late.Page
        except ModuleNotFoundError as error:
            problem = f"`gateway.studio` needs the package `{error.name}`"
            raise BubError(problem, help=f"run `{install_command('web')}`") from None
        return page(self._framework, is_shared=is_shared)

    # What the page sees of it.

    is_gateway = True

    @property
    def channels(self) -> Sequence[str]:
        """The channels of the file that run here."""
        return tuple(self._manager.states) if self._manager is not None else ()

    def describe_health(self) -> Mapping[str, Any]:
        """Describe how everything is, as `/healthz` does."""
        return self._health(self._manager)[1] if self._manager is not None else {"status": "starting"}

    def _describe_worker(self) -> Worker:
        """Return how this gateway is called among several; each process has a name of its own."""
        name = os.environ.get("BUB_WORKER") or f"{socket.gethostname()}-{os.getpid()}-{token_hex(2)}"
        add_to_log(worker=name)
        return Worker(
            name, version=__version__, roles=self._roles, host=socket.gethostname(), pid=os.getpid(), since=time.time()
        )

    # Signals.

    async def _hear(self, signals: AsyncIterator[int], manager: ChannelManager, work: trio.CancelScope) -> None:
        since = -_ONE_SIGNAL
        async for number in signals:
            if number == HANGUP and not self._has_lost_its_terminal:
                self._want_reload(_name_of(number))
            elif self._ended_by is None and self._begun.is_so:
                self._ended_by, since = number, trio.current_time()
                self._systemd.tell_stopping()
                log_info("gateway.ending", signal=_name_of(number), turns=manager.turns)
                manager.drain()
            elif number == self._ended_by and trio.current_time() - since < _ONE_SIGNAL:
                continue
            else:
                self._ended_by = number
                self._systemd.tell_stopping()
                log_info("gateway.ending_at_once", signal=_name_of(number), turns=manager.turns)
                work.cancel()

    @property
    def _has_lost_its_terminal(self) -> bool:
        """Whether the window it was started in was closed: then nobody is there who could mean a reload."""
        return self._terminal is not None and not os.isatty(self._terminal)

    # Reloading.

    def _want_reload(self, cause: str) -> None:
        log_info("gateway.reloading", cause=cause)
        with suppress(trio.WouldBlock):  # the one that waits will see what has changed by then
            self._want.send_nowait(None)

    async def _serve_reloads(self, manager: ChannelManager, beside: trio.Nursery) -> None:
        look_through()
        async for _ in self._wanted:
            self._systemd.tell_reloading()
            with looking_later():
                self.note_reload(await reload_file(self._framework))
            self._systemd.tell_reloaded()
            beside.start_soon(self._clean_up, manager)

    async def _clean_up(self, manager: ChannelManager) -> None:
        """Look for what a reload has left behind, at a moment without turns; after an hour, whoever waits for it."""
        for _ in range(_LONGEST_LITTER):
            if not manager.turns:
                break
            await trio.sleep(1)
        look_through()

    def note_reload(self, reload: Reload) -> None:
        """Keep what became of a reload, for the log, `/healthz` and the page."""
        self._framework.counts.reload(reload.outcome)
        self.reloads.append(reload)
        self.times_reloaded += 1
        for finding in reload.findings:
            log_warning("pipeline.finding", finding=finding)

    async def _watch(self) -> None:
        seen = await self._look()
        while True:
            await trio.sleep(_LOOK_EVERY)
            now = await self._look()
            if _has_changed(seen, now):
                before: _Looks = {}
                while now != before:  # an editor or a checkout may still be at it
                    await trio.sleep(_LOOK_EVERY)
                    before, now = now, await self._look()
                self._want_reload("a file was changed")
            seen = now

    async def _look(self) -> _Looks:
        files = tuple(self._framework.watched_files)
        return await trio.to_thread.run_sync(lambda: {file: _stat_of(file) for file in files}, abandon_on_cancel=True)

    # Health.

    def _health(self, manager: ChannelManager) -> tuple[bool, Mapping[str, Any]]:
        states, problems = manager.states, self._framework.plugin_problems
        sharing = manager.sharing
        all_run = all(state in ("running", "ended", "elsewhere") for state in states.values())
        is_away = sharing is not None and sharing.holder.away_since is not None
        status = "ok" if all_run and not problems and not is_away else "degraded"
        if manager.is_draining:
            status = "draining"
        elif not self._begun.is_so:
            status = "starting"
        elif (sharing is None and states and "running" not in states.values()) or manager.refusal is not None:
            status = "failing"
        return status in ("ok", "degraded"), {
            "status": status,
            "version": __version__,
            "channels": states,
            "plugins": problems,
            "turns": manager.turns,
            "inbox": manager.waiting,
            "outbox": manager.undelivered,
            **({} if sharing is None else {"shared": sharing.describe_state()}),
            "schedules": {name: _as_dates(state) for name, state in manager.schedules.items()},
            "reload": _describe_reload(self.reloads[-1]) if self.reloads else None,
        }


class _StartFlag(trio.TaskStatus[None]):
    """Whether all channels have begun, which `systemd` is told then."""

    def __init__(self, systemd: Systemd) -> None:
        self.is_so = False
        self._systemd = systemd

    def started(self, value: None = None) -> None:
        self.is_so = True
        self._systemd.tell_ready()


def _as_dates(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a schedule is, with its moments as dates."""
    dates = {
        key: datetime.fromtimestamp(state[key], UTC).isoformat(timespec="seconds") if state[key] is not None else None
        for key in ("next", "last")
    }
    return {**state, **dates}


def _describe_reload(reload: Reload) -> dict[str, Any]:
    at = datetime.fromtimestamp(reload.at, UTC).isoformat(timespec="seconds")
    return {"at": at, "outcome": reload.outcome, "findings": reload.findings}


def _signals() -> list[int]:
    """Return the signals to listen to; not SIGINT if the process ignores it, as in `bub gateway &` of a script."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return [signal.SIGTERM, *([] if is_ignored else [signal.SIGINT]), *([] if HANGUP is None else [HANGUP])]


def _name_of(number: int | None) -> str:
    return signal.Signals(number).name if number is not None else "none"


def _has_changed(seen: _Looks, now: _Looks) -> bool:
    """Return whether a file is another one now; one that is only watched since the last reload is none."""
    return any(file in seen and seen[file] != look for file, look in now.items())


def _stat_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def no_store() -> BubError:
    """Return the error for a gateway that shares no store, and so has every role."""
    remedy = "set `gateway.store` to the address of a Redis, or leave --roles out"
    return BubError("one gateway alone answers its channels by itself", help=remedy)


def _no_channel(names: tuple[str, ...], disabled: Mapping[str, str]) -> BubError:
    """Return why nothing runs, and what to do about each channel (BEHAVIOURS C4)."""
    if not names:
        return BubError("the profile opens no channel", help="name some in its `channels:`, or say --enable-channel")
    if names and all(name.startswith("!") for name in names):
        return BubError("no channel is left to run", help="say `--enable-channel all` beside what is left out")
    hints = [f"{name}: {why}" for name, why in disabled.items()] or [
        "list a plugin that brings one, such as `telegram`"
    ]
    ways = "`bub onboard` asks for what a channel needs; `bub chat` talks to the agent right here"
    return BubError("there is no channel that could run", help="\n".join([*hints, ways]))
