"""Pipelines with two small plugins, `guard` and `other`, and what a start finds in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fakes.mistakes import VERSION

from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError, Range

Write = Callable[[str, str], Path]

PLUGIN = "from bub import hookimpl\n\n\n"
GUARD = "@hookimpl\ndef moderate(prompt): ...\n"
OTHER = "@hookimpl\ndef render_outbound(): ...\n"
PLUGINS = "plugins: {guard: {path: guard.py}, other: {path: other.py}}\n"
LISTED = PLUGINS.replace("}}", "}, gone: {optional: true}}") + "profiles: {default: {plugins: [guard, other, gone]}}\n"
"""The plugins, all in one profile; the last of them is not there, and need not be."""


def findings(write: Write, pipeline: str, *, profile: str = "default", **plugins: str) -> tuple[Diagnostic, ...]:
    """What a start finds in a pipeline with these plugins, notes included."""
    for name in ("guard", "other"):
        write(f"{name}.py", PLUGIN + plugins.get(name, OTHER))
    framework = BubFramework(write("pipelines.yaml", VERSION + pipeline), profile=profile)
    try:
        framework.load_hooks()
    except PipelineError as error:
        return error.diagnostics
    return framework.findings


def assert_is_one(found: tuple[Diagnostic, ...], code: str, severity: str, place: Range, message: str) -> None:
    assert [(item.code, item.severity, item.message) for item in found] == [(code, severity, message)]
    assert found[0].range == place
    assert found[0].help
