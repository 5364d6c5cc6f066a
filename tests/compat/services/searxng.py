"""SearXNG: its search as JSON."""

from __future__ import annotations

from aiohttp import web

from tests.compat.services.web import Service


class SearXNG(Service):
    hosts = ("searx.example",)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/search", self.search)]

    async def search(self, request: web.Request) -> web.Response:
        self.hear("search", dict(request.query))
        result = {"title": "Trio", "url": "https://trio.example/", "content": "A friendly library.", "engine": "fake"}
        return web.json_response({"query": request.query["q"], "results": [result], "answers": [], "suggestions": []})
