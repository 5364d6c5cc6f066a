"""What the inbox asks of the framework, and of the turn of one message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bub.approval import Approval, Ask, CallNotes
from bub.base.clients.request import ClientRequest
from bub.base.surfaces import Surface, Writer
from bub.envelope import Envelope
from bub.hooks.admission import Admission
from bub.pipeline.plan.schedules.schedule import Schedule
from bub.secrets.redactor import Redactor
from bub.streaming import StreamEvent


class MessageTurn(Protocol):
    """What is asked of the turn of one message, from its arrival to its answer."""

    @property
    def session_id(self) -> str: ...

    @property
    def message(self) -> Envelope: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def trace(self) -> Any: ...

    @property
    def is_risky(self) -> bool: ...

    @property
    def is_judged(self) -> bool: ...

    async def reach(self) -> None: ...

    async def arrive(self) -> None: ...

    async def resume(self, session_id: str, written: bytes) -> None: ...

    def write_arrival(self) -> bytes: ...

    def busy(self, steering: int = 0) -> Admission: ...

    async def admit(self, busy: Admission) -> str | None: ...

    async def hold(
        self, *, alone: bool | None = None, on_wait: Callable[[], Awaitable[None]] | None = None
    ) -> None: ...

    def park(self) -> None: ...

    async def unpark(self) -> None: ...

    async def answer(self) -> Any: ...

    async def close(self) -> None: ...


class Profile(Protocol):
    """What is asked of the profile that a turn runs in."""

    @property
    def name(self) -> str: ...

    @property
    def is_parallel(self) -> bool: ...


class Framework(Protocol):
    """What is asked of the framework."""

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def profiles(self) -> Sequence[str]: ...

    @property
    def schedules(self) -> Sequence[Schedule]: ...

    def get_channels_by_plugin(
        self, message_handler: Callable[[Envelope], Awaitable[bool | None]]
    ) -> dict[str, tuple[str, Any]]: ...

    def when_reloaded(self, tell: Callable[[], None]) -> AbstractContextManager[None]: ...

    def begin(
        self,
        message: Envelope,
        *,
        on_event: Callable[[StreamEvent, Envelope], Any] | None = None,
        ask: Ask | None = None,
        dispatch: Callable[[Envelope], Awaitable[bool]] | None = None,
        steering: Any = None,
        surface: Surface = Surface.PROGRAM,
        complete: Callable[[Envelope], Awaitable[Envelope]] | None = None,
        notes: CallNotes | None = None,
        writers: Callable[[], Sequence[Writer]] | None = None,
        profile: str | None = None,
        request: ClientRequest | None = None,
    ) -> MessageTurn: ...

    def rebind(self, approval: Approval) -> Approval: ...

    @property
    def mask(self) -> Redactor: ...

    def limit_turns(self, most: int | None) -> None: ...
