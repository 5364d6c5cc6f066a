"""What the page of `bub studio` shows of a pipeline: its picture, a stage, and the way of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fakes.command_line import bub
from hypothesis import given
from hypothesis import strategies as st

from bub import BubFramework
from bub.errors import BubError, UsageError
from bub.pipeline.show.drawing import Box, Drawing, Edge, Point
from bub.pipeline.show.svg import id_of_stage, svg
from bub.studio.views.graph import draw_graph
from bub.studio.views.loaded import NotThereError
from bub.studio.views.stage import show_stage
from bub.studio.views.way import find_way

_SVG = "{http://www.w3.org/2000/svg}"

GUARD = """\
from bub import hookimpl

@hookimpl
def moderate(prompt):
    if "rude" in str(prompt):
        return {"deny": "no"}

@hookimpl
def rewrite(message):
    return {"message": {**message, "channel": "elsewhere"}}

@hookimpl
def tool_gate(tool):
    return None
"""
FILE = """\
version: 1
extends: bub:default
plugins: {guard: {path: guard.py}}
hooks:
  moderate: {kind: gate, takes: [prompt]}
  rewrite: {kind: modifying, takes: [message]}
stages:
  welcome: {kind: void, hook: message_received, before: build_prompt, when: {session: new}, timeout: 1s}
  moderate:
    before: run_model
    timeout: 5s
    when: {channel: telegram}
  rewrite: {after: moderate, changes: [message], timeout: 1s}
  late: {kind: gate, hook: moderate, after: rewrite, when: {channel: telegram}, timeout: 1s}
  late_too: {kind: gate, hook: moderate, after: late, when: {session: known}, timeout: 1s}
  save_state: {enabled: false}
settings: {model: "openai:x", api_key: "${env:KEY:-sk-abcdefghijklmnop}"}
routes:
  - {match: {channel: telegram, chat_id: "-1*"}, profile: guests}
profiles:
  default: {plugins: [guard]}
  guests:
    extends: default
    stages: {moderate: {timeout: 3s}}
    tools: {allow: [fs.read, bash], ask: [bash]}
    reach: {network: none}
"""


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BubFramework]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guard.py").write_text(GUARD)
    (tmp_path / "pipelines.yaml").write_text(FILE)
    framework = BubFramework(tmp_path / "pipelines.yaml", workspace=tmp_path)
    framework.load_hooks()
    yield framework


# The picture


def test_the_picture_has_each_stage_of_the_graph_as_a_button_with_room_for_numbers(framework: BubFramework) -> None:
    drawn = draw_graph(framework.generation, "guests")
    picture = ElementTree.fromstring(drawn["svg"])
    groups = {group.get("id"): group for group in picture.iter(f"{_SVG}g")}
    assert [stage["id"] for stage in drawn["stages"]] == [step.id for step in framework.seen_by("guests").graph.steps]
    for stage in drawn["stages"]:
        group = groups[stage["element"]]
        assert (group.get("role"), group.get("tabindex"), group.get("data-stage")) == ("button", "0", stage["id"])
        assert stage["id"] in str(group.get("aria-label"))
        (numbers,) = (text for text in group.iter(f"{_SVG}text") if text.get("class") == "live")
        assert not numbers.text and float(numbers.get("x", "")) > 0
    assert "<style" not in drawn["svg"] and "style=" not in drawn["svg"]
    moderate = next(stage for stage in drawn["stages"] if stage["id"] == "moderate")
    assert moderate == {
        "id": "moderate",
        "element": "stage-moderate",
        "kind": "gate",
        "hook": "moderate",
        "enabled": True,
        "file": "pipelines.yaml",
        "line": 24,
    }
    assert drawn["bound"].startswith("at most ") and drawn["generation"] == 1
    assert "nobody" in str(groups["stage-welcome"].get("class")) and "off" in str(
        groups["stage-save_state"].get("class")
    )


def test_a_reload_is_a_picture_of_the_next_generation(framework: BubFramework, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(FILE.replace("welcome:", "hello:"))
    framework.reload()
    drawn = draw_graph(framework.generation, "default")
    assert drawn["generation"] == 2
    assert "stage-hello" in drawn["svg"] and "stage-welcome" not in drawn["svg"]


def test_a_profile_that_is_not_loaded_has_no_picture_and_the_error_says_what_was_meant(framework: BubFramework) -> None:
    with pytest.raises(NotThereError) as caught:
        draw_graph(framework.generation, "guest")
    assert "guests" in str(caught.value.help)


NAMES = st.text(st.characters(codec=None), min_size=1, max_size=20)


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), NAMES)
def test_any_names_give_well_formed_xml_with_one_safe_id_a_stage(names: list[str], other: str) -> None:
    boxes = tuple(Box(name, "gate", other, False, None, (other,), shown=other) for name in names)
    edges = tuple(Edge(start, end) for start, end in pairwise(names))
    drawing = Drawing(other, boxes, edges, other, (Point(other, "gate", names[0]), Point(other, other, None)))
    picture = ElementTree.fromstring(svg(drawing, live=True))
    ids = [str(element.get("id")) for element in picture.iter() if element.get("id") is not None]
    assert ids == [id_of_stage(name) for name in names] and len(set(ids)) == len(names)
    assert not any(set(each) - set("stage-:_.") - set(map(chr, range(48, 58))) - set(_letters()) for each in ids)
    assert sum(text.get("class") == "live" for text in picture.iter(f"{_SVG}text")) == len(names)
    allowed = {"svg", "g", "rect", "path", "circle", "polygon", "text", "title"}
    assert {element.tag.removeprefix(_SVG) for element in picture.iter()} <= allowed


def _letters() -> str:
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


# A stage


def test_a_stage_is_shown_as_explain_prints_it(framework: BubFramework, tmp_path: Path) -> None:
    printed = bub(tmp_path, "explain", "pipelines.yaml", "moderate").stdout
    shown = show_stage(framework.generation, "default", "moderate", framework.mask)
    assert shown["explain"].rstrip() == printed.rstrip()
    assert shown["implementers"] == [{"plugin": "guard", "hook": "moderate", "file": "guard.py", "line": 3}]


def test_a_stage_comes_with_the_lines_of_all_that_set_it_and_the_disk_is_not_read(
    framework: BubFramework, tmp_path: Path
) -> None:
    for file in ("pipelines.yaml", "guard.py"):
        (tmp_path / file).unlink()
    shown = show_stage(framework.generation, "guests", "moderate", framework.mask)
    first, last = shown["sources"]
    assert (first["file"], first["first"]) == ("pipelines.yaml", 9)
    assert first["lines"] == [
        "  moderate:",
        "    before: run_model",
        "    timeout: 5s",
        "    when: {channel: telegram}",
    ]
    assert shown["source"] == last and last["layer"] == "profile guests"
    assert last["lines"] == ["    stages: {moderate: {timeout: 3s}}"]
    keys = {key["name"]: key for key in shown["keys"]}
    assert (keys["timeout"]["value"], keys["timeout"]["line"]) == ("3s", 24)
    assert (keys["thread"]["is_default"], keys["thread"]["file"]) == (True, None)
    of_parent = show_stage(framework.generation, "default", "run_model", framework.mask)["sources"]
    assert of_parent[0]["file"] == "bub:default" and "run_model" in of_parent[0]["lines"][0]


def test_secrets_of_a_file_are_covered_in_the_lines_of_a_stage(
    write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-ant-api03-Ab3dEf6hIj9kLmNoPqRsTuVwXyZ0123456789"
    path = write(
        "pipelines.yaml",
        f"version: 1\nextends: bub:default\nsettings: {{api_key: {secret}}}\nstages:\n"
        f"  build_prompt: {{default: 'use {secret} at https://me:hunter22@x.org/'}}\n",
    )
    monkeypatch.chdir(path.parent)
    framework = BubFramework(path, workspace=path.parent)
    framework.load_hooks()
    shown = show_stage(framework.generation, "default", "build_prompt", framework.mask)
    assert secret not in str(shown) and "hunter22" not in str(shown)


def test_a_stage_that_is_not_there_is_an_error_for_people(framework: BubFramework) -> None:
    with pytest.raises(NotThereError) as caught:
        show_stage(framework.generation, "default", "moderat", framework.mask)
    assert "moderate" in str(caught.value.help)


# The way of a message


def way(framework: BubFramework, message: dict[str, Any], session: str = "known", **more: Any) -> dict[str, Any]:
    return find_way(framework.generation, message, session, framework.mask, **more)


def runs(found: dict[str, Any]) -> dict[str, str]:
    return {stage["id"]: stage["runs"] for stage in found["stages"]}


def why(found: dict[str, Any], stage: str) -> str:
    return str(next(each["why"] for each in found["stages"] if each["id"] == stage))


def test_the_first_route_that_matches_says_the_profile_and_a_named_one_goes_before(framework: BubFramework) -> None:
    message = {"channel": "telegram", "chat_id": "-100"}
    found = way(framework, message)
    assert (found["profile"], found["route"], found["session_id"]) == ("guests", 1, "telegram:-100")
    assert found["tools"]["asks"] == ["bash"] and found["tools"]["reach"]["network"] == "none"
    assert (way(framework, {"channel": "cli"})["profile"], way(framework, {"channel": "cli"})["route"]) == (
        "default",
        None,
    )
    named = way(framework, message, profile="default")
    assert (named["profile"], named["route"]) == ("default", None)


def test_a_condition_on_what_is_known_decides_and_one_on_what_a_stage_may_change_depends(
    framework: BubFramework,
) -> None:
    found = way(framework, {"channel": "telegram", "chat_id": "1"})
    assert runs(found)["moderate"] == "yes"
    assert (runs(found)["late"], runs(found)["late_too"]) == ("depends", "yes")
    assert "`rewrite` above may change the message" in why(found, "late")
    from_terminal = way(framework, {"channel": "cli"}, "new")
    assert (runs(from_terminal)["moderate"], runs(from_terminal)["late_too"]) == ("no", "no")
    assert why(from_terminal, "moderate") == "it wants channel: telegram, but it is cli"
    assert (runs(found)["save_state"], why(found, "save_state")) == ("no", "it is switched off")


def test_gates_are_named_with_who_implements_them(framework: BubFramework) -> None:
    found = way(framework, {"channel": "cli"}, "new")
    asked = {(gate["stage"], gate["point"]): (gate["asked"], gate["implementers"]) for gate in found["gates"]}
    assert asked == {
        ("moderate", "moderate"): ("no", ["guard"]),
        ("late", "moderate"): ("depends", ["guard"]),
        ("late_too", "moderate"): ("no", ["guard"]),
        ("run_model", "tool_gate"): ("depends", ["guard"]),
    }
    assert "`late` may end the turn" in found["note"]


def test_a_handler_that_came_at_run_time_counts_as_an_implementation(framework: BubFramework) -> None:
    message = {"channel": "cli"}
    assert runs(way(framework, message, "new"))["welcome"] == "no"
    assert runs(way(framework, message, "new", registered={"message_received"}))["welcome"] == "yes"


def test_a_session_of_another_word_is_refused(framework: BubFramework) -> None:
    with pytest.raises(UsageError):
        way(framework, {}, "old")


@pytest.mark.parametrize("channel", ["cli", "telegram"])
@pytest.mark.parametrize("content", ["hello", "rude"])
@pytest.mark.anyio
async def test_a_turn_goes_the_way_that_was_said(
    framework: BubFramework, channel: str, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = {"channel": channel, "chat_id": "1", "content": content}
    said = way(framework, message, "new")
    monkeypatch.setenv("BUB_MODEL", "fake:none")  # it fails there, and the stages up to that one have run
    async with framework.running():
        with suppress(BubError):
            await framework.process_inbound(message)
    ran = {record.stage: record.outcome for record in framework.last_trace}
    for stage, expected in runs(said).items():
        if stage in ran and expected != "depends" and "no plugin" not in why(said, stage):
            assert (ran[stage] not in ("skipped", "off")) == (expected == "yes"), (stage, ran[stage], expected)
    assert {"resolve_session", "moderate"} <= ran.keys()
    assert ("run_model" in ran) == (not (channel == "telegram" and content == "rude"))
