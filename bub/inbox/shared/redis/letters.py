"""What was set aside in a Redis, and what waits there, for people: looked through, tried again, or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys, partition_of_id
from bub.inbox.shared.redis import scripts
from bub.inbox.shared.redis.reading import PartitionKeys, number_in, number_of
from bub.inbox.store import Id, InboxEntry, Kind
from bub.inbox.texts import MessageTexts

_DEAD: Mapping[str, str] = {"message": "dead", "reply": "dead_replies"}
_KEYS_AT_ONCE = 10_000


class RedisLetters:
    """The messages and replies of one agent as people see them; nothing here needs a lease."""

    def __init__(self, redis: RedisConnection, keys: Keys, texts: MessageTexts) -> None:
        self._redis = redis
        self._keys = keys
        self._texts = texts

    async def list_entries(self, partitions: int) -> list[InboxEntry]:
        """List all messages, then all replies, each in order."""
        found: list[InboxEntry] = []
        client, streams = self._redis.client, await self._outgoing(partitions)
        for at in (PartitionKeys(self._keys, number) for number in range(partitions)):
            about = await self._redis.ask(client.hgetall(at.own("about")))
            for kind, stream in (("message", at.own("in")), *(("reply", one) for one in streams[at.partition])):
                for entry in await self._redis.ask(client.xrange(stream)):
                    number = number_in(entry.identifier)
                    attempts = int(about.get(b"%d:attempts" % number, b"0"))
                    fields = {name.decode(): value for name, value in entry.field_values.items()}
                    found.append(self._entry(kind, at.id_of(number), fields, attempts, None))
            for kind, dead in _DEAD.items():
                for number, letter in (await self._redis.ask(client.hgetall(at.own(dead)))).items():
                    fields, attempts, reason = read_letter(letter)
                    found.append(self._entry(kind, at.id_of(int(number)), fields, attempts, reason))
        return sorted(found, key=lambda entry: (entry.kind, entry.at, entry.id))

    async def retry(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Let dead letters wait again, behind all others, as if nothing had been tried."""
        for one in ids:
            at = self._at(one)
            dead = at.own(_DEAD[kind])
            letter = await self._redis.ask(self._redis.client.hget(dead, str(number_of(one))))
            if letter is not None:
                fields, _, _ = read_letter(letter)
                message = self._texts.read_or_none(fields.get("body", ""))
                stream = at.own("in") if kind == "message" or message is None else at.own(f"out:{message.channel}")
                await self._redis.run(scripts.RETRY, [at.own("n"), stream, dead, at.own("calls:")], [number_of(one)])

    async def drop(self, kind: Kind, ids: Sequence[Id]) -> None:
        """Remove dead letters for good, with what was asked and noted for them."""
        for one in ids:
            at = self._at(one)
            keys = at.all()
            if kind == "reply":
                keys[6] = at.own(_DEAD[kind])
            await self._redis.run(scripts.DROP, keys, [number_of(one)])

    async def _outgoing(self, partitions: int) -> list[list[str]]:
        """The streams of replies in each partition: there is one for each channel."""
        found: list[list[str]] = [[] for _ in range(partitions)]
        first, _, last = self._keys.of_partition(0, "out:").partition(":0}")
        begins = {PartitionKeys(self._keys, number).own("out:"): number for number in range(partitions)}
        cursor = 0
        while True:
            command = self._redis.client.scan(
                cursor=cursor, match=f"{_literally(first)}:*}}{last}*", count=_KEYS_AT_ONCE
            )
            cursor, names = await self._redis.ask(command)
            for name in (name.decode() for name in names):
                begin = name[: name.find("}:out:") + len("}:out:")]
                if begin in begins and name not in found[begins[begin]]:
                    found[begins[begin]].append(name)
            if not cursor:
                return found

    def _entry(
        self,
        kind: Any,
        id: Id,  # noqa: A002 (what a message in a store is known by)
        fields: Mapping[str, Any],
        attempts: int,
        reason: str | None,
    ) -> InboxEntry:
        message = self._texts.read_or_none(fields.get("body", ""))
        channel, chat = (message.channel, message.chat_id) if message is not None else ("?", "?")
        return InboxEntry(kind, id, channel, chat, float(fields.get("at", 0)), attempts, reason, message)

    def _at(self, id: Id) -> PartitionKeys:  # noqa: A002
        return PartitionKeys(self._keys, partition_of_id(id))


def read_letter(letter: bytes) -> tuple[dict[str, str], int, str]:
    """Return the fields of a dead letter, how often it was tried, and why it was set aside."""
    flat, attempts, reason = msgspec.json.decode(letter)
    texts: Iterator[str] = iter(flat)
    return dict(zip(texts, texts, strict=False)), int(attempts), str(reason)


def _literally(text: str) -> str:
    """Write a text so that no letter of it stands for others in a pattern."""
    return "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in text)


async def find_keys(redis: RedisConnection, begin: str) -> list[str]:
    """Return the names of all keys with a certain beginning, sorted."""
    found: set[str] = set()
    cursor = 0
    while True:
        command = redis.client.scan(cursor=cursor, match=f"{_literally(begin)}*", count=_KEYS_AT_ONCE)
        cursor, names = await redis.ask(command)
        found.update(name.decode() for name in names)
        if not cursor:
            return sorted(found)
