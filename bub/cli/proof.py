"""Proving pipeline files with their plugins, as a run does before its first turn."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, PipelineError
from bub.framework import BubFramework
from bub.pipeline.source.interpolate import UNSET


def prove(config: Path | str | None, workspace: Path, profiles: Iterable[str]) -> list[Diagnostic]:
    """Load the file and its plugins for each profile with the code of a run, and return what that finds.

    What plugins print while they are loaded goes to standard error. Raises `NotTrustedError` for a file that nobody
    named (`config` is None) and that lies in a folder without trust.
    """
    proved: list[Diagnostic] = []
    for profile in profiles:
        framework = BubFramework(config, profile=profile, workspace=workspace, elsewhere=True)
        try:
            with redirect_stdout(sys.stderr):
                framework.load_hooks()
                framework.create_cli_app()
                framework.check_channels()
        except PipelineError as error:
            found = error.diagnostics
        else:
            found = framework.findings
        # Findings about the profiles that routes lead to come when those profiles are loaded.
        proved += [_as_checked(finding) for finding in found if finding.profile in (None, profile)]
    return proved


def _as_checked(finding: Diagnostic) -> Diagnostic:
    """The finding of a start as a check tells of it: the variables need not be set where a file is checked."""
    return replace(finding, severity="note") if finding.code == UNSET else finding
