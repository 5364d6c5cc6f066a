"""Opening the framework for a command: load, ask about trust if a person can answer, print the warnings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path

import typer

from bub.base.diagnostics import Diagnostic, PipelineError, Place
from bub.base.locate import bub_home, find_pipeline
from bub.cli.completion.known import keep_commands, pipeline_file
from bub.cli.findings import ShownPipelineError
from bub.cli.options import Options, workspace_of
from bub.cli.prompts import can_ask, confirm_trust
from bub.cli.table import LOST, load
from bub.cli.terminal import printable
from bub.errors import NotTrustedError
from bub.framework import BubFramework
from bub.inbox.started import is_started_by_bub
from bub.runtime.trust import require_trust, trust

_ADDED, _SYNC = "plugins/added.json", "bub plugins sync"
"""The list of what was added, below Bub's own folder, and what installs that again (`bub.plugins.installed.added`)."""


def open_framework(
    options: Options,
    *,
    ask: bool = True,
    tell: Callable[[Iterable[Diagnostic]], None] | None = None,
    routed: bool = True,
    check: Callable[[BubFramework], None] | None = None,
) -> BubFramework:
    """Load the framework of the file, workspace and profile of `options`, with its plugins.

    With `ask`, a person at a terminal is asked once whether to trust a folder. Warnings are printed, or handed to
    `tell`. If not `routed`, a profile that `--profile` names is the only one. `check` proves more of what was loaded.
    Raises what `load_hooks` and `check` raise.
    """
    _tell_lost()
    try:
        framework = _load(options, routed, check)
    except NotTrustedError as error:
        if not (ask and _ask_for_trust(error)):
            raise
        framework = _load(options, routed, check)
    (tell or print_warnings)(framework.warnings)
    return framework


def print_warnings(warnings: Iterable[Diagnostic]) -> None:
    """Print warnings on standard error, a line each."""
    for warning in warnings:
        hint = f" ({warning.help})" if warning.help else ""
        where = Place(warning.file, warning.range)
        print(printable(f"{where}: warning[{warning.code}] {warning.message}{hint}"), file=sys.stderr)


def usual_file(options: Options) -> Path | None:
    """Return the pipeline file that a run would use, its folder trusted; None if that is the shipped default.

    A person at a terminal is asked once whether to trust a folder. Raises what `find_pipeline` and `require_trust` do.
    """
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    try:
        require_trust(found, bub_home(os.environ), os.environ)
    except NotTrustedError as error:
        if not _ask_for_trust(error):
            raise
    return found.path


def _tell_lost() -> None:
    """Say in a line that packages that were added are gone, as after an upgrade that made the environment again."""
    home = bub_home(os.environ)
    lost = load(LOST)(home) if (home / _ADDED).exists() else ""
    if lost:
        print(printable(f"bub: {lost} (`{_SYNC}` installs missing packages again)"), file=sys.stderr)


def _ask_for_trust(error: NotTrustedError) -> bool:
    """Ask the person at the terminal to trust the folder, and remember a yes."""
    if is_started_by_bub(os.environ) or not (can_ask() and confirm_trust(error.folder, error.file)):
        return False
    trust(Path(error.folder), bub_home(os.environ))
    return True


def _remember_commands(options: Options, profile: str, app: typer.Typer) -> None:
    """Let completion know the commands that plugins brought."""
    brought = typer.main.get_group(app).commands if app.registered_commands or app.registered_groups else {}
    said = {name: command.get_short_help_str() for name, command in brought.items()}
    keep_commands(bub_home(os.environ), pipeline_file(options.config, workspace_of(options)), profile, said)


def _load(options: Options, routed: bool, check: Callable[[BubFramework], None] | None) -> BubFramework:
    framework = BubFramework(
        options.config,
        profile=options.profile,
        workspace=workspace_of(options),
        routed=routed or options.profile is None,
    )
    try:
        with redirect_stdout(sys.stderr):  # what a plugin prints while it is imported is no result of ours
            framework.load_hooks()
            app = framework.create_cli_app()  # two commands of one name are found here (BEHAVIOURS O1)
            _remember_commands(options, framework.profile, app)
        if check is not None:
            check(framework)
    except PipelineError as error:
        shown = framework.not_ignored(error.diagnostics)
        raise ShownPipelineError(error, framework.sources, shown) from error
    return framework
