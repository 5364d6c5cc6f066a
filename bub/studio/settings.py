"""The address of the page and what it may do: the section `gateway.studio` of the settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bub.channels.web import Certificate, ListenAddress, address_for
from bub.errors import UsageError

USUAL = "127.0.0.1:0"
"""The address `bub studio` listens at if nobody says one: any port of this machine that is free."""

_SECTION = "gateway.studio"
_PORTS = {"http": 80, "https": 443}


class StudioSettings(msgspec.Struct, frozen=True):
    """The place the page listens at, the address people reach it under, and whether it may change the file.

    `public` is the `https` address under which others reach it, such as that of a proxy; "" if there is none.
    """

    listen: ListenAddress
    public: str = ""
    certificate: Certificate | None = None
    write: bool = False

    @property
    def scheme(self) -> str:
        """What it speaks by itself."""
        return "https" if self.certificate is not None else "http"

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it by TLS, its own or that of a proxy."""
        return self.certificate is not None or bool(self.public)

    def address(self, port: int) -> str:
        """Return the address for people, without a path, if it got this port."""
        host = self.listen.host
        if ipaddress.ip_address(host).is_unspecified:  # a place to listen at, and none to go to
            host = "::1" if ":" in host else "127.0.0.1"
        return self.public or f"{self.scheme}://{ListenAddress(host, port)}"

    def origins(self, port: int) -> frozenset[str]:
        """Return every origin under which a browser may reach it, if it got this port."""
        hosts = {"localhost", "127.0.0.1", "[::1]"}
        if not ipaddress.ip_address(self.listen.host).is_unspecified:
            hosts.add(str(ListenAddress(self.listen.host, 0)).rpartition(":")[0])
        end = "" if port == _PORTS[self.scheme] else f":{port}"
        own = {f"{self.scheme}://{host}{end}" for host in hosts}
        return frozenset({*own, self.public} if self.public else own)


def read_settings(
    section: Mapping[str, Any] | None, folder: Path, *, listen: str | None = None, write: bool = False
) -> StudioSettings:
    """Return what the section says; `listen` and `write` are those of the command line, which win.

    Paths in it are below `folder`. Raises `UsageError` for what contradicts itself, such as a page that other machines
    reach without TLS.
    """
    said = section or {}
    certificate, public = _read_tls(said.get("tls"), folder), _read_public(said.get("public_url"))
    wanted = str(listen or said.get("listen") or USUAL)
    address = address_for(wanted, section=_SECTION, is_encrypted=certificate is not None or bool(public))
    return StudioSettings(address, public, certificate, write or said.get("write") in (True, "true"))


def _read_tls(said: Any, folder: Path) -> Certificate | None:
    if not said:
        return None
    names = [str(said.get(name) or "") for name in ("certificate", "key")] if isinstance(said, Mapping) else [""]
    if not all(names):
        problem = f"`{_SECTION}.tls` has to name two files"
        raise UsageError(problem, help="write `tls: {certificate: cert.pem, key: key.pem}`")
    certificate, key = (str(folder / Path(name).expanduser()) for name in names)
    return Certificate(certificate, key)


def _read_public(said: Any) -> str:
    """Return an address as a browser writes the origin; "" if none is said."""
    if not said:
        return ""
    parts = urlsplit(str(said))
    try:
        port = parts.port
    except ValueError:
        port = -1
    is_plain = parts.scheme == "https" and parts.hostname and parts.username is None and parts.path in ("", "/")
    if not is_plain or parts.query or parts.fragment or port == -1:
        raise UsageError(
            f"`{_SECTION}.public_url` has to be an https address without a path",
            help="write it as https://bub.example.org",
        )
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"https://{host}" if port in (None, 443) else f"https://{host}:{port}"
