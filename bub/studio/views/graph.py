"""The graph of a profile as a picture for the page, drawn from the very plan that runs."""

from __future__ import annotations

from typing import Any

from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.svg import id_of_stage, svg
from bub.runtime.generations import Generation
from bub.studio.views.loaded import implementers_of, loaded_profile


def draw_graph(generation: Generation, profile: str) -> dict[str, Any]:
    """Return the picture of a profile and its stages in run order; `bound` says how long a turn may take.

    `svg` is well-formed XML without style and script: see `bub.pipeline.show.svg`. Each stage has the `element` that it
    is in the picture, and the place at which the file begins to speak of it. Raises `NotThereError`.
    """
    found = loaded_profile(generation, profile)
    drawing = drawing_of(found.plan, implementers_of(generation, found))
    return {
        "profile": found.name,
        "generation": generation.number,
        "svg": svg(drawing, live=True),
        "stages": [_describe(stage) for stage in found.plan.stages],
        "bound": drawing.bound,
    }


def _describe(stage: StagePlan) -> dict[str, Any]:
    return {
        "id": stage.id,
        "element": id_of_stage(stage.id),
        "kind": stage.kind.name if stage.kind is not None else "",
        "hook": stage.hook.point.name,
        "enabled": stage.enabled,
        "file": stage.where.file,
        "line": stage.where.range.start.line,
    }
