"""`bub lsp`: the checks of `bub validate` for editors, over the Language Server Protocol."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import trio
import typer

from bub.cli.exits import FAILED
from bub.lsp.jsonrpc import BrokenFrameError
from bub.lsp.server import LanguageServer


def lsp(ctx: typer.Context) -> int:
    """Serve an editor: findings while you type, repairs, explanations, completion, renaming.

    It speaks the Language Server Protocol on standard input and output. Bub imports plugins only if the editor's
    settings say so and the folder is trusted. See docs/editors.md.
    """
    del ctx
    # Whatever prints goes to standard error: standard output belongs to the protocol.
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = LanguageServer(_Reading(sys.stdin.buffer), _Writing(outgoing), fail=_tell)
    try:
        return trio.run(server.serve)
    except* BrokenFrameError as error:
        _say(f"what the editor sends cannot be read: {error.exceptions[0]}")
    except* BrokenPipeError:
        pass  # the editor is gone
    return FAILED


class _Reading:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def receive_some(self, max_bytes: int, /) -> bytes:
        return await trio.to_thread.run_sync(os.read, self._stream.fileno(), max_bytes, abandon_on_cancel=True)


class _Writing:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def send_all(self, data: bytes, /) -> None:
        await trio.to_thread.run_sync(self._write, data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._stream.write(view) :]


def _tell(method: str, error: Exception) -> None:
    _say(f"{method} failed: {type(error).__name__}: {error}")


def _say(text: str) -> None:
    print(f"bub lsp: {text}", file=sys.stderr, flush=True)
