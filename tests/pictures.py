"""The pictures of the documentation, each drawn by the command that a reader would call: `python -m tests.pictures`."""

from __future__ import annotations

from pathlib import Path

from bub.base.resources import shipped_pipelines
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.svg import svg
from bub.pipeline.source.merge import DEFAULT_PROFILE, load_shipped

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"


def draw_pictures() -> dict[str, str]:
    """Draw every picture anew: its text by the name of its file."""
    plans = {name: make_plan(load_shipped(name), DEFAULT_PROFILE) for name in shipped_pipelines()}
    return {f"{name}.svg": svg(drawing_of(plan)) for name, plan in plans.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in draw_pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
