"""Proving pipeline files with their plugins, as a run does before its first turn."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

from bub.base.diagnostics import Diagnostic, PipelineError
from bub.cli.table import COMMANDS
from bub.framework import BubFramework


def prove(config: Path | str | None, workspace: Path, profiles: Iterable[str]) -> list[Diagnostic]:
    """Load the file and its plugins for each profile with the code of a run, and return what that finds.

    What plugins print while they are loaded goes to standard error. Raises `NotTrustedError` for a file that nobody
    named (`config` is None) and that lies in a folder without trust.
    """
    proved: list[Diagnostic] = []
    for profile in profiles:
        framework = BubFramework(config, profile=profile, workspace=workspace)
        try:
            with redirect_stdout(sys.stderr):
                framework.load_hooks()
                framework.create_cli_app(COMMANDS)
                framework.check_channels()
        except PipelineError as error:
            found = error.diagnostics
        else:
            found = framework.findings
        # Findings about the profiles that routes lead to come when those profiles are loaded.
        proved += [finding for finding in found if finding.profile in (None, profile)]
    return proved
