"""The address of a store that several gateways share, such as `redis://user:password@host:6379/0?prefix=bub`."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from bub.base.duration import parse_duration
from bub.errors import BubError

SCHEMES = ("redis", "rediss", "redis+unix")
"""Over TCP, over TLS, and over a socket in the file system."""

USUAL_PORT = 6379
USUAL_PREFIX = "bub"

USUAL_PARTITIONS = 32
"""Into how many partitions a new store is cut. It is noted in the store, and stays as it is for good."""

MOST_PARTITIONS = 1024

USUAL_LEASE = 10.0
"""How long, in seconds, a gateway that says nothing keeps what it works on."""

_SHORTEST_LEASE = 0.2
_LONGEST_LEASE = 600.0

_KNOWN = ("prefix", "partitions", "lease")
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class AddressError(BubError):
    """An address that leads to no store, or says what no store knows. Its words have no password."""


class StoreAddress(msgspec.Struct, frozen=True):
    """The address of a Redis, as whom to speak to it, and under which `prefix` everything of Bub lies there.

    `path` is that of a socket, and then `host` is "". `partitions` is for a store that is made; None leaves it at
    `USUAL_PARTITIONS`. `lease` is how long, in seconds, a gateway that says nothing keeps what it works on.
    """

    host: str = "localhost"
    port: int = USUAL_PORT
    path: str = ""
    database: int = 0
    username: str = ""
    password: str = ""
    is_secure: bool = False
    prefix: str = USUAL_PREFIX
    partitions: int | None = None
    lease: float = USUAL_LEASE

    @classmethod
    def parse(cls, text: str) -> StoreAddress:
        """Read an address. Raises `AddressError`, which says what is wrong with it."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise AddressError("the address of the store has no port that is a number", help=_SHAPE) from error
        if parts.scheme not in SCHEMES:
            schemes = ", ".join(f"`{one}://`" for one in SCHEMES)
            raise AddressError(f"the address of a store begins with one of {schemes}", help=_SHAPE)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := next((one for one in options if one not in _KNOWN), None):
            raise AddressError(f"the address of a store has no option `{unknown}`", help=_OPTIONS)
        prefix = options.get("prefix", USUAL_PREFIX)
        if not _PREFIX.fullmatch(prefix):
            raise AddressError("the prefix of a store has letters, digits, `_`, `.` and `-`, 64 at most", help=_SHAPE)
        is_socket = parts.scheme == "redis+unix"
        rest = unquote(parts.path)
        if is_socket and not rest.startswith("/"):
            raise AddressError("the address of a socket names its file", help="such as redis+unix:///run/redis.sock")
        return cls(
            host="" if is_socket else parts.hostname or "localhost",
            port=0 if is_socket else port or USUAL_PORT,
            path=rest if is_socket else "",
            database=0 if is_socket else _read_number(rest.strip("/") or "0", "the database of a store", 0, 1 << 20),
            username=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            is_secure=parts.scheme == "rediss",
            prefix=prefix,
            partitions=_read_partitions(options.get("partitions")),
            lease=_read_lease(options.get("lease")),
        )

    @property
    def shown(self) -> str:
        """The address for people: without the password, and without what is usual."""
        place = self.path or f"{self.host}:{self.port}"
        scheme = "redis+unix" if self.path else "rediss" if self.is_secure else "redis"
        user = f"{self.username}@" if self.username else ""
        database = f"/{self.database}" if self.database else ""
        prefix = f"?prefix={self.prefix}" if self.prefix != USUAL_PREFIX else ""
        return f"{scheme}://{user}{place}{database}{prefix}"


_OPTIONS = "the options are prefix, partitions and lease"
_SHAPE = "such as redis://:${REDIS_PASSWORD}@redis.example:6379/0?prefix=bub"


def _read_partitions(said: str | None) -> int | None:
    return None if said is None else _read_number(said, "`partitions`", 1, MOST_PARTITIONS)


def _read_lease(said: str | None) -> float:
    seconds = USUAL_LEASE if said is None else parse_duration(said)
    if seconds is None or not _SHORTEST_LEASE <= seconds <= _LONGEST_LEASE:
        raise AddressError("`lease` is a duration from 200ms to 10m", help="such as lease=10s")
    return seconds


def _read_number(said: str, what: str, least: int, most: int) -> int:
    if not said.isascii() or not said.isdigit() or not least <= int(said) <= most:
        raise AddressError(f"{what} is a number from {least} to {most}", help=_SHAPE)
    return int(said)
