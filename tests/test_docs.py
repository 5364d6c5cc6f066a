"""The README and `docs/` are true: their examples run, their tables and signatures are those of the code."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes.checking import check_file
from fakes.command_line import SOURCES
from fakes.reader import matches, typed_here
from typer._click.exceptions import ClickException, MissingParameter
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import Exit

from bub import BubFramework
from bub.base.diagnostics import without_notes
from bub.base.resources import shipped_schema
from bub.cli.root import _app, command_of
from bub.cli.table import COMMANDS, load
from bub.errors import BubError, ModelError
from bub.hooks.facts import HOOK_KEYS, KIND_KEYS, KINDS, STAGE_KEYS, START_VALUES
from bub.labels import Labels
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.plan.providers import PROVIDERS
from bub.pipeline.plan.settings import RESERVED, variable_of
from bub.pipeline.source.merge import load_text
from bub.plugins.labels import SHIPPED_LABELS
from bub.plugins.shipped import SHIPPED_TOOLS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
if not (DOCS / "index.md").is_file():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)

SKILLS = ROOT / "bub" / "builtin" / "shipped_skills"

PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        *DOCS.rglob("*.md"),
        *SKILLS.rglob("*.md"),
    ]
)

ENGLISH = [page for page in PAGES if not page.name.endswith(".zh.md")]
"""The pages whose blocks are read and run; `test_chinese_pages.py` says that the others have the same ones."""

FOLDERS = DOCS / "examples"
"""Folders to copy, each with its page; that what a page shows stands in its files is held by `test_examples.py`."""

TUTORIAL = DOCS / "tutorial"
"""Pages that build on each other: `test_tutorial.py` follows them."""

BLOCK = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. With `file`, a reader who follows the page writes it to a file of that name."""

    page: Path
    line: int
    language: str
    text: str
    file: str | None

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def write(self, folder: Path) -> None:
        """Write every file that the page has shown up to here, as its reader has them, and those of its folder."""
        if self.page.parent.parent == FOLDERS:
            shutil.copytree(self.page.parent, folder, dirs_exist_ok=True)
        shown = [other for other in blocks(self.page) if other.file is not None and other.line <= self.line]
        for block in shown:
            target = folder / str(block.file)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")


def blocks(*pages: Path) -> Iterator[Block]:
    """The fenced blocks of some pages."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            yield Block(page, text.count("\n", 0, found.start(2)) + 1, found[2], found[3], found[1])


def params(found: Iterable[Block]) -> list[object]:
    """Blocks as the parameters of a test."""
    return [pytest.param(block, id=block.name) for block in found]


# Examples


MISTAKES = DOCS / "diagnostics.md"
"""The page of mistakes, whose examples `test_diagnostics_page.py` checks."""

TROUBLES = DOCS / "troubleshooting.md"
"""A page of symptoms: `test_troubleshooting.py` provokes them with its files, some of which are wrong on purpose."""

EXAMPLES = [
    block
    for block in blocks(*ENGLISH)
    if block.language == "yaml" and block.text.startswith("version:") and block.page not in (MISTAKES, TROUBLES)
]
FRAGMENTS = [
    block
    for block in blocks(*ENGLISH)
    if block.language == "yaml"
    and not block.text.startswith("version:")
    and block.page != MISTAKES
    and block.page.parent.parent != FOLDERS
    and block.page.parent != TUTORIAL
]
PYTHON = [block for block in blocks(*ENGLISH) if block.language == "python" and block.page.parent.parent != FOLDERS]
HOW_TOS = DOCS / "how-to"
"""Pages that `test_how_tos.py` follows from top to bottom, with the servers that they need."""

CONSOLE = [
    block
    for block in blocks(*ENGLISH)
    if block.language == "console" and block.page.parent != HOW_TOS and block.page != TROUBLES
]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block whose output is shown, each with that output."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    return [(command, output.rstrip("\n")) for command, output in found if output.strip()]


SESSIONS = [block for block in CONSOLE if commands(block) and block.page.parent != TUTORIAL]


def test_there_are_examples() -> None:
    assert min(len(EXAMPLES), len(PYTHON), len(SESSIONS)) >= 10
    assert FRAGMENTS
    assert len([words for page in PAGES for words in command_lines(page)]) >= 50


@pytest.mark.parametrize("block", params(EXAMPLES))
def test_a_pipeline_compiles(block: Block, tmp_path: Path) -> None:
    for name in re.findall(r"path: ([\w./]+\.py)", block.text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    block.write(tmp_path)
    file = tmp_path / (block.file or "pipelines.yaml")
    file.write_text(block.text, encoding="utf-8")
    assert [str(finding) for finding in without_notes(check_file(file).diagnostics)] == []


@pytest.mark.parametrize("block", params(FRAGMENTS))
def test_a_piece_of_yaml_is_right_where_it_belongs(block: Block) -> None:
    match yaml.safe_load(block.text):
        case {"repos": [{"repo": _, "hooks": hooks}]}:
            offered = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
            assert {hook["id"] for hook in hooks} <= offered
        case {"services": _}:
            pass  # tests/test_container.py looks at it
        case {"agents": agents}:  # in the file of a folder it is a mistake
            assert all(folder.startswith(("~/", "/")) for folders in agents.values() for folder in folders)
        case {"jobs": {"pipelines": {"steps": [*_, {"uses": used, "with": inputs}]}}}:
            assert "/bub@" in used
            assert set(inputs) <= set(yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"])
        case _:
            whole = load_text(f"{block.text}\nversion: 1\nextends: bub:default\n")
            assert [str(finding) for finding in check_loaded(whole).diagnostics] == []


@pytest.mark.parametrize("block", params(block for block in blocks(*ENGLISH) if block.language in ("json", "toml")))
def test_data_can_be_read(block: Block) -> None:
    read: Callable[[str], Any] = json.loads if block.language == "json" else tomllib.loads
    assert read(block.text)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in ENGLISH])
def test_every_block_says_what_it_is(page: Path) -> None:
    fences = re.findall(r"^ *(?:```|~~~)(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    found = [block.language for block in blocks(page)]
    assert [fence for fence in fences if fence] == found
    assert set(found) <= {"yaml", "python", "console", "text", "json", "toml", "lua", "mermaid"}


def test_every_path_that_the_architecture_page_names_is_there() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md))?)", text))
    assert len(named) > 60
    assert [
        path for path in sorted(named) if not any((folder / path).exists() for folder in (ROOT, ROOT / "bub", DOCS))
    ] == []


@pytest.mark.parametrize("block", params(PYTHON))
def test_python_can_be_read(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", params(SESSIONS))
def test_a_command_prints_what_the_page_says(block: Block, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    block.write(folder)
    for command, shown in commands(block):
        printed = run(command, folder, alone="bub.log" in shown)  # where its log is, a process settles when it begins
        assert matches(printed, shown), f"{command}\n{printed}"


def test_the_mistake_in_the_readme_is_told_as_it_says(tmp_path: Path) -> None:
    found = [block for block in blocks(ROOT / "README.md") if block.language == "text" and "B120" in block.text]
    found[0].write(tmp_path)
    file = tmp_path / "pipelines.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("before: run_model", "before: run_modle"), "utf-8")
    assert run("bub validate", tmp_path) == found[0].text.rstrip("\n")


def run(command: str, folder: Path, *, alone: bool = False) -> str:
    """What a command prints in a folder, on both of its streams.

    `bub` runs in this process, since to start it takes longer than what it does, unless it has to be `alone`.
    """
    words = shlex.split(command, comments=True)
    chosen = {}
    while found := ASSIGNMENT.fullmatch(words[0]):
        chosen[found[1]] = found[2]
        words = words[1:]
    environment = {"PYTHONPATH": SOURCES, "BUB_TRUST_WORKSPACE": "1", "COLUMNS": "100", **chosen}
    if words[0] == "bub" and not alone:
        _, printed = typed_here(words[1:], folder, environment)
    else:
        printed = printed_by(words, folder, environment)
    return "\n".join(line.rstrip() for line in printed.rstrip().splitlines())


def printed_by(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a program prints, each of which is a module."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    return done.stdout


def command_lines(page: Path) -> list[list[str]]:
    """The words behind `bub` in every command line that a page shows, in its blocks and in its text."""
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    shown = re.findall(r"`bub ([^`]+)`", prose)
    for block in blocks(page):
        if block.language == "console":
            shown += re.findall(r"^\$ (?:[A-Z_]+=\S+ )*bub (.*)$", block.text, re.MULTILINE)
    # `[PATH]...` and such stand for what a reader puts there, or leaves out.
    return [shlex.split(re.sub(r" \[[^\]]*\](\.\.\.)?", "", line), comments=True) for line in shown]


def parsed(words: list[str]) -> None:
    """Parse a command line as `bub` does, and run nothing; raises what a reader who types it would be told."""
    command: TyperCommand | TyperGroup = command_of("bub", _app())
    context: Any = None
    name = "bub"
    while True:
        context = command.make_context(name, words, parent=context)
        rest = [*context._protected_args, *context.args]
        if not isinstance(command, TyperGroup) or not rest:
            return  # a group alone is spoken of, or shows its help
        name, command, words = command.resolve_command(context, rest)  # type: ignore[assignment]


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in ENGLISH])
def test_every_command_line_is_one_that_bub_understands(page: Path) -> None:
    brought = re.findall(r"@app\.command\(\)\n +def (\w+)", page.read_text(encoding="utf-8"))
    wrong = []
    for words in command_lines(page):
        if words[0] in brought or words[0] == "COMMAND":
            continue
        try:
            parsed(words)
        except (MissingParameter, Exit):
            pass  # a command that is spoken of, and not called; `--help` and `--version`
        except (BubError, ClickException) as error:
            wrong.append(f"bub {shlex.join(words)}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    "words", [["run", "--strem", "hi"], ["vaildate"], ["validate", "--format", "xml"], ["local", "x"]]
)
def test_a_command_line_that_bub_does_not_understand_is_noticed(words: list[str]) -> None:
    with pytest.raises((BubError, ClickException)):
        parsed(words)


def options_of(command: TyperCommand | TyperGroup) -> set[str]:
    """The options of a command and, for a group, of its commands; of each its last and longest name."""
    inner = command.commands.values() if isinstance(command, TyperGroup) else ()
    options = [param for each in (command, *inner) for param in each.params if param.param_type_name == "option"]
    return {max(option.opts, key=len) for option in options}


def test_every_command_has_its_section_with_its_options() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    parts = re.split(r"^### `bub (\w+).*`$", text.partition("\n## Exit codes\n")[0], flags=re.MULTILINE)
    written = dict(zip(parts[1::2], parts[2::2], strict=True))
    group = command_of("bub", _app())
    shared = options_of(group)
    assert shared - set(re.findall(r"(--[a-z-]+)", parts[0])) == set()
    assert list(written) == list(COMMANDS)
    for name, section in written.items():
        command = command_of(name, load(COMMANDS[name].target))
        assert options_of(command) - shared - set(re.findall(r"(--?[a-z-]+)", section)) == set(), name


def test_only_targets_of_make_that_exist_are_named() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = [name for page in PAGES for name in re.findall(r"(?:`|\$ )make ([a-z]+)", page.read_text(encoding="utf-8"))]
    assert named
    assert set(named) <= set(targets)


# Tables


def table(page: str, heading: str) -> dict[str, list[str]]:
    """The first table under a heading: what stands in backquotes in the first column, with the other columns."""
    text = (DOCS / page).read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n{heading}\n")
    assert section, f"{page} has no {heading}"
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert rows is not None
    found = {}
    for row in rows[0].splitlines()[2:]:
        first, *rest = (cell.strip() for cell in row.strip("|").split(" | "))
        found.update(dict.fromkeys(quoted(first), rest))
    return found


def quoted(text: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", text)


def keys_in_schema(owner: str) -> set[str]:
    schema = json.loads(shipped_schema("pipeline.schema.json").read_text(encoding="utf-8"))
    return set((schema["$defs"][owner] if owner else schema)["properties"])


def test_every_key_of_a_file_is_explained() -> None:
    page = "pipeline-file.md"
    assert set(table(page, "## The top level")) == {*keys_in_schema(""), "x-…"}
    stages = table(page, "## Stages")
    assert set(stages) == set(STAGE_KEYS)
    assert {key: cells[0] for key, cells in stages.items() if cells[0] != "all"} == {
        key: ", ".join(kinds) for key, kinds in KIND_KEYS.items()
    }
    assert set(table(page, "## Hook points")) == set(HOOK_KEYS)
    assert set(table(page, "## Plugins")) == keys_in_schema("plugin")
    assert set(table(page, "## Profiles")) == keys_in_schema("profile")
    assert set(table(page, "## Values")) == set(START_VALUES)
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in (*keys_in_schema("message_fields"), *RESERVED) if f"`{name}`" not in text] == []


def test_every_kind_is_explained() -> None:
    rows = table("kinds.md", "## The eight kinds")
    assert {name: quoted(cells[-1]) for name, cells in rows.items()} == {
        kind.name: list(kind.policies) for kind in KINDS.values()
    }
    text = (DOCS / "kinds.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(\w+)`$", text, re.MULTILINE) == list(KINDS)


def test_every_provider_is_listed() -> None:
    rows = table("models.md", "## Providers")
    assert {name: [text for cell in cells[:2] for text in quoted(cell)] for name, cells in rows.items()} == {
        provider.name: [provider.base_url, *([provider.key_variable] if provider.key_variable else [])]
        for provider in PROVIDERS.values()
    }


def test_every_setting_of_the_model_is_listed() -> None:
    schema = json.loads(shipped_schema("settings", "builtin.schema.json").read_text(encoding="utf-8"))["properties"]
    provider = schema.pop("providers")["additionalProperties"]["properties"]
    tapes = schema.pop("tapes")["properties"]
    assert {name: quoted(cells[0]) for name, cells in table("tapes.md", "## Settings").items()} == {
        f"tapes.{name}": [variable_of(("tapes", name))] for name in tapes
    }
    gateway = schema.pop("gateway")["properties"]
    studio = gateway.pop("studio")["properties"]
    tls = studio.pop("tls")["properties"]
    places = [("studio", name) for name in studio] + [("studio", "tls", name) for name in tls]
    assert {name: quoted(cells[0]) for name, cells in table("studio.md", "## Settings").items()} == {
        ".".join(("gateway", *path)): [variable_of(("gateway", *path))] for path in places
    }
    assert {name: quoted(cells[0]) for name, cells in table("gateway.md", "## Settings").items()} == {
        f"gateway.{name}": [variable_of(("gateway", name))] for name in gateway
    }
    telemetry = schema.pop("telemetry")["properties"]
    assert {name: quoted(cells[0]) for name, cells in table("telemetry.md", "## Settings").items()} == {
        f"telemetry.{name}": [variable_of(("telemetry", name))] if said["type"] != "object" else []
        for name, said in telemetry.items()
    }
    prompt = schema.pop("prompt")["properties"]
    assert {name: quoted(cells[0]) for name, cells in table("agent.md", "### Settings of the prompt").items()} == {
        f"prompt.{name}": [variable_of(("prompt", name))] for name in prompt
    }
    tools = {section: schema.pop(section)["properties"] for section in ("files", "bash", "web")}
    assert {name: quoted(cells[0]) for name, cells in table("tools.md", "## Settings").items()} == {
        f"{section}.{name}": [variable_of((section, name))] for section, names in tools.items() for name in names
    }
    paths = [*((name,) for name in schema), *(("providers", "NAME", name) for name in provider)]
    maps = {name for name, said in provider.items() if said["type"] == "object"}  # no variable holds one
    rows = table("models.md", "## Settings")
    assert {name: quoted(cells[0]) for name, cells in rows.items()} == {
        ".".join(path): [variable_of(path)] if path[-1] not in maps else [] for path in paths
    }


def test_every_tool_is_listed() -> None:
    framework = BubFramework("bub:default")
    framework.load_hooks()
    tools = framework.tools.tools
    rows = table("tools.md", "## The tools")
    assert set(rows) == set(tools)
    assert {name: tool.read_only for name, tool in tools.items()} == SHIPPED_TOOLS
    assert {name: tool.labels for name, tool in tools.items()} == {
        name: SHIPPED_LABELS.get(name, Labels()) if not tool.for_people else tool.labels for name, tool in tools.items()
    }
    assert {name for name, cells in rows.items() if cells[0] == "yes"} == {
        name for name, tool in tools.items() if tool.read_only
    }
    assert {label: set(quoted(cells[1])) for label, cells in table("leaks.md", "## Labels").items()} == {
        f"{said}: {word}": {name for name, tool in tools.items() if getattr(tool.assumed_labels, said) == word}
        for said, word in (("reads", "private"), ("brings", "untrusted"), ("reaches", "outside"))
    }


def test_every_fault_of_a_model_is_listed() -> None:
    kinds = quoted(str(ModelError.__doc__).partition("is one of")[2])
    assert kinds
    assert set(table("models.md", "## When it does not work")) == set(kinds)


# Pages


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if "://" in name:
            continue
        file = page.parent / name if name else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    """What links can point to in a page: its headings, as hosts of Markdown name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []


def test_nobody_is_told_to_install_the_wrong_distribution() -> None:
    wrong = re.compile(r"pip3? install (-\S+ )*[\"']?bub(?!-pipelines)\b")
    assert [page.name for page in PAGES if wrong.search(page.read_text(encoding="utf-8"))] == []
