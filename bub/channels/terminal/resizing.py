"""What becomes of rows that are drawn when the window becomes narrower."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

NARROWEST = 40
"""The width, in cells, down to which a window may be made narrower and all that is drawn still finds room in it."""

_CUTTING = ("linux", "putty", "st-")
"""How the names of terminals begin that cut long rows. xterm and screen tell of themselves in a variable."""


def rows_taken(cells: int, columns: int) -> int:
    """Return how many rows a row of so many cells takes in a window of another width."""
    return max(1, -(-cells // max(columns, 1)))


def rows_above(widths: Iterable[int], cursor: int, columns: int) -> int:
    """Return how far above the cursor the first row is, if the terminal has broken the rows at a new width.

    `widths` are those of the rows above the cursor's own, which has `cursor` cells before it.
    """
    return sum(rows_taken(width, columns) for width in widths) + cursor // max(columns, 1)


def breaks_rows(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal breaks rows that are longer than its new width, as most do. Nothing is asked of it."""
    if "TMUX" in environ:
        return True
    return not (environ.get("TERM", "").startswith(_CUTTING) or "XTERM_VERSION" in environ or "STY" in environ)
