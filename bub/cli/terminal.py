"""Text from outside as a terminal may show it: names of files and words of plugins cannot steer it."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    r"""Replace every invisible character of a text by its escape (`\x1b`).

    The text gives no commands to the runner of a GitHub workflow either, which looks for them in every log: they begin
    with `::`, or with `##[` anywhere in the line.
    """
    # Marks that turn the direction of a line count as unseen, too: a name must not read as another one.
    seen = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    seen = seen.replace("##[", r"#\x23[")
    return seen.replace("::", r"\x3a:", 1) if seen.lstrip().startswith("::") else seen


def for_reader(text: str) -> str:
    """Return the text for standard output: unchanged if a program reads it, else `printable`."""
    return printable(text) if sys.stdout.isatty() else text
