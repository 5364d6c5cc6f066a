"""What a profile says of plugins and servers is what the lock says of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bub.base.diagnostics import Findings, Place
from bub.base.locate import FILE_NAME, lock_of
from bub.base.quoting import quotable
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node
from bub.plugins.lock.drift import Drift, compare_definitions, compare_sources
from bub.plugins.lock.facts import Lock, PluginFacts, digest_of_bytes

STALE = "B247"

_MOST_TOLD = 4
"""How many differences one finding names."""

_CONFIDENTIAL = ("env", "headers")
"""Of these, the lock keeps the names only."""


def check_stale(plan: Plan, lock: Lock) -> None:
    """Find plugins and servers that the lock does not know, or knows otherwise than the file names them."""
    for name, place in plan.allowlist:
        drifts = _plugin_drift(plan, lock, name)
        tell_drift(plan.findings, plan, name, drifts, place, f"profiles.{plan.profile}.plugins")
    for name, node in servers_of(plan):
        drifts = compare_definitions(name, lock.server(name, plan.profile), definition_of(node))
        tell_drift(plan.findings, plan, name, drifts, node.where, f"mcp.{name}")


def tell_drift(
    findings: Findings, plan: Plan, name: str, drifts: Iterable[Drift], place: Place, path: str = ""
) -> None:
    """Find that a plugin, a server or a package is not what the lock says, all its differences in one finding."""
    found = tuple(drifts)
    if not found:
        return
    told = "; ".join(drift.line for drift in found[:_MOST_TOLD])
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    file = plan.document.file
    command = "bub lock" if Path(file).name == FILE_NAME else f"bub --config {file} lock"
    findings.add(
        STALE,
        f"{found[0].subject} is not what {lock_of(Path(file)).name} says: {told}{more}",
        place,
        path=path,
        help=f"if you want this change, `{command} --upgrade {name}` accepts it; `{command} --check` shows all changes",
    )


def source_of_file(plan: Plan, name: str) -> PluginFacts | None:
    """Note where the plugin of a name comes from, if the file gives it a `path`; None if a package brings it."""
    node = plan.root.get("plugins", name, "path")
    said = text_of(node)
    if node is None or said is None or "${" in said:
        return None
    base = plan.document.base or Path()
    file = plan.document.folders.get(node.place.file, base) / os.path.expanduser(said)  # noqa: PTH111 (it never raises)
    shown = said if said.startswith("~") else os.path.relpath(file, base)
    return PluginFacts(name, (plan.profile,), file=Path(shown).as_posix(), sha256=_digest_of(file))


def servers_of(plan: Plan) -> Iterator[tuple[str, Node]]:
    """Yield the MCP servers that a profile has, as the file says them."""
    section = plan.root.get("mcp")
    for name, node in section.items() if section is not None else ():
        if node.is_mapping:
            yield name, node


def definition_of(node: Node) -> Mapping[str, Any]:
    """Return what a lock keeps of what a file says of a server: how it is reached, and no value that is a secret."""
    said = {key: node.get(key) for key in ("command", "url", *_CONFIDENTIAL)}
    plain = {key: value.plain() for key, value in said.items() if value is not None}
    return {key: _value_to_keep(value, names_only=key in _CONFIDENTIAL) for key, value in plain.items()}


def _plugin_drift(plan: Plan, lock: Lock, name: str) -> tuple[Drift, ...]:
    locked, found = lock.plugin(name, plan.profile), source_of_file(plan, name)
    if found is None and plan.root.get("plugins", name, "path") is not None:
        return ()  # a reference: a start knows what it stands for
    if found is None and locked is not None:
        # Which package brings it, only the environment knows.
        found = PluginFacts(name, (plan.profile,), package=locked.package or "a package")
    if found is not None and not found.sha256 and found.file:
        return ()  # there is no such file: told already
    return compare_sources(name, locked, found or PluginFacts(name, (plan.profile,)))


def _value_to_keep(value: Any, *, names_only: bool) -> Any:
    if isinstance(value, dict | list):
        texts = [quotable(str(one)) for one in value]
        return sorted(texts) if names_only else texts
    return quotable(str(value))


def _digest_of(file: Path) -> str:
    try:
        return digest_of_bytes(file.read_bytes())
    except OSError:
        return ""
