"""DingTalk: its open API, and the WebSocket of its stream mode."""

from __future__ import annotations

import json

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service, fields_of


class DingTalk(Service):
    hosts = ("api.dingtalk.com", "wss-open-connection.dingtalk.com")

    def __init__(self) -> None:
        super().__init__()
        self._socket: web.WebSocketResponse | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1.0/gateway/connections/open", self.open_connection),
            web.get("/connect", self.link),
            web.post("/v1.0/oauth2/accessToken", self.token),
            web.post("/v1.0/robot/oToMessages/batchSend", self.send),
            web.post("/v1.0/robot/groupMessages/send", self.send),
        ]

    async def open_connection(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if (asked["clientId"], asked["clientSecret"]) != ("ding1", "secret"):
            return web.json_response({"code": "authFailed"}, status=401)
        self.hear("subscriptions", [each["topic"] for each in asked["subscriptions"]])
        return web.json_response({"endpoint": "wss://wss-open-connection.dingtalk.com/connect", "ticket": "t 1"})

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        assert request.query["ticket"] == "t 1"
        connection = self._socket = await self.accept(request)
        self.hear("link")
        async for message in connection:
            if message.type is WSMsgType.TEXT:
                self.hear("acknowledged", json.loads(message.data))
        return connection

    async def token(self, request: web.Request) -> web.Response:
        return web.json_response({"accessToken": "t-1", "expireIn": 7200})

    async def send(self, request: web.Request) -> web.Response:
        if request.headers.get("x-acs-dingtalk-access-token") != "t-1":
            return web.json_response({"code": "InvalidAuthentication"}, status=401)
        self.hear("sent", await fields_of(request))
        return web.json_response({"processQueryKey": "k1"})

    async def say(self, text: str) -> None:
        """A person writes to the robot."""
        assert self._socket is not None
        written = {
            "conversationId": "cid1", "conversationType": "1", "msgId": "m1", "msgtype": "text",
            "text": {"content": text}, "senderId": "$:1", "senderStaffId": "staff1", "senderNick": "Ada",
            "robotCode": "ding1", "createAt": 1767225600000, "sessionWebhook": "https://api.dingtalk.com/w",
        }  # fmt: skip
        headers = {
            "appId": "a1", "connectionId": "c1", "contentType": "application/json", "messageId": "h1",
            "time": "1767225600000", "topic": "/v1.0/im/bot/messages/get",
        }  # fmt: skip
        frame = {"specVersion": "1.0", "type": "CALLBACK", "headers": headers, "data": json.dumps(written)}
        await self._socket.send_json(frame)
