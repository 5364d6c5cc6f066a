"""What a server asks a person, as a form: read from the schema that it sends, and written as the values that it wants.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation; 2026-07-28 has the same schemas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams

from bub.agent.mcp.offered import clean
from bub.asking import Check, Choice, Form, Kind, Query
from bub.secrets.names import is_secret_variable, may_name_secret

MOST_FIELDS = 8
"""How many things a server may ask at once."""

LONGEST_MESSAGE = 2_000
"""How many characters of its words are shown; a longer question is not asked, since nobody would see all of it."""

_LONGEST_TITLE = 200
_MOST_CHOICES = 50

Value: TypeAlias = str | int | float | bool | list[str]
_Values: TypeAlias = Mapping[str, Callable[[Any], Value]]


class DeclinedError(Exception):
    """A question that nobody is asked; the text says why, as a clause."""


class ServerForm(msgspec.Struct, frozen=True):
    """A form of a server, and what it wants to have made of the answers."""

    form: Form
    values: _Values = msgspec.field(default_factory=dict)

    def write(self, answers: Mapping[str, Any]) -> dict[str, Value | None]:
        """Return the values that the server wants; what was left out is not among them."""
        return {name: self.values[name](said) for name, said in answers.items() if said not in ("", None)}


def read_form(asker: str, params: ElicitRequestParams) -> ServerForm:
    """Read what a server asks. Raises `DeclinedError` for what no person is to be asked."""
    message = clean(params.message)
    if len(message) > LONGEST_MESSAGE:
        raise DeclinedError(f"its question has more than {LONGEST_MESSAGE:,} characters")
    if isinstance(params, ElicitRequestURLParams):
        return ServerForm(Form(asker, message, address=_read_address(params.url)))
    return _read_fields(asker, message, params)


def _read_address(url: str) -> str:
    address = clean(url)
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.hostname or address != url or len(url) > LONGEST_MESSAGE:
        raise DeclinedError("the address that it wants you to open is no web address")
    return address


def _read_fields(asker: str, message: str, params: ElicitRequestFormParams) -> ServerForm:
    properties = params.requested_schema.get("properties") or {}
    required = params.requested_schema.get("required") or ()
    if not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        raise DeclinedError("its question is not a form")
    if len(properties) > MOST_FIELDS:
        raise DeclinedError(f"it asks for more than {MOST_FIELDS} things at once")
    queries, values = [], {}
    for name, schema in properties.items():
        if not isinstance(schema, Mapping):
            raise DeclinedError("its question is not a form")
        query, value = _read_field(name, schema, name in required)
        queries.append(query)
        values[name] = value
    if any(query.kind == "text" for query in queries) and _looks_secret(message):
        raise DeclinedError("its question looks as if it wants a secret")
    return ServerForm(Form(asker, message, tuple(queries)), values)


def _read_field(name: str, schema: Mapping[str, Any], is_required: bool) -> tuple[Query, Callable[[Any], Value]]:
    title, said = _line(schema.get("title")) or _line(name), _line(schema.get("description"))
    shown = f"{title}: {said}" if said else title
    stated, default = schema.get("type"), schema.get("default")
    if stated == "boolean":
        return Query(name, "confirm", shown, default is True), bool
    if may_name_secret(name) or _looks_secret(name) or _looks_secret(shown) or schema.get("format") == "password":
        raise DeclinedError(f"its field `{_line(name)}` looks like a secret")
    choices = _read_choices(schema.get("items") if stated == "array" else schema)
    if stated == "array" and choices:
        chosen = [one for one in default if isinstance(one, str)] if isinstance(default, list) else []
        return Query(name, "checkbox", shown, chosen, choices), list
    usual = str(default) if isinstance(default, str | int | float) else None if is_required else ""
    if stated == "string" and choices:
        offered = choices if is_required else [Choice("", "(leave it out)"), *choices]
        return Query(name, "select", shown, usual, offered), str
    checks: dict[object, tuple[Check, Callable[[Any], Value]]] = {
        "string": (partial(_check_text, schema), str),
        "integer": (partial(_check_number, schema, int), int),
        "number": (partial(_check_number, schema, float), float),
    }
    if stated not in checks:
        raise DeclinedError(f"its field `{_line(name)}` has a type that Bub cannot ask for")
    check, value = checks[stated]
    kind: Kind = "text"
    return Query(name, kind, shown, usual, check=check, hint=_hint(usual)), value


def _hint(usual: str | None) -> str:
    if usual is None:
        return ""
    return f"empty: {_line(usual)}" if usual else "empty leaves it out"


def _read_choices(schema: Any) -> list[Choice]:
    """Return what may be chosen, in each of the ways in which the protocol writes that; nothing if anything may be."""
    if not isinstance(schema, Mapping):
        return []
    names = schema.get("enumNames")
    values = schema.get("enum")
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list) and all(isinstance(one, Mapping) for one in titled):
        values, names = [one.get("const") for one in titled], [one.get("title") for one in titled]
    if not isinstance(values, list):
        return []
    if len(values) > _MOST_CHOICES or not all(isinstance(value, str) and value for value in values):
        raise DeclinedError(f"its question has more than {_MOST_CHOICES} choices, or a choice that is no text")
    shown = names if isinstance(names, list) and len(names) == len(values) else values
    return [Choice(value, _line(title) or _line(value)) for value, title in zip(values, shown, strict=True)]


def _line(text: Any) -> str:
    """Return a text of a server as one line."""
    line = " ".join(clean(text).split()) if isinstance(text, str) else ""
    if len(line) > _LONGEST_TITLE:
        raise DeclinedError(f"a name in its question has more than {_LONGEST_TITLE} characters")
    return line


def _looks_secret(text: str) -> bool:
    """Whether one of the words, or two that follow each other, are what a secret is called."""
    words = re.findall(r"\w+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text))
    pairs = ["_".join(pair) for pair in pairwise(words)]
    return any(map(is_secret_variable, [*words, *pairs])) or bool(_NUMBERS.search(" ".join(words)))


_NUMBERS = re.compile(r"(?i)\b(pin|cvv|cvc|otp|passcode|ssn|iban|2fa|mfa)\b|card.?number|one.?time.?code")
"""What else nobody should type into such a form, beside what settings and variables are called."""


def _check_text(schema: Mapping[str, Any], text: str) -> str | None:
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        return f"has fewer than {least} characters"
    if isinstance(most, int) and len(text) > most:
        return f"has more than {most} characters"
    form = schema.get("format")
    return _FORMATS[form](text) if form in _FORMATS else None


def _check_number(schema: Mapping[str, Any], kind: Callable[[str], float], text: str) -> str | None:
    least, most = schema.get("minimum"), schema.get("maximum")
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        return "is no whole number" if kind is int else "is no number"
    if isinstance(least, int | float) and number < least:
        return f"is less than {least}"
    return f"is more than {most}" if isinstance(most, int | float) and number > most else None


def _check_time(read: Callable[[str], object], what: str, text: str) -> str | None:
    try:
        read(text)
    except ValueError:
        return what
    return None


def _check_email(text: str) -> str | None:
    return None if re.fullmatch(r"[^@\s]+@[^@\s]+", text) else "is no email address"


def _check_uri(text: str) -> str | None:
    return None if re.fullmatch(r"[A-Za-z][\w+.-]*:\S+", text) else "is no address such as https://example.com"


_FORMATS: Mapping[Any, Check] = {
    "email": _check_email,
    "uri": _check_uri,
    "date": partial(_check_time, date.fromisoformat, "is no date such as 2026-07-28"),
    "date-time": partial(_check_time, datetime.fromisoformat, "is no time such as 2026-07-28T12:00:00Z"),
}
