"""`bub graph --format svg`: a picture that shows each stage, and hides nothing under something else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fakes.command_line import bub
from hypothesis import given
from hypothesis import strategies as st

from bub.pipeline.plan.plan import make_plan
from bub.pipeline.show.drawing import Box, Drawing, Edge, Point, drawing_of
from bub.pipeline.show.svg import lay_rails, svg
from bub.pipeline.source.merge import load_shipped, load_text

_SVG = "{http://www.w3.org/2000/svg}"
NARROW = 400


def picture_of(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg(drawing_of(make_plan(load_text(text), "default"))))


def stage(picture: ElementTree.Element, name: str) -> ElementTree.Element:
    (found,) = (group for group in picture.iter(f"{_SVG}g") if group.get("id") == f"stage-{name}")
    return found


def words(element: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in element.iter(f"{_SVG}text")]


@pytest.mark.parametrize("name", ["default", "classic", "ethos"])
def test_a_shipped_pipeline_fits_into_400_pixels_and_shows_every_stage(name: str) -> None:
    plan = make_plan(load_shipped(name), "default")
    picture = ElementTree.fromstring(svg(drawing_of(plan)))
    assert int(picture.get("width", "")) <= NARROW
    assert [words(stage(picture, each.id))[0] for each in plan.stages] == [each.id for each in plan.stages]


def test_a_gate_looks_like_one_and_the_points_of_the_agent_are_inside_the_stage_that_fires_them() -> None:
    picture = picture_of(
        "version: 1\nextends: bub:default\n"
        "hooks: {moderate: {kind: gate, takes: [prompt]}, mine: {kind: void, takes: [prompt]}}\n"
        "stages: {moderate: {before: run_model, timeout: 5s}}\n"
    )
    assert "gate" in (stage(picture, "moderate").get("class") or "").split()
    assert words(stage(picture, "moderate")) == ["moderate", "gate", "5s"]
    model = stage(picture, "run_model")
    assert {"before_llm_call", "tool_gate", "subagent_ended"} <= set(words(model))
    assert [rect.get("class") for rect in model.iter(f"{_SVG}rect")] == ["card", "gate"]
    assert "fired inside stages" in words(picture)
    assert "mine" in words(picture) and "mine" not in words(model)


def test_a_stage_that_is_off_and_one_with_a_condition_say_so() -> None:
    picture = picture_of(
        "version: 1\nextends: bub:default\nstages: {save_state: {enabled: false}, load_state: {when: {channel: cli}}}\n"
    )
    assert "off" in (stage(picture, "save_state").get("class") or "").split()
    assert any("conditional" in text for text in words(stage(picture, "load_state")))


def test_what_nobody_implements_is_pale_once_the_plugins_are_loaded(write: Callable[[str, str], Path]) -> None:
    write("p.py", "from bub import hookimpl\n@hookimpl\ndef message_sent(message):\n    pass\n")
    path = write(
        "pipelines.yaml",
        "version: 1\nextends: bub:ethos\nplugins: {p: {path: p.py}}\nprofiles: {default: {plugins: [p]}}\n",
    )
    done = bub(path.parent, "graph", str(path), "--format", "svg", "--plugins")
    picture = ElementTree.fromstring(done.stdout)
    pale = {group.get("id") for group in picture.iter(f"{_SVG}g") if "nobody" in (group.get("class") or "").split()}
    assert "stage-agent_done" in pale
    assert not pale & {"stage-message_sent", "stage-load_state", "stage-run_model"}

    text = bub(path.parent, "graph", str(path), "--plugins").stdout
    assert [line.split()[1] for line in text.splitlines() if "nobody implements it" in line][:1] == ["inbound_claim"]
    assert "nobody implements it" not in bub(path.parent, "graph", str(path)).stdout


def test_plugins_that_cannot_be_loaded_are_an_error_and_no_picture(write: Callable[[str, str], Path]) -> None:
    path = write("pipelines.yaml", "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [no_such]}}\n")
    done = bub(path.parent, "graph", str(path), "--format", "svg", "--plugins")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no_such" in done.stderr


def test_names_of_a_stranger_end_no_text_and_begin_no_element() -> None:
    evil = "x</title><script>alert(1)</script>&\x1b[31m\u202e"
    box = Box(evil, "void", "5s", False, evil, (evil,))
    drawing = Drawing(evil, (box,), (), evil, (Point(evil, evil, None), Point(evil, "gate", evil)))
    text = svg(drawing)
    picture = ElementTree.fromstring(text)
    assert not list(picture.iter(f"{_SVG}script"))
    assert "\x1b" not in text and "\u202e" not in text


def test_an_empty_pipeline_is_a_picture_too() -> None:
    assert picture_of("version: 1\n").tag == f"{_SVG}svg"


# Rails

PIPELINES = st.integers(1, 12).flatmap(
    lambda size: st.lists(
        st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.booleans()).filter(lambda it: it[0] < it[1]),
        max_size=20,
        unique_by=lambda it: it[:2],
    ).map(
        lambda edges: Drawing(
            "t",
            tuple(Box(f"s{index}", "void", "", False, None, ()) for index in range(size)),
            tuple(Edge(f"s{start}", f"s{end}", cleanup) for start, end, cleanup in edges),
            "",
        )
    )
)


@given(PIPELINES)
def test_no_two_waits_share_a_stretch_of_a_rail_and_none_passes_through_a_stage(drawing: Drawing) -> None:
    rails = lay_rails(drawing)
    at = {box.id: index for index, box in enumerate(drawing.boxes)}
    for one, other in combinations(drawing.edges, 2):
        if rails.of_edge[one] == rails.of_edge[other]:
            assert at[one.end] <= at[other.start] or at[other.end] <= at[one.start]
    for edge in drawing.edges:
        between = [box.id for box in drawing.boxes if at[edge.start] < at[box.id] < at[edge.end]]
        assert rails.of_edge[edge] not in {rails.of_stage[box] for box in between}
    assert max([0, *rails.of_edge.values(), *rails.of_stage.values()]) + 1 == rails.number
