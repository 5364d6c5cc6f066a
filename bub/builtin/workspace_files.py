"""Files that are read because they lie in a folder, not because somebody named them: what may be read of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class ElsewhereError(OSError):
    """A file really lies outside of the folder that it seems to lie in: at `real`."""

    def __init__(self, real: Path) -> None:
        super().__init__(f"links lead to {real}, which is outside")
        self.real = real


def regular_file(path: str | Path, *, within: Path | None = None) -> tuple[Path, os.stat_result]:
    """Where a file really lies, and its status; asked before it is opened, for opening a pipe waits for its writer.

    Raises `ElsewhereError` when links lead out of the folder `within`: a stranger's folder must not be able to send
    any file of the user to a model. Raises OSError when it is no regular file, or cannot be looked at.
    """
    real = Path(os.path.realpath(path, strict=True))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise ElsewhereError(real)
    status = real.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is not a regular file")
    return real, status
