"""Secrets within a text: passwords of addresses, and defaults of references (`${env:API_KEY:-sk-123}`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.base.quoting import ELIDED, ENV_DEFAULT, IN_QUERY, hide_passwords
from bub.secrets.names import SECRET_IN_ADDRESS, is_secret_variable


def secrets_within(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the passwords of addresses in a text, and of the defaults of variables named like secrets."""
    yield from _defaults(text)
    for found in re.finditer(SECRET_IN_ADDRESS, text) if "@" in text else ():
        yield found.span("secret")
    for found in re.finditer(IN_QUERY, text) if "://" in text else ():
        yield found.span("secret")


def hide_within(text: str) -> str:
    """The text with an ellipsis for each password of an address and each default of a variable named like a secret."""
    for start, end in reversed(list(_defaults(text))):
        text = f"{text[:start]}{ELIDED}{text[end:]}"
    return hide_passwords(text)


def _defaults(text: str) -> Iterator[tuple[int, int]]:
    for found in re.finditer(ENV_DEFAULT, text) if "${env:" in text else ():
        if is_secret_variable(found["name"]) and found["default"]:
            yield found.span("default")
