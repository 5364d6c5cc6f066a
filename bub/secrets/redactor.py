"""Redacting secrets in what is kept or shown of a turn: tapes, the log, results of tools, reports of tests."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from bub.base.plain import plain
from bub.secrets.literals import SHORTEST_UNMARKED

COVER = "***"
"""What is in the place of a secret."""

SHORTEST = 4
"""A text of fewer characters is no secret, and would be found everywhere."""


class Redactor(msgspec.Struct, frozen=True):
    """Covers secrets in strings and values; `Redactor.of` makes one.

    `secrets` are the strings to cover as they are, the longest first.
    """

    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return "Redactor()"  # whoever prints what holds it prints no secret

    @classmethod
    def of(cls, values: Iterable[str]) -> Redactor:
        """What covers these secret values however they are written: quoted, in an address, in base64, by the line."""
        told = {text for secret in values for text in _spellings(secret.strip()) if len(text) >= SHORTEST}
        return cls(tuple(sorted(told, key=lambda text: (-len(text), text))))

    def beside(self, other: Redactor) -> Redactor:
        """What covers the secrets of both."""
        return Redactor(tuple(sorted({*self.secrets, *other.secrets}, key=lambda text: (-len(text), text))))

    def text(self, text: str) -> str:
        """The text with its secrets covered."""
        for secret in self.secrets:
            if secret in text:  # faster than to replace nothing, and most texts have no secret
                text = text.replace(secret, COVER)
        return text

    def value(self, value: Any) -> Any:
        """The value in types of JSON, secrets covered all the way down; a number that is one becomes a text."""
        return self._redact_plain(plain(value))

    def _redact_plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._redact_plain(item) for item in value]
        if isinstance(value, dict):
            return {self._redact_plain(name): self._redact_plain(item) for name, item in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self.secrets:
            return COVER
        return value


def _spellings(secret: str) -> Iterator[str]:
    """How a secret may be in a text: as it is, in one line, quoted by Python or JSON, in an address, packed."""
    data = secret.encode(errors="surrogateescape")
    yield from (secret, " ".join(secret.split()))
    yield from (repr(secret)[1:-1], repr(f"{secret}\"'")[1:-4], str(data)[2:-1])
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (quote(data), quote(data, safe=""), quote_plus(data))
    if len(data) >= SHORTEST_UNMARKED:
        yield from _encode_pieces(data)
    # A key of many lines is shown by the line; those around it, which hold blanks, say only what it is.
    yield from (line for line in secret.splitlines() if len(line) >= SHORTEST_UNMARKED and " " not in line)


def _encode_pieces(data: bytes) -> Iterator[str]:
    """What base64 makes of it, by itself or inside of something longer, as `user:password` in a header is."""
    for before in range(3):
        packed = b64encode(bytes(before) + data).decode()[-(-before * 4 // 3) : (before + len(data)) * 8 // 6]
        yield from (packed, packed.replace("+", "-").replace("/", "_"))
