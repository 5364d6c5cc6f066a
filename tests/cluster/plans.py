"""What befalls the gateways, a plan a function; `PLANS` names them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from cluster.network import cable
from cluster.stage import Size, Stage, make_stage
from cluster.world import world


def run_kills(size: Size) -> Stage:
    """Kill gateways at random, freeze one, restart all one by one, and reload, all while people write."""
    with ExitStack() as stack:
        stage = _begin(stack, size)
        began = time.monotonic()
        do = [*[stage.kill_one] * size.kills, stage.freeze_one, stage.restart_all, stage.reload_all]
        stage.chance.shuffle(do)
        for number, act in enumerate(do, 1):
            stage.wait_for_share(number / (len(do) + 1))
            act()
        stage.finish(began)
        return stage


def run_takeover(size: Size) -> Stage:
    """Kill each gateway but the last; it is started again only when others have answered what was waiting."""
    with ExitStack() as stack:
        stage = _begin(stack, size)
        began = time.monotonic()
        killed = stage.gateways[:-1] or stage.gateways
        for number, gateway in enumerate(killed, 1):
            stage.wait_for_share(number / (len(killed) + 1))
            stage.kill(gateway)
            if size.is_shared:
                stage.wait_for_answers_to_all_so_far()
            gateway.start()
        stage.finish(began)
        return stage


def run_server(size: Size) -> Stage:
    """Kill Redis twice, of which it has written all to the disk: nothing is lost."""
    return _kill_server(size, "always")


def run_server_everysec(size: Size) -> Stage:
    """Kill Redis twice, of which it has written all but the last second to the disk."""
    return _kill_server(size, "everysec")


def _kill_server(size: Size, appendfsync: str) -> Stage:
    with ExitStack() as stack:
        stage = _begin(stack, size, appendfsync=appendfsync)
        redis = stage.world.redis
        assert redis is not None
        began = time.monotonic()
        for share, leases in ((0.3, 0.0), (0.6, 1.5)):
            stage.wait_for_share(share)
            redis.kill()
            stage.kills.append(time.time())
            stage.wait(leases)
            redis.start()
        stage.finish(began)
        return stage


def run_memory(size: Size) -> Stage:
    """Let Redis have no memory left for a while: channels take nothing in, and nothing is lost."""
    with ExitStack() as stack:
        stage = _begin(stack, size)
        redis = stage.world.redis
        assert redis is not None
        began = time.monotonic()
        stage.wait_for_share(0.3)
        redis.ask("CONFIG", "SET", "maxmemory", 1_000_000)
        stage.wait(2)
        before = len(stage.world.bots.pending())
        sent = stage.crowd.sent
        stage.wait(1)
        taken = stage.crowd.sent - sent - (len(stage.world.bots.pending()) - before)
        stage.figures["taken from Telegram while the memory was full"] = str(taken)
        if taken > 0:
            stage.problems.append(f"{taken} messages were taken from Telegram while the memory was full")
        redis.ask("CONFIG", "SET", "maxmemory", 0)
        stage.finish(began)
        return stage


def run_network(size: Size) -> Stage:
    """Cut the way between one gateway and Redis: there, back, and both; heal it each time."""
    with ExitStack() as stack:
        network = stack.enter_context(cable())
        stage = _begin(stack, size, network=network)
        began = time.monotonic()
        for share, cut in ((0.2, {"to": True}), (0.45, {"back": True}), (0.7, {"to": True, "back": True})):
            stage.wait_for_share(share)
            network.cut(**cut)
            stage.kills.append(time.time())
            stage.wait(2.5)
            network.heal()
        stage.finish(began)
        return stage


def run_clocks(size: Size) -> Stage:
    """Let the clocks of the gateways be five minutes apart, and kill some."""
    with ExitStack() as stack:
        stage = _begin(stack, size, clocks=(300.0, -300.0))
        began = time.monotonic()
        for number in range(3):
            stage.wait_for_share((number + 1) / 4)
            stage.kill_one()
        stage.finish(began)
        return stage


def _begin(stack: ExitStack, size: Size, *, clocks: tuple[float, ...] = (), **more: object) -> Stage:
    """Make a world with gateways, whose clocks are that much ahead, and let the people begin to write."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True)))
    made = stack.enter_context(world(folder, is_shared=size.is_shared, lease=size.lease, **more))  # type: ignore[arg-type]
    for number in range(max(size.gateways, 1)):
        clock = clocks[number] if number < len(clocks) else 0.0
        made.add(clock=clock, is_apart=made.network is not None and number == 0)
    stage = make_stage(size, made)
    stage.begin()
    return stage


PLANS: Mapping[str, Callable[[Size], Stage]] = {
    "kills": run_kills,
    "takeover": run_takeover,
    "server": run_server,
    "server_everysec": run_server_everysec,
    "memory": run_memory,
    "network": run_network,
    "clocks": run_clocks,
}
