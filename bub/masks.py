"""Covering secrets in what is kept or shown of a turn: tapes, the log, traces, tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from bub.pipeline.document import Node, walk
from bub.pipeline.interpolate import Environment, references, resolve
from bub.pipeline.merge import Document
from bub.pipeline.origins import Scope, Steps, scope_of
from bub.pipeline.plan import make_plan
from bub.plain import plain

_SECRET_NAME = re.compile("(?:key|token|secret|password|passphrase|credentials?)$", re.IGNORECASE)
_SHORTEST = 4
"""A text of fewer characters is no secret, and would be found everywhere."""

_SHORTEST_NAMED = 8
"""As `_SHORTEST`, where only the name of a variable says that it holds one."""

_COVER = "***"


@dataclass(frozen=True, slots=True)
class Mask:
    """Texts that are not to be shown, the longest first."""

    secrets: tuple[str, ...] = field(repr=False)
    _any: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Most texts hold no secret, and one search for all of them is soon over; without any, nothing is found.
        either = "|".join(map(re.escape, self.secrets)) or "(?!)"
        object.__setattr__(self, "_any", re.compile(either))

    @classmethod
    def over(cls, document: Document, environment: Environment, settings: Mapping[str, Mapping[str, Any]]) -> Mask:
        """What the environment, or the settings (of each profile, resolved), mark as secret or name like one.

        What stands behind a reference in the settings counts as well.
        """
        found = {value for name, value in environment.items() if _SECRET_NAME.search(name) and _looks_secret(value)}
        for layer in document.layers:
            found.update(_referenced(layer.root, document, environment))
        for profile, resolved in settings.items():
            found.update(_marked(resolved, (), scope_of(make_plan(document, profile), {})))
        told = {text for secret in found for text in _spellings(secret.strip()) if len(text) >= _SHORTEST}
        return cls(tuple(sorted(told, key=len, reverse=True)))

    def text(self, text: str) -> str:
        """The text with its secrets covered."""
        if self._any.search(text) is None:
            return text
        for secret in self.secrets:
            text = text.replace(secret, _COVER)
        return text

    def value(self, value: Any) -> Any:
        """The value in types of JSON, secrets covered all the way down."""
        return self._covered(plain(value))

    def _covered(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._covered(item) for item in value]
        if isinstance(value, dict):
            return {self._covered(name): self._covered(item) for name, item in value.items()}
        return value


def _looks_secret(value: str) -> bool:
    """Whether a value that only its variable's name calls a secret is one: `true` or `postgres` is found everywhere."""
    return len(value) >= _SHORTEST_NAMED and not (value.isalpha() and value.islower())


def _spellings(secret: str) -> Iterator[str]:
    """How a secret may stand in a text: as it is, in one line, quoted by Python or JSON, in an address."""
    data = secret.encode(errors="surrogateescape")
    yield from (secret, " ".join(secret.split()))
    yield from (repr(secret)[1:-1], str(data)[2:-1], json.dumps(secret)[1:-1])
    yield from (quote(data), quote(data, safe=""))


def _referenced(root: Node, document: Document, environment: Environment) -> Iterator[str]:
    """What stands behind the references of the settings, the file's and its profiles'."""
    for path, node in walk(root):
        if isinstance(node.value, str) and "settings" in path.split(".") and references(node.value):
            value, _ = resolve(node, environment, base=document.base, folders=document.folders)
            if value is not None:
                yield str(value)


def _marked(value: Any, steps: Steps, scope: Scope) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _marked(below, (*steps, name), scope)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _marked(below, (*steps, index), scope)
    elif isinstance(value, str) and scope.is_marked(steps):
        yield value
