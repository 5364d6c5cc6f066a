"""`bub gateway status`: who runs on a shared store, who has what, and what waits.

What a person reads is kept word for word in `golden/`; `GOLDEN=write` writes it anew after a wanted change.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import trio
from fakes.command_line import bub
from fakes.gateway import FILES, PATIENCE, gateway
from fakes.redis_server import RedisServer

from bub.base.layout import Line
from bub.base.redis.address import StoreAddress
from bub.channels import ChannelMessage
from bub.cli.gateway_status import describe_overview
from bub.inbox.shared.overview import Overview
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.shared.redis.overview import read_overview
from bub.inbox.shared.store import Worker

GOLDEN = Path(__file__).parent / "golden"
STORE = "redis://redis.example:6379"

FIRST = Worker("kiwi-12", version="0.1.0", roles=("turns", "channels"), turns=3)
SECOND = Worker("plum-7", version="0.1.1", roles=("turns",), is_draining=True)
HELD = {f"partition:{one}": "kiwi-12" for one in (0, 1, 2, 3, 5)} | {"channel:telegram": "kiwi-12"}

OVERVIEWS = {
    "well": Overview("front-desk", 6, [FIRST], {**HELD, "partition:4": "kiwi-12"}, 0, 0, 0, None),
    "busy": Overview("front-desk", 6, [FIRST, SECOND], {**HELD, "partition:4": "plum-7"}, 12, 1, 2, 3.24),
    "faults": Overview("front-desk", 6, [SECOND], {"partition:4": "gone-1"}, 1, 0, 1, 7_300.0),
    "nobody": Overview("front-desk", 6, [], {}, 3, 2, 0, 90.0),
    "new": Overview("front-desk", 0, [], {}, 0, 0, 0, None),
}


def shown(lines: list[Line]) -> str:
    return "".join("".join(span.text for span in line).rstrip() + "\n" for line in lines)


@pytest.mark.parametrize("name", OVERVIEWS)
def test_what_a_person_reads_is_word_for_word_so(name: str) -> None:
    text, golden = shown(describe_overview(STORE, OVERVIEWS[name])), GOLDEN / f"status_{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_each_gateway_is_shown_with_what_it_has(tmp_path: Path, redis: RedisServer) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = {
        "BUB_GATEWAY_STORE": f"{redis.address}?partitions=4&lease=1s",
        "BUB_AGENT": "front",
        "BUB_TRUST_WORKSPACE": "1",
    }
    with gateway(tmp_path, BUB_WORKER="kiwi", **said):
        deadline = time.monotonic() + PATIENCE
        while True:
            done = bub(tmp_path, "gateway", "status", "--json", **said)
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout)
            if [len(one["partitions"]) for one in told["workers"]] == [4] or time.monotonic() > deadline:
                break
    [worker] = told["workers"]
    assert (worker["name"], worker["partitions"], worker["channels"]) == ("kiwi", [0, 1, 2, 3], ["post"])
    assert (told["store"], told["agent"], told["messages"]) == (redis.address.partition("?")[0], "front", 0)
    assert told["free_partitions"] == []
    done = bub(tmp_path, "gateway", "status", **said)
    assert "front, 4 partitions" in done.stdout


def test_health_and_metrics_say_what_a_gateway_has(tmp_path: Path, redis: RedisServer) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    store = f"{redis.address}?partitions=4&lease=1s"
    with gateway(tmp_path, "--listen", "127.0.0.1:0", BUB_GATEWAY_STORE=store) as running:
        running.until(lambda: running.health["shared"]["partitions"] == [0, 1, 2, 3])
        shared = running.until(lambda: (said := running.health["shared"])["renewals"] and said)
        assert (shared["of"], shared["channels"], shared["store"]) == (4, ["post"], "ok")
        assert (shared["lost"], shared["fenced"], shared["lag"]) == (0, 0, 0)
        lines = running.ask("/metrics").text.splitlines()
        assert {"bub_owned_partitions 4.0", "bub_owned_channels 1.0", "bub_fenced_writes_total 0.0"} <= {*lines}
        assert "bub_leases_lost_total 0.0" in lines and "bub_store_away_seconds 0.0" in lines


def test_a_store_that_is_away_is_an_error_without_its_password(tmp_path: Path) -> None:
    done = bub(tmp_path, "gateway", "status", BUB_GATEWAY_STORE="redis://:secret@127.0.0.1:9")
    assert done.returncode == 1
    assert "redis://127.0.0.1:9 cannot be reached" in done.stderr
    assert "secret" not in done.stdout + done.stderr


def test_without_a_shared_store_what_is_known_is_shown(tmp_path: Path) -> None:
    done = bub(tmp_path, "gateway", "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no store is shared") and "0 set aside" in done.stdout


@pytest.mark.anyio
async def test_to_look_changes_nothing_and_what_waits_is_counted(redis: RedisServer) -> None:
    address = StoreAddress.parse(f"{redis.address}?partitions=2")
    assert (await read_overview(address, "a*b")).partitions == 0
    assert redis.ask("DBSIZE") == 0

    inbox = RedisInbox(address, "a*b")
    await inbox.open()
    with trio.fail_after(PATIENCE):
        for number in range(3):
            await inbox.receive(ChannelMessage("line", str(number), "hello"))
        before = redis.ask("DBSIZE")
        found = await read_overview(address, "a*b")
        other = await read_overview(address, "axb")
    await inbox.close()
    assert (found.partitions, found.messages, found.replies, found.workers) == (2, 3, 0, [])
    assert found.oldest is not None and 0 <= found.oldest < PATIENCE
    assert found.free == [0, 1]
    assert (other.partitions, other.messages) == (0, 0)
    assert redis.ask("DBSIZE") == before
