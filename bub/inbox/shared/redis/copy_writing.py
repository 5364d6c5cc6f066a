"""What a copy carries of an inbox, as commands that make it again in an empty Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec
from msgspec import structs

from bub.base.redis.keys import FORMAT, Keys, partition_of
from bub.inbox.copying.records import (
    Fired,
    InboxRecord,
    Message,
    Note,
    Numbers,
    Own,
    Progress,
    Reply,
    Taken,
)
from bub.inbox.shared.redis.reading import PartitionKeys
from bub.inbox.texts import MessageTexts
from bub.tape.entry import mend

Command: TypeAlias = Sequence[str | bytes | int]

_OF_ALL = ("questions", "questions:n", "schedules:*", "fired:*", "asked:*", "taken:*", "notes*")
_OF_PARTITION = ("n", "in", "about", "calls:*", "out:*", "dead", "dead_replies", "taken:*")
"""The keys of an inbox; a `*` is any ending."""


def is_of_inbox(keys: Keys, key: str) -> bool:
    """Return whether a key of the agent holds something of the inbox, and not of tapes, leases and gateways."""
    rest = key.removeprefix(f"{keys.prefix}:{{{keys.agent}")
    if rest.startswith("}:"):
        return _is_one_of(rest.removeprefix("}:"), _OF_ALL)
    return rest.startswith(":") and _is_one_of(rest.partition("}:")[2], _OF_PARTITION)


def _is_one_of(name: str, known: Sequence[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in known)


class CopyWriter:
    """Turns records into commands. It counts by itself: nothing else may be there, and nobody else write."""

    def __init__(self, keys: Keys, partitions: int) -> None:
        self._keys = keys
        self._partitions = partitions
        self._texts = MessageTexts()
        self._numbers: Counter[int] = Counter()
        self._orders: Counter[str] = Counter()
        self._groups: dict[tuple[str, int], int] = {}
        self._last_question = 0
        self._last_schedule = 0

    def write(self, record: InboxRecord) -> Iterator[Command]:
        """Give the commands that make a record."""
        match record:
            case Message():
                yield from self._write_message(record)
            case Reply():
                yield from self._write_reply(record)
            case Taken():
                yield self._add_in_order("taken", record.channel, record.name)
            case Note():
                yield self._add_in_order("notes_order", record.channel, record.name)
                yield "HSET", self._all(f"notes:{record.channel}"), record.name, record.value
            case Progress():
                for name, value in (("since", repr(record.since)), ("rule", record.rule), ("missed", record.missed)):
                    yield "HSET", self._all(f"schedules:{name}"), record.schedule, value
            case Fired():
                yield "ZADD", self._all(f"fired:{record.schedule}"), repr(record.at), repr(record.at)
            case Own():
                yield "HSET", self._all("schedules:own"), record.number, record.body
                yield "HSET", self._all("schedules:own:profiles"), record.number, record.profile
                self._last_schedule = max(self._last_schedule, record.number)
            case Numbers():
                self._last_question = max(self._last_question, record.questions)
                self._last_schedule = max(self._last_schedule, record.schedules)

    def end(self) -> Iterator[Command]:
        """Give the commands behind all records: what was counted."""
        for partition, number in self._numbers.items():
            yield "SET", self._at(partition).own("n"), number
        for channel in [key.removeprefix("notes_order:") for key in self._orders if key.startswith("notes_order:")]:
            yield "SET", self._all(f"notes_n:{channel}"), self._orders[f"notes_order:{channel}"]
        yield "SET", self._all("questions:n"), self._last_question
        yield "SET", self._all("schedules:own:n"), self._last_schedule

    def _write_message(self, record: Message) -> Iterator[Command]:
        message = self._texts.read_or_none(record.body)
        moved, fields = record.moved, ["at", repr(record.at), "body", record.body]
        origin = message.origin if message is not None else ""
        at = self._at(partition_of(moved.session_id if moved is not None else origin, self._partitions))
        number = self._count(at)
        if record.firing is not None:
            fields += ["firing", msgspec.json.encode(record.firing).decode()]
        if moved is not None:
            first = self._groups.setdefault((moved.session_id, moved.group), number)
            told = {"session": moved.session_id, "values": moved.values, "first": str(first) if first < number else ""}
            fields += [text for pair in told.items() for text in pair] + ["count", str(moved.number)]
        noted = f"{number}:"
        if record.reason is not None:
            dead = [["v", str(FORMAT), *fields], record.attempts, record.reason]
            yield "HSET", at.own("dead"), number, msgspec.json.encode(dead)
        else:
            yield "XADD", at.own("in"), f"{number}-0", "v", FORMAT, *fields
            if record.attempts:
                yield "HSET", at.own("about"), f"{noted}attempts", record.attempts
        if message is not None and record.draft != message.draft:
            yield "HSET", at.own("about"), f"{noted}draft", record.draft
        for call in record.calls:
            yield "RPUSH", at.own(f"calls:{number}"), msgspec.json.encode(call)
        if record.calls:
            yield "SADD", at.own("calls:"), number
        for one in record.questions:
            name = int(one.id.removeprefix("q"))
            self._last_question = max(self._last_question, name)
            kept = replace(one, turn=at.id_of(number), approval=structs.replace(one.approval, id=""))
            body = msgspec.json.encode(mend(msgspec.to_builtins(kept))).decode()
            asked = {f"{name}": body, f"{name}:state": one.state, f"{name}:by": one.by, f"{name}:shown": one.shown}
            yield "HSET", self._all("questions"), *(text for pair in asked.items() for text in pair)
            yield "SADD", self._all(f"asked:{at.partition}:{number}"), name

    def _write_reply(self, record: Reply) -> Iterator[Command]:
        """Write a reply: those to one chat lie in one partition, so that they keep their order."""
        at = self._at(partition_of(f"{record.channel}:{record.chat_id}", self._partitions))
        number, fields = self._count(at), ["v", str(FORMAT), "at", repr(record.at), "body", record.body]
        if record.reason is not None:
            dead = [fields, record.attempts, record.reason]
            yield "HSET", at.own("dead_replies"), number, msgspec.json.encode(dead)
            return
        yield "XADD", at.own(f"out:{record.channel}"), f"{number}-0", *fields
        if record.attempts:
            yield "HSET", at.own("about"), f"{number}:attempts", record.attempts
        if record.not_before:
            yield "HSET", at.own("about"), f"{number}:not_before", repr(record.not_before)

    def _add_in_order(self, name: str, channel: str, value: str) -> Command:
        self._orders[f"{name}:{channel}"] += 1
        return "ZADD", self._all(f"{name}:{channel}"), self._orders[f"{name}:{channel}"], value

    def _count(self, at: PartitionKeys) -> int:
        self._numbers[at.partition] += 1
        return self._numbers[at.partition]

    def _at(self, partition: int) -> PartitionKeys:
        return PartitionKeys(self._keys, partition)

    def _all(self, name: str) -> str:
        return self._keys.of_all(name)
