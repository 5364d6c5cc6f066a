"""Scenarios: plugins and one message, played under each shipped pipeline, and what came of it as a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
import yaml

from bub import BubFramework
from bub.base.diagnostics import PipelineError
from bub.envelope import content_of

PIPELINES = ("default", "classic", "ethos")

PAGE = Path(__file__).parents[2] / "docs" / "pipelines" / "README.md"

MARKED = re.compile(r"(?<=<!-- scenarios -->\n\n).*?(?=\n<!-- /scenarios -->)", re.DOTALL)
"""Where the table stands on the page."""

SECTION = """## What happens when something goes wrong

This table shows the same plugins and the same message under all three pipelines. If a turn fails, the sender gets a
message about it. Bub calls `on_error` with what failed or was left out. The table is generated from real runs
(`python -m tests.scenarios --write`).

<!-- scenarios -->


<!-- /scenarios -->
"""

WATCHER = """
from bub import hookimpl

@hookimpl
def on_error(stage, message):
    message["told"].append(stage)
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the table says of it, its plugins' code by name, lowest priority first, and what else its file says."""

    name: str
    what: str
    plugins: Mapping[str, str]
    pipeline: str = ""

    @classmethod
    def of(cls, file: Path) -> Scenario:
        """The scenario that a file has."""
        return cls(file.stem, **yaml.safe_load(file.read_text(encoding="utf-8")))


def scenarios() -> list[Scenario]:
    """All scenarios in the order of the table."""
    return [Scenario.of(file) for file in sorted(Path(__file__).parent.glob("*.yaml"))]


def play(scenario: Scenario, pipeline: str) -> str:
    """What comes of a scenario under a shipped pipeline, in a few words of Markdown."""
    with TemporaryDirectory() as folder:
        return trio.run(_play, scenario, pipeline, Path(folder))


async def _play(scenario: Scenario, pipeline: str, folder: Path) -> str:
    plugins = {**scenario.plugins, "watcher": WATCHER}
    for name, code in plugins.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    paths = ", ".join(f"{name}: {{path: {name}.py}}" for name in plugins)
    file = folder / "pipelines.yaml"
    file.write_text(
        f"version: 1\nextends: bub:{pipeline}\nplugins: {{{paths}}}\n{scenario.pipeline}\n"
        f'profiles: {{default: {{plugins: [{", ".join(plugins)}], tools: {{allow: ["*"]}}}}}}\n',
        encoding="utf-8",
    )
    told: list[str] = []
    notes: list[str] = []
    message = {"channel": "cli", "chat_id": "local", "content": "hello", "told": told, "notes": notes}
    framework = BubFramework(file, workspace=folder)
    try:
        framework.load_hooks()
    except PipelineError as error:
        return f"does not start: `{error.diagnostics[0].code}`"
    try:
        result = await framework.process_inbound(message)
    except Exception as error:  # noqa: BLE001 (how it ended is what is looked at)
        said = [f"fails: `{type(error).__name__}`"]
    else:
        replies = ", ".join(f"`{content_of(reply)}`" for reply in result.outbounds or ())
        said = [f"{'claimed, ' if result.ended_by else ''}replies {replies}"]
    if told:
        said.append(f"`on_error` gets `{'`, `'.join(told)}`")
    return "; ".join([*said, *notes])


def table() -> str:
    """What comes of every scenario under every shipped pipeline, as a table in Markdown."""
    head = " | ".join(f"`{name}`" for name in PIPELINES)
    rows = [f"| | {head} |", "|---" * (len(PIPELINES) + 1) + "|"]
    for scenario in scenarios():
        cells = " | ".join(play(scenario, pipeline) for pipeline in PIPELINES)
        rows.append(f"| {scenario.what} | {cells} |")
    return "\n".join(rows) + "\n"


def on_the_page() -> str:
    """The table as it stands on the page."""
    found = MARKED.search(PAGE.read_text(encoding="utf-8"))
    return found[0] if found is not None else ""


def write() -> None:
    """Put the table on its page; a page that has no place for it gets one at its end."""
    page = PAGE.read_text(encoding="utf-8")
    if MARKED.search(page) is None:
        page = f"{page.rstrip()}\n\n{SECTION}"
    new = table()
    PAGE.write_text(MARKED.sub(lambda _: new, page), encoding="utf-8")
