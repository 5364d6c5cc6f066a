"""Each entry of `reach` is one folder or file, and together they shut something."""

from __future__ import annotations

from collections.abc import Iterator

from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node

CODE = "B235"

_HELP = "write `workspace`, `workspace/folder`, `~/folder` or `/folder`"


def check(plan: Plan) -> None:
    """Find entries that mean no folder, and those so wide that `reach` would shut nothing."""
    profile = plan.effective.profile_node
    reach = profile.get("reach") if profile is not None else None
    if reach is None or not reach.is_mapping:
        return
    for key in ("write", "read"):
        for entry, problem, advice in _problems(key, reach.get(key)):
            path = f"profiles.{plan.profile}.reach.{key}"
            plan.findings.add(CODE, problem, entry.where, path=path, profile=plan.profile, help=advice)


def _problems(key: str, entries: Node | None) -> Iterator[tuple[Node, str, str]]:
    for entry in entries.elements() if entries is not None and entries.is_sequence else ():
        said = str(entry.value)
        if problem := late.problem_of(said):
            yield entry, f"`{said}` is no folder for `reach`: {problem}", _HELP
        elif problem := late.too_wide(said, writing=key == "write"):
            advice = "list the folders that commands need"
            yield entry, f"with `{key}: [{said}]`, `reach` shuts nothing out: {problem}", advice
