"""A collector of OpenTelemetry: traces over HTTP, as protocol buffers."""

from __future__ import annotations

import gzip

from aiohttp import web

from tests.compat.services.web import Service


class Collector(Service):
    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/traces", self.traces)]

    async def traces(self, request: web.Request) -> web.Response:
        """Text is plain within a protocol buffer, so names and values can be looked for in it."""
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        self.hear("traces", body)
        return web.Response(body=b"", content_type="application/x-protobuf")
