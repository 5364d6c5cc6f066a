"""The inbox in a Redis: `SharedInbox` for any number of gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from uuid import uuid4

from bub.approval import NotedCall
from bub.base.redis.address import USUAL_PARTITIONS, StoreAddress
from bub.base.redis.connection import FencedWriteError, RedisConnection, StoreError
from bub.base.redis.keys import FORMAT, Keys, partition_of
from bub.base.redis.leases import Lease
from bub.base.redis.redis_leases import RedisLeases
from bub.channels.message import ChannelMessage
from bub.inbox.questions import AskedQuestion
from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.shared.redis.claims import Claims
from bub.inbox.shared.redis.feeds import Feeds
from bub.inbox.shared.redis.letters import RedisLetters
from bub.inbox.shared.redis.messages import RedisMessages
from bub.inbox.shared.redis.notes import RedisNotes
from bub.inbox.shared.redis.questions import RedisQuestions
from bub.inbox.shared.redis.replies import RedisReplies
from bub.inbox.shared.redis.schedules import RedisSchedules
from bub.inbox.shared.redis.workers import RedisWorkers
from bub.inbox.shared.store import Worker
from bub.inbox.store import Claim, FencedError, Id, InboxEntry, Kind, MailboxError, Outgoing, Received, Token
from bub.inbox.texts import MessageTexts
from bub.tape.shared.mark import check_whole


class RedisInbox:
    """The inbox of one agent at an address. It is opened and closed like a `Mailbox`, and claimed lease by lease."""

    def __init__(self, address: StoreAddress, agent: str) -> None:
        self.address = address
        self.keys = Keys(address.prefix, agent)
        self.redis = RedisConnection(address)
        self.texts = MessageTexts()
        self.leases = RedisLeases(self.redis, self.keys, seconds=address.lease)
        self._claims = Claims(self.keys)
        self.questions = RedisQuestions(self.redis, self.keys, self._claims.prove)
        self.schedules = RedisSchedules(self.redis, self.keys)
        self._messages = RedisMessages(self.redis, self.keys, self._claims, self.partition_of)
        self._feeds = Feeds(self.redis, self.keys, self.texts, self._messages.bury, self.undeliverable)
        self._replies = RedisReplies(self.redis, self.keys, self._claims, self._feeds)
        self._letters = RedisLetters(self.redis, self.keys, self.texts)
        self._notes = RedisNotes(self.redis, self.keys)
        self._workers = RedisWorkers(self.redis, self.keys)
        self._partitions = 0
        self._token: Token = ""
        self._is_open = False

    @property
    def partitions(self) -> int:
        """Into how many partitions the store is cut."""
        return self._partitions

    @property
    def fenced(self) -> int:
        """How many writes the store has refused."""
        return self.redis.fenced

    async def open(self) -> None:
        """Connect, and agree with all others on the number of partitions. Raises `MailboxError`."""
        with _explain():
            await self.redis.open()
            try:
                await check_whole(self.redis, self.keys)
                self._partitions = await self._agree()
            except BaseException:
                await self.redis.close()
                raise
        self._feeds.partitions = self._partitions
        self._token = uuid4().hex
        self._is_open = True

    async def close(self) -> None:
        """Give up what was claimed, whose leases end by themselves, and all connections."""
        self._is_open = False
        self._claims.clear()
        self._feeds.clear()
        await self.redis.close()

    async def _agree(self) -> int:
        """Return into how many partitions the store is cut; the first one who asks decides."""
        client, key = self.redis.client, self.keys.of_all("meta")
        await self.redis.ask(client.hsetnx(key, "partitions", self.address.partitions or USUAL_PARTITIONS))
        await self.redis.ask(client.hsetnx(key, "format", FORMAT))
        found = await self.redis.ask(client.hgetall(key))
        number, version = int(found[b"partitions"]), int(found[b"format"])
        if version > FORMAT:
            raise MailboxError(f"{self.address.shown} was made by a newer Bub", help="update this one")
        if self.address.partitions not in (None, number):
            problem = f"{self.address.shown} is cut into {number} partitions, not {self.address.partitions}"
            raise MailboxError(problem, help="leave `partitions` out: the number of a store never changes")
        return number

    # Claims.

    async def claim_partition(self, lease: Lease) -> Sequence[Received]:
        """Begin with a partition: give what waits there, in order."""
        async with self._asking():
            self._claims.add(lease)
            return await self._feeds.begin_partition(int(lease.name.partition(":")[2]))

    async def read_anew(self, lease: Lease) -> Sequence[Received]:
        """Give what waits in a claimed partition once more, in order."""
        async with self._asking():
            if lease not in self._claims.all():
                raise FencedError("another gateway works on these messages by now")
            return await self._feeds.begin_partition(int(lease.name.partition(":")[2]))

    async def claim_channel(self, lease: Lease) -> Sequence[Outgoing]:
        """Begin with a channel: give the replies that wait for it, in order."""
        async with self._asking():
            self._claims.add(lease)
            return await self._feeds.begin_channel(lease.name.partition(":")[2])

    async def drop_claim(self, lease: Lease) -> None:
        """Have no more to do with a partition or channel, and release its lease if it still holds."""
        if self._claims.drop(lease):
            kind, _, name = lease.name.partition(":")
            if kind == "partition":
                self._feeds.end_partition(int(name))
            else:
                self._feeds.end_channel(name)
        async with self._asking():
            await self.leases.release(lease)

    async def claim(self, partitions: Collection[str]) -> Claim:
        """Give what waits by now for these channels in all that this process has claimed."""
        async with self._asking():
            messages = await self._feeds.all_messages()
            replies = await self._feeds.all_replies()
        return Claim(
            self._token,
            tuple(one for one in messages if one.message.channel in partitions),
            tuple(one for one in replies if one.message.channel in partitions),
        )

    async def wait_for_messages(self) -> Sequence[Received]:
        """Wait for what comes into the claimed partitions."""
        async with self._asking():
            return await self._feeds.next_messages()

    async def wait_for_replies(self) -> Sequence[Outgoing]:
        """Wait for replies of the claimed channels."""
        async with self._asking():
            return await self._feeds.next_replies()

    def partition_of(self, name: str) -> int:
        """Return in which partition an origin or a session is."""
        return partition_of(name, self._partitions)

    def _check(self, token: Token | None) -> None:
        if token is not None and token != self._token:
            raise FencedError("another process has claimed these messages since")

    # Messages and replies.

    async def receive(self, message: ChannelMessage) -> Received | None:
        """Keep a message in the partition of its origin; None if one with the same `once` was received before."""
        written = self.texts.write(message)
        async with self._asking():
            return await self._messages.receive(*written)

    async def still_waits(self, message: ChannelMessage) -> bool:
        """Whether the message of its chat that was received before with this `once` waits in the partition of both."""
        async with self._asking():
            return await self._messages.still_waits(message)

    async def fire(
        self, firing: Firing, message: ChannelMessage, *, until: float | None, missed: int
    ) -> Received | None:
        """Claim a firing and keep its message, in one step; without `until`, a person wants it now."""
        written = self.texts.write(message)
        async with self._asking():
            more = self.schedules.keys_to_fire(firing.schedule)
            return await self._messages.fire(*written, firing, more, until=until, missed=missed)

    async def fetch(self, ids: Sequence[Id]) -> list[Received]:
        """Give those of these messages that still wait, in order; what cannot be read is set aside."""
        async with self._asking():
            return await self._feeds.fetch(ids)

    async def begin(self, ids: Sequence[Id], *, token: Token | None = None) -> Sequence[NotedCall]:
        """Count one attempt more for each message; give the calls noted for it before."""
        self._check(token)
        async with self._asking():
            begun, asked = await self._messages.count(ids, 1)
            return [*begun, *await self.questions.waiting(asked)]

    async def give_back(self, ids: Sequence[Id], *, token: Token | None = None) -> None:
        """Count one attempt less."""
        self._check(token)
        async with self._asking():
            await self._messages.count(ids, -1)

    async def finish(
        self, ids: Sequence[Id], replies: Sequence[ChannelMessage] = (), *, token: Token | None = None
    ) -> list[Outgoing]:
        """Take messages out and put their replies into the outbox, all or nothing; nothing if they were out already."""
        self._check(token)
        written = [self.texts.write(reply) for reply in replies]
        async with self._asking():
            return self._note(await self._messages.finish(ids, written))

    async def set_aside(
        self, ids: Sequence[Id], reason: str, replies: Sequence[ChannelMessage] = (), *, token: Token | None = None
    ) -> list[Outgoing]:
        """Make dead letters of messages, and put what is replied into the outbox, all or nothing."""
        self._check(token)
        written = [self.texts.write(reply) for reply in replies]
        async with self._asking():
            return self._note(await self._messages.set_aside(ids, reason, written))

    async def move(self, ids: Sequence[Id], session_id: str, values: bytes) -> None:
        """Move messages that are answered as one to the partition of their session, in one step."""
        async with self._asking():
            await self._messages.move(ids, session_id, values)

    async def keep_draft(self, id: Id, draft: str) -> None:  # noqa: A002 (InboxStore's)
        """Keep the channel's name for what shows the answer to a message."""
        async with self._asking():
            await self._messages.keep_draft(id, draft)

    def as_kept(self, message: ChannelMessage) -> ChannelMessage:
        """A message as it comes out again. Raises `MailboxError` for one that cannot be kept."""
        return self.texts.write(message)[1]

    async def mark_delivered(self, id: Id) -> None:  # noqa: A002
        """Take a reply out of the outbox."""
        async with self._asking():
            await self._replies.mark_delivered(id)

    async def put_off(self, id: Id, *, not_before: float) -> None:  # noqa: A002
        """Count a delivery that failed; the next one is for a Unix time."""
        async with self._asking():
            await self._replies.put_off(id, not_before)

    async def keep_reply_draft(self, id: Id, draft: str) -> None:  # noqa: A002
        """Keep what the channel notes of a reply that it is sending."""
        async with self._asking():
            await self._replies.keep_draft(id, draft)

    async def undeliverable(self, id: Id, reason: str) -> None:  # noqa: A002
        """Make a dead letter of a reply."""
        async with self._asking():
            await self._replies.set_aside(id, reason)

    def _note(self, posted: list[Outgoing]) -> list[Outgoing]:
        for one in posted:
            self._feeds.note_reply(one)
        return posted

    # Questions and calls.

    async def ask(self, question: AskedQuestion, *, other_than: Collection[str] = ()) -> AskedQuestion:
        """Keep a question of a turn, or take up one of an earlier process that is bound to just the same."""
        async with self._asking():
            return await self.questions.ask(question, other_than)

    async def open_questions(self) -> list[AskedQuestion]:
        """Give the questions that nobody has answered yet."""
        async with self._asking():
            return await self.questions.open()

    async def find_question(self, name: str) -> AskedQuestion | None:
        """Give a question by what people name it by."""
        async with self._asking():
            return await self.questions.find(name)

    async def answer(self, name: str, is_yes: bool, by: str) -> bool:
        """Keep what a person said to an open question; says whether it was open."""
        async with self._asking():
            return await self.questions.answer(name, is_yes, by)

    async def end_question(self, name: str) -> None:
        """Let a question be over whose answer nobody waits for."""
        async with self._asking():
            await self.questions.end(name)

    async def note_shown(self, name: str, shown: str) -> None:
        """Keep the channel's name for what shows a question."""
        async with self._asking():
            await self.questions.note_shown(name, shown)

    async def begin_call(self, ids: Sequence[Id], call: NotedCall, approval: str = "") -> None:
        """Note that a call begins and use up its yes, in one step."""
        async with self._asking():
            await self.questions.begin_call(ids, call, approval)

    async def end_call(self, ids: Sequence[Id], call: NotedCall) -> None:
        """Note that a call has ended."""
        async with self._asking():
            await self.questions.end_call(ids, call)

    # Schedules.

    async def follow(self, name: str, rule: str, now: float) -> Followed:
        """Give how far a schedule is."""
        async with self._asking():
            return await self.schedules.follow(name, rule, now)

    async def unfollow(self, name: str) -> None:
        """Forget how far a schedule is."""
        async with self._asking():
            await self.schedules.unfollow(name)

    async def followed(self) -> list[Followed]:
        """Give how far each schedule is."""
        async with self._asking():
            return await self.schedules.followed()

    async def pass_over(self, name: str, *, until: float, missed: int) -> None:
        """Note that every moment up to a time is decided."""
        async with self._asking():
            await self.schedules.pass_over(name, until, missed)

    async def add_schedule(self, schedule: OwnSchedule, most: int) -> OwnSchedule | None:
        """Keep a schedule of the agent."""
        async with self._asking():
            return await self.schedules.add(schedule, most)

    async def own_schedules(self) -> list[OwnSchedule]:
        """Give the schedules of the agent."""
        async with self._asking():
            return await self.schedules.own()

    async def remove_schedule(self, name: str) -> bool:
        """Remove a schedule of the agent."""
        async with self._asking():
            return await self.schedules.remove(name)

    # What channels remember.

    def remember(self, channel: str, name: str, value: str) -> None:
        """Keep a note of a channel, before whatever is kept next."""
        self._notes.remember(channel, name, value)

    async def recall(self, channel: str) -> dict[str, str]:
        """Give the notes of a channel by their names, the oldest first."""
        async with self._asking():
            return await self._notes.recall(channel)

    async def was_requeued(self) -> bool:
        """No: what somebody puts back comes in like a new message."""
        return False

    # What people do with what was set aside.

    async def list_entries(self) -> list[InboxEntry]:
        """List all messages of the agent, then all replies, each in order."""
        async with self._asking():
            return await self._letters.list_entries(self._partitions)

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let dead letters wait again, behind all others, as if nothing had been tried."""
        async with self._asking():
            await self._letters.retry(kind, ids)

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove dead letters for good."""
        async with self._asking():
            await self._letters.drop(kind, ids)

    # Workers.

    async def report(self, worker: Worker) -> None:
        """Tell the others how this worker is."""
        async with self._asking():
            await self._workers.report(worker, self.leases.seconds)

    async def workers(self) -> Sequence[Worker]:
        """Return the workers that have reported lately, by their names."""
        async with self._asking():
            return await self._workers.all()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Keep what is to be kept first, and raise what an inbox raises."""
        if not self._is_open:
            raise MailboxError("the inbox is not open")
        with _explain():
            await self._notes.keep()
            yield


@contextmanager
def _explain() -> Iterator[None]:
    try:
        yield
    except FencedWriteError as error:
        raise FencedError(str(error)) from error
    except StoreError as error:
        raise MailboxError(str(error), help=error.help) from error
