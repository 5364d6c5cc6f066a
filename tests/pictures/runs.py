"""What `bub` prints at a real terminal about a file with a mistake, and about a change that opens things."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from fakes.screen import Sitting

from .terminal import draw_terminal

SOUND = """\
version: 1
extends: bub:default

hooks:
  moderate: {kind: gate, takes: [prompt]}

stages:
  moderate: {before: run_model, timeout: 5s}

profiles:
  default:
    plugins: [local_model, house_rules]
    tools: {allow: ["*", bash], ask: [bash, fs.write]}

plugins:
  house_rules: {path: house_rules.py}
"""
RULES = """\
from bub import hookimpl


@hookimpl
def moderate(prompt):
    if "password" in str(prompt):
        return {"deny": "passwords stay here"}
"""
MISTAKEN = SOUND.replace("run_model", "run_modle")
OPENED = SOUND.replace("before: run_model", "after: run_model").replace("[bash, fs.write]", "[bash]")
OPENED = OPENED.replace("house_rules]", "house_rules, helper]") + "  helper: {path: helper.py}\n"
_COLUMNS = 120


def mistake() -> str:
    """Draw what `bub validate` says of a file with a mistake."""
    with TemporaryDirectory() as temporary:
        folder = _fill(temporary, MISTAKEN)
        return _draw(folder, "validate")


def dangers() -> str:
    """Draw what `bub diff` says of a file that was changed since the last commit."""
    with TemporaryDirectory() as temporary:
        folder = _fill(temporary, SOUND)
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        for arguments in (("init",), ("add", "."), ("commit", "--message", "first")):
            subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
        (folder / "pipelines.yaml").write_text(OPENED, encoding="utf-8")
        return _draw(folder, "diff")


def _fill(temporary: str, pipeline: str) -> Path:
    folder = Path(temporary).resolve()
    (folder / "house_rules.py").write_text(RULES, encoding="utf-8")
    (folder / "pipelines.yaml").write_text(pipeline, encoding="utf-8")
    return folder


def _draw(folder: Path, *arguments: str) -> str:
    with Sitting(folder, *arguments, columns=_COLUMNS, rows=60, BUB_HOME=str(folder / "home")) as person:
        person.end()
        return draw_terminal(f"bub {' '.join(arguments)}", person.raw)
