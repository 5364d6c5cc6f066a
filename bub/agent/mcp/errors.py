"""What goes wrong with a server."""

from __future__ import annotations

from bub.errors import BubError


class ServerError(BubError):
    """A server that cannot be used: why, as a clause that follows its name."""
