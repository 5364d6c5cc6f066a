"""Questions to people, and the calls of turns, in a Redis (the rules are those of `bub/inbox/questions.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import structs

from bub.approval import Approval, NotedCall, NotSpentError
from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys, partition_of_id
from bub.inbox.questions import NO, OPEN, OVER, YES, AskedQuestion
from bub.inbox.shared.redis import scripts
from bub.inbox.shared.redis.reading import PartitionKeys, number_of
from bub.inbox.store import Id
from bub.tape.entry import mend

Prove = Callable[[int], str]
"""Gives the token of a partition. Raises `FencedError` if that is not this process's any more."""


class RedisQuestions:
    """The questions and calls of one agent; `prove` gives the token under which something of a partition changes."""

    def __init__(self, redis: RedisConnection, keys: Keys, prove: Prove) -> None:
        self._redis = redis
        self._keys = keys
        self._prove = prove
        self._key = keys.of_all("questions")

    async def ask(self, wanted: AskedQuestion, other_than: Collection[str]) -> AskedQuestion:
        """Keep a question, or take up one of an earlier process that is bound to just the same."""
        at = self._at(wanted.turn)
        members = f"{at.all()[-1]}{number_of(wanted.turn)}"
        numbers = [int(one) for one in await self._redis.ask(self._redis.client.smembers(members))]
        for kept in await self._counting(numbers):
            is_same = kept.turn == wanted.turn and kept.approval.bound == wanted.approval.bound
            if is_same and kept.approval.until > time.time() and kept.id not in other_than:
                return kept
        body = msgspec.json.encode(mend(msgspec.to_builtins(wanted)))
        given = [self._prove(at.partition), number_of(wanted.turn), body]
        keys = [*at.all(), self._keys.of_all("questions:n")]
        number = int(await self._redis.run(scripts.ASK, keys, given))
        return replace(wanted, approval=structs.replace(wanted.approval, id=f"q{number}"))

    async def all(self) -> list[AskedQuestion]:
        """Return every question that is not forgotten, the oldest first."""
        fields = await self._redis.ask(self._redis.client.hgetall(self._key))
        numbers = sorted(int(name) for name in fields if name.isdigit())
        return [_read(number, fields) for number in numbers]

    async def open(self) -> list[AskedQuestion]:
        """Return the questions that nobody has answered yet, the oldest first."""
        return [one for one in await self.all() if one.state == OPEN and one.approval.until > time.time()]

    async def find(self, name: str) -> AskedQuestion | None:
        """Return a question by what people name it by."""
        number = _number_of(name)
        fields = await self._fields_of([number])
        return _read(number, fields) if b"%d" % number in fields else None

    async def answer(self, name: str, is_yes: bool, by: str) -> bool:
        """Keep what a person said to an open question; says whether it was open."""
        return await self._lead(name, YES if is_yes else NO, mend(by), OPEN)

    async def end(self, name: str) -> None:
        """Let a question be over that was not answered, or whose yes was not used up."""
        await self._lead(name, OVER, "", OPEN, YES)

    async def note_shown(self, name: str, shown: str) -> None:
        """Keep the channel's name for what shows a question."""
        if await self.find(name) is not None:
            command = self._redis.client.hset(self._key, {f"{_number_of(name)}:shown": mend(shown)})
            await self._redis.ask(command)

    async def begin_call(self, ids: Sequence[Id], call: NotedCall, approval: str) -> None:
        """Note that a call begins, and use up its yes. Raises `NotSpentError` if there is none for it."""
        kept = await self.find(approval) if approval else None
        if approval:
            if kept is None:
                raise NotSpentError("it was used up or taken back")
            if (kept.approval.tool, kept.approval.arguments) != (call.tool, call.arguments):
                raise NotSpentError("it was given for another call")
            if kept.approval.asker:
                raise NotSpentError(f"it was an answer to {kept.approval.asker}")
            if kept.approval.until <= time.time():
                raise NotSpentError("it is too old")
        number: str | int = _number_of(approval) if approval else ""
        for at, numbers in self._by_partition(ids):
            given = [self._prove(at.partition), number, _write(call), *numbers]
            if not await self._redis.run(scripts.BEGIN_CALL, at.all(), given):
                raise NotSpentError("it was used up or taken back")
            number = ""  # the yes is used up, and its call is noted for what else the turn answers

    async def end_call(self, ids: Sequence[Id], call: NotedCall) -> None:
        """Note that a call has ended."""
        for at, numbers in self._by_partition(ids):
            given = [self._prove(at.partition), _write(call), _write(call, has_ended=True), *numbers]
            await self._redis.run(scripts.END_CALL, at.all(), given)

    async def waiting(self, numbers: Collection[int]) -> list[NotedCall]:
        """Return the calls of those of these questions that still count."""
        asked = await self._counting(numbers)
        return [NotedCall(one.call_id, one.approval.tool, one.approval.arguments, False) for one in asked]

    async def _counting(self, numbers: Collection[int]) -> list[AskedQuestion]:
        """Return those of these questions that still count: nobody has answered, or a yes is not used up."""
        fields = await self._fields_of(sorted(numbers))
        found = [_read(number, fields) for number in sorted(numbers) if b"%d" % number in fields]
        return [one for one in found if one.state in (OPEN, YES)]

    async def _fields_of(self, numbers: Sequence[int]) -> Mapping[bytes, bytes]:
        names = [f"{number}{part}" for number in numbers for part in ("", ":state", ":by", ":shown")]
        if not names:
            return {}
        values = await self._redis.ask(self._redis.client.hmget(self._key, names))
        return {name.encode(): value for name, value in zip(names, values, strict=True) if value is not None}

    async def _lead(self, name: str, state: str, by: str, *before: str) -> bool:
        given = [_number_of(name), state, by, *before]
        return bool(await self._redis.run(scripts.ANSWER, [self._key], given))

    def _at(self, id: Id) -> PartitionKeys:  # noqa: A002 (what a message in a store is known by)
        return PartitionKeys(self._keys, partition_of_id(id))

    def _by_partition(self, ids: Sequence[Id]) -> list[tuple[PartitionKeys, list[int]]]:
        found: dict[int, list[int]] = {}
        for one in ids:
            found.setdefault(partition_of_id(one), []).append(number_of(one))
        return [(PartitionKeys(self._keys, partition), numbers) for partition, numbers in found.items()]


def _write(call: NotedCall, *, has_ended: bool = False) -> bytes:
    noted = structs.replace(call, has_begun=True, has_ended=has_ended)
    return msgspec.json.encode(mend(msgspec.to_builtins(noted)))


def _read(number: int, fields: Mapping[bytes, bytes]) -> AskedQuestion:
    kept = msgspec.json.decode(fields[b"%d" % number], type=AskedQuestion)
    said = {name: fields.get(b"%d:%s" % (number, name.encode()), b"").decode() for name in ("state", "by", "shown")}
    approval: Approval = structs.replace(kept.approval, id=f"q{number}")
    return replace(kept, approval=approval, state=said["state"] or OPEN, by=said["by"], shown=said["shown"])


def _number_of(name: str) -> int:
    """Return the number in what people name a question by; 0, which no question has, for what is no such name."""
    number = name.strip().lower().removeprefix("q")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0
