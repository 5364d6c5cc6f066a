"""Reading PDFs: how many pages there are and what they say, within bounds whatever the file holds."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from bub.agent.documents import pdf_text

SECONDS = 30.0
"""How long reading may take; what was read by then counts."""

_SHORTEST = 10
"""A PDF whose pages have fewer letters in all is a picture of a text."""


class Pdf(msgspec.Struct, frozen=True):
    """What a PDF says: `texts` of its first pages, of `pages` in all. `problem` is why it says nothing."""

    pages: int = 0
    texts: tuple[str, ...] = ()
    problem: str = ""

    @property
    def text(self) -> str:
        """All that was read, with the number above each page."""
        read = "\n\n".join(f"[page {number}]\n{text.strip()}" for number, text in enumerate(self.texts, 1))
        left = self.pages - len(self.texts)
        return f"{read}\n\n[{left:,} more pages could not be read in time]" if left > 0 else read


def read_pdf(data: bytes) -> Pdf:
    """Read a PDF, in a process of its own. It blocks for a moment, at most for `SECONDS`."""
    package = find_spec("pypdf")
    if package is None or package.origin is None:
        return Pdf(problem="the package pypdf is missing")
    place = str(Path(package.origin).parent.parent)
    command = [sys.executable, "-I", "-S", str(pdf_text.__file__), place]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False, env={})
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = error.output or b""
    # A program that was stopped may have written only a half of its last line.
    said = [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
    problem = next((str(each["problem"]) for each in said if "problem" in each), "")
    if problem or not said:
        return Pdf(problem=problem or "it is broken, or wants too much time or memory")
    texts = tuple(str(each["text"]) for each in said if "text" in each)
    if len(texts) == said[0]["pages"] and sum(len(text.strip()) for text in texts) < _SHORTEST:
        return Pdf(said[0]["pages"], texts, "its pages hold no text, perhaps pictures of one")
    return Pdf(said[0]["pages"], texts)
