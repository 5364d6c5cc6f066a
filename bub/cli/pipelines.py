"""`bub pipelines`: the pipelines that ship with Bub, and how to see and use one."""

from __future__ import annotations

from typing import Annotated

import typer

from bub.base.layout import EMPTY, indent_text, label_text, widest
from bub.base.resources import shipped_pipelines
from bub.cli.output import page_width, show, show_json
from bub.pipeline.source.merge import SHIPPED, load_shipped

_HOW = (
    "`bub graph --pipeline bub:NAME` draws one, `bub explain bub:NAME` shows the result, and a file of"
    " yours takes one over with `extends: bub:NAME`."
)


def pipelines(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the pipelines that ship with Bub, each with what it is for, and how to see and use one."""
    about = {f"{SHIPPED}{name}": _description(name) for name in shipped_pipelines()}
    if as_json:
        show_json([{"name": name, "description": description} for name, description in about.items()])
        return
    names, width = widest(about) + 2, page_width()
    for name, description in about.items():
        show(label_text(name, description, width, names))
    show([EMPTY, *indent_text(_HOW, width, 0)])


def _description(name: str) -> str:
    said = load_shipped(name).root.get("description")
    return str(said.value) if said is not None else ""
