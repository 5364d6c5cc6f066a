"""`bub local`: the small model that answers on this machine, without a key."""

from __future__ import annotations

import sys

import typer

from bub.agent.local_install import install

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="The small model that answers on this machine.")


@app.callback()
def local() -> None:
    """The small model that answers on this machine, without a key."""


@app.command("install")
def install_model() -> None:
    """Install the engine and the weights of the local model (about 200 MB) beside Bub; harmless a second time."""
    install(lambda line: print(line, file=sys.stderr))
