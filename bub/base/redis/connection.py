"""A connection to a Redis, in which every failure says what is wrong and what to do."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Sequence
from hashlib import sha1
from typing import Any, TypeVar

import coredis
import trio
from coredis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from coredis.retry import NoRetryPolicy

from bub.base.redis.address import StoreAddress
from bub.errors import BubError

CONNECTING = 3.0
"""How long, in seconds, a connection may take to be there."""

ANSWERING = 10.0
"""How long, in seconds, an answer is waited for, except one that is meant to wait."""

OLDEST = (6, 2)
"""The version of Redis that is needed at least."""

MOST_CONNECTIONS = 64

_CLOSING = 2.0

_T = TypeVar("_T")


class StoreError(BubError):
    """A Redis cannot be used; `is_away` if it cannot be reached, so that it may be back later."""

    def __init__(self, message: str, *, help: str | None = None, is_away: bool = False) -> None:  # noqa: A002 (BubError's)
        super().__init__(message, help=help)
        self.is_away = is_away


class FencedWriteError(StoreError):
    """A write was refused: the lease under which it was made is over. Nothing was changed."""


class RedisConnection:
    """Asks one Redis. Nothing is sent twice by itself: whether to ask again is for the caller to say.

    Open it in trio, use it from any task, and close it. Everything raises `StoreError`.
    """

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.client: Any = None
        """The client of coredis, whose answers are bytes, while this is open."""
        self.waiting: Any = None
        """Another one, for commands that wait: if one is given up, all others on the same connection fail with it."""
        self.fenced = 0
        """How many writes were refused, since their lease was over."""
        self._line: Any = None
        """The connection on which scripts run; another one as soon as it is gone."""
        self._digests: dict[str, str] = {}
        self._closing = trio.Event()
        self._closed = trio.Event()
        self._closed.set()  # who closes what was never opened has nothing to wait for

    async def open(self) -> None:
        """Connect, and see that the other side is a Redis that may be used."""
        self._closing, self._closed = trio.Event(), trio.Event()
        ready = trio.Event()
        # The pool of connections is a nursery: one task has to enter and leave it, whoever opens and closes this.
        trio.lowlevel.spawn_system_task(self._hold, ready)
        await ready.wait()
        try:
            await self.ask(self._check_version())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Give up all connections."""
        self._closing.set()
        with trio.move_on_after(_CLOSING) as scope:
            scope.shield = True
            await self._closed.wait()

    async def ask(self, command: Awaitable[_T], *, patience: float = ANSWERING) -> _T:
        """Wait for the answer to a command of `client`, as long as it may take in seconds."""
        failure: Exception = trio.TooSlowError()
        with trio.move_on_after(patience):
            try:
                return await command
            except (RedisError, OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                failure = error
        # The client says it cannot connect if it is cancelled while it does.
        await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(failure, trio.TooSlowError):
            # Behind a cut in the network the old connections would stay silent for long.
            self.client.connection_pool.disconnect()
        raise self._explain(failure) from failure

    async def run(self, script: str, keys: Sequence[str], given: Sequence[Any] = ()) -> Any:
        """Run a script; the server is given its text as needed. Raises `FencedWriteError` if it answers `FENCED`."""
        return await self.ask(self._run(script, len(keys), *keys, *given))

    async def _run(self, script: str, *words: Any) -> Any:
        digest = self._digests.get(script)
        if digest is None:
            digest = self._digests[script] = sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return await self._send(b"EVALSHA", digest, *words)
        except NoScriptError:  # it has not run
            return await self._send(b"EVAL", script, *words)

    async def _send(self, *words: Any) -> Any:
        """Ask on a connection that all share: what `client` does for each command costs four times as much."""
        if self._line is None or not self._line.usable:
            async with self.client.connection_pool.acquire() as line:
                self._line = line
        return await self._line.create_request(*words)

    async def _check_version(self) -> None:
        async with self.client.connection_pool.acquire() as line:
            said = str(line.server_version or "")
        if _read_version(said) < OLDEST:
            problem = f"{self.address.shown} is Redis {said or 'of a version that it does not say'}"
            raise StoreError(problem, help=_TOO_OLD)

    async def _hold(self, ready: trio.Event) -> None:
        is_interrupted = False
        try:
            try:
                async with self._make_client() as client, self._make_client() as waiting:
                    self.client, self.waiting = client, waiting
                    ready.set()
                    await self._closing.wait()
            except* KeyboardInterrupt:  # it came while a task of the client ran
                is_interrupted = True
        except Exception:  # noqa: BLE001 (a system task may not fail: each command raises its own error)
            pass
        finally:
            self._line = None
            ready.set()
            self._closed.set()
        if is_interrupted:
            signal.raise_signal(signal.SIGINT)  # from a system task, trio hands it to the main task

    def _make_client(self) -> Any:
        address = self.address
        return coredis.Redis(
            host=None if address.path else address.host,
            port=None if address.path else address.port,
            unix_socket_path=address.path or None,
            db=address.database,
            username=address.username or None,
            password=address.password or None,
            ssl=address.is_secure,
            ssl_cert_reqs="required" if address.is_secure else None,
            connect_timeout=CONNECTING,
            max_connections=MOST_CONNECTIONS,
            client_name="bub",
            verify_version=False,
            retry_policy=NoRetryPolicy(),
        )

    def _explain(self, failure: Exception) -> StoreError:
        where = self.address.shown
        match failure:
            case AuthenticationError():
                remedy = "see that the address has the user and the password that the server knows"
                return StoreError(f"{where} does not let Bub in", help=remedy)
            case AuthorizationError():
                remedy = "allow the user all commands on the keys below the prefix, and `@scripting`"
                return StoreError(f"{where} does not let this user do what Bub needs: {failure}", help=remedy)
            case BusyLoadingError():
                return StoreError(f"{where} is still loading its data", help="it is tried again", is_away=True)
            case ReadOnlyError():
                return StoreError(f"{where} is a replica", help="name the address of the primary", is_away=True)
            case ResponseError():
                explained = _explain_answer(where, str(failure))
                self.fenced += isinstance(explained, FencedWriteError)
                return explained
            case _:
                said = str(failure) or "it does not answer"
                return StoreError(f"{where} cannot be reached: {said}", help=_AWAY, is_away=True)


def _read_version(said: str) -> tuple[int, ...]:
    return tuple(int(part) for part in said.split(".")[:2] if part.isdigit())


_TOO_OLD = "use Redis 6.2 or newer, or Valkey"
_AWAY = "see that the server runs, and that this machine reaches it; `bub doctor` tries it"


def _explain_answer(where: str, said: str) -> StoreError:
    """Explain an error that the server itself has answered with."""
    if said.startswith("FENCED"):
        return FencedWriteError("another gateway works on this by now, so nothing was written")
    if "OOM command not allowed" in said or said.startswith("OOM"):  # also if a script has run into it
        remedy = "give it more `maxmemory`; until then nothing is taken in"
        return StoreError(f"the memory of {where} is full", help=remedy, is_away=True)
    if said.startswith("MISCONF") or "MISCONF Redis" in said:
        remedy = "see to its disk; `appendonly` and snapshots write there"
        return StoreError(f"{where} cannot write to its disk, and takes nothing", help=remedy, is_away=True)
    if said.startswith(("NOAUTH", "WRONGPASS")):
        remedy = "see that the address has the user and the password that the server knows"
        return StoreError(f"{where} does not let Bub in", help=remedy)
    if said.startswith("NOPERM"):
        remedy = "allow the user all commands on the keys below the prefix, and `@scripting`"
        return StoreError(f"{where} does not let this user do what Bub needs: {said}", help=remedy)
    return StoreError(f"{where} has refused a command: {said}", help="see that it is Redis 6.2 or newer, or Valkey")
