"""`bub studio`: a page that shows what the agent does, and answers its questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import trio
import typer

from bub.base.installing.extras import install_command
from bub.cli.held_home import hold_home
from bub.cli.interrupts import let_second_interrupt_end
from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.prompts import require_person
from bub.cli.table import STUDIO, load
from bub.errors import BubError
from bub.framework import BubFramework
from bub.log import open_log


def studio(
    ctx: typer.Context,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Serve the page there, such as 127.0.0.1:9465.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Let the page change the pipeline file.")] = False,
) -> None:
    """Serve a page on this machine: the graph at work, turns, questions, a chat, what waits, and the file.

    Bub prints its address with a token; who has that answers as you do. Ctrl-C ends it. It runs no channel of the file,
    and works beside a gateway.
    """
    require_person()
    framework = open_framework(options_of(ctx), check=BubFramework.check_needs)
    try:
        serve = load(STUDIO)
    except ModuleNotFoundError as error:
        problem = f"`bub studio` needs the package `{error.name}`"
        raise BubError(problem, help=f"run `{install_command('web')}`") from None
    open_log()
    with hold_home(framework.home):
        trio.run(_serve, partial(serve, framework, listen=listen, write=write, announce=_announce))


async def _serve(serve: Callable[[], Awaitable[None]]) -> None:
    let_second_interrupt_end()
    await serve()


def _announce(url: str) -> None:
    print(url, flush=True)
