"""`docs/pipelines/` shows the shipped pipelines as they are, and `bub pipelines` lists them.

What is generated in the pages is written anew with `python tests/test_pipeline_pages.py`; read the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import bub

from bub.base.resources import shipped_pipelines
from bub.hooks.facts import KINDS
from bub.hookspecs import HOOK_POINTS

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "pipelines"
if not PAGES.is_dir():
    pytest.skip("the pages are part of a checkout only", allow_module_level=True)

COMPARED = ("default", "classic", "ethos")
MARK = "<!-- generated: points -->\n\n"
TABLE = re.compile(re.escape(MARK) + r"(?:\|.*\n)*")
DRAWING = re.compile(r"^```console\n\$ bub graph (--pipeline bub:\w+)\n(.*?)```$", re.DOTALL | re.MULTILINE)


def explained(name: str) -> dict[str, Any]:
    """What `bub explain` says of a shipped pipeline."""
    facts: dict[str, Any] = json.loads(bub(ROOT, "explain", "--config", f"bub:{name}", "--json").stdout)
    return facts


def cell(point: Mapping[str, Any] | None) -> str:
    """A point in one pipeline: its kind, and what a failure does where that is not the default of the kind."""
    if point is None:
        return "-"
    usual = KINDS[point["kind"]].policies[0]
    return f"`{point['kind']}`" + ("" if point["on_failure"] == usual else f", {point['on_failure']}")


def points() -> str:
    """The table of all points of the shipped pipelines: stages first, then what is fired inside of them."""
    facts = [explained(name) for name in COMPARED]
    lines = ["| point | " + " | ".join(f"`bub:{name}`" for name in COMPARED) + " |", "|---|" + "---|" * len(COMPARED)]
    for where, name in (("stages", "id"), ("hooks", "name")):
        had = [{point[name]: point for point in pipeline[where]} for pipeline in facts]
        for point in sorted({each for points in had for each in points}, key=list(HOOK_POINTS).index):
            cells = [cell(points.get(point)) for points in had]
            lines.append(f"| [`{point}`](../hooks.md#{point}) | " + " | ".join(cells) + " |")
    return MARK + "\n".join(lines) + "\n"


def with_drawings(text: str) -> str:
    """A page with its drawings as `bub graph` prints them."""

    def drawn(found: re.Match[str]) -> str:
        printed = bub(ROOT, "graph", *found[1].split(), COLUMNS="100").stdout
        return f"```console\n$ bub graph {found[1]}\n{printed}```"

    return DRAWING.sub(drawn, text)


def test_the_table_of_points_is_what_the_pipelines_have() -> None:
    found = TABLE.search((PAGES / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == points()


@pytest.mark.parametrize("name", shipped_pipelines())
def test_each_pipeline_has_a_page_with_its_graph(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert [found[1] for found in DRAWING.finditer(text)] == [f"--pipeline bub:{name}"]
    assert with_drawings(text) == text


@pytest.mark.parametrize(
    ("file", "answer"),
    [("ethos.yaml", "Dear diary!"), ("default.yaml", "error: This could not be checked, so it was not done.")],
)
def test_a_guard_that_breaks_fails_open_in_ethos_and_denies_as_a_gate(file: str, answer: str, tmp_path: Path) -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    for name, content in re.findall(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "private.txt").unlink()
    done = bub(tmp_path, "run", ",fs.read diary.txt", "--config", file)
    assert done.stdout.strip() == f"[cli:local]\n{answer}"


def test_bub_pipelines_lists_each_with_what_it_is_for() -> None:
    listed = json.loads(bub(ROOT, "pipelines", "--json").stdout)
    assert [one["name"] for one in listed] == [f"bub:{name}" for name in shipped_pipelines()]
    told = " ".join(bub(ROOT, "pipelines").stdout.split())
    for one in listed:
        assert f"{one['name']} {one['description']}" in told
    assert "extends: bub:NAME" in told


if __name__ == "__main__":
    for page in PAGES.glob("*.md"):
        before = page.read_text(encoding="utf-8")
        page.write_text(with_drawings(TABLE.sub(lambda _: points(), before)), encoding="utf-8")
