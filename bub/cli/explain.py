"""`bub explain`: the effective pipeline of a profile, and who set each part of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from bub.base.layout import EMPTY, indent_text, line
from bub.cli.options import options_of
from bub.cli.output import page_width, show, show_json
from bub.cli.reading import names_pipeline, read_plan
from bub.cli.table import IMPLEMENTERS, load
from bub.errors import BubError, UsageError
from bub.pipeline.plan.layers.person import read_person
from bub.pipeline.plan.origins import lookup_of
from bub.pipeline.show.explain import about_code, needs_plugins
from bub.pipeline.show.explain import explain as facts_about
from bub.pipeline.show.facts import ABOUT, CodePage, Facts
from bub.pipeline.show.pages import page
from bub.pipeline.show.ways import FlowFacts, flow_of, flow_page

_BROKEN = "the file has errors"


def explain(
    ctx: typer.Context,
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="A file that ends in .yaml, or bub:NAME.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[PATH|STAGE|CODE]", help="A path (`settings.model`), a stage, or a code (`B120`)."),
    ] = None,
    flow: Annotated[
        str | None,
        typer.Option(
            "--flow", metavar="PROFILE", help="Show what strangers can reach in a profile, and what asks a person."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show a profile's pipeline once all files are merged, and which file and line set each value.

    Bub shows a file with errors as far as it can read it. It never shows secrets, and leaves references as they are.
    """
    if pipeline is not None and not names_pipeline(pipeline):
        if topic is not None:
            raise UsageError(f"`{pipeline}` is no pipeline", help="name a file that ends in .yaml, or bub:NAME")
        pipeline, topic = None, pipeline
    code = about_code(topic or "")
    if code is not None:
        if as_json:
            _print_json(code)
        else:
            show(line(text) for text in code.text.splitlines())
        return
    options = options_of(ctx)
    named = Path(pipeline) if pipeline is not None else None
    if flow is not None:
        if topic is not None:
            raise UsageError("`--flow` shows a whole profile", help=f"leave `{topic}` out")
        options.profile = flow
    plan, errors = read_plan(options, named)
    if flow is not None:
        _show_flow(flow_of(plan), errors, as_json)
        return
    lookup = lookup_of(plan, os.environ, read_person(plan.document, os.environ))
    implementers, missing = None, ""
    if needs_plugins(lookup, topic):
        found = BubError(_BROKEN) if errors else load(IMPLEMENTERS)(options, named)
        implementers, missing = (None, _reason(found)) if isinstance(found, BubError) else (found, "")
    facts = facts_about(lookup, topic, implementers)
    if as_json:
        _print_json(facts, errors=errors, without_implementations=missing or None)
        return
    width = page_width()
    show(page(facts, width))
    if missing:
        show([EMPTY, *indent_text(f"Bub cannot show who implements what: {missing}.", width, 0)])


def _show_flow(facts: FlowFacts, errors: int, as_json: bool) -> None:
    if as_json:
        show_json({"version": 1, "about": "flow", "errors": errors, **facts.as_dict()}, indent=2, ensure_ascii=False)
    else:
        show(flow_page(facts, page_width()))


def _reason(error: BubError) -> str:
    return f"{error} ({' or '.join(error.help.splitlines())})" if error.help else str(error)


def _print_json(facts: Facts | CodePage, **more: Any) -> None:
    document = {"version": 1, "about": ABOUT[type(facts)], **more, **facts.as_dict()}
    show_json(document, indent=2, ensure_ascii=False, default=str)
