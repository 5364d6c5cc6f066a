"""Plain English: words that make a reader stop, each with what to write instead. `make lint` prints where they are.

Checked are the pages that people read first, the help of every command, and what the command line prints by itself.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/index.md", "docs/configuration.md", "docs/agent.md", "docs/tools.md", "docs/two-bubs.md")
"""To be widened page by page."""
CODE = "bub/cli"
"""The folder whose strings are checked: help, questions and messages of the command line."""

RULES = {
    r"(?:is|are|was|were|be|been|being) told": "say who says it: `Bub prints`, `the model reads`",
    r"stands?(?! for)|stood|standing": "`is`, `is set in`, `is written`",
    r"comes? to(?! an end)": "`is`, `becomes`, `gives`",
    r"(?<=[.;:!?|] )where|\A *where": "a condition begins with `if`; `where` is for places",
    r"where (?:nobody|none|nothing|no|there is)": "a condition begins with `if`; `where` is for places",
    r"remarks?": "`comment`",
    r"texts": "`strings`, or say which: `messages`, `answers`",
    r"truth values?|truths": "`booleans`",
    r"ha(?:s|ve|d) (?:a|no) say": "`is asked`, `is not asked`",
    r"hears? of": "`gets`, `reads`",
}
"""Patterns of words, and what to write instead."""

_PATTERNS = [(re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE), instead) for words, instead in RULES.items()]
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"``.*?``|`[^`\n]*`")


class Find(NamedTuple):
    """A word that makes a reader stop: where it is, what it is, what to write instead."""

    file: str
    line: int
    words: str
    instead: str


def check_text(text: str, file: str, first: int = 1) -> Iterator[Find]:
    """Yield what is not plain in a text, whose first line is the line `first` of its file."""
    for number, line in enumerate(text.splitlines(), first):
        for pattern, instead in _PATTERNS:
            for found in pattern.finditer(line):
                yield Find(file, number, found[0].strip(), instead)


def check_page(page: Path, file: str) -> Iterator[Find]:
    """Yield what is not plain in the prose of a Markdown page; blocks and quoted code are left alone."""
    prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    yield from check_text(_QUOTED.sub("``", prose), file)


def check_module(module: Path, file: str) -> Iterator[Find]:
    """Yield what is not plain in the strings of a module, and in the docstrings of its public functions: their help."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    helps = {
        id(node.body[0].value)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_read = id(node) not in statements or id(node) in helps
        if is_read and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from check_text(_QUOTED.sub("``", node.value), file, node.lineno)


def check_all(root: Path = ROOT) -> list[Find]:
    """Return all that is not plain in the pages and the command line of a checkout."""
    found = [find for page in PAGES for find in check_page(root / page, page)]
    for module in sorted((root / CODE).glob("*.py")):
        found += check_module(module, module.relative_to(root).as_posix())
    return found


def main() -> int:
    """Print what is not plain, a line each; 1 if there is any."""
    found = check_all()
    for find in found:
        print(f"{find.file}:{find.line}: `{find.words}`: {find.instead}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
