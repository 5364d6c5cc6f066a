"""`bub route`: which profile a message gets, and why."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from bub.cli.options import options_of
from bub.cli.output import page_width, show, show_json
from bub.cli.reading import read_plan
from bub.envelope import add_address
from bub.errors import UsageError
from bub.pipeline.plan.routes import choice_page, choose, routes_of
from bub.pipeline.source.interpolate import read_environment

_EXAMPLE = """write it as --message '{"channel": "telegram", "chat_id": "-100"}', or pipe it in with --message -"""


def route(
    ctx: typer.Context,
    message: Annotated[str, typer.Option(metavar="JSON", help="The message as a JSON object; - reads it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show which profile a message gets: the first route that matches it, and what kept the earlier ones from it.

    Bub runs nothing, imports no plugin and sends the message nowhere. The channel and the chat are `default` if
    the message has none, as in a turn.
    """
    fields = _fields(sys.stdin.read() if message == "-" else message)
    plan, errors = read_plan(options_of(ctx))
    environment, _ = read_environment(plan.document.base, os.environ)
    choice = choose(routes_of(plan.document, environment), add_address(fields), plan.profile)
    if as_json:
        document = {"version": 1, "errors": errors, **choice.as_dict()}
        show_json(document, indent=2, ensure_ascii=False, default=str)
    else:
        show(choice_page(choice, page_width()))


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError("the message is not a JSON object", help=_EXAMPLE)
    return fields
