"""`bub mcp serve`: Bub as an MCP server, for programs that start it and speak with it over its streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio
import typer

from bub.base.installing.extras import install_command
from bub.cli.held_home import hold_home
from bub.cli.interrupts import let_second_interrupt_end
from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.standard_streams import take_streams
from bub.cli.table import MCP_SERVER, load
from bub.errors import BubError
from bub.framework import BubFramework
from bub.log import open_log


def serve_streams(ctx: typer.Context, *, every_tape: bool) -> int:
    """Serve the program at the other end of the standard streams until it leaves.

    Nobody is asked to trust a folder: the streams are the protocol's.
    """
    streams = take_streams()
    framework = open_framework(options_of(ctx), ask=False, routed=False, check=BubFramework.check_needs)
    try:
        serve = load(MCP_SERVER)
    except ModuleNotFoundError as error:
        problem = f"`bub mcp serve` needs the package `{error.name}`"
        raise BubError(problem, help=f"run `{install_command('mcp')}`") from None
    open_log()
    with hold_home(framework.home):
        trio.run(_serve, partial(serve, framework, *streams, every_tape=every_tape))
    return 0


async def _serve(serve: Callable[[], Awaitable[None]]) -> None:
    let_second_interrupt_end()
    await serve()
