"""`bub local`: the small model that answers on this machine, without a key."""

from __future__ import annotations

import os
import signal
from types import FrameType

import typer

from bub.agent.local.install import install
from bub.agent.local.parts import MEGABYTES
from bub.base.locate import bub_home
from bub.cli.questions import TerminalVoice

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="The small model that answers on this machine.")


@app.callback()
def local() -> None:
    """The small model that answers on this machine, without a key."""


@app.command(
    "install",
    help=f"Install the engine and the weights of the local model ({MEGABYTES} MB) in Bub's own folder. "
    "If they are there, do nothing.",
)
def install_model() -> None:
    """Install the small local model in Bub's own folder; harmless a second time."""
    signal.signal(signal.SIGTERM, _unwind)
    install(bub_home(os.environ), TerminalVoice())


def _unwind(number: int, frame: FrameType | None) -> None:
    """Remove what is unfinished if a supervisor ends the process, also in the background, where Ctrl-C is ignored."""
    raise KeyboardInterrupt
