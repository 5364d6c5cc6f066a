"""A copy of all that an agent has from one store to another: begun, gone on with after any end, and compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from hashlib import sha256
from uuid import uuid4

import msgspec
import trio

from bub.errors import BubError
from bub.inbox.copying.records import InboxRecord, Tally
from bub.inbox.copying.sides import Side
from bub.tape.copying.mark import HalfCopyError, Mark
from bub.tape.copying.records import digest_of
from bub.tape.tape import prefix_of

Tell = Callable[[str, int, int], None]
"""Gets what is being done, how much of it is done, and how much there is."""

AGAIN = "give the same command again: it goes on where this one stopped"

_BETWEEN_CHECKPOINTS = 1_000

COPYING, COMPARING = "copying entries of tapes:", "comparing entries of tapes:"


class Copied(msgspec.Struct, frozen=True):
    """What is equal on both sides now: so many `entries` of so many `tapes`, and of the rest so many of each kind.

    `digest` names all of it.
    """

    tapes: int
    entries: int
    counts: dict[str, int]
    digest: str


def check_different(source: Side, target: Side) -> None:
    """Raise `BubError` if two sides are the same, before one locks the other out."""
    if source.name == target.name:
        raise _same(source, target)


async def copy_store(source: Side, target: Side, *, replace: bool, tell: Tell) -> Copied:
    """Copy everything from one open side, which is fit for it, to another, and compare. Raises `BubError`.

    A copy that was cut short goes on. With `replace`, what else lies in the target is given up.
    """
    await _check(source, target, replace=replace)
    await _begin(source, target)
    try:
        await _copy(source, target, tell)
        copied = await _compare(source, target, tell)
        await target.tapes.settle()
        await target.remove_mark()
    except BubError as error:
        ways = f"{error.help}; then {AGAIN}" if error.help else AGAIN
        raise BubError(str(error), help=ways) from error
    return copied


async def _copy(source: Side, target: Side, tell: Tell) -> None:
    pairs = await _pair_tapes(source, target)
    for tape in await _list_more(target, pairs):
        await target.tapes.reset(tape)
    sizes = [await source.tapes.count(tape) for tape, _ in pairs]
    total, done = sum(sizes), 0
    for pair, size in zip(pairs, sizes, strict=True):

        def tell_of(count: int, before: int = done) -> None:
            tell(COPYING, before + count, total)

        await _copy_tape(source, target, *pair, tell_of)
        done += size
    await target.write(_as_kept(source, target))


async def check_source(source: Side) -> None:
    """Raise `BubError` if nothing can be copied from a side that is open: before anything is made in a target."""
    await _check_workers(source)
    mark = await source.read_mark()
    if mark is not None:
        raise HalfCopyError(source.shown, mark)
    if not await _describe(source):
        remedy = "--workspace, --agent and BUB_AGENT say which agent is meant"
        raise BubError(f"{source.shown} has nothing of this agent", help=remedy)


async def _check(source: Side, target: Side, *, replace: bool) -> None:
    """See that nobody works on the target, and that nothing is lost there."""
    await _check_workers(target)
    mark = await target.read_mark()
    if mark is not None and mark.source != source.name and not replace:
        raise HalfCopyError(target.shown, mark)
    if mark is None and not replace and (found := await _describe(target)):
        problem = f"{target.shown} is not empty: it has {found}"
        raise BubError(problem, help="name another store (or another `prefix`), or delete what is there with --replace")
    for tape, name in await _pair_tapes(source, target):
        if not target.tapes.is_own(name):
            await _count_equal(source, target, tape, name)


async def _check_workers(side: Side) -> None:
    workers = await side.find_workers()
    if workers:
        problem = f"gateways run on {side.shown}: {', '.join(workers)}"
        raise BubError(problem, help="end them; one that was killed counts as gone after the length of a lease")


async def _describe(side: Side) -> str:
    """Say what a side has; "" if that is nothing."""
    tally = await _tally(side.read())
    own = [tape for tape in await side.tapes.list_tapes() if side.tapes.is_own(tape)]
    found = {**({"tapes": len(own)} if own else {}), **tally.counts}
    return ", ".join(f"{count:,} {what}" for what, count in found.items() if count)


async def _begin(source: Side, target: Side) -> None:
    """Mark the target, and see that it is not the source under another address, which `--replace` would empty."""
    await target.write_mark(Mark(source.name, source.shown, uuid4().hex))
    if await source.read_mark() is not None:
        await target.remove_mark()
        raise _same(source, target)
    await _check_workers(target)  # one may have begun just before


async def _pair_tapes(source: Side, target: Side) -> list[tuple[str, str]]:
    """Return the names of all tapes of the source, each with its name in the target."""
    there, here = prefix_of(source.memory), prefix_of(target.memory)
    names = await source.tapes.list_tapes()
    return [(name, here + name.removeprefix(there) if name.startswith(there) else name) for name in names]


async def _list_more(target: Side, pairs: list[tuple[str, str]]) -> list[str]:
    """Return the tapes that only the target has, of the agent's own."""
    known = {name for _, name in pairs}
    return [name for name in await target.tapes.list_tapes() if name not in known and target.tapes.is_own(name)]


async def _copy_tape(source: Side, target: Side, tape: str, name: str, tell: Callable[[int], None]) -> None:
    """Write what is missing at the end of a tape; one that has something else is written again."""
    done = await _count_equal(source, target, tape, name)
    if done is None:
        await target.tapes.reset(name)
        done = 0
    async with aclosing(source.tapes.read(tape, done)) as parts:  # type: ignore[type-var]
        async for records in parts:
            await target.tapes.write(name, records)
            done += len(records)
            tell(done)
            await trio.lowlevel.checkpoint()  # files never wait, and somebody may want an end


async def _count_equal(source: Side, target: Side, tape: str, name: str) -> int | None:
    """Return how many entries of a tape are in the target already; None if it has something else there.

    Others may have gone on with a tape that is not the agent's alone; if they have another, `BubError` is raised.
    """
    there = await target.tapes.count(name)
    count, digest = await digest_of(source.tapes, tape, there)
    is_own = target.tapes.is_own(name)
    if (count == there or not is_own) and (await digest_of(target.tapes, name, count))[1] == digest:
        return count
    if is_own:
        return None
    problem = f"other agents use the tape `{name}` of {target.shown}, and it differs from the tape of this agent"
    raise BubError(problem, help="name another folder to copy to")


async def _as_kept(source: Side, target: Side) -> AsyncIterator[InboxRecord]:
    async with aclosing(source.read()) as records:  # type: ignore[type-var]
        async for record in records:
            yield target.as_kept(record)


async def _tally(records: AsyncIterator[InboxRecord]) -> Tally:
    tally = Tally()
    async with aclosing(records) as found:  # type: ignore[type-var]
        async for record in found:
            tally.add(record)
            if not tally.counts.total() % _BETWEEN_CHECKPOINTS:
                await trio.lowlevel.checkpoint()
    return tally


async def _compare(source: Side, target: Side, tell: Tell) -> Copied:
    """Read both sides, and raise `BubError` if they differ."""
    await _check_workers(source)
    await _check_workers(target)
    pairs, entries, digests = await _pair_tapes(source, target), 0, []
    sizes = [await source.tapes.count(tape) for tape, _ in pairs]
    for (tape, name), size in zip(pairs, sizes, strict=True):
        found, there = await digest_of(source.tapes, tape, size), await digest_of(target.tapes, name, size)
        if found != there:
            raise _differ(f"the tape `{tape}`", source, target)
        digests.append((tape, found))
        entries += size
        tell(COMPARING, entries, sum(sizes))
    if more := await _list_more(target, pairs):
        raise _differ(f"the tape `{more[0]}`", source, target)
    tally, there_too = await _tally(_as_kept(source, target)), await _tally(target.read())
    for what in {**tally.counts, **there_too.counts}:
        if tally.counts[what] != there_too.counts[what]:
            numbers = f"{tally.counts[what]:,} {what} and {there_too.counts[what]:,}"
            raise _differ(f"what waits ({numbers})", source, target)
    if tally.digest != there_too.digest:
        raise _differ("what waits", source, target)
    digests.append(("", (0, tally.digest)))
    return Copied(len(pairs), entries, dict(+tally.counts), sha256(msgspec.msgpack.encode(digests)).hexdigest())


def _same(source: Side, target: Side) -> BubError:
    problem = f"{source.shown} and {target.shown} are the same store"
    return BubError(problem, help="name the store to copy from, then another one to copy to")


def _differ(what: str, source: Side, target: Side) -> BubError:
    problem = f"{what} is not the same in {source.shown} and {target.shown}"
    return BubError(problem, help="something wrote to one of them meanwhile: stop everything that writes there")
