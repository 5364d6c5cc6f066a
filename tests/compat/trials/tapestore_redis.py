"""bub-tapestore-redis: a conversation is kept in Redis, and remembered."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.services.redis import redis_server
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    async with redis_server(world) as url:
        world.variables["BUB_TAPESTORE_REDIS_URL"] = url  # its settings take an address from nowhere else
        assert ANSWER in await world.run("my name is Ada")
        await world.run("who am I?")
        assert "my name is Ada" in str(world.model.requests[1]["messages"]), "the first turn was not remembered"
        keys = await world.python("import redis, sys; print(len(redis.Redis.from_url(sys.argv[1]).keys('*')))", url)
        assert int(keys) > 1, keys


TRIAL = Trial(
    package="bub-tapestore-redis",
    plugin="tapestore-redis",
    does="a second turn, in another process, remembers the first",
    against="a real redis-server; the variable BUB_TAPESTORE_REDIS_URL has its address",
    answers={"configure_redis_tape_store": True},
    asked=("url", "key_prefix"),
    hooks=("onboard_config", "provide_tape_store"),
    turn=turn,
)
