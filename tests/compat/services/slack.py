"""Slack: its Web API, and the WebSocket of Socket Mode, where what is not acknowledged comes again."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service, fields_of

BOT = "U0BOT"
PATIENCE = 3.0
"""Seconds that Slack waits for an acknowledgement."""


@dataclass
class Envelope:
    """A message on its way to the bot."""

    body: dict[str, Any]
    sent: float = 0.0
    times: int = 0


class Slack(Service):
    hosts = ("slack.com", "wss-primary.slack.com")

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, Envelope] = {}
        """What is not acknowledged."""
        self.repeated: list[str] = []
        """The texts that were sent more than once."""
        self.posts: list[str] = []
        self.connections: list[web.WebSocketResponse] = []

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
        if method == "chat.postMessage":
            self.posts.append(str(fields.get("text")))
        self.hear(method, fields)
        return web.json_response({"ok": True, **answers.get(method, {})})

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        """The WebSocket: greets, and takes acknowledgements."""
        connection = await self.accept(request)
        await connection.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self.connections.append(connection)
        self.hear("link")
        try:
            async for message in connection:
                if message.type is WSMsgType.TEXT:
                    acknowledged = json.loads(message.data).get("envelope_id")
                    self.waiting.pop(acknowledged, None)
                    self.hear("acknowledged", acknowledged)
        finally:
            self.connections.remove(connection)
        return connection

    async def say(
        self, text: str, *, channel: str = "D1", user: str = "U1", kind: str = "im", ts: str = "100.1"
    ) -> None:
        """A person writes a message; it is sent at once if a bot is connected."""
        event = {"type": "message", "channel": channel, "user": user, "text": text, "ts": ts, "channel_type": kind}
        payload = {
            "team_id": "T1",
            "api_app_id": "A1",
            "type": "event_callback",
            "event_id": f"Ev{ts}",
            "event": event,
        }
        body = {"envelope_id": f"e-{ts}", "type": "events_api", "payload": payload, "accepts_response_payload": False}
        self.waiting[f"e-{ts}"] = Envelope(body)
        await self.send_waiting()

    async def send_waiting(self) -> None:
        """Send what was not sent, and again what was not acknowledged in time, on the newest connection."""
        for envelope in list(self.waiting.values()):
            if self.connections and time.monotonic() - envelope.sent > PATIENCE:
                envelope.sent, again = time.monotonic(), envelope.times
                envelope.times += 1
                retry = {"retry_attempt": again, "retry_reason": "timeout" if again else ""}
                if again:
                    self.repeated.append(envelope.body["payload"]["event"]["text"])
                try:
                    await self.connections[-1].send_json({**envelope.body, **retry})
                except ConnectionError:  # nobody is there any more
                    return

    async def keep_sending(self) -> None:
        """Send again and again what is not acknowledged, until this is cancelled. The real Slack does so three times:
        at once, behind a minute, and behind five."""
        while True:
            await asyncio.sleep(PATIENCE / 10)
            await self.send_waiting()
