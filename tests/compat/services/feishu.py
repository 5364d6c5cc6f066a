"""Feishu: its open API, and the long connection, whose frames are protocol buffers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service, fields_of

DATA = 1
VARINT, BYTES = 0, 2
SERVICE, METHOD, HEADERS, PAYLOAD = 3, 4, 5, 8
"""Numbers of fields in a frame; those of a header are 1 for its key and 2 for its value."""


class Feishu(Service):
    hosts = ("open.feishu.cn", "msg-frontier.feishu.cn")

    def __init__(self) -> None:
        super().__init__()
        self._socket: web.WebSocketResponse | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/callback/ws/endpoint", self.endpoint),
            web.get("/ws/v2", self.link),
            web.post("/open-apis/auth/v3/tenant_access_token/internal", self.token),
            web.get("/open-apis/contact/v3/users/{user}", self.user),
            web.post("/open-apis/im/v1/messages", self.create),
            web.post("/open-apis/im/v1/messages/{message}/reply", self.reply),
        ]

    async def endpoint(self, request: web.Request) -> web.Response:
        if (await request.json()) != {"AppID": "cli_1", "AppSecret": "secret"}:
            return web.json_response({"code": 514, "msg": "app_id or app_secret is wrong"})
        config = {"ReconnectCount": -1, "ReconnectInterval": 120, "ReconnectNonce": 0, "PingInterval": 120}
        url = "wss://msg-frontier.feishu.cn/ws/v2?device_id=1&service_id=33554678"
        return web.json_response({"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": config}})

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        connection = self._socket = await self.accept(request)
        self.hear("link")
        async for message in connection:
            if message.type is WSMsgType.BINARY:
                frame = dict(read_fields(message.data))
                if frame[METHOD] == DATA:
                    self.hear("acknowledged", json.loads(frame[PAYLOAD]))
        return connection

    async def token(self, request: web.Request) -> web.Response:
        return web.json_response({"code": 0, "msg": "ok", "tenant_access_token": "t-1", "expire": 7200})

    async def user(self, request: web.Request) -> web.Response:
        return answer({"user": {"open_id": request.match_info["user"], "name": "Ada"}}, request)

    async def create(self, request: web.Request) -> web.Response:
        self.hear("create", await fields_of(request))
        return answer({"message_id": "om_2"}, request)

    async def reply(self, request: web.Request) -> web.Response:
        self.hear("reply", {**await fields_of(request), "to": request.match_info["message"]})
        return answer({"message_id": "om_3"}, request)

    async def say(self, text: str, *, message: str) -> None:
        """A person writes to the bot."""
        assert self._socket is not None
        written = {
            "message_id": message, "chat_id": "oc_1", "chat_type": "p2p", "message_type": "text",
            "content": json.dumps({"text": text}), "create_time": "1767225600000",
        }  # fmt: skip
        ids = {"open_id": "ou_1", "union_id": "on_1", "user_id": "u1"}
        event = {
            "schema": "2.0",
            "header": {
                "event_id": f"e-{message}", "event_type": "im.message.receive_v1", "create_time": "1767225600000",
                "token": "", "app_id": "cli_1", "tenant_key": "k1",
            },
            "event": {"sender": {"sender_id": ids, "sender_type": "user", "tenant_key": "k1"}, "message": written},
        }  # fmt: skip
        headers = {"type": "event", "message_id": f"m-{message}", "sum": "1", "seq": "0", "trace_id": "t1"}
        fields: list[tuple[int, int | bytes]] = [(1, 1), (2, 1), (SERVICE, 33554678), (METHOD, DATA)]
        fields += [(HEADERS, write_fields([(1, key.encode()), (2, value.encode())])) for key, value in headers.items()]
        await self._socket.send_bytes(write_fields([*fields, (PAYLOAD, json.dumps(event).encode())]))


def answer(data: dict[str, Any], request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != "Bearer t-1":
        return web.json_response({"code": 99991663, "msg": "invalid access token"})
    return web.json_response({"code": 0, "msg": "success", "data": data})


def write_fields(fields: list[tuple[int, int | bytes]]) -> bytes:
    """The fields of a protocol buffer: numbers and bytes."""
    written = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            written += write_varint(number << 3 | VARINT) + write_varint(value)
        else:
            written += write_varint(number << 3 | BYTES) + write_varint(len(value)) + value
    return bytes(written)


def write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer that has numbers and bytes alone."""
    place = 0

    def read_varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = read_varint()
        value = read_varint()
        if key & 7 == BYTES:
            yield key >> 3, data[place : place + value]
            place += value
        else:
            yield key >> 3, value
