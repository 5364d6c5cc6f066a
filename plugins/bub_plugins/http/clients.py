"""Who may ask: clients, each proved by a token of its own, and the sessions that are theirs."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from bub.errors import BubError
from bub_plugins.http.settings import ClientSettings

SHORTEST_SECRET = 16
"""How many characters a token or a secret has at least: a shorter one can be guessed."""

_ID = re.compile(r"[a-z0-9_-]{1,32}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_BEARER = re.compile(r"bearer +([\x21-\x7e]+)", re.IGNORECASE)


class Client(msgspec.Struct, frozen=True):
    """A client that has proved who it is: the `profiles` that it may ask, and whether its own tools are offered."""

    id: str
    profiles: tuple[str, ...]
    client_tools: bool


class Clients:
    """The clients by their tokens. Raises `BubError` for a token that cannot tell one client from another."""

    def __init__(self, settings: Mapping[str, ClientSettings]) -> None:
        self._clients: dict[bytes, Client] = {}
        for name, said in settings.items():
            where = f"http.clients.{name}"
            if not is_id(name):
                raise BubError(f"`{name}` is not a name that a client can have", help="use a-z, 0-9, `_` and `-`")
            check_secret(said.token, f"{where}.token")
            known = self._clients.setdefault(_digest(said.token), Client(name, tuple(said.profiles), said.client_tools))
            if known.id != name:
                problem = f"the clients `{known.id}` and `{name}` have the same token"
                raise BubError(problem, help="give each a token of its own")

    def find(self, authorization: str) -> Client | None:
        """Return the client whose token the header `Authorization: Bearer TOKEN` has; None if nobody has it.

        How long it takes tells nothing of the tokens.
        """
        match = _BEARER.fullmatch(authorization.strip())
        given = _digest(match[1] if match is not None else "")
        found = None
        for digest, client in self._clients.items():
            if hmac.compare_digest(digest, given):
                found = client
        return found if match is not None else None


def is_id(name: str) -> bool:
    """Tell whether a client or a webhook can have a name: none has a dot or a colon, since other parts begin there."""
    return _ID.fullmatch(name) is not None


def check_secret(secret: str, where: str) -> None:
    """Raise `BubError` if a token or a secret, at a place in the settings, is one that can be guessed."""
    if len(secret) < SHORTEST_SECRET:
        raise BubError(
            f"the setting `{where}` has less than {SHORTEST_SECRET} characters, so that it can be guessed",
            help="make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`",
        )
    if not re.fullmatch(r"[\x21-\x7e]+", secret):
        problem = f"the setting `{where}` has a blank or a character that no header can have"
        raise BubError(problem, help="use letters, digits and signs of ASCII")


def is_session_name(name: str) -> bool:
    """Tell whether a client may call a session so: at most 64 letters, digits and `._@+-`, and none of these first."""
    return _NAME.fullmatch(name) is not None


def session_name(text: str) -> str:
    """Return a name for a session that stands for any text: the text itself if it may be one.

    Any other gets an end that no client can write, so that two of them never share a session.
    """
    if is_session_name(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9._@+-]+", "-", text)[:32].strip("-.") or "x"
    return f"{readable}~{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def chat_of_client(client: Client, name: str) -> str:
    """Return the `chat_id` of a session below a client: its session is `http:CLIENT:NAME`."""
    return f"{client.id}:{name}"


def chat_of_webhook(webhook: str, name: str) -> str:
    """Return the `chat_id` of a session of a webhook: its session is `http:hook.WEBHOOK:NAME`."""
    return f"hook.{webhook}:{name}"


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
