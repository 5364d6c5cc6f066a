"""What `unasked` lets through would be asked about without it."""

from __future__ import annotations

from fnmatch import fnmatchcase

from bub.pipeline.check.rules.ask_in_vain import said_in
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.plugins.shipped import BY_NAME

CODE = "B234"


def check(plan: Plan) -> None:
    """Find `unasked` commands of a tool that runs unasked anyway, or never, if they are said there or above that."""
    said = {key: said_in(plan, key) for key in ("allow", "deny", "ask", "unasked")}
    tools, last = plan.tools, said.pop("unasked")
    entries = names_of(tools.get("unasked", BY_NAME)) if tools is not None else ()
    if tools is None or last is None or not entries or any(last < one for one in said.values() if one is not None):
        return
    allow, deny, ask = ([name for name, _ in names_of(tools.get(key))] for key in ("allow", "deny", "ask"))
    if any("${" in name for name in (*allow, *deny, *ask)):
        return
    path, places = f"profiles.{plan.profile}.tools.unasked.{BY_NAME}", [place for _, place in entries]
    if _match(deny, BY_NAME) or BY_NAME not in allow:
        problem = f"`{BY_NAME}` is not allowed in profile `{plan.profile}`, so no command of it runs"
        advice = f"take it out of `unasked`, or add `{BY_NAME}` to `allow` and to `ask`"
    elif not _match(ask, BY_NAME):
        problem = f"profile `{plan.profile}` asks nobody about commands of `{BY_NAME}`"
        advice = f"add `{BY_NAME}` to `ask`: then Bub asks about all commands except these"
    else:
        return
    plan.findings.warn(CODE, problem, places[0], path=path, profile=plan.profile, help=advice)


def _match(globs: list[str], name: str) -> bool:
    return any(glob == name or fnmatchcase(name, glob) for glob in globs)
