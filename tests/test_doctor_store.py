"""What `bub doctor` says of a store that gateways share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes.redis_server import RedisServer

from bub.base.installing.extras import install_command
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.doctor.checks import Check, Patient
from bub.doctor.store import look_at_store
from bub.inbox.shared.redis.inbox import RedisInbox

pytestmark = pytest.mark.anyio


async def look(folder: Path, store: str | None, *, offline: bool = False) -> list[Check]:
    settings = {"gateway": {"store": store}} if store is not None else {}
    framework = cast(Any, SimpleNamespace(settings=settings))
    return [*await look_at_store(Patient(framework, None, folder, os.environ, offline=offline))]


def said(checks: list[Check]) -> list[tuple[str, str]]:
    return [(check.status, check.message) for check in checks]


async def test_without_a_store_nothing_is_said(tmp_path: Path) -> None:
    assert await look(tmp_path, None) == []


async def test_a_store_says_what_it_keeps(tmp_path: Path, redis: RedisServer) -> None:
    version, partitions, memory, disk = said(await look(tmp_path, redis.address))
    assert version[0] == "ok"
    assert "Redis " in version[1]
    assert partitions == ("ok", "it has nothing of this agent yet: the first gateway makes the partitions")
    assert memory == ("ok", "if its memory is full, Redis takes nothing new, and deletes nothing")
    assert disk[0] == "warn"
    assert "`appendonly` is off" in disk[1]
    assert redis.ask("DBSIZE") == 0


async def test_what_would_lose_messages_is_told(tmp_path: Path, redis: RedisServer) -> None:
    inbox = RedisInbox(StoreAddress.parse(f"{redis.address}?partitions=4"), agent_of(tmp_path))
    await inbox.open()
    await inbox.close()
    redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    redis.ask("CONFIG", "SET", "appendonly", "yes")
    try:
        _, partitions, memory, disk = said(await look(tmp_path, f"{redis.address}?partitions=8"))
        assert partitions == ("broken", "4 partitions, format 1, though the address says 8")
        assert memory[0] == "warn"
        assert "allkeys-lru" in memory[1]
        assert disk[0] == "ok"
        assert "last second" in disk[1]
        redis.ask("CONFIG", "SET", "maxmemory", "100mb")
        assert [one[0] for one in said(await look(tmp_path, redis.address))] == ["ok", "ok", "broken", "ok"]
    finally:
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        redis.ask("CONFIG", "SET", "appendonly", "no")


@pytest.mark.parametrize("store", ["redis://:secret@127.0.0.1:9", "rediss:secret", "redis://h?secret=1"])
async def test_what_cannot_be_asked_is_broken_and_no_password_is_shown(tmp_path: Path, store: str) -> None:
    (found,) = await look(tmp_path, store)
    assert found.status == "broken"
    assert found.help
    assert "secret" not in found.message.replace("`secret`", "")


async def test_a_missing_client_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bub.inbox.shared.redis.examination", None)
    (found,) = await look(tmp_path, "redis://:secret@127.0.0.1:9")
    assert (found.status, install_command("redis") in found.help) == ("broken", True)


async def test_offline_nobody_is_asked(tmp_path: Path) -> None:
    (found,) = await look(tmp_path, "redis://:secret@127.0.0.1:9", offline=True)
    assert found.status == "skipped"
    assert "secret" not in found.message
