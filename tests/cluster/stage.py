"""A run of a plan: its world and its crowd, what is done to the gateways, and what came of it."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

from fakes.telegram import BOT

from cluster.checks import check_chat, check_tape, count_repeats
from cluster.crowd import Crowd
from cluster.gateways import Gateway, read_page
from cluster.world import World

LEASE = 2.0
"""How many seconds a lease holds: less than usual, so that a plan sees many of them end."""


@dataclass(frozen=True)
class Size:
    """How much there is of what; `seed` decides whatever chance decides."""

    gateways: int = 4
    sessions: int = 50
    messages: int = 40
    rate: float = 15.0
    kills: int = 10
    seed: str = "1"
    lease: float = LEASE
    patience: float = 180.0

    @property
    def is_shared(self) -> bool:
        """Whether there is a Redis; no gateway is one gateway with files of its own."""
        return self.gateways > 0


@dataclass
class Stage:
    """What a plan has to do with. What a plan finds wrong goes to `problems`, what is worth telling to `figures`."""

    size: Size
    world: World
    crowd: Crowd
    chance: random.Random
    problems: list[str] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)
    kills: list[float] = field(default_factory=list)
    _before_kills: list[list[str]] = field(default_factory=list)

    @property
    def gateways(self) -> list[Gateway]:
        return self.world.gateways

    def begin(self) -> None:
        """Wait until all gateways work, then let the people write."""
        for gateway in self.gateways:
            gateway.wait_until_ready()
        self.crowd.begin()

    def wait_for_share(self, share: float) -> None:
        """Wait until so much of everything has been written."""
        self.crowd.wait_until_sent(int(self.crowd.total * share))

    def wait(self, leases: float) -> None:
        time.sleep(leases * self.size.lease)

    # What is done to gateways.

    def kill_one(self) -> None:
        """Kill a random gateway, and start it again within a lease and a half."""
        # Interrupted three times, a turn is given up: who was interrupted twice is waited for.
        if self._before_kills[1:]:
            self.crowd.wait_for_answers(self._before_kills[-2], self.size.patience)
        gateway = self.chance.choice(self.gateways)
        wait = self.chance.uniform(0, 1.5 if self.size.is_shared else 0.2)
        self.kill(gateway)
        self.wait(wait)
        gateway.start()

    def kill(self, gateway: Gateway) -> None:
        gateway.kill()
        self.kills.append(time.time())
        self._before_kills.append([*self.crowd.asked_at])

    def wait_for_answers_to_all_so_far(self) -> None:
        """Wait until all is answered that has been written by now."""
        if left := self.crowd.wait_for_answers([*self.crowd.asked_at], self.size.patience):
            self.problems.append(f"the others did not answer {left[:20]}")

    def freeze_one(self) -> None:
        """Stop a random gateway for longer than two leases, and let it go on."""
        gateway = self.chance.choice(self.gateways)
        gateway.freeze()
        try:
            self.wait(2.5)
        finally:
            gateway.thaw()

    def restart_all(self) -> None:
        """End each gateway as a new version would be brought in, one after another."""
        for gateway in self.gateways:
            gateway.wait_until_ready()
            began = time.monotonic()
            if (code := gateway.end()) != 0:
                self.problems.append(f"{gateway.name} ended with {code}\n{gateway.newest_log[-2000:]}")
            slowest = max(float(self.figures.get("slowest drain", "0 s").split()[0]), time.monotonic() - began)
            self.figures["slowest drain"] = f"{slowest:.1f} s"
            gateway.start()
            gateway.wait_until_ready()

    def reload_all(self) -> None:
        """Let each gateway load its file again."""
        for gateway in self.gateways:
            gateway.wait_until_ready()
            gateway.reload()

    # What came of it.

    def finish(self, began: float) -> None:
        """Wait until all is answered, end the gateways, and check everything."""
        crowd = self.crowd
        crowd.wait_until_sent(crowd.total)
        left = crowd.wait_for_answers([*crowd.asked_at], self.size.patience)
        took = time.monotonic() - began
        if left:
            self.problems.append(f"{len(left)} messages were never answered: {left[:20]}")
        for gateway in self.gateways:
            if not gateway.is_running:
                self.problems.append(f"{gateway.name} has ended by itself\n{gateway.newest_log[-2000:]}")
                gateway.stop()
                continue
            gateway.wait_until_ready()  # one that was started again a moment ago
            if (code := gateway.end()) != 0:
                self.problems.append(f"{gateway.name} ended with {code}\n{gateway.newest_log[-2000:]}")
        self._check()
        self._tell(took)

    def _check(self) -> None:
        repeats = 0
        tapes = self.world.read_tapes()
        for chat, asked in self.crowd.asked.items():
            mine = [one for one in self.world.bots.messages(chat) if one["message"]["from"]["id"] == BOT["id"]]
            said = [one["message"].get("text", "") for one in mine if not one["deleted"]]
            repeats += count_repeats(said)
            self.problems += check_chat(chat, asked, said)
            session = f"telegram:{chat}"
            self.problems += check_tape(session, tapes.pop(session, []), asked, said)
        self.problems += [f"there is a tape of nobody: {session}" for session in tapes]
        if self.size.is_shared:
            self.problems += [f"{count} {what} are left" for what, count in self.world.count_left().items() if count]
        self.figures["texts that came again"] = str(repeats)

    def _tell(self, took: float) -> None:
        crowd, figures = self.crowd, self.figures
        counted: Counter[str] = sum((gateway.counted for gateway in self.gateways), Counter())
        asked: dict[str, int] = json.loads(read_page(f"{self.world.model}/asked"))
        again = sum(times - 1 for times in asked.values())
        figures["messages"] = (
            f"{crowd.sent} of {len(crowd.asked)} chats in {took:.0f} s, {crowd.sent / took:.1f} a second"
        )
        if latencies := crowd.latencies:
            late = latencies[int(len(latencies) * 0.99)]
            median = statistics.median(latencies)
            figures["an answer took"] = f"{median:.2f} s (median), {late:.2f} s (99 %), {latencies[-1]:.2f} s (slowest)"
        if self.kills:
            gaps = [crowd.slowest_since(at, self.size.lease) for at in self.kills]
            median = statistics.median(gaps)
            slowest = f"{median:.1f} s (median), {max(gaps):.1f} s (most)"
            figures["kills"] = f"{len(self.kills)}; the slowest answer around one took {slowest}"
        figures["answers of the model"] = f"{sum(asked.values())}, {again} of them to what it had answered before"
        fenced = {name: count for name, count in counted.items() if "fenced" in name}
        figures["fenced writes"] = ", ".join(f"{name} {count:g}" for name, count in fenced.items()) or "none"


def make_stage(size: Size, world: World) -> Stage:
    chance = random.Random(size.seed)
    crowd = Crowd(world.bots, random.Random(f"{size.seed} crowd"), size.sessions, size.messages, size.rate)
    return Stage(size, world, crowd, chance)
