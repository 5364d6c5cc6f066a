"""Secrets as defaults of references: `${env:API_KEY:-sk-123}` holds one, wherever in a document it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.base.diagnostics import ELIDED, ENV_DEFAULT
from bub.secrets.names import is_secret_variable


def secret_defaults(text: str) -> Iterator[tuple[int, int]]:
    """Where in a text the defaults stand of variables that are named like secrets, also of a reference cut short."""
    for found in re.finditer(ENV_DEFAULT, text) if "${env:" in text else ():
        if is_secret_variable(found["name"]) and found["default"]:
            yield found.span("default")


def hide_defaults(text: str) -> str:
    """The text with an ellipsis for each default of a variable that is named like a secret."""
    for start, end in reversed(list(secret_defaults(text))):
        text = f"{text[:start]}{ELIDED}{text[end:]}"
    return text
