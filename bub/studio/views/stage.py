"""A stage as `bub explain` shows it, with the lines of the files that set it and who implements it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from bub.pipeline.plan.origins import Lookup
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.report.report import lines_to_show
from bub.pipeline.show.drawing import keep_printable
from bub.pipeline.show.explain import explain
from bub.pipeline.show.facts import Key, StageFacts
from bub.pipeline.show.pages import page
from bub.pipeline.source.document import Node
from bub.runtime.generations import Generation
from bub.secrets.redactor import Redactor
from bub.studio.views.loaded import implementers_of, loaded_profile, require_stage

_WIDTH = 80
"""Cells of a line of the explanation, as in a pipe."""
_MOST_LINES, _WIDEST = 60, 400
"""How many lines of a file are shown of a stage, and how many characters of each."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def show_stage(generation: Generation, profile: str, stage: str, mask: Redactor) -> dict[str, Any]:
    """Return what there is to say of a stage as it is loaded: nothing is read from the disk.

    `text` is what `bub explain STAGE` prints. `sources` are the lines that set it, of each file and profile that does,
    what counts last; `source` is that one. `implementers` are in call order, `keys` as the text has them. `mask`
    covers secrets. Raises `NotThereError`.
    """
    found = loaded_profile(generation, profile)
    require_stage(found, stage)
    plan = make_plan(generation.snapshot.document, found.name)
    # What is set of a stage stands in the files: neither the environment nor the schema of settings has a say.
    facts = explain(Lookup(plan, _NOTHING, _NOTHING), stage, implementers_of(generation, found))
    assert isinstance(facts, StageFacts)
    lines = ("".join(span.text for span in line).rstrip() for line in page(facts, _WIDTH))
    sources = [_cover_lines(source, mask) for source in _find_sources(plan, stage)]
    return {
        "id": facts.id,
        "kind": facts.kind,
        "hook": facts.hook,
        "description": mask.text(facts.doc),
        "marks": [mask.text(mark) for mark in facts.marks],
        "explain": mask.text("\n".join(map(keep_printable, lines))),
        "source": sources[-1] if sources else None,
        "sources": sources,
        "implementers": [one.as_dict() for one in facts.asked or ()],
        "keys": [_describe_key(key, mask) for key in facts.keys],
    }


def _describe_key(key: Key, mask: Redactor) -> dict[str, Any]:
    place = key.origins[-1].place if key.origins else None
    return {
        "name": key.name,
        "value": mask.text(key.value),
        "meaning": key.meaning,
        "file": place.file if place is not None else None,
        "line": place.range.start.line if place is not None else None,
        "is_default": not key.origins,
    }


def _find_sources(plan: Plan, stage: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of each file that says something of a stage, weakest first; a profile has lines of its own."""
    for layer in plan.effective.layers:
        node = layer.root.get("stages", stage)
        text = plan.document.sources.get(layer.file)
        if node is not None and text is not None:
            first = node.where.range.start.line
            last = min(_last_line(node), first + _MOST_LINES - 1)
            lines = lines_to_show({layer.file: text}, layer.file, first, last)
            yield {"file": layer.file, "layer": layer.name, "first": first, "lines": lines}


def _last_line(node: Node) -> int:
    """Return the last line of a value; an end at the beginning of a line is that of the line before."""
    start, end = node.place.range
    return end.line - 1 if end.column == 1 and end.line > start.line else end.line


def _cover_lines(source: dict[str, Any], mask: Redactor) -> dict[str, Any]:
    lines = (keep_printable(mask.text(line)) for line in source["lines"])
    return {**source, "lines": [line if len(line) <= _WIDEST else f"{line[:_WIDEST]}…" for line in lines]}
