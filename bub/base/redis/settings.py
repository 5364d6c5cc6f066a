"""The setting that says where several gateways share what they agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.base.redis.address import StoreAddress


def store_address(settings: Mapping[str, Any]) -> StoreAddress | None:
    """Return the address in `gateway.store`; None if everything lies in Bub's own folder. Raises `AddressError`."""
    section = settings.get("gateway")
    said = section.get("store") if isinstance(section, Mapping) else None
    return StoreAddress.parse(str(said)) if said else None
