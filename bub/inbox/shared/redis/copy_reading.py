"""Everything that an inbox in a Redis has, as a copy carries it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from bub.approval import NotedCall
from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import FORMAT, Keys
from bub.inbox.copying.records import (
    Fired,
    InboxRecord,
    Message,
    Moved,
    Note,
    Numbers,
    Own,
    Progress,
    Reply,
    Taken,
)
from bub.inbox.questions import AskedQuestion
from bub.inbox.shared.redis.letters import find_keys, read_letter
from bub.inbox.shared.redis.questions import RedisQuestions
from bub.inbox.shared.redis.reading import Fields, PartitionKeys, number_in
from bub.inbox.store import MailboxError
from bub.inbox.texts import UNREADABLE, MessageTexts

_AT_ONCE = 500


class _Kept(NamedTuple):
    """A message or a reply of a partition, with its place in the order of all: what moved came before what did not."""

    place: tuple[bool, float, int, int]
    at: PartitionKeys
    number: int
    fields: Mapping[str, str]
    attempts: int
    reason: str | None


class CopyReader:
    """Reads what an agent has in `partitions` partitions; nobody works on them meanwhile."""

    def __init__(self, redis: RedisConnection, keys: Keys, partitions: int) -> None:
        self._redis = redis
        self._keys = keys
        self._partitions = [PartitionKeys(keys, number) for number in range(partitions)]
        self._texts = MessageTexts()
        self._names: list[str] = []

    async def read(self) -> AsyncIterator[InboxRecord]:
        """Give everything, in order. Raises `StoreError`, and `MailboxError` for what a newer Bub wrote."""
        client = self._redis.client
        self._names = await find_keys(self._redis, f"{self._keys.prefix}:{{{self._keys.agent}:")
        numbers = [await self._redis.ask(client.get(self._all(name))) for name in ("questions:n", "schedules:own:n")]
        yield Numbers(*(int(number or 0) for number in numbers))
        async for record in self._read_schedules():
            yield record
        for channel, names in sorted((await self._find_taken()).items()):
            for name in names:
                yield Taken(channel, name)
        for key in await self._find("notes:"):
            channel = key.removeprefix(self._all("notes:"))
            values = await self._redis.ask(client.hgetall(key))
            for name in await self._redis.ask(client.zrange(self._all(f"notes_order:{channel}"), 0, -1)):
                if name in values:
                    yield Note(channel, name.decode(), values[name].decode())
        questions = await self._find_questions()
        for one in sorted([one async for one in self._read_messages()]):
            yield await self._message(one, questions.get(one.at.id_of(one.number), ()))
        async for reply in self._read_replies():
            yield reply

    # What has no partition.

    async def _read_schedules(self) -> AsyncIterator[InboxRecord]:
        client = self._redis.client
        since, rules, missed, own, profiles = [
            await self._redis.ask(client.hgetall(self._all(f"schedules:{name}")))
            for name in ("since", "rule", "missed", "own", "own:profiles")
        ]
        for name, begun in sorted(since.items()):
            rule = rules.get(name, b"").decode()
            yield Progress(name.decode(), rule, float(begun), int(missed.get(name, 0)))
        for number, body in sorted(own.items(), key=lambda one: int(one[0])):
            yield Own(int(number), profiles.get(number, b"").decode(), body.decode())
        for key in await self._find("fired:"):
            name = key.removeprefix(self._all("fired:"))
            for moment in await self._redis.ask(client.zrange(key, 0, -1)):
                yield Fired(name, float(moment))

    async def _find_taken(self) -> dict[str, list[str]]:
        """Return the names that each channel took, the newest of every partition last."""
        ranked: dict[str, list[tuple[int, str]]] = defaultdict(list)
        keys = [(key.removeprefix(self._all("taken:")), key) for key in await self._find("taken:")]
        keys += [pair for at in self._partitions for pair in self._own(at, "taken:")]
        for channel, key in keys:
            names = await self._redis.ask(self._redis.client.zrange(key, 0, -1))
            ranked[channel] += ((rank - len(names), name.decode()) for rank, name in enumerate(names))
        return {
            channel: list(dict.fromkeys(name for _, name in sorted(names, key=lambda one: one[0])))
            for channel, names in ranked.items()
        }

    async def _find_questions(self) -> dict[int, list[AskedQuestion]]:
        """Return the questions of each message, by its id."""
        found: dict[int, list[AskedQuestion]] = defaultdict(list)
        for one in await RedisQuestions(self._redis, self._keys, lambda _: "").all():
            found[one.turn].append(replace(one, turn=0))
        return found

    # Messages.

    async def _read_messages(self) -> AsyncIterator[_Kept]:
        for at in self._partitions:
            about = await self._about(at)
            for one in _in_place(at, await self._stream(at.own("in")), about):
                yield one
            for one in await self._letters(at, "dead"):
                yield one

    async def _message(self, one: _Kept, questions: Sequence[AskedQuestion]) -> Message:
        body, at = one.fields.get("body", ""), one.at
        message = self._texts.read_or_none(body)
        client, draft = self._redis.client, message.draft if message is not None else ""
        noted = await self._redis.ask(client.hget(at.own("about"), f"{one.number}:draft"))
        calls = await self._redis.ask(client.lrange(at.own(f"calls:{one.number}"), 0, -1))
        firing = one.fields.get("firing")
        return Message(
            message.channel if message is not None else "?",
            message.chat_id if message is not None else "?",
            float(one.fields.get("at", 0)),
            body,
            noted.decode() if noted is not None else draft,
            one.attempts,
            one.reason,
            msgspec.json.decode(firing, type=tuple[str, float, str | None, bool]) if firing is not None else None,
            tuple(msgspec.json.decode(call, type=NotedCall) for call in calls),
            tuple(questions),
            _read_move(one),
        )

    # Replies.

    async def _read_replies(self) -> AsyncIterator[Reply]:
        found: list[tuple[str, _Kept]] = []
        for at in self._partitions:
            about = await self._about(at)
            for channel, key in self._own(at, "out:"):
                found += ((channel, one) for one in _in_place(at, await self._stream(key), about))
            found += (("", one) for one in await self._letters(at, "dead_replies"))
        for channel, one in sorted(found, key=lambda each: each[1]):
            yield await self._reply(channel, one)

    async def _reply(self, channel: str, one: _Kept) -> Reply:
        body = one.fields.get("body", "")
        message = self._texts.read_or_none(body)
        names = [f"{one.number}:{name}" for name in ("draft", "not_before")]
        draft, not_before = await self._redis.ask(self._redis.client.hmget(one.at.own("about"), names))
        if draft is not None and message is not None:
            body, _ = self._texts.write(replace(message, draft=draft.decode()))
        return Reply(
            channel or (message.channel if message is not None else "?"),
            message.chat_id if message is not None else "?",
            float(one.fields.get("at", 0)),
            body,
            one.attempts,
            float(not_before or 0),
            one.reason,
        )

    # The keys.

    async def _find(self, name: str) -> list[str]:
        return await find_keys(self._redis, self._all(name))

    def _own(self, at: PartitionKeys, name: str) -> list[tuple[str, str]]:
        """Return the keys of a partition that have a certain beginning, each with the rest of its name."""
        begin = at.own(name)
        return [(key.removeprefix(begin), key) for key in self._names if key.startswith(begin)]

    async def _about(self, at: PartitionKeys) -> Fields:
        about: Fields = await self._redis.ask(self._redis.client.hgetall(at.own("about")))
        return about

    async def _stream(self, key: str) -> list[Any]:
        found: list[Any] = []
        while True:
            start = f"({number_in(found[-1].identifier)}-0" if found else "-"
            entries = await self._redis.ask(self._redis.client.xrange(key, start, "+", count=_AT_ONCE))
            found += entries
            if len(entries) < _AT_ONCE:
                return found

    async def _letters(self, at: PartitionKeys, name: str) -> list[_Kept]:
        found = []
        for number, letter in (await self._redis.ask(self._redis.client.hgetall(at.own(name)))).items():
            fields, attempts, reason = read_letter(letter)
            place = (True, float(fields.get("at", 0)), at.partition, int(number))
            found.append(_Kept(place, at, int(number), fields, attempts, reason))
        return found

    def _all(self, name: str) -> str:
        return self._keys.of_all(name)


def _in_place(at: PartitionKeys, entries: Iterable[Any], about: Fields) -> Iterator[_Kept]:
    """Give the entries of a stream, each in its place among those of others, also if the clock was set back."""
    latest: dict[bool, float] = {}
    for entry in entries:
        try:
            fields = {name.decode(): value.decode() for name, value in entry.field_values.items()}
            if int(fields.get("v", 0)) > FORMAT:
                raise MailboxError("something waits that a newer Bub wrote", help="update this one")
            came, number = float(fields["at"]), number_in(entry.identifier)
        except (KeyError, *UNREADABLE) as error:
            raise MailboxError(f"an entry of the stream {at.own('in')} cannot be read: {error}") from error
        is_new = "session" not in fields
        latest[is_new] = max(came, latest.get(is_new, 0.0))
        attempts = int(about.get(b"%d:attempts" % number, b"0"))
        yield _Kept((is_new, latest[is_new], at.partition, number), at, number, fields, attempts, None)


def _read_move(one: _Kept) -> Moved | None:
    session_id = one.fields.get("session")
    if session_id is None or one.reason is not None:
        return None
    first = one.fields["first"]
    return Moved(
        session_id, one.fields["values"], one.at.id_of(int(first) if first else one.number), int(one.fields["count"])
    )
