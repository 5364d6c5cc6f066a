"""An inbox in a real Redis that several gateways share: who may change what, in which order, and what survives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from fakes.redis_server import RedisServer, serving_redis

from bub.approval import NotedCall
from bub.base.counts import Counts
from bub.base.redis.address import StoreAddress
from bub.base.redis.keys import partition_of_id
from bub.base.redis.leases import Lease, current_lease
from bub.channels import ChannelMessage
from bub.inbox.ledger import Ledger
from bub.inbox.outbox import Outbox
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.shared.store import Worker
from bub.inbox.store import FencedError, MailboxError, Received

pytestmark = pytest.mark.anyio

ALL = ("partition:0", "partition:1", "channel:line")


def said(content: str, chat: str = "1", **more: Any) -> ChannelMessage:
    return ChannelMessage("line", chat, content, **more)


@asynccontextmanager
async def working(address: str, name: str = "one") -> AsyncIterator[RedisInbox]:
    inbox = RedisInbox(StoreAddress.parse(f"{address}?partitions=2&lease=30s"), "alone")
    await inbox.open()
    try:
        yield inbox
    finally:
        await inbox.close()


async def claim(inbox: RedisInbox, *names: str, worker: str = "one") -> tuple[list[Lease], list[Any]]:
    """Take leases and begin with what they name; return them, and what waited."""
    leases: list[Lease] = []
    found: list[Any] = []
    for name in names:
        lease = await inbox.leases.take(name, worker)
        assert lease is not None
        leases.append(lease)
        begin: Any = inbox.claim_partition if name.startswith("partition") else inbox.claim_channel
        found += await begin(lease)
    return leases, found


async def steal(inbox: RedisInbox, lease: Lease, worker: str = "two") -> Lease:
    """Let a lease end on the server, as if its holder had not been heard of, and take it."""
    await inbox.redis.ask(inbox.redis.client.delete([inbox.keys.of_lease(lease.name)]))
    taken = await inbox.leases.take(lease.name, worker)
    assert taken is not None
    return taken


async def insist(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until there is an answer: a connection that was cut says so when it is used the next time."""
    with trio.fail_after(10):
        while True:
            try:
                return await ask()
            except MailboxError:
                await trio.lowlevel.checkpoint()


CALL = NotedCall("c1", "bash", "{}")

CHANGES: dict[str, Callable[[RedisInbox, Received], Awaitable[Any]]] = {
    "begin": lambda inbox, one: inbox.begin([one.id]),
    "give_back": lambda inbox, one: inbox.give_back([one.id]),
    "finish": lambda inbox, one: inbox.finish([one.id], [said("never")]),
    "set_aside": lambda inbox, one: inbox.set_aside([one.id], "never", [said("never")]),
    "move": lambda inbox, one: inbox.move([one.id], "elsewhere", b"{}"),
    "keep_draft": lambda inbox, one: inbox.keep_draft(one.id, "never"),
    "begin_call": lambda inbox, one: inbox.begin_call([one.id], CALL),
    "end_call": lambda inbox, one: inbox.end_call([one.id], CALL),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_who_has_lost_a_partition_changes_nothing_in_it(redis: RedisServer, change: str) -> None:
    async with working(redis.socket_address) as zombie, working(redis.socket_address) as other:
        leases, _ = await claim(zombie, *ALL)
        received = await zombie.receive(said("hello"))
        assert received is not None
        lost = leases[partition_of_id(received.id)]
        taken = await steal(other, lost)
        before = await other.claim_partition(taken)
        with pytest.raises(FencedError):
            await CHANGES[change](zombie, received)
        assert await other.claim_partition(taken) == before
        assert [one.message.content for one in before] == ["hello"]
        await CHANGES[change](other, received)


@pytest.mark.parametrize("change", ["mark_delivered", "put_off", "undeliverable", "keep_reply_draft"])
async def test_who_has_lost_a_channel_decides_nothing_about_its_replies(redis: RedisServer, change: str) -> None:
    given: dict[str, Any] = {"put_off": {"not_before": 7.0}, "undeliverable": {"reason": "no"}}
    async with working(redis.socket_address) as zombie, working(redis.socket_address) as other:
        leases, _ = await claim(zombie, *ALL)
        (reply,) = await zombie.finish((), [said("a reply")])
        taken = await steal(other, leases[-1])
        before = await other.claim_channel(taken)
        more = given.get(change, {"draft": "7"} if change == "keep_reply_draft" else {})
        with pytest.raises(FencedError):
            await getattr(zombie, change)(reply.id, **more)
        assert await other.claim_channel(taken) == before


async def test_a_turn_without_a_message_of_its_own_proves_its_lease_too(redis: RedisServer) -> None:
    async with working(redis.socket_address) as zombie, working(redis.socket_address) as other:
        leases, _ = await claim(zombie, *ALL)
        current_lease.set(leases[0])
        await zombie.finish((), [said("while it holds")])
        await steal(other, leases[0])
        with pytest.raises(FencedError):
            await zombie.finish((), [said("never")])


async def test_a_new_owner_finds_what_the_one_before_had_begun_in_order(redis: RedisServer) -> None:
    async with working(redis.socket_address) as first, working(redis.socket_address) as second:
        leases, _ = await claim(first, *ALL)
        received = [await first.receive(said(str(number))) for number in range(5)]
        ids = [one.id for one in received if one is not None]
        await first.begin(ids[:2])
        await first.begin_call(ids[:1], CALL)
        await first.finish(ids[2:3], [said("re 2")])
        found = await second.claim_partition(await steal(second, leases[partition_of_id(ids[0])]))
        assert [(one.message.content, one.attempts, one.has_calls) for one in found] == [
            ("0", 1, True),
            ("1", 1, False),
            ("3", 0, False),
            ("4", 0, False),
        ]
        assert await second.begin(ids[:1]) == [CALL]


async def test_what_comes_in_is_waited_for_and_comes_once(redis: RedisServer) -> None:
    async with working(redis.socket_address) as owner, working(redis.socket_address) as channel:
        await claim(owner, *ALL)
        found: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                while len(found) < 40:
                    found.extend(await owner.wait_for_messages())

            nursery.start_soon(read)
            for number in range(40):
                await channel.receive(said(str(number), chat=str(number % 4)))
        by_chat: dict[str, list[int]] = {}
        for one in found:
            by_chat.setdefault(one.message.chat_id, []).append(int(one.message.content))
        assert by_chat == {str(chat): list(range(chat, 40, 4)) for chat in range(4)}


async def test_replies_reach_the_owner_of_their_channel_in_order(redis: RedisServer) -> None:
    async with working(redis.socket_address) as worker, working(redis.socket_address) as channel:
        await claim(worker, "partition:0", "partition:1")
        await claim(channel, "channel:line", worker="two")
        received = await worker.receive(said("hello"))
        assert received is not None
        await worker.finish([received.id], [said("one"), said("two")])
        found: list[Any] = []
        while len(found) < 2:
            found += await channel.wait_for_replies()
        assert [one.message.content for one in found] == ["one", "two"]
        await channel.mark_delivered(found[0].id)
        assert [one.message.content for one in (await channel.claim({"line"})).replies] == ["two"]


async def test_messages_move_with_their_attempts_to_the_partition_of_their_session(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        await claim(inbox, *ALL)
        session = next(name for name in map(str, range(20)) if inbox.partition_of(name) != inbox.partition_of("line:1"))
        received = [await inbox.receive(said(text, message_id=text)) for text in ("one", "two")]
        ids = [one.id for one in received if one is not None]
        await inbox.begin(ids)
        await inbox.keep_draft(ids[0], "d7")
        await inbox.move(ids, session, b'{"prompt": "\xc3\xb6"}')
        assert await inbox.fetch(ids) == []
        found = (await inbox.claim({"line"})).messages
        assert [(one.message.content, one.message.draft, one.attempts) for one in found] == [
            ("one", "d7", 1),
            ("two", "", 1),
        ]
        assert {partition_of_id(one.id) for one in found} == {inbox.partition_of(session)}
        arrivals = [one.arrival for one in found]
        assert arrivals[0] == arrivals[1]
        assert arrivals[0] is not None
        assert (arrivals[0].session_id, arrivals[0].values, arrivals[0].first, arrivals[0].number) == (
            session,
            b'{"prompt": "\xc3\xb6"}',
            found[0].id,
            2,
        )


async def test_what_was_noted_of_a_message_before_it_came_comes_along(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        await claim(inbox, *ALL)
        session = next(name for name in map(str, range(20)) if inbox.partition_of(name) != inbox.partition_of("line:1"))
        moved, dead = [one.id for one in [await inbox.receive(said(text)) for text in ("moved", "dead")] if one]
        await inbox.begin([moved, dead])
        await inbox.keep_draft(moved, "d7")
        await inbox.begin_call([dead], CALL)
        await inbox.move([moved], session, b"{}")
        await inbox.set_aside([dead], "a pity")
        await inbox.retry("message", [dead])
        found: dict[str, Received] = {}
        while len(found) < 2:
            found.update({one.message.content: one for one in await inbox.wait_for_messages()})
        assert (found["moved"].attempts, found["moved"].message.draft) == (1, "d7")
        assert (found["dead"].attempts, found["dead"].has_calls) == (0, True)


async def test_a_message_that_comes_while_a_partition_begins_has_what_was_noted_of_it(redis: RedisServer) -> None:
    async with working(redis.socket_address) as first, working(redis.socket_address) as second:
        leases, _ = await claim(first, *ALL)
        received = await first.receive(said("begun"))
        assert received is not None
        await first.begin([received.id])
        taken = await steal(second, leases[partition_of_id(received.id)])
        found: list[Received] = []

        async def read() -> None:
            while True:
                found.extend(await second.wait_for_messages())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for _ in range(10):
                found += await second.claim_partition(taken)
            nursery.cancel_scope.cancel()
        assert {one.attempts for one in found} == {1}


async def test_what_was_read_with_something_that_fails_comes_the_next_time(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        leases, _ = await claim(inbox, *ALL)
        unreadable = 1 - inbox.partition_of("line:1")
        if unreadable == 0:  # what is read first has to be what can be read
            for lease in reversed(leases[:2]):
                inbox._feeds.end_partition(int(lease.name[-1]))
                await inbox.claim_partition(lease)
        await steal(inbox, leases[unreadable])
        await inbox.receive(said("hello"))
        stream = inbox.keys.of_partition(unreadable, "in")
        await inbox.redis.ask(inbox.redis.client.xadd(stream, {"v": "1", "at": "0", "body": "?"}, identifier="1-0"))
        with pytest.raises(FencedError):  # it cannot be set aside any more
            await inbox.wait_for_messages()
        inbox._feeds.end_partition(unreadable)
        assert [one.message.content for one in await inbox.wait_for_messages()] == ["hello"]


async def test_an_entry_of_a_newer_version_is_left_alone(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        (lease, *_), _ = await claim(inbox, *ALL)
        stream = inbox.keys.of_partition(0, "in")
        await inbox.redis.ask(inbox.redis.client.xadd(stream, {"v": "99", "at": "0", "body": "?"}, identifier="1-0"))
        assert await inbox.claim_partition(lease) == []
        assert await inbox.redis.ask(inbox.redis.client.xlen(stream)) == 1


async def test_what_cannot_be_read_is_set_aside(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        (lease, *_), _ = await claim(inbox, *ALL)
        stream = inbox.keys.of_partition(0, "in")
        await inbox.redis.ask(inbox.redis.client.xadd(stream, {"v": "1", "at": "0", "body": "?"}, identifier="1-0"))
        assert await inbox.claim_partition(lease) == []
        assert await inbox.redis.ask(inbox.redis.client.hlen(inbox.keys.of_partition(0, "dead"))) == 1


async def test_the_number_of_partitions_is_that_of_the_first_one_who_asked(redis: RedisServer) -> None:
    async with working(redis.socket_address):
        other = RedisInbox(StoreAddress.parse(f"{redis.socket_address}?partitions=4"), "alone")
        with pytest.raises(MailboxError, match="cut into 2 partitions, not 4"):
            await other.open()
        silent = RedisInbox(StoreAddress.parse(redis.socket_address), "alone")
        await silent.open()
        assert silent.partitions == 2
        await silent.close()


async def test_nothing_is_lost_when_the_server_is_killed_between_two_steps() -> None:
    with serving_redis(appendonly=True, appendfsync="always") as server:
        async with working(server.socket_address) as inbox:
            await claim(inbox, *ALL)
            kept = [await inbox.receive(said(str(number))) for number in range(10)]
            server.kill()
            with pytest.raises(MailboxError, match="cannot be reached"):
                await inbox.receive(said("while it is away"))
            server.restart()
            ids = [one.id for one in kept if one is not None]
            await inbox.finish(ids[:3], [said("re")])
            server.kill()
            server.restart()
            found = await insist(lambda: inbox.claim({"line"}))
            assert [one.message.content for one in found.messages] == [str(number) for number in range(3, 10)]
            assert [one.message.content for one in found.replies] == ["re"]


async def test_a_full_memory_refuses_new_messages_and_lets_the_others_be_answered() -> None:
    with serving_redis(maxmemory="3mb") as server:
        async with working(server.socket_address) as inbox:
            await claim(inbox, *ALL)
            received = []
            with pytest.raises(MailboxError, match="is full"):
                for number in range(1000):
                    received.append(await inbox.receive(said("x" * 20_000, chat=str(number))))
            server.ask("CONFIG", "SET", "maxmemory", "0")
            assert received
            assert received[0] is not None
            assert await inbox.finish([received[0].id], [said("re")])


async def test_workers_are_listed_until_they_are_silent(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        await inbox.report(Worker("b", partitions=(0, 1)))
        await inbox.report(Worker("a", is_draining=True))
        assert [(one.name, one.partitions, one.is_draining) for one in await inbox.workers()] == [
            ("a", (), True),
            ("b", (0, 1), False),
        ]
        await inbox.redis.ask(inbox.redis.client.delete([inbox.keys.of_all("worker:a")]))
        assert [one.name for one in await inbox.workers()] == ["b"]


async def test_what_went_to_another_gateway_meanwhile_is_neither_begun_nor_ended_here(redis: RedisServer) -> None:
    async with working(redis.socket_address) as inbox:
        await claim(inbox, *ALL)
        ours: set[int] = set()
        outbox = Outbox(inbox, {}, Counts(), start_soon=lambda *_: None, settled=lambda: None, is_shared=True)
        ledger = Ledger(inbox, outbox, Counts(), settled=lambda: None, shared=inbox, is_ours=ours.__contains__)
        received = await inbox.receive(said("hello"))
        assert received is not None
        assert await ledger.take_up(["line"]) == ledger.take_in([received]) == []
        ours.add(received.id)
        assert ledger.take_in([received]) == [received]
        ledger.drop(ours.__contains__)
        await ledger.finish([received.id], [said("hi")])
        assert [one.id for one in await inbox.wait_for_messages()] == [received.id]
        assert ledger.take_in([received]) == [received]
        ledger.let_go(ours.__contains__)
        assert await ledger.take_up(["line"]) == [received]
