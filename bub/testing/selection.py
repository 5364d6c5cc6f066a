"""Choosing tests by name: `greeting and not (slow or denied)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bub.errors import UsageError

Chosen = Callable[[str], bool]
"""Whether a test of this name is meant."""

_TOKEN = re.compile(r"\(|\)|[^\s()]+")
_OPERATORS = ("and", "or", "not", "(", ")")


def choose(expression: str) -> Chosen:
    """What an expression of words, `and`, `or`, `not` and brackets chooses: names that have the words in them.

    Words side by side are one phrase. Capitals do not matter. Raises `UsageError` for what is no expression.
    """
    return _Reader(expression, _TOKEN.findall(expression.casefold())).whole()


@dataclass(slots=True)
class _Reader:
    expression: str
    tokens: list[str]
    at: int = 0

    def whole(self) -> Chosen:
        chosen = self._either()
        if self.at < len(self.tokens):
            raise self._refusal()
        return chosen

    def _either(self) -> Chosen:
        ways = [self._both()]
        while self._took("or"):
            ways.append(self._both())
        return lambda name: any(way(name) for way in ways)

    def _both(self) -> Chosen:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return lambda name: all(part(name) for part in parts)

    def _one(self) -> Chosen:
        if self._took("not"):
            inner = self._one()
            return lambda name: not inner(name)
        if self._took("("):
            inner = self._either()
            if not self._took(")"):
                raise self._refusal()
            return inner
        words = []
        while self.at < len(self.tokens) and self.tokens[self.at] not in _OPERATORS:
            words.append(self.tokens[self.at])
            self.at += 1
        if not words:
            raise self._refusal()
        phrase = " ".join(words)
        return lambda name: phrase in name.casefold()

    def _took(self, token: str) -> bool:
        taken = self.tokens[self.at : self.at + 1] == [token]
        self.at += taken
        return taken

    def _refusal(self) -> UsageError:
        problem = f"`{self.tokens[self.at]}` is out of place" if self.at < len(self.tokens) else "it ends too soon"
        return UsageError(
            f"-k {self.expression!r}: {problem}", help="write it as in `greeting and not (slow or denied)`"
        )
