"""What can be known of a loaded plugin only from the way it is written."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType

FIRE = "fire"
"""What an implementation, and a tool's context, call that which fires a hook point."""

_NOT_ITS_OWN = sys.stdlib_module_names | {"bub", "pluggy"}


def source_of(plugin: object) -> tuple[str, ...] | None:
    """Return the text of each module that a plugin is written in; None if one of them cannot be read."""
    try:
        return tuple(inspect.getsource(module) for module in _modules_of(plugin))
    except (OSError, TypeError):
        return None


def may_register(plugin: object) -> bool:
    """Whether a plugin may register handlers while it runs."""
    texts = source_of(plugin)
    return texts is None or any(re.search(r"\bregister_(?:void|modifying|claiming)\b", text) for text in texts)


def may_fire(plugin: object, hook: str) -> bool:
    """Whether a plugin may fire a hook point: it writes its name, or fires what cannot be known from its text."""
    texts = source_of(plugin)
    if texts is None:
        return True
    firing = [text for text in texts if re.search(rf"\b{FIRE}\b", text)]
    named = re.compile(rf"""["']{re.escape(hook)}["']""")
    return bool(firing) and (any(named.search(text) for text in texts) or any(map(_hands_on, firing)))


def uses(plugin: object, name: str) -> bool:
    """Whether the text of a plugin uses a name other than to define it; also if nobody can tell."""
    texts = source_of(plugin)
    if texts is None:
        return True
    return any(
        _is_use(node, name)
        for text in texts
        if name in text
        for statement in ast.parse(text).body
        if not _is_for_trying_out(statement)
        for node in ast.walk(statement)
    )


def _modules_of(plugin: object) -> Iterator[ModuleType]:
    """Its own module, those of its functions, and what else of their packages is loaded."""
    home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    found = (inspect.getattr_static(plugin, name, None) for name in dir(plugin))  # and no property is run
    names = [home, *(function.__module__ for function in found if inspect.isfunction(function))]
    packages = {name.partition(".")[0] for name in names if name} - _NOT_ITS_OWN
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] in packages and getattr(module, "__file__", None) is not None:
            yield module


def _hands_on(text: str) -> bool:
    """Whether what fires is used for more than to fire a point by its name, or to ask whether there is one."""
    understood: set[int] = set()
    mentions: list[ast.AST] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            understood.add(id(node.func))
        elif isinstance(node, ast.Compare):
            understood.update(id(part) for part in (node.left, *node.comparators))
        elif isinstance(node, ast.Constant) and node.value == FIRE:
            return True
        if _is_fire(node):
            mentions.append(node)
    return any(id(node) not in understood for node in mentions)


def payloads_of(plugin: object, hook: str) -> tuple[frozenset[str], ...] | None:
    """The names of what a plugin hands over each time it fires a hook point; None if its text does not tell."""
    texts = source_of(plugin)
    if texts is None:
        return None
    firing = [text for text in texts if re.search(rf"\b{FIRE}\b", text)]
    if any(map(_hands_on, firing)):
        return None
    calls = [node for text in firing for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [call.keywords for call in calls if call.args and _is_fire(call.func) and _is_text(call.args[0], hook)]
    if any(word.arg is None for words in named for word in words):  # `**payload`
        return None
    return tuple(frozenset(word.arg for word in words if word.arg is not None) for words in named)


def _is_use(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Attribute) or node.attr != name:
        return False
    # An override asks the method that it overrides; nobody has asked the override by that.
    owner = node.value.func if isinstance(node.value, ast.Call) else None
    return not (isinstance(owner, ast.Name) and owner.id == "super")


def _is_for_trying_out(statement: ast.stmt) -> bool:
    """Whether a statement is for a file that is run by itself: `if __name__ == "__main__":`."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def _is_fire(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == FIRE) or (isinstance(node, ast.Attribute) and node.attr == FIRE)


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text
