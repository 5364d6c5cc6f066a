"""The page of a gateway that other machines reach is encrypted: its token is the operator's yes."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.settings import all_settings
from bub.pipeline.source.interpolate import references
from bub.pipeline.source.schemas import settings_schema

CODE = "B253"

_SECTION = ("gateway", "studio")
_ENCRYPTS = ("tls", "public_url")


def check_pages(outline: Outline) -> None:
    """Find addresses that other machines reach, with neither a certificate nor a proxy that speaks HTTPS."""
    said = dict(all_settings(outline.document.root))
    everywhere = said.get(None)
    for profile, settings in said.items():
        listen = settings.get(*_SECTION, "listen")
        if listen is None or not isinstance(listen.value, str) or not _is_reached(listen.value):
            continue
        sections = [one for one in (settings, everywhere) if one is not None]
        if any(one.get(*_SECTION, name) is not None for one in sections for name in _ENCRYPTS):
            continue
        path = ".".join(("settings", *_SECTION, "listen"))
        outline.findings.add(
            CODE,
            f"other machines reach `{listen.value}`, and nothing encrypts the page's token",
            listen.where,
            path=path if profile is None else f"profiles.{profile}.{path}",
            help="listen at 127.0.0.1, set `tls` beside it, or `public_url` to the https address of a proxy",
        )


def _is_reached(listen: str) -> bool:
    """Whether an address is surely one that other machines reach; a reference may stand for anything.

    A text that the schema does not take as an address is not reached: B105 reports it.
    """
    if references(listen) or not re.search(_pattern(), listen):
        return False
    host = listen.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def _pattern() -> str:
    """Return the pattern of the schema for an address."""
    schema: Any = settings_schema()
    for name in (*_SECTION, "listen"):
        schema = schema["properties"][name]
    return str(schema["pattern"])
