"""What a client gets while its call goes on: what the agent says and calls, and that it is still at work."""

from __future__ import annotations

import json

import trio
from mcp.server.session import ServerSession

from bub.streaming import StreamEvent

SILENCE = 15.0
"""After how many silent seconds Bub tells a client that the call goes on: some give up after a minute."""

_PACE = 0.2
"""How many seconds lie between two pieces of a text."""

_LONGEST = 200


class Progress:
    """Notifications of one request. The SDK sends none if the client did not ask for them."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._count = 0
        self._text: list[str] = []
        self._sent_at = trio.current_time()

    async def hear(self, event: StreamEvent) -> None:
        """Tell of an event: pieces of the text are gathered, the others go out at once."""
        data = event.data
        match event.kind:
            case "text":
                self._text.append(str(data.get("delta") or ""))
                if trio.current_time() - self._sent_at >= _PACE:
                    await self._send_text()
            case "tool_call":
                await self._send_text()
                arguments = json.dumps(data.get("arguments"), ensure_ascii=False, default=str)
                await self._send(f"calls {data.get('name')} {arguments}"[:_LONGEST])
            case "tool_result":
                await self._send(f"{data.get('name')}: {data.get('content')}"[:_LONGEST])
            case "waiting":
                await self._send(f"waits {data['seconds']:.0f} s: {data['reason']}")
            case "compaction" | "notice":
                await self._send(str(data["text"]))

    async def keep_alive(self) -> None:
        """Say that the call goes on whenever nothing was said for a while; runs until it is cancelled."""
        while True:
            await trio.sleep_until(self._sent_at + SILENCE)
            if trio.current_time() - self._sent_at >= SILENCE:
                await self._send("still at work")

    async def _send_text(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if text:
            await self._send(text)

    async def _send(self, message: str) -> None:
        self._count += 1
        self._sent_at = trio.current_time()
        await self._session.report_progress(self._count, message=message)
