"""What a hook answers and looks up, as far as the text of its function shows it."""

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
    """A `{"deny": …}` in the text of a function, where it is in its file, and whether it is returned."""

    range: Range
    is_returned: bool


class Answer(NamedTuple):
    """The keys of a mapping that a function returns, each with its place."""

    keys: dict[str, Range]


def denials_in(function: Callable[..., Any]) -> Iterator[Denial]:
    """Find the denials that a function returns, and those that it makes and drops; none if its text cannot be read."""
    text = _Text.of(function, lambda words: DENY in words)
    for node in _own_statements(text.tree) if text is not None else ():
        if text is not None and isinstance(node, ast.Return | ast.Expr) and node.value is not None:
            for value in _alternatives(node.value):
                if DENY in dict(_keys_of(value)):
                    yield Denial(text.range_of(value), isinstance(node, ast.Return))


def answers_in(function: Callable[..., Any], known: frozenset[str]) -> Iterator[Answer]:
    """Find the mappings that a function returns, written out, if it has any word that is none of the `known` keys."""
    text = _Text.of(function, lambda words: not words <= known)
    for node in _own_statements(text.tree) if text is not None else ():
        if text is not None and isinstance(node, ast.Return) and node.value is not None:
            for value in _alternatives(node.value):
                keys = {key: text.range_of(place) for key, place in _keys_of(value)}
                if keys:
                    yield Answer(keys)


def lookups_in(function: Callable[..., Any], wanted: frozenset[str]) -> Iterator[tuple[str, Range]]:
    """Find which of the `wanted` names a function looks up in its `**kwargs`, and where."""
    text = _Text.of(function, lambda words: not wanted.isdisjoint(words))
    if text is None or not isinstance(text.tree, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    given = text.tree.args.kwarg
    for node in ast.walk(text.tree) if given is not None else ():
        if isinstance(node, ast.Subscript):
            place: ast.expr | None = node.slice
            of = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            place = node.args[0] if node.args else None
            of = node.func.value
        else:
            continue
        is_given = given is not None and isinstance(of, ast.Name) and of.id == given.arg
        if is_given and isinstance(place, ast.Constant) and place.value in wanted:
            yield place.value, text.range_of(place)


class _Text(NamedTuple):
    """The text of a function, read."""

    tree: ast.stmt
    text: str
    first: int
    indent: int

    @classmethod
    def of(cls, function: Callable[..., Any], is_wanted: Callable[[frozenset[str]], bool]) -> _Text | None:
        """Read the text of a function if the words in its bytecode are wanted; None if that cannot be done.

        To read the text of every hook would take longer than all else.
        """
        code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
        if code is None or not is_wanted(_words_in(code)):
            return None
        try:
            lines, first = inspect.getsourcelines(inspect.unwrap(function))
            text = dedent("".join(lines))
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError):
            return None
        return cls(tree.body[0], text, first, len(lines[0]) - len(text.partition("\n")[0]) - 1)

    def range_of(self, value: ast.expr) -> Range:
        """Where something stands in the file."""
        assert value.end_lineno is not None and value.end_col_offset is not None
        start = self._position(value.lineno, value.col_offset)
        return Range(start, self._position(value.end_lineno, value.end_col_offset))

    def _position(self, line: int, column: int) -> Position:
        before = self.text.splitlines()[line - 1].encode()[:column].decode()  # ast counts bytes
        return Position(self.first + line - 1, self.indent + len(before) + 1)


def _words_in(code: CodeType) -> frozenset[str]:
    """The texts of a function that may be keys: by themselves, or in a tuple of keys; its docstring is none."""
    constants = [one for each in code.co_consts for one in (each if isinstance(each, tuple) else (each,))]
    return frozenset(one for one in constants if isinstance(one, str) and one.isidentifier())


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


def _keys_of(value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The keys of a mapping that is written out, each with where it is: `{"a": 1}` or `dict(a=1)`."""
    if isinstance(value, ast.Dict):
        for key in value.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, key
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        for word in value.keywords:
            if word.arg is not None:
                yield word.arg, word.value
