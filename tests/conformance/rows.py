"""What the pages of the three reference systems list, row by row, and the tests that show each of them.

A row is a list of tests, or, if Bub means to do something else than the page says, `{different: …, tests: […]}` with
the row of BEHAVIOURS that decides it and what Bub does instead; the tests then show that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table or a list of a page.

    `tests` are the node ids of what shows it, `missing` what was said to show it and is not there. If Bub does
    something else, `different` says which decision that is, and what it does.
    """

    page: str
    section: str
    name: str
    tests: tuple[str, ...]
    missing: tuple[str, ...]
    different: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}, {self.section}: {self.name}"


def rows() -> list[Row]:
    """Every row of every page."""
    return [row for file in sorted(TESTS.glob("conformance/*.yaml")) for row in _rows_of(file)]


def _rows_of(file: Path) -> Iterator[Row]:
    page = yaml.safe_load(file.read_text(encoding="utf-8"))
    for section, listed in page["sections"].items():
        for name, said in listed.items():
            different, beginnings = (said["different"], said["tests"]) if isinstance(said, dict) else ("", said)
            found = {one: _tests_of(one) for one in beginnings}
            shown = tuple(test for tests in found.values() for test in tests)
            missing = tuple(one for one, tests in found.items() if not tests)
            yield Row(page["page"], section, str(name), shown, missing, different)


def _tests_of(said: str) -> list[str]:
    """The tests that `FILE BEGINNING` means: those of `tests/test_FILE.py` whose names begin like this."""
    file, _, beginning = said.partition(" ")
    found = (name for name in _tests_in(file) if name.startswith(f"test_{beginning}"))
    return [f"tests/test_{file}.py::{name}" for name in found]


@cache
def _tests_in(file: str) -> tuple[str, ...]:
    path = TESTS / f"test_{file}.py"
    if not path.exists():
        return ()
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return tuple(function.name for function in functions if function.name.startswith("test_"))
