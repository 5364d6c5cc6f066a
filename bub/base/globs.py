"""What one glob says of another, from their patterns alone, and how to find one among many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase, translate
from operator import methodcaller

import msgspec

_SIGN = r"[*?\[]"
_PART = r"(?s)\[!?+\]?+[^\]]*+\]|."
"""A part of a glob: a sign, a set or a letter."""

_ANYTHING = "~"
"""What nobody writes in a glob."""


def covers(wide: str, narrow: str) -> bool:
    """Whether all that `narrow` matches is matched by `wide`; False where that cannot be known."""
    if wide == narrow or wide == "*":
        return True
    if "?" in narrow or "[" in narrow:
        return False
    # Read as a text, a `*` of the narrow one must meet one of the wide one: nothing else matches texts of any length.
    return ("*" not in narrow or not ("?" in wide or "[" in wide)) and fnmatchcase(narrow, wide)


def may_meet(one: str, other: str) -> bool:
    """Whether something may be matched by both; True where that cannot be known."""
    if not is_glob(one) or not is_glob(other):
        return covers(one, other) or covers(other, one)
    first, second = re.findall(_PART, one), re.findall(_PART, other)
    # Which beginnings of the second may be matched by what the first one has matched so far, part for part.
    met = _reach([True] + [False] * len(second), second)
    for part in first:
        shared = [False, *(is_met and _may_share(part, its) for is_met, its in zip(met, second, strict=False))]
        if part == "*":
            shared = [here or any(met[: at + 1]) for at, here in enumerate(met)]
        else:
            shared = [here or (at > 0 and met[at] and second[at - 1] == "*") for at, here in enumerate(shared)]
        met = _reach(shared, second)
    return met[-1]


def _reach(met: list[bool], parts: list[str]) -> list[bool]:
    """Add the beginnings that differ from those which are met by a `*` that matches nothing."""
    for at, part in enumerate(parts):
        met[at + 1] = met[at + 1] or (met[at] and part == "*")
    return met


def _may_share(one: str, other: str) -> bool:
    """Whether two parts of globs may match the same letter; True where that cannot be known."""
    if len(one) > 1 and len(other) > 1:
        return True
    letter, part = (one, other) if len(one) == 1 else (other, one)
    return letter == "?" or part == "?" or fnmatchcase(letter, part)


def is_glob(text: str) -> bool:
    """Whether a text may match another than itself."""
    return re.search(_SIGN, text) is not None


def matches_nothing(glob: str) -> bool:
    """Whether a glob holds a set without members, such as `[z-a]`."""
    return "[" in glob and "(?!)" in translate(glob)


def sample(glob: str) -> str:
    """Return a text that the glob matches, and that few others match but those that are as wide."""
    text = re.sub(r"\[!.[^]]*\]", _ANYTHING, glob)
    text = re.sub(r"\[(.)[^]]*\]", r"\1", text)
    return text.replace("*", _ANYTHING * 2).replace("?", _ANYTHING)


def matcher(glob: str) -> Callable[[str], object]:
    """What says of a text whether the glob matches it; to compile a pattern takes a hundred times what most need."""
    sign = re.search(_SIGN, glob)
    if sign is None:
        return glob.__eq__
    if glob.endswith("*") and sign.end() == len(glob):
        return methodcaller("startswith", glob[:-1])
    return re.compile(translate(glob)).match


class _GlobStart(msgspec.Struct, frozen=True):
    """What a text in a field has to be if a glob is to match it: `letters`, or something that begins with them."""

    field: str
    letters: str
    is_all: bool

    @classmethod
    def of(cls, field: str, glob: str) -> _GlobStart:
        sign = re.search(_SIGN, glob)
        return cls(field, glob if sign is None else glob[: sign.start()], sign is None)


class GlobIndex:
    """Finds which of many conditions may hold, without trying each.

    A condition is globs by field, which all have to match; None matches nothing. Each is filed under one of its globs,
    by the letters that this begins with: the one whose beginning it shares with the fewest others.
    """

    def __init__(self, conditions: Iterable[Mapping[str, str | None]]) -> None:
        beginnings = [
            [_GlobStart.of(field, glob) if glob is not None else None for field, glob in condition.items()]
            for condition in conditions
        ]
        shared = Counter(beginning for each in beginnings for beginning in each)
        self._always: list[int] = []
        self._filed: dict[_GlobStart, list[int]] = {}
        for number, each in enumerate(beginnings):
            if None in each:
                continue
            rarest = min(each, key=shared.__getitem__, default=None)
            (self._always if rarest is None else self._filed.setdefault(rarest, [])).append(number)
        whole = {beginning.field for beginning in self._filed if beginning.is_all}
        parts = {(beginning.field, len(beginning.letters)) for beginning in self._filed if not beginning.is_all}
        self._lengths = {
            field: sorted(length for other, length in parts if other == field)
            for field in sorted(whole | {field for field, _ in parts})
        }

    def find(self, text_in: Callable[[str], str | None]) -> list[int]:
        """The numbers of all conditions that may hold, from 0 in order; `text_in` gives what a field holds, if any."""
        found = [*self._always]
        for field, lengths in self._lengths.items():
            text = text_in(field)
            if text is not None:
                found += self._filed.get(_GlobStart(field, text, True), ())
                for length in lengths:
                    if length <= len(text):
                        found += self._filed.get(_GlobStart(field, text[:length], False), ())
        return sorted(found)
