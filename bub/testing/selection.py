"""Choosing tests by name: `greeting and not (slow or denied)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bub.errors import UsageError

NameFilter = Callable[[str], bool]
"""Whether a test of this name is meant."""

_TOKEN = re.compile(r"\(|\)|[^\s()]+")
_OPERATORS = ("and", "or", "not", "(", ")")


def choose(expression: str) -> NameFilter:
    """Return what an expression of words, `and`, `or`, `not` and brackets chooses: names that have the words in them.

    Words side by side are one phrase. Capitals do not matter. Raises `UsageError` for what is no expression.
    """
    return _Parser(expression, _TOKEN.findall(expression.casefold())).parse()


@dataclass(slots=True)
class _Parser:
    expression: str
    tokens: list[str]
    at: int = 0

    def parse(self) -> NameFilter:
        chosen = self._parse_or()
        if self.at < len(self.tokens):
            raise self._refusal()
        return chosen

    def _parse_or(self) -> NameFilter:
        ways = [self._parse_and()]
        while self._accept("or"):
            ways.append(self._parse_and())
        return lambda name: any(way(name) for way in ways)

    def _parse_and(self) -> NameFilter:
        parts = [self._parse_term()]
        while self._accept("and"):
            parts.append(self._parse_term())
        return lambda name: all(part(name) for part in parts)

    def _parse_term(self) -> NameFilter:
        if self._accept("not"):
            inner = self._parse_term()
            return lambda name: not inner(name)
        if self._accept("("):
            inner = self._parse_or()
            if not self._accept(")"):
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

    def _accept(self, token: str) -> bool:
        taken = self.tokens[self.at : self.at + 1] == [token]
        self.at += taken
        return taken

    def _refusal(self) -> UsageError:
        problem = f"`{self.tokens[self.at]}` is out of place" if self.at < len(self.tokens) else "it ends too soon"
        return UsageError(
            f"-k {self.expression!r}: {problem}", help="write it as in `greeting and not (slow or denied)`"
        )
