"""How often somebody may ask: a bucket of tokens for each."""

from __future__ import annotations

import msgspec
import trio

from bub_plugins.http.settings import RateSettings


class Bucket(msgspec.Struct):
    """A bucket that holds `burst` and is filled by `per_minute`."""

    rate: RateSettings
    left: float
    at: float

    def take(self) -> float:
        """Take one; 0 if there was one, else in how many seconds there will be."""
        now = trio.current_time()
        self.left = min(self.rate.burst, self.left + (now - self.at) * self.rate.per_minute / 60)
        self.at = now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) * 60 / self.rate.per_minute


class Buckets:
    """The buckets of all clients and webhooks; settings that change leave what was taken."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def take(self, name: str, rate: RateSettings) -> float:
        """Take one from the bucket of this name; 0 if there was one, else in how many seconds there will be."""
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(rate, rate.burst, trio.current_time())
        bucket.rate = rate
        return bucket.take()
