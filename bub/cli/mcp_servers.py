"""`bub mcp list`, `tools`, `call` and `import`: servers of a file, what they offer, and those of other programs."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio
import typer

from bub.agent.mcp.looking import Seen, call_server, look_at_servers
from bub.base.diagnostics import did_you_mean
from bub.base.failures import explain_os_error, unwrap_group
from bub.base.layout import Line, Span, indent_text, line
from bub.base.rewrite import rewrite
from bub.cli.opening import open_framework, usual_file
from bub.cli.options import options_of
from bub.cli.output import page_width, show, show_json
from bub.cli.progress import progress
from bub.cli.prompts import require_person
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.framework import BubFramework
from bub.pipeline.edit.amend import amend
from bub.pipeline.source.merge import load_document
from bub.plugins.lock.drift import compare_server
from bub.plugins.servers import ServerSpec
from bub.plugins.shipped import SERVED
from bub.setup.servers import Imported, read_servers

_T = TypeVar("_T")


def list_servers(ctx: typer.Context, *, as_json: bool) -> int:
    """Print the servers of the profile; none is started."""
    framework = _open(ctx)
    wants = framework.tools.policy.wants
    if as_json:
        listed = [
            {
                "name": spec.name,
                "command": list(map(framework.mask.text, spec.command)) or None,
                "url": framework.mask.text(spec.url) or None,
                "allowed": wants(spec.name),
            }
            for spec in framework.served.specs
        ]
        show_json({"version": 1, "profile": framework.profile, "servers": listed}, indent=2, ensure_ascii=False)
    elif not framework.served.specs:
        show([line("the file describes no servers under `mcp`", "faint")])
    else:
        show(_list(framework))
    return 0


def show_tools(ctx: typer.Context, name: str, *, as_json: bool) -> int:
    """Start a server and print its tools."""
    require_person()
    framework = _open(ctx)
    spec = _find(framework, name)
    (seen,) = _run(f"starting {name}", partial(look_at_servers, [spec], framework.workspace))
    seen.require()
    locked = framework.served.lock
    drifts = () if locked is None else compare_server(name, locked.server(name, framework.profile), seen.facts)
    if as_json:
        listed = [
            {
                "name": tool.name,
                "allowed": framework.tools.policy.permits(tool),
                "asks": framework.tools.policy.asks(tool),
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in seen.tools.values()
        ]
        told = {"problems": list(seen.problems), "drift": [one.line for one in drifts]}
        show_json({"version": 1, "server": name, "tools": listed, **told}, indent=2, ensure_ascii=False)
    else:
        show(_tell_tools(framework, seen, [f"differs from the lock: {one.line}" for one in drifts]))
    return 0


def call_tool(ctx: typer.Context, tool: str, written: str, *, as_json: bool) -> int:
    """Start a server, call one of its tools, and print what it answers."""
    require_person()
    try:
        arguments = msgspec.json.decode(written, type=dict[str, Any])
    except msgspec.DecodeError:
        raise UsageError("the arguments are no JSON object", help="write them like '{\"a\": 1}'") from None
    framework = _open(ctx)
    server, _, short = tool.removeprefix(SERVED).partition(".")
    spec = _find(framework, server)
    name = f"{SERVED}{server}.{short}"
    result = _run(f"calling {name}", partial(call_server, spec, framework.workspace, name, arguments))
    if as_json:
        show_json(
            {"version": 1, "text": framework.mask.text(result.text), "media": list(result.media)},
            indent=2,
            ensure_ascii=False,
        )
    else:
        show(line(framework.mask.text(row)) for row in result.text.splitlines())
    return 0


def import_servers(ctx: typer.Context, listed: Path) -> int:
    """Write the servers that another program lists into the pipeline file; none is started."""
    file = usual_file(options_of(ctx))
    if file is None:
        raise UsageError("there is no pipeline file of your own here", help="make one: `bub init`")
    try:
        imported = read_servers(listed.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise UsageError(f"{listed} cannot be read: {explain_os_error(error)}", help="check the path") from None
    old = file.read_bytes()
    root = load_document(file).layers[-1].root
    kept = [name for name in imported.servers if root.get("mcp", name) is not None]
    new: dict[tuple[str, ...], Mapping[str, Any]] = {
        ("mcp", name): said for name, said in imported.servers.items() if name not in kept
    }
    text = amend(old.decode("utf-8", "surrogateescape"), new, file=str(file))
    if new:
        backup = rewrite(file, old, text.encode("utf-8", "surrogateescape"))
        print(printable(f"{file} is written; as it was, it is in {backup.name}"), file=sys.stderr)
    show(_tell_import([keys[1] for keys in new], kept, imported))
    return 0


def _tell_import(added: list[str], kept: list[str], imported: Imported) -> Iterator[Line]:
    for name in added:
        yield line(f"server `{name}` is added; `{SERVED}{name}.*` in `tools.allow` of a profile lets its agent use it")
    for name in kept:
        yield line(f"server `{name}` is left as it is: the file has one of that name", "warn")
    for name in imported.left_out:
        yield line(f"`{name}` is left out: it has neither a command nor an address, or no name of its own", "warn")
    if imported.variables:
        yield line(f"set {', '.join(imported.variables)} in the environment, or in `.env` beside the file")


def _run(doing: str, work: Callable[[], Awaitable[_T]]) -> _T:
    """Run some work to its end, and tell on a terminal how long it has lasted."""

    async def tell_seconds(tell: Callable[[int], None]) -> None:
        for second in itertools.count(1):
            await trio.sleep(1)
            tell(second)

    async def run() -> _T:
        with progress(f"{doing}, second", None, sys.stderr) as tell:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tell_seconds, tell)
                result = await work()
                nursery.cancel_scope.cancel()
            return result

    try:
        return trio.run(run)
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None


def _open(ctx: typer.Context) -> BubFramework:
    """Load the file that is meant; a person at a terminal is asked once whether to trust its folder."""
    return open_framework(options_of(ctx), routed=False)


def _find(framework: BubFramework, name: str) -> ServerSpec:
    known = {spec.name: spec for spec in framework.served.specs}
    if name not in known:
        advice = did_you_mean(name, known) or f"there are {', '.join(known) or 'none'}"
        raise UsageError(f"the file describes no server `{name}`", help=advice)
    return known[name]


def _list(framework: BubFramework) -> Iterator[Line]:
    width = max(len(spec.name) for spec in framework.served.specs)
    for spec in framework.served.specs:
        is_allowed = framework.tools.policy.wants(spec.name)
        what = framework.mask.text(" ".join(spec.command) or spec.url)
        note = "" if is_allowed else f"  (profile `{framework.profile}` allows none of its tools)"
        yield (Span(f"{spec.name:<{width}}  ", "strong"), Span(what), Span(note, "faint"))


def _tell_tools(framework: BubFramework, seen: Seen, drifts: list[str]) -> Iterator[Line]:
    policy, width = framework.tools.policy, page_width()
    for tool in seen.tools.values():
        state = ("asks" if policy.asks(tool) else "allowed") if policy.permits(tool) else "not allowed"
        yield (Span(tool.usage, "strong"), Span(f"  {state}", "faint"))
        yield from indent_text(tool.summary, width, 2)
    for problem in (*seen.problems, *drifts):
        yield line(problem, "warn")
    if not seen.tools:
        yield line("it offers no tools", "faint")
