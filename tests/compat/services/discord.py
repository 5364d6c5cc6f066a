"""Discord: its REST API, and the gateway, whose WebSocket is one long zlib stream."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

from aiohttp import WSMsgType, web

from tests.compat.services.web import Service, fields_of

BOT = {"id": "900", "username": "bub", "discriminator": "0", "avatar": None, "bot": True, "global_name": "Bub"}
DISPATCH, HEARTBEAT, IDENTIFY, HELLO, ACKNOWLEDGED = 0, 1, 2, 10, 11


class Discord(Service):
    hosts = ("discord.com", "gateway.discord.gg")

    def __init__(self) -> None:
        super().__init__()
        self._socket: web.WebSocketResponse | None = None
        self._stream = zlib.compressobj()
        self._compressed = False
        self._count = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v10/users/@me", self.me),
            web.get("/api/v10/oauth2/applications/@me", self.application),
            web.post("/api/v10/channels/{channel}/messages", self.post),
            web.post("/api/v10/channels/{channel}/typing", self.typing),
            web.get("/", self.gateway),
        ]

    async def me(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bot discord-token":
            return answer({"message": "401: Unauthorized", "code": 0}, status=401)
        return answer(BOT)

    async def application(self, request: web.Request) -> web.Response:
        owner = {**BOT, "id": "700", "username": "ada"}
        application = {
            "id": "901",
            "name": "Bub",
            "description": "",
            "icon": None,
            "flags": 0,
            "bot": BOT,
            "owner": owner,
        }
        return answer({**application, "bot_public": True, "bot_require_code_grant": False, "verify_key": "00"})

    async def post(self, request: web.Request) -> web.Response:
        channel, fields = request.match_info["channel"], await fields_of(request)
        self.hear("message", {**fields, "channel_id": channel})
        return answer(self._message(fields["content"], channel, BOT))

    async def typing(self, request: web.Request) -> web.Response:
        self.hear("typing", request.match_info["channel"])
        return web.Response(status=204)

    async def gateway(self, request: web.Request) -> web.WebSocketResponse:
        connection = self._socket = await self.accept(request)
        self._compressed = request.query.get("compress") == "zlib-stream"
        self._stream = zlib.compressobj()
        await self._send({"op": HELLO, "d": {"heartbeat_interval": 41250}, "s": None, "t": None})
        async for message in connection:
            if message.type is not WSMsgType.TEXT:
                continue
            payload = json.loads(message.data)
            if payload["op"] == HEARTBEAT:
                await self._send({"op": ACKNOWLEDGED, "d": None, "s": None, "t": None})
            elif payload["op"] == IDENTIFY:
                await self._greet(payload["d"])
        return connection

    async def _greet(self, identity: dict[str, Any]) -> None:
        assert identity["token"] == "discord-token", "the gateway wants the bare token"
        assert identity["intents"] & 1 << 15, "the content of messages has to be asked for"
        await self._dispatch(
            "READY",
            {
                "v": 10,
                "user": BOT,
                "guilds": [{"id": "500", "unavailable": True}],
                "session_id": "s1",
                "resume_gateway_url": "wss://gateway.discord.gg",
                "application": {"id": "901", "flags": 0},
            },
        )
        text = {
            "id": "501",
            "type": 0,
            "name": "general",
            "position": 0,
            "permission_overwrites": [],
            "guild_id": "500",
        }
        everyone = {
            "id": "500", "name": "@everyone", "color": 0, "hoist": False, "position": 0, "permissions": "2147483647",
            "managed": False, "mentionable": False, "flags": 0,
            "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        }  # fmt: skip
        guild = {
            "id": "500", "name": "Acme", "icon": None, "owner_id": "700", "roles": [everyone], "emojis": [],
            "features": [], "large": False,
            "channels": [text], "members": [], "threads": [], "presences": [], "voice_states": [], "member_count": 2,
            "stickers": [], "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [],
            "unavailable": False, "afk_timeout": 300, "verification_level": 0, "default_message_notifications": 0,
            "explicit_content_filter": 0, "mfa_level": 0, "system_channel_flags": 0, "preferred_locale": "en-US",
            "premium_tier": 0, "nsfw_level": 0, "premium_progress_bar_enabled": False,
        }  # fmt: skip
        await self._dispatch("GUILD_CREATE", guild)
        await asyncio.sleep(0)
        self.hear("ready")

    async def say(self, text: str, *, channel: str = "501") -> None:
        """A person writes a message."""
        author = {
            "id": "700",
            "username": "ada",
            "discriminator": "0",
            "avatar": None,
            "global_name": "Ada",
            "bot": False,
        }
        member = {"roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}
        message = {**self._message(text, channel, author), "guild_id": "500", "member": member}
        await self._dispatch("MESSAGE_CREATE", message)

    def _message(self, text: str, channel: str, author: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        return {
            "id": str(800 + self._count), "channel_id": channel, "author": author, "content": text, "type": 0,
            "flags": 0,
            "timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None, "tts": False, "mention_everyone": False,
            "mentions": [], "mention_roles": [], "attachments": [], "embeds": [], "pinned": False, "components": [],
        }  # fmt: skip

    async def _dispatch(self, event: str, data: dict[str, Any]) -> None:
        self._count += 1
        await self._send({"op": DISPATCH, "t": event, "s": self._count, "d": data})

    async def _send(self, payload: dict[str, Any]) -> None:
        assert self._socket is not None
        text = json.dumps(payload)
        if self._compressed:
            await self._socket.send_bytes(self._stream.compress(text.encode()) + self._stream.flush(zlib.Z_SYNC_FLUSH))
        else:
            await self._socket.send_str(text)


def answer(value: Any, status: int = 200) -> web.Response:
    """JSON, with the type that Discord gives it: no charset, which its client would take for text."""
    return web.Response(body=json.dumps(value).encode(), headers={"Content-Type": "application/json"}, status=status)
