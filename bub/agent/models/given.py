"""What settings give of a provider, checked before anything is sent: its key, its address, its headers.

What is wrong is said without showing it, since it can hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from bub.errors import ModelError

_LONGEST_HOST = 254  # with the dot at its end
_OF_THE_CONNECTION = ("host", "content-length", "transfer-encoding", "connection", "content-type", "accept-encoding")
"""Headers that say how a request is sent, and so are not for settings."""


def config_error(provider: str, message: str, help: str | None) -> ModelError:  # noqa: A002 (the reader's word)
    """The error that settings say something of a provider that cannot be."""
    return ModelError(message, kind="config", provider=provider, help=help)


def check_key(provider: str, key: str | None) -> str | None:
    """The key without surrounding blanks; one that no HTTP header can carry is refused."""
    key = (key or "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise config_error(
            provider,
            f"the API key for {provider} has a character in it that no key can have",
            f"set `providers.{provider}.api_key` again, without blanks or quotes",
        )
    return key or None


def check_headers(provider: str, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers by their names in small letters; those that stand for nothing are left out (RFC 9110 §5.1, §5.5)."""
    checked = {}
    for name, value in headers.items():
        lower, value = name.lower(), value.strip()
        where = f"`providers.{provider}.headers`"
        if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", lower) or lower in _OF_THE_CONNECTION:
            raise config_error(provider, f"a name in {where} cannot be the name of a header", "write it as `X-Name`")
        if not all(" " <= character <= "~" for character in value):
            raise config_error(
                provider,
                f"the header `{lower}` in {where} has a character in it that no header can have",
                "write it in letters without accents, in one line",
            )
        if value:
            checked[lower] = value
    return checked


def check_base(provider: str, base: str, ends: Iterable[str]) -> tuple[str, str]:
    """The base URL without a trailing slash and without the path of an API at its end (`ends`), and its query."""
    where = f"the `api_base` of {provider}"
    base = base.strip()
    try:
        parts = urlsplit(base)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    # `urlsplit` leaves some control characters out without a word.
    if not has_host or not base.isprintable() or " " in base or parts.scheme not in ("http", "https"):
        raise config_error(provider, f"{where} is not an http or https URL", "write it as `https://host/v1`")
    if parts.username is not None or parts.password is not None:
        raise config_error(
            provider, f"{where} has a user name or a password in it", f"put the key in `providers.{provider}.api_key`"
        )
    if parts.fragment:
        raise config_error(provider, f"{where} has a `#` part", "write it as `https://host/v1`")
    if not _is_host(parts.hostname or ""):
        raise config_error(provider, f"{where} names an impossible host", "write it as `https://host/v1`")
    path = parts.path.rstrip("/")
    for end in ends:
        path = path.removesuffix(end)
    return f"{parts.scheme}://{parts.netloc}{path}", parts.query


def _is_host(name: str) -> bool:
    """Whether the network's name service could be asked for it: no empty or overlong part (RFC 1035 §2.3.4)."""
    try:
        return len(name.encode("idna")) <= _LONGEST_HOST
    except UnicodeError:
        return False
