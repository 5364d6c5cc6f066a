"""Redis: a real server, for the length of a trial."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

from tests.compat.services.web import free_port
from tests.compat.world import World, end


@contextlib.asynccontextmanager
async def redis_server(world: World) -> AsyncIterator[str]:
    """Its address."""
    program = shutil.which("redis-server")
    assert program, "there is no redis-server on the PATH: install Debian's package redis-server, or its like"
    port = free_port()
    process = await world.start(program, "--port", str(port), "--save", "", log=world.folder / "redis.log")
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.1)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        await end(process)
