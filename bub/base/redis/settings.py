"""The store in which several gateways share what they agree on, and the name they use there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from bub.base.identity.agents import memory_of
from bub.base.redis.address import StoreAddress

VARIABLE = "BUB_GATEWAY_STORE"
"""The variable of the setting `gateway.store`."""


def store_address(settings: Mapping[str, Any]) -> StoreAddress | None:
    """Return the address in `gateway.store`; None if everything lies in Bub's own folder. Raises `AddressError`."""
    section = settings.get("gateway")
    said = section.get("store") if isinstance(section, Mapping) else None
    return StoreAddress.parse(str(said)) if said else None


def agent_of(workspace: Path) -> str:
    """Return what everything of an agent is called in a shared store: its name, or one made of its workspace."""
    return agent_of_memory(memory_of(workspace, os.environ))


def agent_of_memory(memory: str) -> str:
    """Return the same for a memory (`memory_of`)."""
    if memory.startswith("agent:"):
        return memory.removeprefix("agent:")
    return sha256(memory.encode("utf-8", "surrogatepass")).hexdigest()[:16]
