"""Starts channels one after another, runs each again if it fails, and ends them in reverse."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import trio

from bub.base.backoff import Backoff
from bub.base.counts import Counts
from bub.base.failures import is_ordinary
from bub.channels.channel import Channel, Desk, RefusedError
from bub.hooks.loops import explain
from bub.log import log_exception, log_warning

ENDING = 10.0
"""How long, in seconds, a channel may take to end."""

_BACKOFF = Backoff(1.0, longest=60.0)


@dataclass(eq=False, slots=True)
class _Running:
    """A channel that runs: `state` is "starting", "running", "failed" (until it runs again), "ended" or "refused".

    If another gateway runs it, it is "elsewhere".
    """

    channel: Channel
    state: str = "starting"
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)
    refusal: RefusedError | None = None
    is_elsewhere: bool = False
    is_switched: bool = False
    """Whether it ends so that it can go on in another way, here or elsewhere."""


class RunningChannels:
    """Runs channels; `over` is called when nobody is left to be answered: all have ended, or an interface was left.

    Those whose names are in `beside` run beside the others: they keep nothing going by themselves.
    """

    def __init__(
        self,
        channels: Iterable[Channel],
        counts: Counts,
        *,
        over: Callable[[], None],
        beside: Collection[str] = (),
    ) -> None:
        self._running = [_Running(channel) for channel in channels]
        self._beside = beside
        self._counts = counts
        self._over = over

    @property
    def states(self) -> dict[str, str]:
        """What each channel is at: "starting", "running", "failed" (it is run again later), "ended" or "refused".

        One that another gateway runs is "elsewhere".
        """
        return {one.channel.name: one.state for one in self._running if one.channel.name not in self._beside}

    @property
    def refusal(self) -> RefusedError | None:
        """Why a channel was refused for good; None if none was."""
        return next((running.refusal for running in self._running if running.refusal is not None), None)

    async def start(self, tasks: trio.Nursery, desk: Desk) -> None:
        """Begin with all of them. Raises what one raises that cannot begin."""
        for running in self._running:
            running.channel.desk = desk
            await tasks.start(self._keep_running, running)

    # Channels that run in one of several gateways.

    def attach(self, tasks: trio.Nursery, desk: Desk) -> None:
        """Connect all of them for turns, and run none yet."""
        for running in self._running:
            running.channel.desk = desk
            self._turn_to(tasks, running, runs=False)

    async def switch(self, tasks: trio.Nursery, name: str, *, runs: bool) -> None:
        """Run a channel here from now on, or only connect it, as another gateway runs it."""
        (running,) = [one for one in self._running if one.channel.name == name]
        await self._end(running)
        self._turn_to(tasks, running, runs=runs)

    def _turn_to(self, tasks: trio.Nursery, running: _Running, *, runs: bool) -> None:
        running.scope, running.ended = trio.CancelScope(), trio.Event()
        running.state = "starting" if runs else "elsewhere"
        running.is_elsewhere = not runs
        tasks.start_soon(self._keep_running, running)

    async def _end(self, running: _Running) -> None:
        running.is_switched = True
        running.scope.cancel()
        with trio.move_on_after(ENDING) as patience:
            await running.ended.wait()
        if patience.cancelled_caught:
            log_warning("channel.does_not_end", channel=running.channel.name, seconds=ENDING)
        running.is_switched = False

    async def stop(self) -> None:
        """End the channels, the last one first; what one does about it does not keep the others (BEHAVIOURS C23)."""
        for running in reversed(self._running):
            if running.state == "starting":
                continue
            running.scope.cancel()
            with trio.move_on_after(ENDING) as patience:
                await running.ended.wait()
            if patience.cancelled_caught:
                log_warning("channel.does_not_end", channel=running.channel.name, seconds=ENDING)
            running.channel.desk = None

    async def _keep_running(
        self, running: _Running, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run one channel, and run it again after a while if it fails after it has begun."""
        channel, failures, scope = running.channel, 0, running.scope
        begun = _Begun(running, task_status)
        begun.once = task_status is trio.TASK_STATUS_IGNORED  # nobody waits for a channel of several gateways
        try:
            with scope:
                while True:
                    since = trio.current_time()
                    try:
                        await (channel.connect if running.is_elsewhere else channel.run)(task_status=begun)
                        break
                    except RefusedError as error:
                        if not begun.once:
                            raise
                        log_warning("channel.refused", channel=channel.name, error=error, help=error.help)
                        self._counts.failure("channel")
                        running.refusal = error
                        break
                    except BaseException as error:  # as for a plugin that calls `sys.exit`: it is run again
                        if not begun.once or not is_ordinary(error):
                            failure = explain(error, what=f"the channel `{channel.name}`")
                            if failure is error:
                                raise
                            raise failure from error
                        running.state = "failed"
                        self._counts.failure("channel")
                        ran_long = trio.current_time() - since > _BACKOFF.longest
                        failures = 1 if ran_long else failures + 1
                        pause = _BACKOFF.pause_after(failures)
                        log_exception("channel.failed", error, channel=channel.name, again_in=pause)
                    await trio.sleep(pause)
            begun.started()  # one that was over at once
        finally:
            running.state = "ended" if running.refusal is None else "refused"
            running.ended.set()
            if not running.is_switched and not running.is_elsewhere and self._is_over(channel):
                self._over()

    def _is_over(self, ended: Channel) -> bool:
        """Whether nobody is left to be answered, as a channel has ended."""
        if ended.name in self._beside:
            return False
        others = [one for one in self._running if one.channel.name not in self._beside]
        people = [one for one in others if one.channel.role != "service"]
        return ended.role == "interface" or all(one.ended.is_set() for one in people or others)


class _Begun:
    """Passes on that a channel has begun, the first time; it may be run again."""

    def __init__(self, running: _Running, task_status: trio.TaskStatus[None]) -> None:
        self._running = running
        self._task_status = task_status
        self.once = False

    def started(self, value: None = None) -> None:
        """Note that the channel brings in messages from now on."""
        self._running.state = "elsewhere" if self._running.is_elsewhere else "running"
        if not self.once:
            self.once = True
            self._task_status.started()
