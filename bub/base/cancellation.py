"""What was cancelled and what failed, where both can come in one group."""

from __future__ import annotations

import trio

__all__ = ["split_cancelled"]


def split_cancelled(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cancellation in what ended some work, and the failure; each None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)
