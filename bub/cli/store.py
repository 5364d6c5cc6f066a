"""`bub store copy`: moves what an agent has between Bub's own folder and a store that several gateways share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import trio
import typer

from bub.base.diagnostics import NO_FILE, Place
from bub.base.identity.agents import memory_of
from bub.base.locate import AGENT_VARIABLE, bub_home, check_agent
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import VARIABLE
from bub.cli.options import Options, options_of, workspace_of
from bub.cli.progress import progress
from bub.cli.prompts import can_ask, confirm
from bub.cli.shared_store import find_shared_store, find_tape_setting
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.inbox.copying.leading import AGAIN, Copied, Tell, check_different, check_source, copy_store
from bub.inbox.copying.sides import FileSide, Side
from bub.inbox.shared.opening import side_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import resolve

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Move what an agent has from one store to another.")

FILES, SHARED = "files", "shared"
_STORES = f"`{FILES}`, `{SHARED}`, an address such as redis://HOST, or a folder such as ./backup"


@app.callback()
def store() -> None:
    """Move what an agent has from one store to another."""


@app.command("copy")
def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"{FILES}, {SHARED}, an address, or a folder.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another store, in which the agent has nothing yet.")],
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="What the agent is called in TO.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Delete what the agent has in TO.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Copy all that an agent has from one store to another, and compare the two. What is in FROM stays as it is.

    No gateway may run on either. If it is stopped, the same command goes on; until then no gateway starts on TO.
    """
    if name is not None:
        check_agent(name)
    options = options_of(ctx)
    memory = memory_of(workspace_of(options), os.environ)
    there = _find_side(source, memory, options)
    here = _find_side(target, f"agent:{name}" if name is not None else memory, options)
    if replace and not yes and not _may_replace(here):
        _say("nothing was copied")
        return
    try:
        with _telling() as tell:
            work = partial(_copy, there, here, replace, tell)
            # A Ctrl-C comes between two steps, and each step is done to its end.
            copied = trio.run(work, restrict_keyboard_interrupt_to_checkpoints=True)
    except KeyboardInterrupt as stop:
        stop.add_note(AGAIN)
        raise
    _describe(copied, there, here)
    _say(f"{there.shown} is as it was. Next: {_next_steps(here, target, name)}, then start `bub gateway`")


async def _copy(source: Side, target: Side, replace: bool, tell: Tell) -> Copied:
    check_different(source, target)
    async with source.opened(is_target=False):
        await check_source(source)
        async with target.opened(is_target=True):
            return await copy_store(source, target, replace=replace, tell=tell)


def _find_side(said: str, memory: str, options: Options) -> Side:
    if said == SHARED:
        address = find_shared_store(options)
        if address is None:
            raise UsageError("no store is shared", help=f"set `gateway.store` or {VARIABLE}, or write its address here")
        return side_of(address, memory)
    if "://" in said:
        return side_of(StoreAddress.parse(_expand(said)), memory)
    if said == FILES:
        home = bub_home(os.environ)
    elif "/" in said or said.startswith((".", "~")):
        with suppress(RuntimeError):
            said = str(Path(said).expanduser())
        home = Path(said)
    else:
        raise UsageError(f"`{said}` is no store", help=f"say {_STORES}")
    return FileSide(home, memory, {"tapes": {"store": find_tape_setting(options)}})


def _expand(said: str) -> str:
    """Replace references such as `${env:REDIS_PASSWORD}` in an address, as in a file."""
    text, found = resolve(Node(said, Place(NO_FILE)), os.environ, base=Path())
    if found:
        raise UsageError(found[0].message, help=found[0].help)
    return str(text)


def _may_replace(target: Side) -> bool:
    if not can_ask():
        raise UsageError(f"there is no terminal to ask whether to delete what is in {target.shown}", help="say --yes")
    return confirm(f"Delete what this agent has in {printable(target.shown)} for good?")


@contextmanager
def _telling() -> Iterator[Tell]:
    """Show how far each part of the work has come, one after another in one line."""
    with ExitStack() as shown:
        doing: dict[str, Callable[[int], None]] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in doing:
                shown.close()
                doing[what] = shown.enter_context(progress(what, total, sys.stderr))
            doing[what](done)

        yield tell


def _describe(copied: Copied, source: Side, target: Side) -> None:
    """Print what is the same on both sides now."""
    print(printable(f"copied from {source.shown} to {target.shown}, and compared: both have the same"))
    print(f"  {copied.entries:,} entries of {copied.tapes:,} tapes")
    for what, count in copied.counts.items():
        print(f"  {count:,} {what}")
    print(f"  sha256 {copied.digest}")


def _next_steps(target: Side, said: str, name: str | None) -> str:
    """Say what has to be set so that a gateway works on the target."""
    is_shared = "://" in said or said == SHARED
    steps = [f"set `gateway.store` or {VARIABLE} to {target.shown}, with its password if it has one"]
    if not is_shared:
        steps = [f"take `gateway.store` and {VARIABLE} out"]
    if not is_shared and said != FILES:
        steps += [f"set BUB_HOME to {target.shown}"]
    if name is not None:
        steps += [f"set {AGENT_VARIABLE} to {name}"]
    return ", ".join(steps)


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)
