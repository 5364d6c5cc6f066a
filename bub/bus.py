"""A bus: messages wait here for their turns, and replies for the one who sends them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import trio

from bub.base.waiting import settled
from bub.envelope import Envelope, field_of
from bub.errors import BubError, HookTypeError
from bub.log import log_exception, log_warning

ROOM = 1024
"""How many messages wait on each side of a bus, unless its maker says another number."""

PATIENCE = 5.0
"""How long, in seconds, what is cancelled may take to leave its messages on the bus."""


@runtime_checkable
class BusProtocol(Protocol):
    """What `provide_bus` may return: anything with these four methods (BEHAVIOURS U1)."""

    async def publish_inbound(self, message: Envelope) -> None:
        """Hand over a message that wants a turn; waits for room."""

    async def publish_outbound(self, message: Envelope) -> None:
        """Hand over a reply that is to be sent; waits for room."""

    async def next_inbound(self, timeout_seconds: float | None = None) -> Envelope | None:
        """Return the next message, or None if none has come in time; a time of None waits, 0 does not."""

    async def next_outbound(self, timeout_seconds: float | None = None) -> Envelope | None:
        """Return the next reply, as `next_inbound` returns messages."""


@runtime_checkable
class KeepingBus(BusProtocol, Protocol):
    """A bus that takes back a message whose turn did not end; its methods are `def` or `async def`."""

    def requeue_inbound(self, message: Envelope) -> Awaitable[None] | None:
        """Put a message before all others, so that it is the next one."""

    def set_aside(self, message: Envelope, error: Exception) -> Awaitable[None] | None:
        """Keep a message whose turn failed, so that somebody can look at it."""


BUS_METHODS = ("publish_inbound", "publish_outbound", "next_inbound", "next_outbound")


def check_bus(provided: Any, plugin: str) -> BusProtocol:
    """Return what a plugin provided, if it is a bus.

    Raises `HookTypeError` that says which methods are missing (BEHAVIOURS U4, U5).
    """
    missing = [name for name in BUS_METHODS if not callable(getattr(provided, name, None))]
    if missing:
        expected = f"a bus ({type(provided).__name__} has no {' and no '.join(missing)})"
        raise HookTypeError("provide_bus", plugin, expected, provided)
    bus: BusProtocol = provided
    return bus


class SetAside(NamedTuple):
    """A message whose turn failed, and why; the traceback is in the log."""

    message: Envelope
    reason: str


class MessageBus:
    """A bus in memory: two bounded queues, first in, first out. To publish to a full one waits (BEHAVIOURS U2).

    `room` is how many messages wait on each side. They are lost when the process ends; channels keep those that must
    survive in a mailbox of their own.
    """

    def __init__(self, room: int = ROOM) -> None:
        if room < 1:
            raise BubError(f"a bus needs room for a message, and this one has {room}", help="room=1 is the least")
        self._room = room
        self._inbound = _Queue(room)
        self._outbound = _Queue(room)
        self._aside: deque[SetAside] = deque()

    async def publish_inbound(self, message: Envelope) -> None:
        """Hand over a message that wants a turn; waits while the queue is full."""
        await self._inbound.put(message)

    async def publish_outbound(self, message: Envelope) -> None:
        """Hand over a reply that is to be sent; waits while the queue is full."""
        await self._outbound.put(message)

    async def next_inbound(self, timeout_seconds: float | None = None) -> Envelope | None:
        """Return the message that has waited longest; None if there is none for `timeout_seconds`.

        A message that is there is returned at once. A time of 0 does not wait (BEHAVIOURS U3), None waits for ever.
        """
        return await self._inbound.take(timeout_seconds)

    async def next_outbound(self, timeout_seconds: float | None = None) -> Envelope | None:
        """Return the reply that has waited longest, as `next_inbound` returns messages."""
        return await self._outbound.take(timeout_seconds)

    # Messages whose turns did not come to their end.

    def requeue_inbound(self, message: Envelope) -> None:
        """Put a message before all others, even if the queue is full: it had a place here before."""
        self._inbound.put_back(message)

    def set_aside(self, message: Envelope, error: Exception) -> None:
        """Keep a message whose turn failed in `aside` (BEHAVIOURS U7).

        If `room` messages are kept already, it becomes the next one again. Nothing is lost: those after it wait until
        somebody has looked at the ones that are kept.
        """
        if len(self._aside) < self._room:
            self._aside.append(SetAside(message, f"{type(error).__name__}: {error}"))
        else:
            log_warning("bus.no_room_aside", messages=len(self._aside), help="take_aside() makes room")
            self.requeue_inbound(message)

    @property
    def aside(self) -> tuple[SetAside, ...]:
        """The messages whose turns failed, in the order in which they failed."""
        return tuple(self._aside)

    def take_aside(self) -> tuple[SetAside, ...]:
        """Take the messages whose turns failed off the bus; `requeue_inbound` gives one of them another try."""
        taken = self.aside
        self._aside.clear()
        return taken


class _Queue:
    """A bounded channel that also takes things back, which are the next then."""

    def __init__(self, room: int) -> None:
        self._send, self._receive = trio.open_memory_channel[Any](room)
        self._back: deque[Any] = deque()

    async def put(self, item: Any) -> None:
        if item is None:
            raise BubError("None is not a message", help="a message is a dict, a text or an object with fields")
        await self._send.send(item)

    def put_back(self, item: Any) -> None:
        if self._receive.statistics().tasks_waiting_receive:
            self._send.send_nowait(item)  # who waits gets it at once, so there was nothing before it
        else:
            self._back.appendleft(item)

    async def take(self, timeout_seconds: float | None) -> Any:
        await trio.lowlevel.checkpoint()  # before anything is taken, so that nothing is lost with who is cancelled
        if self._back:
            return self._back.popleft()
        try:
            return self._receive.receive_nowait()
        except trio.WouldBlock:
            if timeout_seconds is not None and timeout_seconds <= 0:
                return None
        with trio.move_on_after(math.inf if timeout_seconds is None else timeout_seconds):
            return await self._receive.receive()
        return None


# Carrying messages from the one side to the other.


class Answered(Protocol):
    """The result of a turn, as far as a bus needs it."""

    @property
    def outbounds(self) -> Iterable[Envelope] | None: ...


_Result = TypeVar("_Result", bound=Answered)


async def handle_once(
    bus: BusProtocol, turn: Callable[[Envelope], Awaitable[_Result]], timeout_seconds: float | None = None
) -> _Result | None:
    """Take one message off the bus, carry it through a `turn` and publish every reply; None if no message came.

    If the turn fails, its error is raised here and its message set aside. If it is cancelled, the message is the next
    one again. So no message is lost (BEHAVIOURS U6, U7).
    """
    message = await bus.next_inbound(timeout_seconds)
    if message is None:
        return None
    try:
        result = await turn(message)
    except BaseException as error:  # a cancellation too: the message must not go with its turn
        await _give_back(bus, message, error)
        raise
    await _publish(bus, list(result.outbounds or ()))
    return result


async def _give_back(bus: BusProtocol, message: Envelope, error: BaseException) -> None:
    """Let a bus have a message back, within `PATIENCE`; one that cannot take it back gets it as a new one."""
    try:
        with trio.fail_after(PATIENCE, shield=True):
            if not isinstance(bus, KeepingBus):
                await bus.publish_inbound(message)
            elif isinstance(error, Exception):
                await settled(bus.set_aside(message, error))
            else:
                await settled(bus.requeue_inbound(message))
    except Exception as refusal:  # noqa: BLE001 (it must not mask how the turn ended)
        log_exception("bus.message_lost", refusal, **_whose(message))
    else:
        log_warning("bus.given_back", **_whose(message), error=error)


async def _publish(bus: BusProtocol, replies: list[Envelope]) -> None:
    """Publish replies in their order; what is interrupted has `PATIENCE` for the rest of them."""
    left = deque(replies)
    try:
        await _publish_all(bus, left)
    except BaseException:  # the turn is over and paid for: its replies are not to be lost
        with trio.move_on_after(PATIENCE, shield=True), suppress(Exception):  # the first failure is raised
            await _publish_all(bus, left)
        for reply in left:
            log_warning("bus.reply_not_published", **_whose(reply))
        raise


async def _publish_all(bus: BusProtocol, left: deque[Envelope]) -> None:
    while left:
        await bus.publish_outbound(left[0])
        left.popleft()


def _whose(message: Envelope) -> dict[str, Any]:
    return {name: field_of(message, name) for name in ("session_id", "channel", "chat_id")}
