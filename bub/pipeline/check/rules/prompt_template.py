"""The template that the settings name for the system prompt is there, and its placeholders stand for something."""

from __future__ import annotations

from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node

CODE = "B108"

_PATH = "settings.prompt.file"


def check(plan: Plan) -> None:
    """Find a template that cannot be used, and what is wrong in it.

    Only a relative path is looked at: what lies elsewhere is a matter of the machine. It begins in the workspace, which
    is the folder of the file unless somebody says otherwise, so that one which is missing is a warning.
    """
    node = plan.root.get(*_PATH.split("."))
    named = text_of(node)
    if node is None or not named or "${" in named or named.startswith(("/", "~")):
        return
    if plan.document.base is None:
        return
    path = plan.document.base / named
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= late.LONGEST_TEMPLATE else None
    except OSError as error:
        _warn(plan, node, f"the template `{named}` cannot be read: {error.strerror}", "give it another mode or place")
        return
    if data is None:
        is_there = path.is_file()
        if is_there:
            message = f"the template `{named}` has more than {late.LONGEST_TEMPLATE // 1024} KB"
            _warn(plan, node, message, "shorten it: each request repeats it")
        else:
            _warn(
                plan, node, f"there is no template `{named}`", "write its path from the workspace, such as `prompt.md`"
            )
        return
    for mistake in late.template_mistakes(data.decode("utf-8-sig", "replace")):
        plan.findings.add(
            CODE,
            f"{named}:{mistake.line}:{mistake.column}: {mistake.message}",
            node.place,
            path=_PATH,
            help=mistake.help,
        )


def _warn(plan: Plan, node: Node, message: str, advice: str) -> None:
    plan.findings.warn(CODE, message, node.place, path=_PATH, help=advice)
