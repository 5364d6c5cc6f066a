"""Covering secrets in what is kept or shown of a turn: tapes, the log, traces, tests."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from bub.pipeline.document import Node, walk
from bub.pipeline.interpolate import Environment, references, resolve
from bub.pipeline.merge import Document
from bub.pipeline.origins import Scope, Steps, scope_of
from bub.pipeline.plan import make_plan
from bub.plain import plain
from bub.secret_names import SECRET_IN_ADDRESS, SECRET_SETTING, SECRET_VARIABLE

_SHORTEST = 4
"""A text of fewer characters is no secret, and would be found everywhere."""

_SHORTEST_NAMED = 8
"""As `_SHORTEST`, where only the name of a variable says that it holds one, or of a part of a secret."""

_COVER = "***"


@dataclass(frozen=True, slots=True)
class Mask:
    """Texts that are not to be shown, the longest first."""

    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def over(cls, document: Document, environment: Environment, settings: Mapping[str, Mapping[str, Any]]) -> Mask:
        """What the environment, or the settings (of each profile, resolved), mark as secret or name like one.

        What stands behind a reference in the settings counts as well.
        """
        found = set(_named(environment))
        for layer in document.layers:
            found.update(_referenced(layer.root, document, environment))
        for profile, resolved in settings.items():
            found.update(_marked(resolved, (), scope_of(make_plan(document, profile), {})))
        told = {text for secret in found for text in _spellings(secret.strip()) if len(text) >= _SHORTEST}
        return cls(tuple(sorted(told, key=len, reverse=True)))

    def beside(self, other: Mask) -> Mask:
        """What covers the secrets of both."""
        return Mask(tuple(sorted({*self.secrets, *other.secrets}, key=lambda text: (-len(text), text))))

    def text(self, text: str) -> str:
        """The text with its secrets covered."""
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


def _named(environment: Environment) -> Iterator[str]:
    """What variables hold whose names are those of secrets, and the passwords of the addresses in all of them."""
    for name, value in environment.items():
        if (SECRET_SETTING.search(name) or SECRET_VARIABLE.search(name)) and _looks_secret(value):
            yield value
        yield from _in_addresses(value)


def _in_addresses(text: str) -> Iterator[str]:
    """The passwords and tokens of the addresses in a text, as they are written there and as they are meant."""
    for found in SECRET_IN_ADDRESS.finditer(text) if "@" in text else ():
        yield from filter(_looks_secret, (found["secret"], unquote(found["secret"])))


def _looks_secret(value: str) -> bool:
    """Whether a value that only its variable's name calls a secret is one: `true` or `postgres` is found everywhere.

    So is the name of a file that holds the secret, and an address to get it from.
    """
    if len(value) < _SHORTEST_NAMED or (value.isalpha() and value.islower()) or "://" in value:
        return False
    return not (value.startswith("/") and os.path.exists(value))  # noqa: PTH110 (raises nothing)


def _spellings(secret: str) -> Iterator[str]:
    """How a secret may stand in a text: as it is, in one line, quoted by Python or JSON, in an address, packed."""
    data = secret.encode(errors="surrogateescape")
    yield from (secret, " ".join(secret.split()))
    yield from (repr(secret)[1:-1], repr(f"{secret}\"'")[1:-4], str(data)[2:-1])
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (quote(data), quote(data, safe=""), quote_plus(data))
    if len(data) >= _SHORTEST_NAMED:
        yield from _packed(data)
    # A key of many lines is shown by the line; those around it, which hold blanks, say only what it is.
    yield from (line for line in secret.splitlines() if len(line) >= _SHORTEST_NAMED and " " not in line)


def _packed(data: bytes) -> Iterator[str]:
    """What base64 makes of it, by itself or inside of something longer, as `user:password` in a header is."""
    for before in range(3):
        packed = b64encode(bytes(before) + data).decode()[-(-before * 4 // 3) : (before + len(data)) * 8 // 6]
        yield from (packed, packed.replace("+", "-").replace("/", "_"))


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
    elif isinstance(value, str):
        yield from (value,) if scope.is_marked(steps) else _in_addresses(value)
