"""What is likely a secret: files by their names, a private key by what it says."""

from __future__ import annotations

import re
from pathlib import PurePath

from bub.agent.tools.search import SECRETS, is_likely_secret

_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----\s+(?:[\w-]+: [^\n]*\n)*\s*[A-Za-z0-9+/=]{16}")
"""A key as people keep it, and more than a mention of its first line."""

_NAME = re.compile(rf"(?i)(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(SECRETS)))})(?![\w.-])")

_BETWEEN_WORDS = re.compile(r"[\s'\"`;|&<>()=,:]")
_LONGEST_WORD = 200


def secret_in_path(path: PurePath) -> str:
    """Return the part of a path by which it is likely a secret, such as `.ssh`; "" if there is none."""
    return next((part for part in path.parts if is_likely_secret(part)), "")


def secret_in_command(command: str) -> str:
    """Return the word of a command that names what is likely a secret; "" if there is none.

    Who wants to can write a name so that this does not see it.
    """
    found = _NAME.search(command)
    if found is None:
        return ""
    before = _BETWEEN_WORDS.split(command[max(0, found.start() - _LONGEST_WORD) : found.start()])[-1]
    behind = _BETWEEN_WORDS.split(command[found.end() : found.end() + _LONGEST_WORD])[0]
    return f"{before}{found[0]}{behind}"


def holds_private_key(text: str) -> bool:
    """Whether a text holds a private key."""
    return "PRIVATE KEY" in text and _KEY.search(text) is not None
