"""Slack: its Web API, and the WebSocket of Socket Mode."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service, fields_of

BOT = "U0BOT"


class Slack(Service):
    hosts = ("slack.com", "wss-primary.slack.com")

    def __init__(self) -> None:
        super().__init__()
        self._socket: web.WebSocketResponse | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/api/{method}", self.call), web.get("/link/", self.link)]

    async def call(self, request: web.Request) -> web.Response:
        """A method of the Web API."""
        method, fields = request.match_info["method"], await fields_of(request)
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not bearer.startswith("xapp-" if method == "apps.connections.open" else "xoxb-"):
            return web.json_response({"ok": False, "error": "invalid_auth"})
        answers: dict[str, dict[str, Any]] = {
            "auth.test": {
                "url": "https://acme.slack.com/",
                "team": "Acme",
                "user": "bub",
                "user_id": BOT,
                "bot_id": "B0",
            },
            "apps.connections.open": {"url": "wss://wss-primary.slack.com/link/?ticket=t1&app_id=a1"},
            "chat.postMessage": {"channel": fields.get("channel"), "ts": f"{len(self.calls)}.0001", "message": {}},
        }
        self.hear(method, fields)
        return web.json_response({"ok": True, **answers.get(method, {})})

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        """The WebSocket: greets, and takes acknowledgements."""
        connection = self._socket = await self.accept(request)
        await connection.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self.hear("link")
        async for message in connection:
            if message.type is WSMsgType.TEXT:
                self.hear("acknowledged", json.loads(message.data).get("envelope_id"))
        return connection

    async def say(
        self, text: str, *, channel: str = "D1", user: str = "U1", kind: str = "im", ts: str = "100.1"
    ) -> None:
        """A person writes a message."""
        assert self._socket is not None
        event = {"type": "message", "channel": channel, "user": user, "text": text, "ts": ts, "channel_type": kind}
        payload = {"team_id": "T1", "api_app_id": "A1", "type": "event_callback", "event_id": "Ev1", "event": event}
        envelope = {
            "envelope_id": f"e-{ts}",
            "type": "events_api",
            "payload": payload,
            "accepts_response_payload": False,
        }
        await self._socket.send_json(envelope)
