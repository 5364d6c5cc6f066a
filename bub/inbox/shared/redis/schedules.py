"""Schedules in a Redis: how far each one is, which moments have fired, and those of the agent."""

from __future__ import annotations

import msgspec
from msgspec import structs

from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys
from bub.inbox.schedules.firing import Followed
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.shared.redis import scripts
from bub.tape.entry import mend

REMEMBERED = 10_000
"""How many firings of a schedule are remembered, so that none of them comes twice if the clock is set back."""


class RedisSchedules:
    """The schedules and firings of one agent."""

    def __init__(self, redis: RedisConnection, keys: Keys) -> None:
        self._redis = redis
        self._since, self._rule, self._missed = (keys.of_all(f"schedules:{one}") for one in ("since", "rule", "missed"))
        self._own = keys.of_all("schedules:own")
        self._keys = keys

    def keys_to_fire(self, name: str) -> list[str]:
        """Return the keys that the script `FIRE` wants behind the counter and the stream."""
        return [self._since, self._fired(name), self._missed]

    async def follow(self, name: str, rule: str, now: float) -> Followed:
        """Return how far a schedule is; one that is new, or has another rule than before, begins now."""
        given = [mend(name), mend(rule), repr(now)]
        await self._redis.run(scripts.FOLLOW, [self._since, self._rule, self._missed], given)
        (found,) = [one for one in await self.followed() if one.name == mend(name)]
        return found

    async def unfollow(self, name: str) -> None:
        """Forget how far a schedule is; what has fired stays known."""
        for key in (self._since, self._rule, self._missed):
            await self._redis.ask(self._redis.client.hdel(key, [mend(name)]))

    async def followed(self) -> list[Followed]:
        """Return how far each schedule is, by name."""
        since = await self._redis.ask(self._redis.client.hgetall(self._since))
        missed = await self._redis.ask(self._redis.client.hgetall(self._missed)) if since else {}
        found = []
        for name, begun in sorted(since.items()):
            newest = await self._redis.ask(self._redis.client.zrange(self._fired(name.decode()), -1, -1))
            last = float(newest[0]) if newest else None
            found.append(Followed(name.decode(), float(begun), last, int(missed.get(name, 0))))
        return found

    async def pass_over(self, name: str, until: float, missed: int) -> None:
        """Note that every moment up to a time is decided, and how many of them did not fire."""
        await self._redis.run(scripts.PASS_OVER, [self._since, self._missed], [mend(name), repr(until), missed])

    async def add(self, schedule: OwnSchedule, most: int) -> OwnSchedule | None:
        """Keep a schedule of the agent, and name it by a number; None if its profile has `most` of them already."""
        body = msgspec.json.encode(mend(msgspec.to_builtins(schedule)))
        keys = [self._own, f"{self._own}:profiles", f"{self._own}:n"]
        number = await self._redis.run(scripts.ADD_SCHEDULE, keys, [mend(schedule.profile or ""), most, body])
        return structs.replace(schedule, name=str(number)) if number else None

    async def own(self) -> list[OwnSchedule]:
        """Return the schedules of the agent, the oldest first."""
        bodies = await self._redis.ask(self._redis.client.hgetall(self._own))
        read = msgspec.json.Decoder(OwnSchedule).decode
        return [
            structs.replace(read(body), name=number.decode())
            for number, body in sorted(bodies.items(), key=lambda one: int(one[0]))
        ]

    async def remove(self, name: str) -> bool:
        """Remove a schedule of the agent; False if there is none of that name."""
        await self._redis.ask(self._redis.client.hdel(f"{self._own}:profiles", [name]))
        return bool(await self._redis.ask(self._redis.client.hdel(self._own, [name])))

    def _fired(self, name: str) -> str:
        return self._keys.of_all(f"fired:{mend(name)}")
