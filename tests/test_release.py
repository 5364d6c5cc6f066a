"""A release says one address and one version everywhere, and its README leads somewhere on the index of packages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes.release import ADDRESS, ROOT
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from bub import __version__

if not (ROOT / "docs" / "index.md").exists():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)

RELEASE = f"v{__version__}"

WRITTEN = {
    "address": r"https://(?!pypi\.org/|github\.com/bubbuild/)[\w.-]+(?:/[\w.-]+)*/bub(?:\.git)?(?=[@/#\s\"'`)>,]|$)",
    "action": r"\buses: ([\w.-]+/bub)@",
    "release": r"(?:\buses: [\w.-]+/bub@|\brev: |/bub(?:\.git)?@|(?<!/bubbuild)/bub/(?:blob|raw|tree)/)([\w.-]+)",
}
"""How the address of the project, its name on GitHub and its release are written."""

MEANT = {"address": ADDRESS, "action": "/".join(ADDRESS.rsplit("/", 2)[1:]), "release": RELEASE}

USED = {
    "pyproject.toml": {"address", "release"},
    "README.md": {"address", "action", "release"},
    "README.zh.md": {"address", "action", "release"},
    "docs/ci.md": {"address", "action", "release"},
    "docs/tutorial/7-prove-and-ci.md": {"action", "release"},
    "docs/tutorial/7-prove-and-ci.zh.md": {"action", "release"},
    "docs/examples/ci/.pre-commit-config.yaml": {"address", "release"},
    "docs/examples/ci/.github/workflows/pipelines.yaml": {"address", "release"},
}
"""Where a reader finds them."""


class Use(NamedTuple):
    file: str
    line: int
    what: str
    text: str


def uses(root: Path) -> Iterator[Use]:
    """Every place below a folder that says the address, the name on GitHub or a release; tests say others, too."""
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        apart = {"tests", "build", "dist", "site", "__pycache__", "node_modules", ".git"} | {
            part for part in inside.parts if part.startswith((".venv", ".mypy", ".ruff", ".pytest", ".hypothesis"))
        }
        if apart & set(inside.parts) or not path.is_file() or path.suffix in (".pyc", ".svg", ".png"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for what, pattern in WRITTEN.items():
                for found in re.finditer(pattern, line):
                    text = found[found.re.groups].removesuffix(".git")
                    yield Use(inside.as_posix(), number, what, text)


def test_the_address_and_the_release_are_the_same_everywhere() -> None:
    found = list(uses(ROOT))
    assert [use for use in found if use.text != MEANT[use.what]] == []
    assert {use.file: {each.what for each in found if each.file == use.file} for use in found} == USED


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("  - repo: https://example.com/bub.git", "address"),
        ("pip install git+https://github.com/else/bub@v0.0.9", "release"),
        ("  - uses: else/bub@v0.1.0", "action"),
        ("    rev: v0.0.9", "release"),
        ("[page](https://github.com/NOT_YET/bub/blob/v9/docs/ci.md)", "release"),
    ],
)
def test_another_one_would_be_noticed(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "page.md").write_text(f"\n{line}\n", encoding="utf-8")
    wrong = [use for use in uses(tmp_path) if use.text != MEANT[use.what]]
    assert [(use.file, use.line) for use in wrong if use.what == what] == [("page.md", 2)]


def test_nobody_can_take_an_address_that_is_not_ours_yet() -> None:
    """Who copies a line with the placeholder gets nothing of a stranger's: GitHub gives nobody a name with `_`."""
    owner = MEANT["action"].partition("/")[0]
    assert not re.fullmatch(r"owner|your-?\w+|example", owner, re.IGNORECASE)


def test_links_of_the_readme_lead_to_the_files_of_the_release_where_packages_are_listed() -> None:
    shown = ProjectMetadata(str(ROOT), PluginManager()).core.readme
    here = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", shown)
    targets = [one or other for one, other in links]
    assert [target for target in targets if "://" not in target and not target.startswith("#")] == []
    ours = [re.fullmatch(rf"{ADDRESS}/(blob|raw)/{RELEASE}/([^#]+)(?:#.*)?", target) for target in targets]
    files = [(found[1], found[2]) for found in ours if found is not None]
    assert len(files) > 20
    assert [file for _, file in files if not (ROOT / file).exists()] == []
    assert {view for view, file in files if file.endswith(".svg")} == {"raw"}
    assert ADDRESS + "/blob" not in here  # in a clone, its links lead to the files of the clone
