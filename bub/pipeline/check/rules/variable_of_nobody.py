"""A variable that a test sets is read by somebody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bub.pipeline.check.cases import Case
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.settings import RESERVED, variables_of
from bub.pipeline.source.document import walk
from bub.pipeline.source.interpolate import references
from bub.pipeline.source.schemas import whole_settings_schema

CODE = "B155"


def check(plan: Plan, case: Case) -> None:
    """Note variables that no reference names, that set nothing, and that no plugin's text speaks of.

    What an installed plugin reads is not known, so beside one nothing is said.
    """
    section = case.node.get("env")
    if section is None or not section.value:
        return
    texts = [_text_of(plan, name) for name, _ in plan.allowlist if not plan.is_shipped(name)]
    if any(text is None for text in texts):
        return
    settings = plan.root.get("settings")
    written = settings.plain() if settings is not None and settings.is_mapping else {}
    known = {*RESERVED, *variables_of(whole_settings_schema(), written), *_referred_to(plan)}
    for name, node in section.items():
        if name not in known and not any(name in text for text in texts if text is not None):
            plan.findings.add_unknown(
                CODE,
                f"{case} sets the variable `{name}`, but neither this file nor a plugin with a `path` reads it",
                node.where,
                name,
                known,
                severity="note",
                path=f"{case.path}.env.{name}",
                profile=case.profile,
                help="take it out, unless a program that a tool starts reads it",
            )


def _referred_to(plan: Plan) -> Iterator[str]:
    for layer in plan.document.layers:
        for _, node in walk(layer.root):
            if isinstance(node.value, str) and "$" in node.value:
                yield from (reference.name for reference in references(node.value))


def _text_of(plan: Plan, plugin: str) -> str | None:
    """The text of a plugin that comes from a file; None where it cannot be read."""
    node = plan.document.root.get("plugins", plugin, "path")
    path = text_of(node)
    folder = plan.document.folders.get(node.place.file) if node is not None else None
    if path is None or folder is None:
        return None
    try:
        return (folder / Path(path)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
