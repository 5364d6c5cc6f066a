"""Waiting for what implementations return: what has to be awaited, and for how long it may take."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CoroutineType, TracebackType
from typing import Any, TypeAlias, TypeVar

import msgspec
import trio

from bub.log import log_warning

_T = TypeVar("_T")
_Given = TypeVar("_Given")

Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Awaits something, within a limit."""

PLAIN = frozenset((type(None), str, dict, list, tuple, int, float, bool))
"""Types whose values need not be awaited: nearly every answer, so no function is called to recognize them."""


def is_awaitable(value: Any) -> bool:
    """Whether a returned value has to be awaited (BEHAVIOURS H9); quick for plain values."""
    kind = type(value)
    return kind is CoroutineType or (kind not in PLAIN and inspect.isawaitable(value))


async def settled(value: Any) -> Any:
    """The value itself, or its result when it has to be awaited."""
    return await value if is_awaitable(value) else value


def one_at_a_time(function: Callable[[_Given], Awaitable[_T]]) -> Callable[[_Given], Awaitable[_T]]:
    """The function, called by whoever calls it while another call is under way when that one is over."""
    lock = trio.Lock()

    async def in_turn(given: _Given) -> _T:
        async with lock:
            return await function(given)

    return in_turn


def skip_awaitable(hook: str, plugin: str, value: Any) -> None:
    """Drop what an async implementation of a sync-only call returned: closed, and said in the log (BEHAVIOURS H11)."""
    close = getattr(value, "close", None)
    if close is not None:
        close()
    log_warning("hook.async_not_supported", hook=hook, adapter=plugin)


class Expired(BaseException):
    """The time of a whole stage is up.

    Not an Exception, so that no policy for a failing implementation takes it: the stage's own policy does.
    """


class MovingDeadline:
    """Bounds what one task does one after another, with one cancel scope whose deadline is moved from one to the next.

    A scope costs several times what moving its deadline does (DESIGN §13, Time). It is opened when the first thing is
    awaited, and it is fresh again after a deadline has passed. Use it with `with`, in one task, and never hand it to
    another one. Whatever is awaited without it in between needs a `release` first.
    """

    __slots__ = ("_at", "_now", "_scope", "_set_to", "_stopped_at", "_stops", "is_set", "task")

    def __init__(self) -> None:
        self._at = self._set_to = math.inf
        self._now: Callable[[], float] | None = None
        self._scope: trio.CancelScope | None = None
        self.is_set = False
        """Whether a deadline is set that can still pass."""
        self.task: trio.lowlevel.Task | None = None
        """Whose time it bounds, once something was awaited; nobody's when it is left."""
        self._stops = 0
        self._stopped_at = 0.0

    def start(self, seconds: float) -> None:
        """Give what begins now so many seconds in all."""
        if self._now is None:
            self._now = trio.lowlevel.current_clock().current_time
        now = self._now()
        if now >= self._set_to:  # the one before passed in the same moment in which all was done
            self._close()
        self._at = now + seconds

    async def __call__(self, awaitable: Awaitable[Any]) -> Any:
        """Await something until the deadline; raises `Expired` if that passes first."""
        if self._set_to != self._at:
            self._set()
        try:
            return await awaitable
        except BaseException as error:  # a cancellation by this deadline is one; all else goes on as it is
            if self._has_caused(error):
                raise Expired from None
            raise

    def has_ended(self, error: BaseException) -> bool:
        """Whether `error` says no more than that the deadline has passed; the scope is closed then.

        A cancellation from outside does not, even if the deadline has passed too.
        """
        return isinstance(error, Expired) or (self.is_set and self._has_caused(error))

    def has_passed(self) -> bool:
        """Whether the time of what was done without an interruption is up all the same; the deadline is taken off then.

        Nothing interrupts a plain function, or a coroutine that awaits nothing: it returns, only too late.
        """
        if self._now is None or self._now() <= self._at:
            return False
        self.release()
        return True

    def move(self) -> None:
        """Move the deadline, if one is set, to where it belongs now, before the caller awaits something by itself."""
        if self.is_set and self._set_to != self._at:
            self._set()

    def release(self) -> None:
        """Take the deadline off: what is awaited from here on takes as long as it takes."""
        if self.is_set and self._scope is not None:
            if self._scope.cancel_called:
                self._close()
            else:
                self._scope.deadline = math.inf
        self._set_to, self.is_set = math.inf, False

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let its time stop in this block, in any task; such blocks may overlap."""
        now, at = trio.current_time, self._at
        if self._stops == 0:
            self._stopped_at = now()
            if self.is_set and self._scope is not None and self._set_to == at:
                self._scope.deadline = math.inf
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if self._stops == 0 and self._at == at:  # else what it bounded then is over
                self._at = at + now() - self._stopped_at
                if self.is_set:
                    self._set()

    def _set(self) -> None:
        # The scope is entered here and left later, so by hand: all that lies between the two is this one task,
        # and what it opens meanwhile it closes before.
        if self._scope is None:
            self._scope = trio.CancelScope(deadline=self._at)
            self._scope.__enter__()
            self.task = trio.lowlevel.current_task()
        else:
            self._scope.deadline = self._at
        self._set_to, self.is_set = self._at, True

    def _has_caused(self, error: BaseException) -> bool:
        scope = self._scope
        if scope is None or not scope.cancel_called:
            return False
        self._scope, self._set_to, self.is_set = None, math.inf, False
        return bool(scope.__exit__(type(error), error, error.__traceback__))

    def _close(self) -> None:
        scope, self._scope, self._set_to, self.is_set = self._scope, None, math.inf, False
        if scope is not None:
            scope.__exit__(None, None, None)

    def __enter__(self) -> MovingDeadline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # It may be entered again, for what the same turn does later.
        self.task = None
        scope, self._scope, self._set_to, self.is_set = self._scope, None, math.inf, False
        if scope is not None and scope.__exit__(kind, error, traceback) and error is not None:
            raise Expired from error  # something was awaited after its time, and without a `release`


@contextmanager
def stopped_above(limits: Iterable[MovingDeadline]) -> Iterator[None]:
    """Let the time stop of those limits that bound the task that asks for it, or one that waits for it."""
    above: set[trio.lowlevel.Task] = set()
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
    while task is not None:
        above.add(task)
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    with ExitStack() as stack:
        for limit in limits:
            if limit.task in above:
                stack.enter_context(limit.stopped())
        yield


class Within(msgspec.Struct, frozen=True):
    """Waits up to `seconds` for each thing awaited through it; with `shield`, whatever else is cancelled meanwhile."""

    seconds: float
    shield: bool = False

    async def __call__(self, awaitable: Awaitable[Any]) -> Any:
        deadline = trio.current_time() + self.seconds
        with trio.CancelScope(deadline=deadline, shield=self.shield):
            value = await awaitable
            if trio.current_time() <= deadline:
                return value
        raise trio.TooSlowError(f"took longer than {self.seconds:g} seconds")


async def unlimited(awaitable: Awaitable[Any]) -> Any:
    """Waits as long as it takes."""
    return await awaitable


def split_cancelled(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cancellation in what ended some work, and the failure; each None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)
