"""A pipeline file with tests of its own, and what comes of running these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from bub.testing import Report, run_tests

Write = Callable[[str, str], Path]

HOUSE_RULES = """
    from bub import hookimpl

    @hookimpl
    def moderate(prompt):
        if "password" in prompt:
            return {"deny": "passwords stay here"}
"""

PIPELINE = """
version: 1
extends: bub:default
hooks:
  moderate: {kind: gate, takes: [prompt, session_id]}
stages:
  moderate: {before: run_model, timeout: 5s}
  run_model: {timeout: 120s}
plugins:
  house_rules: {path: house_rules.py}
profiles:
  default: {plugins: [house_rules]}
  hasty: {extends: default, stages: {run_model: {timeout: 10s}}}
"""


class Desk:
    """Writes a pipeline file with tests, and runs these."""

    def __init__(self, write: Write) -> None:
        self.write = write
        write("house_rules.py", HOUSE_RULES)

    def file(self, tests: str, pipeline: str = PIPELINE, name: str = "pipelines.yaml") -> Path:
        """The file: a pipeline and its `tests:`."""
        return self.write(name, f"{dedent(pipeline).strip()}\ntests:\n{indent(dedent(tests).strip(), '  ')}\n")

    def run(self, tests: str, pipeline: str = PIPELINE, **options: Any) -> Report:
        return run_tests(self.file(tests, pipeline), **options)

    def failures_of(self, tests: str, pipeline: str = PIPELINE) -> dict[str, list[tuple[str, Any, Any]]]:
        """What does not come as expected in each test, by its name."""
        report = self.run(tests, pipeline)
        assert not report.findings, str(report)
        return {
            verdict.trial.name: [(one.path, one.expected, one.got) for one in verdict.failures]
            for verdict in report.verdicts
        }

    def failures(self, expect: str, more: str = "") -> list[tuple[str, Any, Any]]:
        """What does not come as expected of a hello that the model answers with "hi"."""
        mock = "" if "mock:" in more else "mock: {run_model: {return: hi}}"
        report = self.run(
            f"it:\n  message: {{channel: cli, chat_id: local, content: hello}}\n  {mock}\n  {more}\n  expect: {expect}"
        )
        assert not report.findings, str(report)
        return [(one.path, one.expected, one.got) for one in report.verdicts[0].failures]
