"""Plain English: words that make a reader stop, each with what to write instead. `make lint` prints where they are.

Checked are the pages that people read first, and the strings of Bub that people can see: help, questions, messages,
findings. Docstrings are for those who read the code, but those of commands are their help.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/onboarding.md",
    "docs/configuration.md",
    "docs/agent.md",
    "docs/tools.md",
    "docs/models.md",
    "docs/chat.md",
    "docs/mcp.md",
    "docs/mcp-serve.md",
    "docs/skills.md",
    "docs/tapes.md",
    "docs/two-bubs.md",
    "docs/cli.md",
    "docs/diagnostics.md",
    "docs/upgrade.md",
)
"""To be widened page by page."""
CODE = "bub"
"""The folder whose strings are checked."""
COMMANDS = "bub/cli"
"""The folder whose public functions have docstrings that are printed: the help of commands."""
SCHEMA = "schemas/pipeline.schema.json"
"""The descriptions of keys, which `bub explain` and editors show."""

_CONDITION = "a condition begins with `if`; `where` is for places"
RULES = {
    r"(?:is|are|was|were|be|been|being) told": "say who says it: `Bub prints`, `the model reads`",
    r"stands?(?! (?:in )?for)|stood|standing": "`is`, `is set in`, `is written`",
    r"(?:comes?|came) to(?! an end)": "`is`, `becomes`, `gives`",
    r"(?<=[.;:!?|] )where|\A *where": _CONDITION,
    r"where (?:nobody|none|nothing|no|there is|left out|it is not)": _CONDITION,
    r"remarks?": "`comment`",
    r"texts": "`strings`, or say which: `messages`, `answers`",
    r"truth values?|truths": "`booleans`",
    r"ha(?:s|ve|d) (?:a|no) say": "`is asked`, `is not asked`",
    r"hears? of": "`gets`, `reads`",
}
"""Patterns of words, and what to write instead."""
ALLOWED = {"where replies go": "a heading of `bub diff`, about places: the chats"}
"""Strings of Bub that are plain all the same, each with its reason."""

_PATTERNS = [(re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE), instead) for words, instead in RULES.items()]
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r' *"(?:description|title)": "(.*)",?$')
_NO_PROSE = re.compile(r"\s*(?:select|insert|update|delete|create) ")
"""How the strings begin that a database reads, in which `where` is a word of its language."""
_QUOTED = re.compile(r"``.*?``|`[^`\n]*`|(?<=\])\([^)\s]+\)")


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


def check_module(module: Path, file: str, *, is_command: bool = False) -> Iterator[Find]:
    """Yield what is not plain in the strings of a module; of a command, also in what its public functions are for."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    helps = {
        id(node.body[0].value)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and isinstance(node.body[0], ast.Expr)
    }
    for node, text in _strings(tree):
        is_read = id(node) not in docstrings or (is_command and id(node) in helps)
        if is_read and " " in text and text not in ALLOWED and not _NO_PROSE.match(text):
            yield from check_text(_QUOTED.sub("``", text), file, node.lineno)


def _strings(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield each string of a module, an f-string as one, its values as `{}`."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node, node.value


def check_schema(schema: Path, file: str) -> Iterator[Find]:
    """Yield what is not plain in the descriptions of a JSON Schema."""
    for number, line in enumerate(schema.read_text(encoding="utf-8").splitlines(), 1):
        if described := _DESCRIPTION.match(line):
            yield from check_text(_QUOTED.sub("``", described[1]), file, number)


def check_all(root: Path = ROOT) -> list[Find]:
    """Return all that is not plain in the pages, the strings and the schema of a checkout."""
    found = [find for page in PAGES for find in check_page(root / page, page)]
    for module in sorted((root / CODE).rglob("*.py")):
        file = module.relative_to(root).as_posix()
        found += check_module(module, file, is_command=file.startswith(COMMANDS))
    return found + list(check_schema(root / SCHEMA, SCHEMA))


def main() -> int:
    """Print what is not plain, a line each; 1 if there is any."""
    found = check_all()
    for find in found:
        print(f"{find.file}:{find.line}: `{find.words}`: {find.instead}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
