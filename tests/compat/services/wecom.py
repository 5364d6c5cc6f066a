"""WeCom: the WebSocket of its intelligent robots; everything goes over it."""

from __future__ import annotations

import json

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service


class WeCom(Service):
    hosts = ("openws.work.weixin.qq.com",)

    def __init__(self) -> None:
        super().__init__()
        self._socket: web.WebSocketResponse | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self.link)]

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        connection = await self.accept(request)
        async for message in connection:
            if message.type is not WSMsgType.TEXT:
                continue
            frame = json.loads(message.data)
            refused = frame["cmd"] == "aibot_subscribe" and frame["body"] != {"bot_id": "bot1", "secret": "secret"}
            said = {"errcode": 40001, "errmsg": "invalid secret"} if refused else {"errcode": 0, "errmsg": "ok"}
            await connection.send_json({"headers": frame["headers"], **said})
            if not refused:
                self._socket = connection
                self.hear(frame["cmd"], frame)
        return connection

    async def say(self, text: str) -> None:
        """A person writes to the robot."""
        assert self._socket is not None
        body = {
            "msgid": "m1", "aibotid": "bot1", "chattype": "single", "from": {"userid": "ada"},
            "msgtype": "text", "text": {"content": text}, "create_time": 1767225600,
        }  # fmt: skip
        await self._socket.send_json({"cmd": "aibot_msg_callback", "headers": {"req_id": "r1"}, "body": body})
