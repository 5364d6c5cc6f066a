"""The pages that explain Bub name modules, tests and drawings that are there."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest
from pictures.ladders import WAY

from bub.hook_runtime import HookRuntime

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "explanation"
if not PAGES.is_dir():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)

SECURITY = ROOT / "docs" / "security.md"
NAMING_TESTS = (SECURITY, ROOT / "docs" / "invocation.md")
"""Pages elsewhere that name tests."""

_NAME = re.compile(r"`(bub(?:\.\w+)+)`")
SOURCE = re.compile(r"\]\(|`|README|the same (?:page|section|function|file)|exporter helper")
"""What a line of the comparisons has to say of where it was read or how it was measured."""
_TEST = re.compile(r"\btests/(test_\w+)\.py(?:::(test_\w+))?")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def find(name: str) -> object:
    """Return what a dotted name is, a module or what a module holds; raise if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if end == 1 or not name.startswith(str(error.name)):
                raise
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def missing(names: set[str]) -> list[str]:
    """The names of some that nothing has."""

    def is_there(name: str) -> bool:
        try:
            find(name)
        except (AttributeError, ModuleNotFoundError):
            return False
        return True

    return [name for name in sorted(names) if not is_there(name)]


def test_every_name_on_the_way_of_a_turn_is_one_of_the_code() -> None:
    names = set(_NAME.findall(read(PAGES / "way-of-a-turn.md")))
    assert len(names) > 30
    assert missing(names) == []


def test_a_name_that_nothing_has_is_noticed() -> None:
    wrong = {"bub.inbox.legder", "bub.inbox.ledger.Ledger.finnish", "bub.framework.BubFrameworks"}
    assert missing(wrong) == sorted(wrong)


def test_the_drawing_of_the_way_has_names_of_the_code() -> None:
    assert missing({f"{rung.name}.{called}" for rung in WAY for called in rung.beside}) == []


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name) for page in [*sorted(PAGES.glob("*.md")), *NAMING_TESTS]]
)
def test_every_test_that_is_named_is_there(page: Path) -> None:
    assert unknown_tests(read(page)) == []


def unknown_tests(text: str) -> list[str]:
    """The tests that a text names and nobody has written."""
    unknown = []
    for module, test in _TEST.findall(text):
        file = ROOT / "tests" / f"{module}.py"
        if not file.is_file():
            unknown.append(module)
        elif test and test not in functions_of(file):
            unknown.append(f"{module}::{test}")
    return unknown


def functions_of(file: Path) -> set[str]:
    """The functions of a module, at its top or in a class."""
    top = ast.parse(read(file)).body
    inner = [node for owner in top if isinstance(owner, ast.ClassDef) for node in owner.body]
    return {node.name for node in [*top, *inner] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_a_test_that_nobody_has_written_is_noticed() -> None:
    said = "tests/test_nothing.py and tests/test_explanation_pages.py::test_of_nothing"
    assert unknown_tests(said) == ["test_nothing", "test_explanation_pages::test_of_nothing"]


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", read(PAGES / "README.md")))
    assert listed == {page.name for page in PAGES.glob("*.md")} - {"README.md"}


def rows_of(page: Path) -> list[list[str]]:
    """The rows of all tables of a page, without heads and rules; each as its cells."""
    found = re.findall(r"^\|(?! *-)(.*)\|\n(?!\|---)", read(page), re.MULTILINE)
    return [[cell.strip() for cell in row.split(" | ")] for row in found]


def test_each_line_of_the_comparisons_says_where_it_was_read_or_how_it_was_measured() -> None:
    rows = rows_of(PAGES / "comparisons.md")
    assert len(rows) > 30
    assert {row[0] for row in rows} == {"same", "better", "worse"}
    assert [
        row for row in rows if len(row) != 3 or not re.search(r"\]\(|`|README|the same|there|exporter", row[2])
    ] == []


@pytest.mark.parametrize("system", re.findall(r"^## (?!What)(.*)$", read(PAGES / "comparisons.md"), re.MULTILINE))
def test_each_system_is_worse_and_better_in_something(system: str) -> None:
    section = read(PAGES / "comparisons.md").partition(f"## {system}\n")[2].partition("\n## ")[0]
    assert {"same", "better", "worse"} == set(re.findall(r"^\| (same|better|worse) \|", section, re.MULTILINE))


HOOK_RUNTIME = ROOT / "docs" / "hook-runtime.md"


def test_the_reference_of_the_hook_runtime_has_each_method_with_its_signature() -> None:
    (runtime,) = ast.parse(getsource(HookRuntime)).body
    assert isinstance(runtime, ast.ClassDef)
    written = {section: signatures(text) for section, text in sections(read(HOOK_RUNTIME)).items()}
    assert written.pop("HookRuntime") == {"__init__": shape(public_methods(runtime, "__init__")["__init__"])}
    methods = public_methods(runtime)
    assert written == {name: {name: shape(method)} for name, method in methods.items()}


def sections(text: str) -> dict[str, str]:
    """The sections of a page whose headings are names in backquotes."""
    parts = re.split(r"^### `(\w+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def signatures(section: str) -> dict[str, str]:
    """The methods whose signature the first block of a section shows."""
    (node,) = ast.parse(python_blocks(section)[0]).body
    found = node.body if isinstance(node, ast.ClassDef) else [node]
    return {one.name: shape(one) for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def shape(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """How a method is written up to its colon."""
    returned = ast.unparse(method.returns) if method.returns else ""
    return f"{'async ' * isinstance(method, ast.AsyncFunctionDef)}({ast.unparse(method.args)}) -> {returned}"


def public_methods(owner: ast.ClassDef, *more: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    found = [node for node in owner.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {one.name: one for one in found if one.name in more or not one.name.startswith("_")}


def test_each_example_of_the_hook_runtime_runs() -> None:
    shown = [block for block in python_blocks(read(HOOK_RUNTIME)) if not block.rstrip().endswith("...")]
    assert len(shown) > 11
    names: dict[str, object] = {}
    for block in shown:
        exec(compile(block, HOOK_RUNTIME.name, "exec"), names)


def test_each_threat_says_who_enforces_what_and_names_the_test_that_tries_to_break_it() -> None:
    rows = rows_of(SECURITY)
    assert len(rows) > 25
    assert [row for row in rows if len(row) not in (4, 5) or not (row[0] and row[1] and row[2])] == []
    by_nobody = [row[0] for row in rows if re.search(r"Bub|Redis", row[2]) and not _TEST.search(row[2])]
    assert by_nobody == []


def test_who_finds_a_hole_is_told_where_to_report_it_and_no_address_is_made_up() -> None:
    short = read(ROOT / "SECURITY.md")
    for text in (short, read(SECURITY)):
        assert "Report a vulnerability" in text
        assert re.findall(r"[\w.]+@[\w.]+\.\w+|https?://", text) == []
    assert "](docs/security.md)" in short
