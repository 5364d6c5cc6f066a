"""Names of services that lead to fakes on this machine, over TLS."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import trustme
from aiohttp import web

from tests.compat.services.web import Service

INSIDE = Path(__file__).parent / "inside"


class Names:
    """What leads a process to the fakes that were opened here; `folder` keeps the certificate that vouches for them."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self._certificate = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self._certificate))
        self._ports: dict[str, int] = {}

    async def open(self, service: Service) -> web.AppRunner:
        """Open a service under its names until the runner is cleaned up."""
        context = None
        if service.hosts:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._authority.issue_cert(*service.hosts).configure_cert(context)
        runner = await service.open(context)
        self._ports |= dict.fromkeys(service.hosts, service.port)
        return runner

    @property
    def variables(self) -> dict[str, str]:
        """The part of a process's environment for which the names lead here."""
        return {
            "PYTHONPATH": str(INSIDE),
            "COMPAT_HOSTS": json.dumps(self._ports),
            "COMPAT_CA": str(self._certificate),
            "REQUESTS_CA_BUNDLE": str(self._certificate),
        }
