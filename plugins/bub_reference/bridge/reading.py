"""Which plugins with `runtime: asyncio` were written for the Bub on PyPI, told from their text before an import.

Such a plugin is one whose distribution requires `bub`, or whose text names something of `bub` that only the other Bub
has. Its modules see the other Bub's names, which `bub_reference` has; every other plugin sees Bub's own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bub.errors import BubError

if TYPE_CHECKING:
    from bub_reference.bridge.adopting import Adoption

OTHER, OURS = "bub", "bub-pipelines"
"""The distribution of the other Bub, which is its import name too, and that of this one."""

NAMES = "bub_reference"
"""The package that has the other Bub's names."""

_NEEDS, _EXTRA = "pydantic_settings", "reference"


def begin_adoption(listed: Any, view: Any) -> Adoption | None:
    """Prepare to adopt a plugin; None if it is written for this Bub.

    Raises `BubError` if the extra is missing, or for names of the other Bub that this one does not have.
    """
    files = list(_files_of(listed))
    named = [found for file in files for found in _names_in(file)]
    if not (_requires_other(listed) or any(_is_theirs_alone(name) for name, _ in named)):
        return None
    if find_spec(_NEEDS) is None:
        raise BubError(
            f"it is written for the Bub on PyPI, and the names of that are not installed (`{_NEEDS}` is missing)",
            help=f"pip install '{OURS}[{_EXTRA}]'",
        )
    for name, place in named:
        if not _has(name, NAMES):
            raise BubError(
                f"it needs `{name}` of the Bub on PyPI ({place}), which this Bub does not have",
                help=f"take `{listed.name}` off the list; docs/reference-plugins.md says what there is",
            )
    from bub_reference.bridge.adopting import Adoption  # it needs the extra

    packages = {listed.entry.module.partition(".")[0]} if listed.entry is not None else set()
    return Adoption(listed.name, view, frozenset(packages))


def _requires_other(listed: Any) -> bool:
    distribution = listed.entry.dist if listed.entry is not None else None
    wanted = distribution.requires if distribution is not None else None
    return any(re.match(rf"{OTHER}(?![\w.-])", requirement.strip()) for requirement in wanted or ())


def _files_of(listed: Any) -> Iterator[Path]:
    """The texts that a plugin is written in; nothing of it is imported."""
    if listed.file is not None:
        yield listed.file
    elif listed.entry is not None:
        spec = find_spec(listed.entry.module.partition(".")[0])
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield from sorted(Path(folder).rglob("*.py"))
        if spec is not None and not spec.submodule_search_locations and spec.origin:
            yield Path(spec.origin)


def _names_in(file: Path) -> list[tuple[str, str]]:
    """What a text takes of `bub`, each with its place; not what it could do without, or only type checkers read."""
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text) if OTHER in text else ast.Module([], [])
    except (OSError, ValueError, SyntaxError):  # its import will say what is wrong
        return []
    aliases: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for node in _surely_run(tree):
        place = f"{file.name}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.ImportFrom) and not node.level and _is_of_bub(node.module or ""):
            found += [(f"{node.module}.{alias.name}", place) for alias in node.names if alias.name != "*"]
            aliases.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_of_bub(alias.name):
                    found.append((alias.name, place))
                    aliases[alias.asname or OTHER] = alias.name if alias.asname else OTHER
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            home = aliases[node.value.id]
            if home == OTHER or _is_module(home):
                found.append((f"{home}.{node.attr}", place))
    return found


def _surely_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All of a text but what is guarded by `if TYPE_CHECKING:`, or tried: whoever tries has another way."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try):
            for part in (*node.orelse, *node.finalbody):
                yield from (part, *_surely_run(part))
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _surely_run(node)


def _is_of_bub(module: str) -> bool:
    return module.partition(".")[0] == OTHER


def _is_theirs_alone(name: str) -> bool:
    return not _has(name, OTHER) and _has(name, NAMES)


def _has(name: str, package: str) -> bool:
    """Whether a package has a dotted name that begins with `bub`."""
    meant = f"{package}{name.removeprefix(OTHER)}"
    if _is_module(meant):
        return True
    home, _, attribute = meant.rpartition(".")
    try:
        return bool(home) and _is_module(home) and hasattr(import_module(home), attribute)
    except ModuleNotFoundError:  # it is there, and needs the extra
        return True


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # something above it is no package
        return False
