"""An answer that is shown while it is made, by one message that is edited again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio
from telegram.error import BadRequest, NetworkError, RetryAfter, TelegramError

from bub.channels import ChannelMessage, TryLaterError
from bub.channels.plan import LivePlan
from bub.log import log_exception, log_warning
from bub.streaming import StreamEvent
from bub_plugins.telegram.limits import ChatAddress
from bub_plugins.telegram.lost import Lost
from bub_plugins.telegram.markup import Styled, end_of, render
from bub_plugins.telegram.writing import PLACEHOLDER, GoneError, Writer, may_have_arrived

FIRST_AFTER = 1.0
"""After how many seconds a draft is begun: an answer that is quicker than that is sent at once."""

EVERY = 1.0
EVERY_IN_GROUPS = 3.0
"""How many seconds lie between two edits."""

AT_ONCE = 2.0
"""How many seconds a call that is under way may still take when the channel is ended at once."""

_SLOWEST = 30.0
_PLACING = 20.0
_EDITING = 10.0
_SHOWN = frozenset({"text", "reasoning", "tool_call", "tool_result", "plan", "waiting"})
_MOST_STEPS = 10
_LONGEST_SOURCE = 16_384


class DraftDesk(Protocol):
    """What drafts ask of whoever runs the channel."""

    async def keep_draft(self, message: ChannelMessage, draft: str) -> None:
        """Remember, on disk, the `draft` of the message that is answered, or of the reply that is sent."""

    def has_replies(self, message: ChannelMessage) -> bool:
        """Whether a reply to the chat of a message waits to be sent."""

    async def replies_sent(self, message: ChannelMessage) -> None:
        """Wait until none does."""


class DraftMessage:
    """The message that shows one answer so far.

    It waits until no earlier reply waits for its chat, which it would overtake. A placeholder is sent and its id kept
    before anything of the answer is shown under it, so that an answer that is made again after a crash goes into the
    same message. `message_id` is None until there is one; that of an earlier attempt is `message.draft`. A placeholder
    may have arrived though nobody heard so: what is kept before it is sent is how to find it, which is `lost`.

    `tell` only notes what has come; the task that `begin` starts edits. `close` ends it, and returns once nothing is
    under way any more: an edit that is on its way must not arrive behind the final text.
    """

    def __init__(
        self, message: ChannelMessage, writer: Writer, desk: DraftDesk, *, first_after: float = FIRST_AFTER
    ) -> None:
        self._message = message
        self._where = ChatAddress.of(message.chat_id)
        self._writer = writer
        self._desk = desk
        self._first_after = first_after
        self._every = EVERY_IN_GROUPS if self._where.is_group else EVERY
        self._texts: list[str] = []
        self._tools: dict[str, str] = {}
        self._plan = LivePlan()
        self._pause = ""
        self._news = trio.Event()
        self._waiting = trio.CancelScope()
        self._calling = trio.CancelScope()
        self._is_begun = False
        self._ended = trio.Event()
        self._is_shown = False
        self._shown = Styled("")
        self.message_id: int | None = number_of(message.draft)
        self.lost = Lost.named(message.draft)

    @staticmethod
    def shows(event: StreamEvent) -> bool:
        """Return whether an event changes what a draft shows."""
        return event.kind in _SHOWN

    def tell(self, event: StreamEvent) -> None:
        """Note what an event brings."""
        was_pausing, self._pause = bool(self._pause), ""
        match event.kind:
            case "plan":
                self._plan.take(event)
            case "waiting":
                self._pause = f"⏳ the model wants a pause of {float(event.data.get('seconds') or 0):.0f} s"
            case "text":
                self._texts.append(str(event.data.get("delta") or ""))
            case "tool_call":
                self._tools[str(event.data.get("id"))] = str(event.data.get("name") or "")
            case "tool_result":
                self._tools.pop(str(event.data.get("id")), None)
            case _ if not was_pausing:
                return  # it is a sign of life, and begins a draft, but changes nothing
        self._news.set()

    def begin(self, start_soon: Callable[..., object]) -> None:
        """Show what comes, in a task, until the draft is closed or Telegram does not want it."""
        self._is_begun = True
        start_soon(self._show)

    async def _show(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hurry_at_the_end)
            try:
                with self._waiting:
                    await trio.sleep(self._first_after)
                    if self.message_id is None:
                        await self._place()
                    while self.message_id is not None:
                        await self._news.wait()
                        self._news = trio.Event()
                        await self._edit(self.message_id)
                        await trio.sleep(self._every)
            except (TelegramError, TryLaterError) as error:
                log_warning("telegram.draft", chat=self._where.chat, error=error)
            except Exception as error:  # noqa: BLE001 (a draft that cannot be shown must not end the channel)
                log_exception("telegram.draft", error, chat=self._where.chat)
            finally:
                self._ended.set()
            nursery.cancel_scope.cancel()

    async def _hurry_at_the_end(self) -> None:
        """When the channel is ended, rather than the draft, a call that is under way has little time left."""
        try:
            await trio.sleep_forever()
        finally:
            self._calling.deadline = min(self._calling.deadline, trio.current_time() + AT_ONCE)

    def _to_its_end(self, seconds: float) -> trio.CancelScope:
        """Return a block for a call that is not to be cancelled when it is under way: it would arrive all the same."""
        self._calling = trio.CancelScope(shield=True, deadline=trio.current_time() + seconds)
        return self._calling

    async def close(self) -> None:
        """Show nothing more."""
        self._waiting.cancel()
        if self._is_begun:
            await self._ended.wait()

    @property
    def has_said(self) -> bool:
        """Whether something of the answer itself is shown."""
        return self.message_id is not None and self._is_shown

    @property
    def said(self) -> Styled:
        """What stays of the answer if no reply comes: nothing if only a placeholder is shown."""
        return end_of(render("".join(self._texts))) if self.has_said else Styled("")

    async def _place(self) -> None:
        if self.lost is not None:  # an earlier attempt may have left one
            with self._to_its_end(_PLACING):
                await self._find()
        while self.message_id is None:
            await self._desk.replies_sent(self._message)
            async with self._writer.spare_turn(self._where):
                if not self._desk.has_replies(self._message):
                    # From here to the id on disk nothing comes between.
                    with self._to_its_end(_PLACING):
                        await self._send_placeholder()
                    return

    async def _send_placeholder(self) -> None:
        answers = number_of(self._message.message_id) if self._where.is_group else None
        lost = self._writer.lost(self._where)
        if lost is not None:
            await self._desk.keep_draft(self._message, lost.name)
        self.lost = lost
        try:
            self.message_id = await self._writer.place(self._where, answers=answers)
        except TelegramError as error:
            if not may_have_arrived(error):
                self.lost = None
                await self._desk.keep_draft(self._message, "")
            raise
        self.lost = None
        self._writer.settle(self._where)
        await self._desk.keep_draft(self._message, str(self.message_id))

    async def _find(self) -> None:
        """Find the placeholder that may have been lost."""
        if self.lost is not None:
            self.message_id = await self._writer.find(self._where, self.lost, Styled(PLACEHOLDER))
            self.lost = None
            if self.message_id is not None:
                self._writer.settle(self._where)
                await self._desk.keep_draft(self._message, str(self.message_id))

    async def _edit(self, message_id: int) -> None:
        try:
            async with self._writer.spare_turn(self._where):
                view = self._view()
                if not view.text or view == self._shown:
                    return
                with self._to_its_end(_EDITING):
                    await self._writer.edit(self._where, message_id, view, is_draft=True, is_whole=False)
                    self._shown = view
                    self._is_shown = self._is_shown or bool(self._texts)
        except GoneError:
            self.message_id = None
        except RetryAfter:
            self._every = min(self._every * 2, _SLOWEST)
            self._news.set()
        except BadRequest:
            raise
        except NetworkError:  # the next edit says it all
            self._news.set()

    def _view(self) -> Styled:
        """Return the end of the answer so far, and what is being done for it."""
        text = "".join(self._texts)[-_LONGEST_SOURCE:]
        tools = [f"⚙ {name} …" for name in self._tools.values()]
        doing = "\n".join(filter(None, [*self._plan.rows(_MOST_STEPS), *tools, self._pause]))
        said = render(text)
        if not doing:
            return end_of(said)
        return end_of(Styled(f"{said.text}\n\n{doing}" if said.text else doing, said.entities))


def number_of(message_id: str) -> int | None:
    """Return the number that names a message; None if it is none."""
    return int(message_id) if message_id.isdecimal() else None
