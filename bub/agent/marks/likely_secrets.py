"""What is likely a secret: files by their names, a private key by what it says."""

from __future__ import annotations

import re
from pathlib import PurePath

from bub.agent.tools.search import is_likely_secret

_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----\s+(?:[\w-]+: [^\n]*\n)*\s*[A-Za-z0-9+/=]{16}")
"""A key as people keep it, and not a mere mention of its first line."""

_WORD = re.compile(r"[^\s'\"`;|&<>()=,:]+")


def secret_in_path(path: PurePath) -> str:
    """Return the part of a path by which it is likely a secret, such as `.ssh`; "" if there is none."""
    return next((part for part in path.parts if is_likely_secret(part)), "")


def secret_in_command(command: str) -> str:
    """Return a word of a command that names what is likely a secret; "" if there is none.

    Who wants to can write a name so that this does not see it.
    """
    for word in _WORD.findall(command):
        if secret_in_path(PurePath(word)):
            return str(word)
    return ""


def holds_private_key(text: str) -> bool:
    """Whether a text holds a private key."""
    return "PRIVATE KEY" in text and _KEY.search(text) is not None
