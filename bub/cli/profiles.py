"""`bub profiles`: the profiles of a file, what each may do, and which messages it gets."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from bub.cli.options import options_of
from bub.cli.output import page_width, show, show_json
from bub.cli.reading import read_document
from bub.pipeline.plan.layers.person import read_person
from bub.pipeline.show.profiles import profiles as profiles_in
from bub.pipeline.show.profiles import profiles_page
from bub.pipeline.source.merge import DEFAULT_PROFILE


def profiles(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show every profile of the pipeline file: its plugins, tools, model and limits, and the messages it gets.

    Bub imports no plugin, shows a file with errors as far as it can read it, and never shows secrets.
    """
    options = options_of(ctx)
    document, errors = read_document(options)
    chosen = options.profile or os.environ.get("BUB_PROFILE") or DEFAULT_PROFILE
    found = profiles_in(document, chosen, os.environ, read_person(document, os.environ))
    if as_json:
        listed = [facts.as_dict() for facts in found]
        shown = {"version": 1, "errors": errors, "file": document.file, "profiles": listed}
        show_json(shown, indent=2, ensure_ascii=False, default=str)
    else:
        show(profiles_page(found, page_width()))
