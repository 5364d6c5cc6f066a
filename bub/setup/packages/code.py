"""What the code of a package says it brings, read as text: nothing of it is imported."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

_MOST_FILES = 400
_MOST_BYTES = 1_000_000

_OF_THE_OTHER = (
    *("bub.turn", "bub.config", "bub.builtin", "bub.inquirer", "bub.model_selection", "bub.hooks.interception"),
    *("bub.channels.contracts", "bub.ensure_config", "bub.home", "bub.tools.REGISTRY"),
)
"""Names that the Bub on PyPI has and this one lacks."""

_LOOPS = frozenset({"asyncio", "aiohttp"})


class Findings(msgspec.Struct, frozen=True):
    """What was found: hook points that are implemented, tools by name, and modules that are imported.

    `is_whole` if nothing was too large or could not be read.
    """

    hooks: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    is_whole: bool = True

    @property
    def needs_asyncio(self) -> bool:
        """Whether it is written for asyncio, or for the Bub on PyPI, which runs on it."""
        is_for_other = any(name == one or name.startswith(f"{one}.") for name in self.imports for one in _OF_THE_OTHER)
        tops = {name.partition(".")[0] for name in self.imports}
        return is_for_other or (bool(tops & _LOOPS) and "trio" not in tops)


def read_code(files: Iterable[Path]) -> Findings:
    """Read modules as text."""
    hooks: set[str] = set()
    tools: set[str] = set()
    imports: set[str] = set()
    modules = [file for file in files if file.suffix == ".py"]
    is_whole = len(modules) <= _MOST_FILES
    for file in modules[:_MOST_FILES]:
        tree = _parse(file)
        if tree is None:
            is_whole = False
            continue
        for node in ast.walk(tree):
            imports.update(_imported(node))
            for marker, name in _marked(node):
                (hooks if marker == "hookimpl" else tools).add(name)
    return Findings(frozenset(hooks), frozenset(tools), frozenset(imports), is_whole)


def _parse(file: Path) -> ast.Module | None:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return None
        text = file.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape in somebody's text
            return ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _marked(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The hook point or the tool that a function is marked as."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        marker = call.func if call is not None else decorator
        word = marker.attr if isinstance(marker, ast.Attribute) else getattr(marker, "id", "")
        if word in ("hookimpl", "tool"):
            named = "specname" if word == "hookimpl" else "name"
            said = [key.value for key in (call.keywords if call is not None else ()) if key.arg == named]
            given = next((one.value for one in said if isinstance(one, ast.Constant)), None)
            yield word, given if isinstance(given, str) else node.name


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a plugin in a file."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text) is not None
