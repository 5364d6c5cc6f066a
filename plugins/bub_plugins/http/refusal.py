"""A request that is refused, and the reason that it gets."""

from __future__ import annotations

from math import ceil


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """A request that is refused with a status such as 400, what is wrong, and what to do about it."""

    def __init__(self, status: int, error: str, help: str = "", **headers: str) -> None:  # noqa: A002
        super().__init__(f"{status}: {error}")
        self.status = status
        self.error = error
        self.help = help
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @classmethod
    def unknown(cls) -> Refusal:
        """Nobody that may ask has proved to be who asks."""
        remedy = "send the header `Authorization: Bearer TOKEN` with a token of `http.clients`"
        return cls(401, "this needs a token", remedy, www_authenticate="Bearer")

    @classmethod
    def later(cls, status: int, error: str, seconds: float) -> Refusal:
        """It may be asked again in some seconds."""
        wait = max(1, ceil(seconds))
        return cls(status, error, f"ask again in {wait} s", retry_after=str(wait))
