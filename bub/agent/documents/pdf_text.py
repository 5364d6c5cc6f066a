"""The text of a PDF, page by page, as a program of its own: one that wants all time or memory is stopped."""

from __future__ import annotations

import io
import json
import logging
import sys
from contextlib import suppress
from typing import Any

# No import of Bub: the program starts with nothing but the package that reads PDFs, whose folder is its argument.

_MEMORY = 2 * 1024**3
_LONGEST_TEXT = 5_000_000
"""How many characters are read."""


def _say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print how many pages there are, or what is wrong; then the text of each page, as far as time allows."""
    logging.disable()
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.path.append(sys.argv[1])
    from pypdf import PdfReader

    data = sys.stdin.buffer.read()
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            _say(problem="it is encrypted")
            return
        count = len(reader.pages)
    except Exception as error:  # noqa: BLE001 (whatever is in it, it is a stranger's)
        _say(problem="it is encrypted" if "crypt" in f"{type(error).__name__} {error}".lower() else "it is broken")
        return
    _say(pages=count)
    left = _LONGEST_TEXT
    for page in reader.pages:
        try:
            text = page.extract_text()
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001
            text = ""
        _say(text=text[:left])
        left -= len(text)
        if left <= 0:
            return


if __name__ == "__main__":
    main()
