"""What the commands of a profile may reach (its `reach:`, DESIGN §13), and what that leaves them able to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bub.base.confinement.entries import WORKSPACE, covers, is_in_workspace

NO_NETWORK, ALL_NETWORK = "none", "all"


class Confinement(msgspec.Struct, frozen=True):
    """The folders that commands may write and read, and whether they reach a network.

    `write` and `read` hold entries as the file says them, see `entries`. What may be written may be read; so may the
    workspace, and what programs need of the system. What the file leaves out is as narrow as it can be and of use.
    """

    write: tuple[str, ...] = (WORKSPACE,)
    read: tuple[str, ...] = ()
    network: str = NO_NETWORK

    @classmethod
    def of(cls, said: Any) -> Confinement | None:
        """Read what a profile says, which may be broken in any way; None if it says nothing."""
        if said is None:
            return None
        given: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
        write = _texts(given["write"]) if given.get("write") is not None else (WORKSPACE,)
        return cls(write, _texts(given.get("read")), str(given.get("network") or NO_NETWORK))


def narrow(one: Confinement | None, other: Confinement | None) -> Confinement | None:
    """Return what both let pass, as far as the words of their entries tell; None if neither says anything."""
    if one is None or other is None:
        return one or other
    return Confinement(
        _common(one.write, other.write),
        _common((*one.write, *one.read), (*other.write, *other.read)),
        ALL_NETWORK if reaches_outside(one) and reaches_outside(other) else NO_NETWORK,
    )


def _common(these: tuple[str, ...], those: tuple[str, ...]) -> tuple[str, ...]:
    found = [
        *(one for one in these if any(covers(other, one) for other in those)),
        *(one for one in those if any(covers(other, one) for other in these)),
    ]
    return tuple(dict.fromkeys(found))


def reaches_outside(confinement: Confinement | None) -> bool:
    """Whether a command can send something out of this machine; without a confinement it can."""
    return confinement is None or confinement.network != NO_NETWORK


def reads_private(confinement: Confinement | None) -> bool:
    """Whether a command can read what lies outside of the workspace and is no program; without a confinement it can."""
    if confinement is None:
        return True
    return not all(is_in_workspace(entry) for entry in (*confinement.write, *confinement.read))


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(str(one) for one in value if one is not None)
    return () if value is None else (str(value),)
