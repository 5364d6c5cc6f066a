"""The denials that a function makes, as far as its text shows them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from textwrap import dedent
from types import CodeType
from typing import Any, NamedTuple

from bub.base.diagnostics import Position, Range

DENY = "deny"
"""The key of what a gate returns to deny."""


class Denial(NamedTuple):
    """A `{"deny": …}` in the text of a function, where it stands in its file, and whether it is returned."""

    range: Range
    is_returned: bool


def denials_in(function: Callable[..., Any]) -> Iterator[Denial]:
    """Find the denials that a function returns, and those that it makes and drops; none if its text cannot be read."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None or not _mentions_denying(code):  # to read the text of every hook would take longer than all else
        return
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
        text = dedent("".join(lines))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError):
        return
    indent = len(lines[0]) - len(text.partition("\n")[0]) - 1
    for node in _own_statements(tree.body[0]):
        if isinstance(node, ast.Return | ast.Expr) and node.value is not None:
            for value in _alternatives(node.value):
                if _is_denial(value):
                    yield Denial(_range_of(value, text, first, indent), isinstance(node, ast.Return))


def _mentions_denying(code: CodeType) -> bool:
    """Whether a function makes a mapping with this key, as its bytecode shows: by itself, or in a tuple of keys."""
    return any(DENY in one if isinstance(one, tuple) else one == DENY for one in code.co_consts)


def _own_statements(function: ast.AST) -> Iterator[ast.AST]:
    """The statements of a function without those of the functions in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield node
            yield from _own_statements(node)


def _alternatives(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from (*_alternatives(value.body), *_alternatives(value.orelse))
    elif isinstance(value, ast.BoolOp):
        for part in value.values:
            yield from _alternatives(part)
    else:
        yield value


def _is_denial(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return any(isinstance(key, ast.Constant) and key.value == DENY for key in value.keys)
    is_made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"
    return is_made and any(word.arg == DENY for word in value.keywords)  # type: ignore[attr-defined]  # it is a call


def _range_of(value: ast.expr, text: str, first: int, indent: int) -> Range:
    def position(line: int, column: int) -> Position:
        before = text.splitlines()[line - 1].encode()[:column].decode()  # ast counts bytes
        return Position(first + line - 1, indent + len(before) + 1)

    assert value.end_lineno is not None and value.end_col_offset is not None
    return Range(position(value.lineno, value.col_offset), position(value.end_lineno, value.end_col_offset))
