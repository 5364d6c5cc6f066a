"""The routes below `/v1`."""

from __future__ import annotations

from starlette.routing import BaseRoute

from bub_plugins.http.door import Door


def openai_routes(door: Door) -> list[BaseRoute]:
    """Return the routes of the API for the clients of a door."""
    return []
