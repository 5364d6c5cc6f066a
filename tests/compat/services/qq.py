"""QQ: the open platform's API, and its gateway."""

from __future__ import annotations

import json

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service, fields_of

DISPATCH, HEARTBEAT, IDENTIFY, HELLO, ACKNOWLEDGED = 0, 1, 2, 10, 11


class QQ(Service):
    hosts = ("api.bot.qq.com", "bots.qq.com", "api.sgroup.qq.com")

    def __init__(self) -> None:
        super().__init__()
        self._socket: web.WebSocketResponse | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/app/getAppAccessToken", self.token),
            web.get("/gateway", self.gateway),
            web.get("/websocket", self.link),
            web.post("/v2/users/{user}/messages", self.post),
        ]

    async def token(self, request: web.Request) -> web.Response:
        if (await request.json()) != {"appId": "app1", "clientSecret": "secret"}:
            return web.json_response({"code": 100016, "message": "invalid appid or secret"})
        return web.json_response({"access_token": "t-1", "expires_in": "7200"})

    async def gateway(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "QQBot t-1":
            return web.json_response({"code": 11244, "message": "invalid token"}, status=401)
        return web.json_response({"url": "wss://api.sgroup.qq.com/websocket"})

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        connection = self._socket = await self.accept(request)
        await connection.send_json({"op": HELLO, "d": {"heartbeat_interval": 41250}})
        async for message in connection:
            if message.type is not WSMsgType.TEXT:
                continue
            payload = json.loads(message.data)
            if payload["op"] == HEARTBEAT:
                await connection.send_json({"op": ACKNOWLEDGED})
            elif payload["op"] == IDENTIFY:
                assert payload["d"]["token"] == "QQBot t-1"
                bot = {"id": "b1", "username": "bub", "bot": True}
                ready = {"version": 1, "session_id": "s1", "user": bot, "shard": [0, 0]}
                await connection.send_json({"op": DISPATCH, "t": "READY", "s": 1, "d": ready})
                self.hear("ready")
        return connection

    async def post(self, request: web.Request) -> web.Response:
        self.hear("message", {**await fields_of(request), "user": request.match_info["user"]})
        return web.json_response({"id": "m2", "timestamp": "2026-01-01T00:00:00+00:00"})

    async def say(self, text: str) -> None:
        """A person writes to the bot."""
        assert self._socket is not None
        data = {"id": "m1", "content": text, "timestamp": "2999-01-01T00:00:00+08:00", "author": {"user_openid": "ada"}}
        await self._socket.send_json({"op": DISPATCH, "id": "e1", "t": "C2C_MESSAGE_CREATE", "s": 2, "d": data})
