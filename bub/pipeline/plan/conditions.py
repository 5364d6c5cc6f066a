"""Conditions on a message, as `when` of a stage and `match` of a route say them: globs, no expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from bub.base.globs import matcher
from bub.envelope import Envelope, field_of


class When(msgspec.Struct, frozen=True):
    """A condition on the current message: each field must match its glob."""

    patterns: tuple[tuple[str, Callable[[str], object]], ...]

    @classmethod
    def of(cls, globs: Mapping[str, str | None]) -> When:
        """The condition that a `when` or `match` mapping states; None for a glob matches nothing."""
        return cls(tuple((name, matcher(glob) if glob is not None else _nothing) for name, glob in globs.items()))

    def matches(self, message: Envelope, turn: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Whether the message has every field and each matches; what `turn` knows goes before the message's fields."""
        for name, fits in self.patterns:
            value = turn.get(name) or field_of(message, name)
            if value is None or not fits(str(value)):
                return False
        return True


def _nothing(text: str) -> bool:
    return False
