"""Secrets that are in a text as they are: which parts of it may be one, as far as the text alone can tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from bub.base.quoting import IN_QUERY
from bub.secrets.names import SECRET_IN_ADDRESS, SECRET_WORDS

SHORTEST_UNMARKED = 8
"""A text of fewer characters is no secret if nobody marked it as one, nor is such a part of a secret."""

_NO_KEY = r"\d{1,15}|[^\W\d_]?(?:[a-z]{1,20}|[A-Z]{1,20})|(?=.{1,7}$)[a-z]+\d+"

SECRET_KEY = rf"""(?i){SECRET_WORDS}\b(?=["']?\s*:)"""
"""A key of YAML or JSON that names a secret, as a pattern."""

_LEAD = r"[ \t]*(?:-[ \t]+)*"
_ENTRY = r"[^\s:]+\s*:(?:\s|$)"


def secret_starts(lines: Sequence[str]) -> dict[int, int]:
    """The lines of a text that cannot be parsed which may hold a secret, by index, and where it begins in each.

    That is what follows a key such as `api_key`, and what is indented deeper below it. What is no secret may be among
    it: nobody knows what such a text means.
    """
    starts: dict[int, int] = {}
    key_column: int | None = None
    value_is_awaited = False
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" \t"))
        if indent == len(line):
            continue
        if key_column is not None:
            is_item = indent == key_column and line.startswith("-", indent)
            is_value = value_is_awaited and not re.match(_ENTRY, line[indent:])
            value_is_awaited = False
            if indent > key_column or is_item or is_value:
                starts[index] = indent
                continue
        key = re.search(SECRET_KEY, line)
        if key is None:
            key_column = None
            continue
        starts[index] = line.index(":", key.end()) + 1
        key_column = re.match(_LEAD, line).end()  # type: ignore[union-attr]  # matches "" as well
        value_is_awaited = not line[starts[index] :].strip()
    return starts


def secrets_in_addresses(text: str) -> Iterator[str]:
    """The passwords and tokens of the addresses in a text, as they are written there and as they are meant."""
    for found in re.finditer(SECRET_IN_ADDRESS, text) if "@" in text else ():
        secret = found["secret"]
        # A user may be an e-mail address, and what is behind it the password.
        yield from filter(looks_secret, (secret, unquote(secret), secret.rpartition(":")[2]))
    for found in re.finditer(IN_QUERY, text) if "://" in text else ():
        yield from filter(looks_secret, (found["secret"], unquote(found["secret"])))


def credentials_in(value: str) -> Iterator[str]:
    """A value that is a secret, and its second word if there are two, as in the header `Bearer …` (RFC 9110 §11.4)."""
    yield value
    scheme, _, rest = value.strip().partition(" ")
    if scheme.isalpha() and " " not in rest and len(rest) >= SHORTEST_UNMARKED:
        yield rest


def looks_secret(value: str) -> bool:
    """Whether a value that nobody marked, such as that of a variable named like a secret, may be one.

    `true` or `postgres` is none, since it is found everywhere; nor is an address to get the secret from, or the name of
    a file that holds it.
    """
    if len(value) < SHORTEST_UNMARKED or (value.isalpha() and value.islower()) or "://" in value:
        return False
    return not (value.startswith("/") and os.path.exists(value))  # noqa: PTH110 (raises nothing)


def looks_like_key(text: str) -> bool:
    """Whether a value in a place that is for something else may be a key that was pasted there.

    A key has six letters and digits or more in a row that are neither a word nor a number, nor a short name with its
    version, such as `llama3`.
    """
    return any(not re.fullmatch(_NO_KEY, run) for run in re.findall(r"[^\W_]{6,}", text))


def is_prose(text: str) -> bool:
    """Whether most lines of a text are of several words, which those of a key are not."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return sum(" " in line for line in lines) * 2 > len(lines)
