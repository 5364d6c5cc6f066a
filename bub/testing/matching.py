"""An expected value held against the one that came: equal, or, for a text, containing or matching what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bub.base.diagnostics import Place
from bub.base.waiting import PLAIN
from bub.envelope import field_of
from bub.pipeline.check.cases import is_matcher
from bub.pipeline.source.document import Node


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that did not come as expected: `path` says what (`outbounds[0].content`), `place` who says so.

    `how` is what the value should have done with the `expected` one: "contains" or "matches"; "" if it should have
    been equal. Without a path the turn as a whole went wrong, and `got` says how.
    """

    path: str
    place: Place
    expected: Any
    got: Any
    how: str = ""


def compare(expected: Node, got: Any, path: str) -> Iterator[Failure]:
    """Yield where a value differs from the one expected: of a mapping only the keys that are named count."""
    if _is_matcher(expected, got):
        for how, node in expected.items():
            for wanted in node.elements() if node.is_sequence else (node,):
                yield from _part(how, wanted, got, path)
    elif expected.is_mapping and (isinstance(got, Mapping) or type(got) not in PLAIN):
        for name, below in expected.items():
            yield from compare(below, field_of(got, name), f"{path}.{name}")
    elif expected.is_sequence and isinstance(got, list | tuple) and len(got) == len(expected.elements()):
        for index, below in enumerate(expected.elements()):
            yield from compare(below, got[index], f"{path}[{index}]")
    elif not _same(expected.plain(), got):
        yield Failure(path, expected.where, expected.plain(), got)


def _is_matcher(expected: Node, got: Any) -> bool:
    """Whether an expectation asks for a part of a value; not if the value has fields of these names itself."""
    return is_matcher(expected) and not (isinstance(got, Mapping) and any(name in got for name, _ in expected.items()))


def _part(how: str, wanted: Node, got: Any, path: str) -> Iterator[Failure]:
    """Yield what is wrong with a value of which a part is asked for: of a text some words, of a list an item."""
    try:
        if isinstance(got, list | tuple):
            fits = how == "contains" and any(not list(compare(wanted, item, path)) for item in got)
        elif not isinstance(got, str) or not isinstance(wanted.value, str):
            fits = False
        else:
            fits = wanted.value in got if how == "contains" else re.search(wanted.value, got) is not None
    except re.error as error:  # it came from behind a reference: those that are written are checked before a run
        yield Failure("", wanted.where, None, f"`{path}` cannot match `{wanted.value}`: {error}")
        return
    if not fits:
        yield Failure(path, wanted.where, wanted.plain(), got, how)


def _same(expected: Any, got: Any) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return bool(expected == got) or (isinstance(expected, str) and type(got) not in PLAIN and expected == str(got))
