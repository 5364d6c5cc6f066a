"""The address of the page with its token, for the operator alone: on their terminal, else in a file that is theirs.

What a service prints ends in a log, where the token must not be.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bub.base.failures import explain_os_error
from bub.base.private import make_private, open_private
from bub.errors import BubError
from bub.log import log_info

FOLDER = "pages"
"""The folder of the files, below Bub's own folder; each has the port of its page for a name, or its public host."""


@contextmanager
def handing_over(home: Path) -> Iterator[Callable[[str], None]]:
    """Give what hands the address over; a file with it is there until the block is left, and only its owner reads it.

    What is given raises `BubError` if the file cannot be written.
    """
    kept: list[Path] = []

    def hand_over(url: str) -> None:
        if sys.stderr.isatty():
            print(f"bub: the page is at {url}", file=sys.stderr, flush=True)
            return
        address = url.partition("#")[0]
        file = home / FOLDER / address.rstrip("/").rpartition(":")[2].rpartition("/")[2]
        try:
            make_private(file.parent)
            file.unlink(missing_ok=True)  # one that others may read would stay so
            with os.fdopen(open_private(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as opened:
                kept.append(file)
                opened.write(f"{url}\n")
        except OSError as error:
            problem = f"cannot write the address of the page to {file}: {explain_os_error(error)}"
            raise BubError(problem, help="see that the folder is yours, or start the gateway at a terminal") from error
        log_info("studio.address", page=address, with_token_in=file)

    try:
        yield hand_over
    finally:
        for file in kept:
            with suppress(OSError):
                file.unlink()
