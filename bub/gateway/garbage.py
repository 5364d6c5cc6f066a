"""When Python looks for garbage: not while turns wait for it, though a reload makes much that has to be looked through.

To look through all that lives stops every thread: 80 ms with 200 profiles loaded, before a reload and behind it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 10_000
"""After how many new objects Python looks for garbage among them."""


@contextmanager
def looking_later() -> Iterator[None]:
    """Look for no garbage in the block, and behind it in nothing that is alive by then, until `look_through`."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def look_through() -> None:
    """Look for garbage in everything, and then no more in what is alive."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def looking_less_often() -> Iterator[None]:
    """Look for garbage after more new objects than Python does by itself; with 10,000 chats that halves the CPU."""
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
