"""The options that every command knows: which file, which workspace, which profile."""

from __future__ import annotations

import os
import re
from pathlib import Path

import typer

from bub.base.locate import AGENT_VARIABLE, check_agent
from bub.errors import UsageError


class Options:
    """What the command line says about the pipeline to use; None if it says nothing."""

    config: Path | None = None
    workspace: Path | None = None
    profile: str | None = None


def options_of(ctx: typer.Context) -> Options:
    """Return the options of this call, from before or behind the command's name."""
    options = ctx.find_root().ensure_object(Options)
    assert isinstance(options, Options)
    return options


def workspace_of(options: Options) -> Path:
    """Return the folder to work in: the named one, else the current one. UsageError if that was removed."""
    try:
        return options.workspace or Path.cwd()
    except FileNotFoundError:
        problem = "the current folder does not exist any more"
        raise UsageError(problem, help="change to another, or name one with --workspace") from None


def repository() -> Path:
    """Return the folder that paths in a report for GitHub begin at: its checkout, else the current folder."""
    here = Path.cwd()
    checkout = Path(os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or here))
    return checkout if here.is_relative_to(checkout) else here


def pages_of_codes() -> str | None:
    """Return where the page of codes is in the web, as the action says it; None if it is run from no repository."""
    pages = os.environ.get("BUB_ACTION_PAGES", "")
    return pages if re.fullmatch(r"https://[^/\s]+/[^/\s]+/[^/\s]+/blob/[^/\s]\S*", pages) else None


def keep(ctx: typer.Context, param: typer.CallbackParam, value: Path | str | None) -> None:
    """Remember an option of `Options`; the one behind the command wins, as in `bub --profile a run --profile b`."""
    if value is not None and param.name is not None:
        setattr(options_of(ctx), param.name, value)


def name_agent(value: str | None) -> None:
    """Let the agent have a name, as `BUB_AGENT` does; what this process starts is part of it."""
    if value is not None:
        check_agent(value)
        os.environ[AGENT_VARIABLE] = value
