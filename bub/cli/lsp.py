"""`bub lsp`: the checks of `bub validate` for editors, over the Language Server Protocol."""

from __future__ import annotations

import sys

import trio
import typer

from bub.cli.exits import FAILED
from bub.cli.standard_streams import take_streams
from bub.lsp.jsonrpc import BrokenFrameError
from bub.lsp.server import LanguageServer


def lsp(ctx: typer.Context) -> int:
    """Serve an editor: findings while you type, repairs, explanations, completion, renaming.

    It speaks the Language Server Protocol on standard input and output. Bub imports plugins only if the editor's
    settings say so and the folder is trusted. See docs/editors.md.
    """
    del ctx
    server = LanguageServer(*take_streams(), fail=_tell)
    try:
        return trio.run(server.serve)
    except* BrokenFrameError as error:
        _say(f"what the editor sends cannot be read: {error.exceptions[0]}")
    except* BrokenPipeError:
        pass  # the editor is gone
    return FAILED


def _tell(method: str, error: Exception) -> None:
    _say(f"{method} failed: {type(error).__name__}: {error}")


def _say(text: str) -> None:
    print(f"bub lsp: {text}", file=sys.stderr, flush=True)
