"""Which store an inbox lies in: that of the address in the settings, or a file in Bub's own folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bub.base.installing.extras import install_command
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of, store_address
from bub.errors import BubError
from bub.inbox.copying.sides import Side
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.shared import late
from bub.inbox.shared.examination import Examination
from bub.inbox.shared.overview import Overview
from bub.inbox.shared.store import SharedInbox
from bub.inbox.store import InboxStore


def inbox_of(home: Path, workspace: Path, settings: Mapping[str, Any]) -> InboxStore:
    """Return the inbox of an agent, which is still to be opened. Raises `BubError` if it cannot be."""
    address = store_address(settings)
    return Mailbox(inbox_file(home), workspace) if address is None else shared_inbox(address, workspace)


def shared_inbox(address: StoreAddress, workspace: Path) -> SharedInbox:
    """Return the inbox of an agent in a store that several gateways share."""
    with _needing_client(address):
        inbox: SharedInbox = late.RedisInbox(address, agent_of(workspace))
    return inbox


def side_of(address: StoreAddress, memory: str) -> Side:
    """Return what an agent with a certain memory has in a shared store, as one end of a copy."""
    with _needing_client(address):
        side: Side = late.RedisSide(address, memory)
    return side


async def overview_of(address: StoreAddress, workspace: Path) -> Overview:
    """Return how all gateways of an agent are. Raises `BubError` if the store cannot be asked."""
    with _needing_client(address):
        read = late.read_overview
    return await read(address, agent_of(workspace))


async def examination_of(address: StoreAddress, workspace: Path) -> Examination:
    """Return how a store is set up. Raises `BubError` if it cannot be asked."""
    with _needing_client(address):
        examine = late.examine_store
    return await examine(address, agent_of(workspace))


@contextmanager
def _needing_client(address: StoreAddress) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        remedy = f"run `{install_command('redis')}`"
        raise BubError(f"{address.shown} needs the package coredis", help=remedy) from error
