"""The examples in the README and in `docs/` are true: what begins with `version:` compiles."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bub.pipeline.validate import check_file

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks of a page in one language, each with the line it begins at."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if found[1] == language:
            yield text.count("\n", 0, found.start()) + 1, found[2]


EXAMPLES = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}:{line}")
    for page in PAGES
    for line, text in blocks(page, "yaml")
    if text.startswith("version:")
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_compiles(text: str, tmp_path: Path) -> None:
    for name in re.findall(r"path: ([\w./]+\.py)", text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    file = tmp_path / "pipelines.yaml"
    file.write_text(text, encoding="utf-8")
    assert [str(finding) for finding in check_file(file).diagnostics] == []


def test_the_first_pipeline_of_the_readme_does_what_the_readme_says(tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    (_, pipeline), *_ = blocks(readme, "yaml")
    (_, plugin), *_ = blocks(readme, "python")
    *_, (_, session) = blocks(readme, "console")
    (tmp_path / "pipelines.yaml").write_text(pipeline, encoding="utf-8")
    (tmp_path / "house_rules.py").write_text(plugin, encoding="utf-8")
    shown = re.search(r'\$ bub run "(what .*)"\n((?:[^$].*\n)+)', session)
    assert shown is not None
    done = subprocess.run(
        [sys.executable, "-m", "bub", "run", shown[1]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "BUB_TRUST_WORKSPACE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (shown[2], "")


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8"))]
    here = [target for target in targets if target and "://" not in target]
    assert [target for target in here if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []


def test_nobody_is_told_to_install_the_wrong_distribution() -> None:
    wrong = re.compile(r"pip3? install (-\S+ )*[\"']?bub(?!-pipelines)\b")
    assert [page.name for page in PAGES if wrong.search(page.read_text(encoding="utf-8"))] == []
