"""Texts from outside as a terminal may show them: names of files and words of plugins cannot steer it."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    r"""The text with an escape (`\x1b`) in place of every character that is not to be seen.

    Nor is it a command to the runner of a GitHub workflow, which looks for them in every log: those begin with `::`,
    or with `##[` anywhere in the line.
    """
    # Marks that turn the direction of a line count as unseen, too: a name must not read as another one.
    seen = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    seen = seen.replace("##[", r"#\x23[")
    return seen.replace("::", r"\x3a:", 1) if seen.lstrip().startswith("::") else seen


def for_reader(text: str) -> str:
    """The text as standard output gets it: as it is where a program reads it, else `printable`."""
    return printable(text) if sys.stdout.isatty() else text
