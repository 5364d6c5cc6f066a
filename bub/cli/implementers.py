"""Who implements the stages and hook points of a profile: asked of the framework, with its plugins loaded."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from bub.cli.options import Options, workspace_of
from bub.errors import BubError
from bub.framework import BubFramework
from bub.hooks.implementations import all_implementations
from bub.pipeline.show.facts import Implementers
from bub.pipeline.show.implementers import implementers_in


def implementers_of(options: Options, named: Path | None = None) -> Implementers | BubError:
    """Return the implementations in the order in which a turn asks them, or why they cannot be listed.

    The pipeline is that of the file which the command has `named`, else that of the options.
    """
    framework = BubFramework(named or options.config, profile=options.profile, workspace=workspace_of(options))
    try:
        with redirect_stdout(sys.stderr):  # what a plugin prints while it is imported is no result of ours
            framework.load_hooks()
    except BubError as error:
        return error
    profile = framework.generation.profiles[framework.profile]
    return implementers_in(profile.graph, all_implementations(profile.plugins.manager), Path.cwd())
