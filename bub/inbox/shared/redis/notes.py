"""What channels remember, in a Redis."""

from __future__ import annotations

from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys
from bub.inbox.shared.redis import scripts
from bub.tape.entry import mend

MOST = 10_000
"""How many notes of a channel are remembered, the newest ones."""

_AT_ONCE = 500


class RedisNotes:
    """The notes of all channels of one agent; those that were taken since are kept by `keep`."""

    def __init__(self, redis: RedisConnection, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._taken: dict[str, dict[str, str]] = {}

    def remember(self, channel: str, name: str, value: str) -> None:
        """Take a note, in place of the last one of this name."""
        notes = self._taken.setdefault(channel, {})
        notes.pop(name, None)  # the newest stand last
        notes[name] = value

    async def keep(self) -> None:
        """Keep what was taken; what fails is kept the next time."""
        while self._taken:
            channel, notes = next(iter(self._taken.items()))
            part = dict(list(notes.items())[:_AT_ONCE])
            given = [mend(text) for pair in part.items() for text in pair]
            await self._redis.run(scripts.REMEMBER, self._keys_of(channel), [MOST, *given])
            for name, value in part.items():
                if notes.get(name) == value:  # not one that was taken meanwhile
                    del notes[name]
            if not notes:
                self._taken.pop(channel, None)

    async def recall(self, channel: str) -> dict[str, str]:
        """Return the notes of a channel by their names, the oldest first."""
        notes, order, _ = self._keys_of(channel)
        names = await self._redis.ask(self._redis.client.zrange(order, 0, -1))
        values = await self._redis.ask(self._redis.client.hgetall(notes)) if names else {}
        return {name.decode(): values[name].decode() for name in names if name in values}

    def _keys_of(self, channel: str) -> list[str]:
        return [self._keys.of_all(f"notes{part}:{mend(channel)}") for part in ("", "_order", "_n")]
