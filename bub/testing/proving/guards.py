"""The code of a gate: whatever of it fails, it may not allow. Each place where it can fail does so, one at a time."""

from __future__ import annotations

import builtins
import dis
import gc
import inspect
import math
import sys
import types
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any

import msgspec
import trio

from bub.base.failures import flatten_error
from bub.base.waiting import is_awaitable
from bub.testing.proving.shelter import OutOfReachError
from bub.testing.proving.ways import PLANTED

_MOST_CALLS = 400
"""How often one gate is called at most."""

_HARMLESS = frozenset({"logging", "loguru", "bub.log", "typing", "warnings"})
"""Modules whose failure says nothing about what a gate judges."""

_LONG = 3_600.0


class Leak(msgspec.Struct, frozen=True):
    """A place in a gate's code that may fail without that the gate denies: what fails there, how, and where it is."""

    what: str
    how: str
    file: str
    line: int


class _Place(msgspec.Struct, frozen=True):
    """One instruction at which something can fail."""

    code: CodeType
    offset: int
    line: int
    what: str


async def leaks_of(function: Callable[..., Any], arguments: Mapping[str, Any]) -> list[Leak]:
    """Call a gate again and again, each time with one more place at which it fails; return those where it allows.

    An `await` and a use of an imported name fail with each exception that the code names, and an `await` that waits
    also hangs. Such a place fails as often as it is reached, so that a gate that tries again is no leak.
    """
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None or sys.gettrace() is not None:
        return []
    probe = _Probe(code.co_filename)
    with probe.tracing():
        clean = await _answer(function, arguments)
    leaks = [Leak("the network", type(error).__name__, code.co_filename, line) for error, line in probe.refused]
    found = leaks if clean.allows else []
    errors = _errors_named(probe)
    calls = 0
    for place in probe.places:
        for error in errors:
            calls += 1
            if calls > _MOST_CALLS:
                return found
            failing = _Probe(code.co_filename, place, error)
            with failing.tracing():
                answer = await _answer(function, arguments)
            if failing.has_struck and answer.allows:
                found.append(Leak(place.what, error.__name__, code.co_filename, place.line))
                break
    for number in range(clean.waits):
        answer = await _answer(function, arguments, hang_at=number, file=code.co_filename)
        if answer.allows and not any(leak.line == answer.line for leak in found):
            found.append(Leak("an `await`", "no answer at all", code.co_filename, answer.line))
    return _one_a_line(found)


def _one_a_line(leaks: list[Leak]) -> list[Leak]:
    """The first leak of each line."""
    return list({leak.line: leak for leak in reversed(leaks)}.values())[::-1]


class _Answer(msgspec.Struct):
    """What a gate came to: whether it allows, how often it waited, and at which line it was made to hang."""

    allows: bool = False
    waits: int = 0
    line: int = 0


async def _answer(
    function: Callable[..., Any], arguments: Mapping[str, Any], hang_at: int | None = None, file: str = ""
) -> _Answer:
    answer = _Answer()
    with trio.move_on_after(_LONG):
        try:
            value = function(**arguments)
            if is_awaitable(value):
                value = await _drive(value, answer, hang_at, file)
            answer.allows = value is None
        except BaseException as error:
            if not all(isinstance(one, Exception) for one in flatten_error(error)):
                raise
    return answer


@types.coroutine
def _drive(awaitable: Any, answer: _Answer, hang_at: int | None, file: str) -> Generator[Any, Any, Any]:
    """Await something by hand, count how often it waits, and let it wait for good after `hang_at` times."""
    running = awaitable.__await__()
    send: Callable[[], Any] = lambda: running.send(None)  # noqa: E731
    while True:
        try:
            trap = send()
        except StopIteration as end:
            return end.value
        answer.waits += 1
        hangs = hang_at == answer.waits - 1
        if hangs:
            answer.line = _line_in(awaitable, file)
            _keep_asleep(awaitable)
        try:
            sent = yield trap
            if hangs:  # what it waited for has come, but nobody tells it
                yield from trio.sleep_forever().__await__()  # noqa: ASYNC105 (a coroutine by hand)
            send = _sender(running, sent)
        except BaseException as error:  # noqa: BLE001 (it is for whoever waits)
            send = _thrower(running, error)


def _sender(running: Any, value: Any) -> Callable[[], Any]:
    return lambda: running.send(value)


def _thrower(running: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: running.throw(error)


_SLEEP = trio.sleep_until.__code__


def _keep_asleep(awaitable: Any) -> None:
    """Let a sleep last for good: the scope that ends it lies on the stack of its coroutine."""
    while awaitable is not None:
        if getattr(awaitable, "cr_code", None) is _SLEEP:
            for held in gc.get_referents(awaitable):
                scope = getattr(held, "__self__", held)
                if isinstance(scope, trio.CancelScope):
                    scope.deadline = math.inf
        awaitable = getattr(awaitable, "cr_await", None)


def _line_in(awaitable: Any, file: str) -> int:
    """The line of the innermost function of a file that waits."""
    line = 0
    while awaitable is not None:
        frame = getattr(awaitable, "cr_frame", None)
        if frame is not None and frame.f_code.co_filename == file:
            line = frame.f_lineno
        awaitable = getattr(awaitable, "cr_await", None)
    return line


class _Probe:
    """Watches the functions of one file instruction by instruction; lets one `place` fail with `error` if it is said.

    `places` are those at which something could fail, in the order they were reached. `refused` are the failures that
    came from what is out of reach here, each with the line at which the file's code learned of it.
    """

    def __init__(self, file: str, place: _Place | None = None, error: type[BaseException] | None = None) -> None:
        self.places: list[_Place] = []
        self.codes: dict[CodeType, Mapping[str, Any]] = {}
        self.refused: list[tuple[BaseException, int]] = []
        self.has_struck = False
        self._file, self._place, self._error = file, place, error
        self._known: dict[CodeType, dict[int, dis.Instruction]] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        if hasattr(sys, "monitoring"):
            sys.monitoring.restart_events()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 tells of no instruction unless some frame has asked before
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            sys.setprofile(None)

    def _watch_again(self, frame: FrameType | None, event: str, arg: Any) -> None:
        """Trace on from the next call that anybody makes."""
        sys.setprofile(None)
        sys.settrace(self._enter)
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                frame.f_trace, frame.f_trace_opcodes = self._step, True
            frame = frame.f_back

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != self._file:
            return None
        self.codes.setdefault(frame.f_code, frame.f_globals)
        frame.f_trace = self._step  # before the next line, which Python 3.13 does not heed without
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and self._place is None and not self.refused and _is_out_of_reach(arg[1]):
            self.refused.append((arg[1], frame.f_lineno))
        if event != "opcode":
            return self._step
        code, offset = frame.f_code, frame.f_lasti
        if self._place is not None:
            if code is self._place.code and offset == self._place.offset and self._error is not None:
                self.has_struck = True
                sys.setprofile(self._watch_again)  # to raise an exception here ends the tracing
                raise make(self._error)
            return self._step
        if code not in self._known:
            self._known[code] = {step.offset: step for step in dis.get_instructions(code)}
        what = _what_may_fail(self._known[code].get(offset), frame)
        if what is not None and not any(one.code is code and one.offset == offset for one in self.places):
            self.places.append(_Place(code, offset, frame.f_lineno, what))
        return self._step


def _what_may_fail(step: dis.Instruction | None, frame: FrameType) -> str | None:
    if step is None:
        return None
    if step.opname == "GET_AWAITABLE":
        return "an `await`"
    if step.opname == "IMPORT_NAME":
        return f"`import {step.argval}`"
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
        scope = frame.f_globals
        value = frame.f_locals.get(step.argval) if step.opname == "LOAD_DEREF" else scope.get(step.argval)
        if step.argval == "open" and "open" not in scope:
            return "`open`"
        return f"`{step.argval}`" if value is not None and _comes_from_elsewhere(value, scope) else None
    return None


def _comes_from_elsewhere(value: Any, scope: Mapping[str, Any]) -> bool:
    """Whether a name of a module was imported, or holds something that was made by what was imported."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] not in _HARMLESS and value.__name__ not in _HARMLESS
    if isinstance(value, type) and issubclass(value, BaseException):
        return False
    home = getattr(value, "__module__", None) if callable(value) or isinstance(value, type) else type(value).__module__
    if home is None or home in ("builtins", scope.get("__name__")):
        return False
    return home not in _HARMLESS and home.partition(".")[0] not in _HARMLESS


def _is_out_of_reach(error: BaseException | None) -> bool:
    if isinstance(error, StopIteration | StopAsyncIteration):  # how Python ends a coroutine
        return False
    while error is not None:
        if isinstance(error, OutOfReachError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _errors_named(probe: _Probe) -> list[type[BaseException]]:
    """The exceptions that the code names, which may be those that it catches, and one that it cannot know."""
    found: dict[type[BaseException], None] = {RuntimeError: None}
    for code, scope in probe.codes.items():
        for name in code.co_names:
            value = scope.get(name, getattr(builtins, name, None))
            for one in value if isinstance(value, tuple) else (value,):
                _add(found, one)
                if isinstance(one, ModuleType):
                    for attribute in code.co_names:
                        _add(found, getattr(one, attribute, None))
    return list(found)


def _add(found: dict[type[BaseException], None], value: Any) -> None:
    if isinstance(value, type) and issubclass(value, Exception) and value is not Exception:
        found[value] = None


def make(kind: type[BaseException]) -> BaseException:
    """Make an exception of a class, whatever that wants to know."""
    try:
        return kind(PLANTED)
    except Exception:  # noqa: BLE001 (a class of anybody)
        made = kind.__new__(kind)
        made.args = (PLANTED,)
        return made
