"""A channel of lines: who connects says a name first, then a message a line, and is answered in lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import trio

from bub import BubFramework, Settings, hookimpl
from bub.channels import Channel, ChannelMessage, TryLaterError
from bub.hookspecs import MessageHandler

LONGEST_LINE = 64 * 1024


class LineSettings(Settings, section="line"):
    port: int


class LineChannel(Channel):
    name = "line"

    def __init__(self, message_handler: MessageHandler, port: int) -> None:
        self._hand_over, self._port = message_handler, port
        self._callers: dict[str, trio.SocketStream] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            # Names are not proved, so nobody but this machine may connect.
            await nursery.start(partial(trio.serve_tcp, self._talk, self._port, host="127.0.0.1"))
            task_status.started()

    async def _talk(self, caller: trio.SocketStream) -> None:
        who = ""
        try:
            async for line in _lines(caller):
                if not who:
                    who = line
                    self._callers[who] = caller
                elif line:
                    await self._hand_over(ChannelMessage(self.name, who, line, sender_id=who))  # now it is on the disk
        except trio.BrokenResourceError:
            pass  # a caller who is cut off is no fault of the channel
        finally:
            if self._callers.get(who) is caller:
                del self._callers[who]

    async def send(self, message: ChannelMessage) -> None:
        caller = self._callers.get(message.chat_id)
        if caller is None:
            raise TryLaterError(f"{message.chat_id} is not connected", seconds=1)
        await caller.send_all(f"{message.content}\n".encode())


async def _lines(caller: trio.SocketStream) -> AsyncIterator[str]:
    rest = b""
    async for data in caller:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").strip()
        if len(rest) > LONGEST_LINE:
            return


class Line:
    def __init__(self, framework: BubFramework) -> None:
        self._port = LineSettings.of(framework).port

    @hookimpl
    def provide_channels(self, message_handler: MessageHandler) -> list[Channel]:
        return [LineChannel(message_handler, self._port)]


plugin = Line
