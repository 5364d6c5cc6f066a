"""The pictures of the documentation, each drawn by what a reader would call. `make pictures` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from bub.base.resources import shipped_pipelines
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.svg import svg
from bub.pipeline.source.merge import DEFAULT_PROFILE, load_shipped

from .commands import COMMANDS
from .kinds import draw_kinds
from .ladders import CALL, HOUSE, KEPT, WAY, draw_ladder
from .runs import dangers, mistake
from .turn import draw_turn

FOLDER = Path(__file__).parent.parent.parent / "docs" / "pictures"


def _plan(name: str) -> Plan:
    return make_plan(load_shipped(name), DEFAULT_PROFILE)


def _draw_pipeline(name: str) -> str:
    return svg(drawing_of(_plan(name)))


PICTURES: Mapping[str, Callable[[], str]] = {
    **{f"{name}.svg": partial(_draw_pipeline, name) for name in shipped_pipelines()},
    "turn.svg": lambda: draw_turn(drawing_of(_plan("default"))),
    "call.svg": partial(draw_ladder, "What a call of a tool passes before it runs", CALL),
    "kept.svg": partial(draw_ladder, "Where a message is, and what follows if the process is killed there", KEPT),
    "way.svg": partial(draw_ladder, "The modules that a message passes, from its channel to its reply", WAY),
    "house.svg": partial(draw_ladder, "A turn's way through the folders of the code", HOUSE),
    "kinds.svg": draw_kinds,
    "validate.svg": mistake,
    "diff.svg": dangers,
    **COMMANDS,
}
"""What draws each picture, by the name of its file."""
