"""Who implements the stages and hook points of a profile: asked of the framework, with its plugins loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

from bub.cli.options import Options, workspace_of
from bub.errors import BubError
from bub.framework import BubFramework
from bub.hooks.binding import Call
from bub.hooks.implementations import Implementation
from bub.pipeline.show.facts import Implementer, Implementers


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
    graph = framework.graph
    points = {**graph.bootstrap, **{name: fired.implementations for name, fired in graph.fired.items()}}
    stages = {step.id: _in_order(framework, step.calls.items) for step in graph.steps}
    hooks = {name: tuple(map(_implementer, framework.implementations(name))) for name in framework.hook_report()}
    return Implementers(stages, hooks | {name: tuple(map(_implementer, found)) for name, found in points.items()})


def _in_order(framework: BubFramework, calls: Iterable[Call]) -> tuple[Implementer, ...]:
    """Return the implementations behind the calls of a stage, which may belong to two points: a hook and its twin."""
    found = ((call, framework.implementations(call.hook)) for call in calls)
    return tuple(_implementer(one) for call, those in found for one in those if one.plugin == call.plugin)


def _implementer(implementation: Implementation) -> Implementer:
    file, line = implementation.source or (None, None)
    if file is not None:
        path, here = Path(file), Path.cwd()
        file = str(path.relative_to(here)) if path.is_relative_to(here) else os.path.normpath(file)
    return Implementer(implementation.plugin, implementation.hook, file, line)
