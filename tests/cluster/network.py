"""A machine apart: a network namespace whose way to Redis is cut and healed, each direction by itself.

Two addresses lead from it to us over one cable, so that only what goes to and from Redis is lost. A cut loses packets
without a word, as a broken switch does: they go to an address of the cable that nobody has.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_NOBODY = "02:00:00:00:00:99"


@dataclass(frozen=True)
class Network:
    """A namespace called `name`, from which Redis is at `redis`, and everything else at `rest`."""

    name: str
    number: int

    @property
    def redis(self) -> str:
        return f"10.{self.number}.1.1"

    @property
    def rest(self) -> str:
        return f"10.{self.number}.2.1"

    @property
    def within(self) -> tuple[str, ...]:
        """What is put before a command that runs there."""
        return ("ip", "netns", "exec", self.name)

    @property
    def _there(self) -> str:
        return f"10.{self.number}.1.2"

    @property
    def _cables(self) -> tuple[str, str]:
        return f"{self.name}-a", f"{self.name}-b"

    def cut(self, *, to: bool = False, back: bool = False) -> None:
        """Lose what goes to Redis, what comes back from it, or both."""
        ours, theirs = self._cables
        if to:
            _run(
                *self.within, "ip", "neigh", "replace", self.redis, "lladdr", _NOBODY, "dev", theirs, "nud", "permanent"
            )
        if back:
            _run("ip", "neigh", "replace", self._there, "lladdr", _NOBODY, "dev", ours, "nud", "permanent")

    def heal(self) -> None:
        """Let everything through again."""
        ours, theirs = self._cables
        _run(*self.within, "ip", "neigh", "flush", "dev", theirs, "nud", "permanent")
        _run("ip", "neigh", "flush", "dev", ours, "nud", "permanent")


@contextmanager
def cable() -> Iterator[Network]:
    """Make a namespace and a cable to it, which last as long as the block; needs to be root."""
    network = Network(f"bub{os.getpid() % 10**6}", 60 + os.getpid() % 150)
    ours, theirs = network._cables
    _run("ip", "netns", "add", network.name)
    try:
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", network.name)
        for part in (1, 2):
            _run("ip", "addr", "add", f"10.{network.number}.{part}.1/24", "dev", ours)
            _run(*network.within, "ip", "addr", "add", f"10.{network.number}.{part}.2/24", "dev", theirs)
        _run("ip", "link", "set", ours, "up")
        _run(*network.within, "ip", "link", "set", theirs, "up")
        _run(*network.within, "ip", "link", "set", "lo", "up")
        yield network
    finally:
        with suppress(subprocess.CalledProcessError):
            _run("ip", "link", "del", ours)
        _run("ip", "netns", "del", network.name)


def why_no_cable() -> str | None:
    """Say why this machine can have no namespace; None if it can."""
    try:
        with cable():
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespace can be made here: {getattr(error, 'stderr', None) or error}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
