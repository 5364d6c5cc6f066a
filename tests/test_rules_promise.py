"""What generated pipelines have shown to pass unsaid: it is found before a turn, and what is right stays quiet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.mistakes import VERSION, marked

from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError

Write = Callable[[str, str], Path]

PLUGIN = "plugins: {toy: {path: toy.py}}\nprofiles: {default: {plugins: [toy]}}\n"


def found_in(write: Write, pipeline: str, toy: str) -> tuple[Diagnostic, ...]:
    """What a start finds in a pipeline with one plugin, notes included."""
    write("toy.py", f"from bub import hookimpl\n\n\n{toy}\n")
    framework = BubFramework(write("pipelines.yaml", VERSION + pipeline + PLUGIN))
    try:
        framework.load_hooks()
    except PipelineError as error:
        return error.diagnostics
    return framework.findings


def said(findings: tuple[Diagnostic, ...]) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.severity, finding.message) for finding in findings]


# B219: below who always answers.

LAST = "@hookimpl(trylast=True)\ndef {hook}(message): ...\n"


@pytest.mark.parametrize("hook", ["run_model", "run_model_stream", "resolve_session"])
def test_who_is_asked_after_builtin_where_that_always_answers_is_told(write: Write, hook: str) -> None:
    toy, (place,) = marked(f"from bub import hookimpl\n\n\n@hookimpl(trylast=True)\ndef «{hook}»(message): ...")
    (finding,) = found = found_in(write, "extends: bub:default\n", toy.removeprefix("from bub import hookimpl\n\n\n"))
    message = (
        f"plugin `toy` implements `{hook}`, but `builtin` is asked before it and always answers, so it is never asked"
    )
    assert said(found) == [("B219", "warning", message)]
    assert (finding.file, finding.range) == ("toy.py", place)
    assert finding.help == "take `trylast` off, or leave `builtin` out with `only`"


@pytest.mark.parametrize(
    ("pipeline", "toy"),
    [
        ("extends: bub:default\n", "@hookimpl\ndef run_model(message): ..."),
        ("extends: bub:default\n", LAST.format(hook="build_prompt")),
        # It is asked if `builtin` fails.
        ("extends: bub:classic\n", LAST.format(hook="run_model")),
        # `builtin` is left out, at this stage or at another one.
        ("extends: bub:default\nstages: {run_model: {only: [toy]}}\n", LAST.format(hook="run_model")),
        (
            "extends: bub:default\nstages: {again: {after: run_model, kind: firstresult, hook: run_model, only: [toy],"
            " into: second, default: none}}\n",
            LAST.format(hook="run_model"),
        ),
    ],
)
def test_who_is_asked_sometimes_stays_quiet(write: Write, pipeline: str, toy: str) -> None:
    assert said(found_in(write, pipeline, toy)) == []
