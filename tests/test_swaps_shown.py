"""A swapped stage shows: in `bub explain`, `bub graph` and `bub diff`, and in what CI is told of a wrong one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bub.pipeline.check.validate import check_loaded
from bub.pipeline.plan.origins import lookup_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.report.annotations import render_annotations
from bub.pipeline.report.sarif import render_sarif
from bub.pipeline.show.compare import compare
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.explain import explain
from bub.pipeline.show.facts import StageFacts
from bub.pipeline.source.merge import load_text

SWAPPED = """version: 1
extends: bub:default
hooks: {answer: {kind: firstresult}}
stages:
  answer: {replace: run_model}
"""


# bub explain, bub graph


def told_of(stage: str) -> StageFacts:
    facts = explain(lookup_of(make_plan(load_text(SWAPPED), "default"), {}), stage, None)
    assert isinstance(facts, StageFacts)
    return facts


def test_explain_says_what_runs_in_the_place_of_what() -> None:
    assert told_of("run_model").marks[:2] == ("off", "replaced by answer")
    assert told_of("answer").marks == ("replaces run_model",)
    assert "cleans up after answer" in told_of("save_state").marks


def test_explain_says_where_a_key_was_taken_over_from() -> None:
    into = next(key for key in told_of("answer").keys if key.name == "into")
    assert [origin.path for origin in into.origins] == ["stages.run_model.into"]


def test_explain_as_json_says_that_a_replaced_stage_is_off_and_why() -> None:
    stage = told_of("run_model").as_dict()
    assert (stage["enabled"], stage["replaced_by"], stage["cleaned_up_by"]) == (False, ["answer"], [])
    assert told_of("answer").as_dict()["cleaned_up_by"] == ["save_state"]


def test_graph_draws_the_clean_up_of_what_stands_in_for_its_target() -> None:
    drawing = drawing_of(make_plan(load_text(SWAPPED), "default"))
    assert [(edge.start, edge.end) for edge in drawing.edges if edge.cleanup] == [("answer", "save_state")]
    assert [box.marks[0] for box in drawing.boxes if box.id in ("run_model", "answer")] == [
        "replaced by answer",
        "replaces run_model",
    ]


# bub diff

GATED = """version: 1
extends: bub:default
hooks: {moderate: {kind: gate}, strict: {kind: gate}, look: {kind: void}, answer: {kind: firstresult}}
stages:
  moderate: {before: run_model}
"""


def changes(old: str, more: str) -> list[tuple[str, str]]:
    found = compare(load_text(old), load_text(f"{old}{more}")).changes
    return [(change.severity, change.message) for change in found]


GATES = {
    "by what is no gate": (
        "  look: {replace: moderate}\n",
        "gate `moderate` is replaced by `look`, which denies nothing:"
        " it ran before `run_model`, `render_outbound`, `dispatch_outbound`",
    ),
    "by another gate": (
        "  strict: {replace: moderate}\n",
        "gate `moderate` is replaced by `strict`, which may deny less",
    ),
    "by the same gate for fewer messages": (
        "  strict: {replace: moderate, hook: moderate, when: {channel: cli}}\n",
        "gate `moderate` is replaced by `strict`, which may deny less",
    ),
    "of which the guarded is replaced in front of it": (
        "  answer: {replace: run_model, before: load_state}\n",
        "gate `moderate` does not run before `answer`, which runs in the place of `run_model`",
    ),
    "of which the guarded is off, and another makes its value in front of it": (
        "  run_model: {enabled: false}\n  answer: {before: moderate, into: model_output}\n",
        "gate `moderate` does not run before `answer`, which runs in the place of `run_model`",
    ),
}


@pytest.mark.parametrize(("more", "message"), GATES.values(), ids=GATES)
def test_a_gate_is_replaced_or_passed_by_a_swap_is_dangerous(more: str, message: str) -> None:
    assert [told for severity, told in changes(GATED, more) if severity == "danger"] == [message]


QUIET = {
    "a gate that asks the same": "  strict: {replace: moderate, hook: moderate}\n",
    "a gate that asks the same, and another": (
        "  look: {replace: moderate}\n  strict: {replace: moderate, hook: moderate}\n"
    ),
    "a stage behind the gate": "  answer: {replace: run_model}\n",
    "a stage with no gate about": "  look: {replace: load_state}\n",
}


@pytest.mark.parametrize("more", QUIET.values(), ids=QUIET)
def test_another_swap_is_no_danger(more: str) -> None:
    told = changes(GATED, more)
    assert any("is replaced by" in message for _, message in told)
    assert [message for severity, message in told if severity == "danger"] == []


def test_a_swap_that_is_taken_back_is_told() -> None:
    old = load_text(f"{GATED}  answer: {{replace: run_model}}\n")
    found = [change.message for change in compare(old, load_text(GATED)).changes]
    assert found == ["stage `run_model` is switched on", "stage `answer` (firstresult) is gone"]


# Findings about an order, in CI


WRONG = "version: 1\nextends: bub:default\nprofiles:\n  ci:\n    stages: {resolve_session: {after: run_model}}\n"


def test_ci_is_shown_the_persons_file_and_the_key_that_moved_a_stage(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    found = check_loaded(load_text(WRONG, file="flows/pipelines.yaml"))
    (line,) = render_annotations(found.diagnostics, tmp_path).splitlines()
    assert line.startswith("::error file=flows/pipelines.yaml,line=5,col=32,endLine=5,endColumn=37,title=bub B130::")
    assert "(profile `ci`)" in line
    (result,) = json.loads(render_sarif(found.diagnostics, found.sources, tmp_path))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("flows/pipelines.yaml", 5)
    assert result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bub:default"
