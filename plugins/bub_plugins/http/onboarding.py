"""What a set-up asks: the address to listen at, and one program that may ask. Webhooks are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.asking import Asking
from bub.errors import BubError
from bub_plugins.http.clients import check_secret, is_id
from bub_plugins.http.settings import HttpSettings


def ask_for_http(config: Mapping[str, Any], profile: str, ask: Asking) -> dict[str, Any]:
    """Ask for the section `http`; what it has so far is kept."""
    now = config.get("http") or {}
    listen = now.get("listen") or HttpSettings().listen
    said: dict[str, Any] = {"listen": ask.text("http.listen", "Which address does it listen at?", default=listen)}
    title = "What is the program called that may ask (Enter for none more)?"
    name = ask.text("http.client", title, default="", check=_check_name)
    if name:
        kept = (now.get("clients") or {}).get(name) or {}
        title = f"The token that {name} sends (16 characters or more)?"
        variable = f"HTTP_{name.upper().replace('-', '_')}_TOKEN"
        token = ask.secret("http.token", title, kept=kept.get("token"), variable=variable, check=_check_token)
        said["clients"] = {name: {"token": token, "profiles": kept.get("profiles") or [profile]}}
    return {"http": said}


def _check_name(name: str) -> str | None:
    return None if not name or is_id(name) else "has to be 1 to 32 characters of a-z, 0-9, _ and -"


def _check_token(token: str) -> str | None:
    try:
        check_secret(token, "")
    except BubError:
        return "has to be 16 characters of ASCII or more, without blanks"
    return None
