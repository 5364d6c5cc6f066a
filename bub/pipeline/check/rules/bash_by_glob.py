"""`bash` is allowed by its name, which no glob stands for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from bub.base.globs import covers, is_glob
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.plugins.shipped import BY_NAME

CODE = "B169"

_ALL = ("*", "**", "?*", "*?")
"""What is meant for all tools but this one."""


def check(plan: Plan) -> None:
    """Find globs in `allow` that look as if they were meant for `bash`."""
    allow, deny = (plan.tools.get(key) if plan.tools is not None else None for key in ("allow", "deny"))
    names = dict(names_of(allow))
    if BY_NAME in names or any(covers(glob, BY_NAME) for glob, _ in names_of(deny)):
        return
    for glob, place in names.items():
        if looks_meant(glob):
            plan.findings.warn(
                CODE,
                f"`{glob}` does not allow `{BY_NAME}`: only its full name does",
                place,
                path=f"profiles.{plan.profile}.tools.allow",
                help=f"add `{BY_NAME}` to `allow`; if you mean only the other tools, write `{BY_NAME}.*`",
            )


def looks_meant(glob: str) -> bool:
    """Return whether a glob would be for `bash`, and not only for everything."""
    return is_glob(glob) and glob not in _ALL and fnmatchcase(BY_NAME, glob)
