"""WeChat: the HTTP API of its agent accounts, with a login by a picture and a long poll."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from tests.compat.services.web import Service

POLL = 5.0
"""Seconds that a poll waits for a message."""


class WeChat(Service):
    hosts = ("ilinkai.weixin.qq.com",)

    def __init__(self) -> None:
        super().__init__()
        self._written: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/ilink/bot/get_bot_qrcode", self.picture),
            web.get("/ilink/bot/get_qrcode_status", self.status),
            web.post("/ilink/bot/getupdates", self.updates),
            web.post("/ilink/bot/{method}", self.call),
        ]

    async def picture(self, request: web.Request) -> web.Response:
        return web.json_response({"ret": 0, "qrcode": "q1", "qrcode_img_content": "https://liteapp.weixin.qq.com/q/q1"})

    async def status(self, request: web.Request) -> web.Response:
        who = {"bot_token": "t-1", "ilink_bot_id": "bot1", "ilink_user_id": "user1"}
        return web.json_response({"ret": 0, "status": "confirmed", "baseurl": f"https://{self.hosts[0]}", **who})

    async def updates(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer t-1":
            return web.json_response({"ret": -14, "errcode": -14, "errmsg": "session expired"})
        self.hear("poll")
        try:
            messages = [await asyncio.wait_for(self._written.get(), POLL)]
        except TimeoutError:
            messages = []
        return web.json_response({"ret": 0, "msgs": messages, "get_updates_buf": "b1"})

    async def call(self, request: web.Request) -> web.Response:
        method, body = request.match_info["method"], await request.json()
        self.hear(method, body)
        return web.json_response({"ret": 0, "typing_ticket": "ticket1"} if method == "getconfig" else {"ret": 0})

    async def say(self, text: str) -> None:
        """A person writes to the account."""
        message = {
            "message_id": 1, "from_user_id": "ada@im.wechat", "to_user_id": "bot1", "client_id": "c1",
            "create_time_ms": 1767225600000, "message_type": 1, "message_state": 2, "context_token": "x1",
            "item_list": [{"type": 1, "text_item": {"text": text}}],
        }  # fmt: skip
        await self._written.put(message)
