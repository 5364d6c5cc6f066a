"""The commands for signing in that plugins add: `bub login NAME`."""

from __future__ import annotations

import typer

app = typer.Typer(name="login", help="Sign in to what a plugin talks to.", no_args_is_help=True)


@app.callback()
def _login() -> None:
    """Sign in to what a plugin talks to."""
