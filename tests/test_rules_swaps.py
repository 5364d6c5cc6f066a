"""Swapped stages: each mistake is found once and at the person's own key, and each right swap is quiet."""

from __future__ import annotations

import pytest
from fakes.mistakes import Mistake, assert_is_found, check, marked, said

from bub.base.diagnostics import Diagnostic

POINTS = "hooks: {answer: {kind: firstresult, takes: [prompt]}, look: {kind: void}}\n"
OWN = f"extends: bub:default\n{POINTS}"
GATED = (
    "extends: bub:default\nhooks: {moderate: {kind: gate}, strict: {kind: gate}, look: {kind: void}}\n"
    "stages:\n  moderate: {before: run_model}\n"
)
"""A gate of the file's own, which its profile replaces."""

MISTAKES = [
    # B120, B121: what is not there, and what replaces itself
    Mistake(
        "B120",
        f"{OWN}stages: {{answer: {{replace: «run_modle»}}}}",
        "stage `answer` replaces `run_modle`, which does not exist",
        "did you mean `run_model`?",
        ("run_modle", "run_model"),
    ),
    Mistake(
        "B121",
        f"{OWN}stages: {{look: {{replace: «look»}}}}",
        "stage `look` is placed beside itself: look → look",
        "set one of them beside another stage",
        ("replace: look", "after: load_state"),
    ),
    Mistake(
        "B121",
        f"{OWN}stages: {{look: {{after: save_state, timeout: 5s}}}}\n"
        "profiles:\n  p: {stages: {look: {replace: save_state}}}\n"
        "  q: {extends: p, stages: {save_state: {«replace»: look}}}",
        "stage `save_state` replaces itself: save_state → look → save_state",
        "take one `replace` out",
        ("replace: look", "enabled: false"),
    ),
    # B121: a clean-up follows its successor
    Mistake(
        "B121",
        f"{OWN}stages: {{answer: {{replace: run_model, «after»: save_state}}}}",
        "stage `save_state` cleans up for `run_model`, but `answer` runs instead of `run_model`,"
        " and it is below `save_state`",
        "move `answer` above `save_state`",
        (", after: save_state", ""),
        related="stage `save_state` cleans up for `run_model` here",
    ),
    Mistake(
        "B121",
        f"{OWN}stages: {{answer: {{replace: run_model}}, look: {{needs: [«run_model»], before: answer}}}}",
        "stage `look` needs `run_model`, but `answer` runs instead of `run_model`, and it is below `look`",
        "move `look` below `answer`",
        ("before: answer", "after: answer"),
        related="the place of `look` is set here",
    ),
    # B122: a stage that is new
    Mistake(
        "B122",
        f"{OWN}stages: {{«look»: {{}}}}",
        "stage `look` is new here, but does not say where it belongs",
        "add `before: STAGE` or `after: STAGE`, or `replace: STAGE` to run it instead of that stage",
        ("look: {}}", "look: {before: save_state}}"),
    ),
    # B131: told of the stage that a person can change, wherever it stands
    Mistake(
        "B131",
        f"{OWN}stages: {{answer: {{into: «model_output», before: run_model}}}}",
        "stage `answer` makes `model_output`, which stage `run_model` makes already",
        "add `replace: run_model` to run this stage instead of `run_model`; otherwise give the value another name,"
        " or take the value and make a new version of it",
        ("before: run_model", "before: run_model, replace: run_model"),
        related="stage `run_model` makes `model_output` here",
    ),
    Mistake(
        "B131",
        f"{OWN}stages: {{answer: {{replace: run_model}}, run_model_stream: {{kind: stream, replace: «run_model»}}}}",
        "stage `run_model_stream` makes `model_output`, which stage `answer` makes already",
        "give the value another name, or take the value and make a new version of it",
        ("answer: {replace: run_model}", "answer: {replace: run_model, into: draft}"),
        related="stage `answer` makes `model_output` here",
    ),
    # B132: nobody makes the value of what is replaced
    Mistake(
        "B132",
        f"{OWN}stages: {{look: {{«replace»: run_model}}}}",
        "`run_model` is replaced by `look`, which does not make its value, but `save_state` takes `model_output`",
        "let a stage in its place make it with `into: model_output`, or give `run_model` a `default`",
        ("look: {replace: run_model}", 'look: {replace: run_model}, run_model: {default: ""}'),
        related="`save_state` takes it here",
    ),
    Mistake(
        "B132",
        f"{OWN}stages: {{answer: {{replace: run_model, «when»: {{channel: telegram}}}}}}",
        "`answer` may be skipped by its `when`, but `save_state` takes `model_output`",
        "give it a `default`, the value for this case",
        ("{channel: telegram}", '{channel: telegram}, default: ""'),
        related="`save_state` takes it here",
    ),
    # B140: what left the gate without anything to guard
    Mistake(
        "B140",
        "hooks: {moderate: {kind: gate}}\nstages: {moderate: {}, load_state: {kind: firstresult, into: state}}\n"
        "profiles: {p: {stages: {load_state: {«before»: moderate}}}}",
        "stage `moderate` is a gate, but there is no stage after it that it can stop",
        "take `before` out; or move the gate, too",
        ("before: moderate", "after: moderate"),
    ),
    # B173: what a test says of a stage that is replaced
    Mistake(
        "B173",
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
        "tests: {greets: {message: {}, mock: {«run_model»: {return: hi}}, expect: {skipped: [run_model]}}}",
        "test `greets` mocks stage `run_model`, which is replaced by `answer` in profile `default`",
        "name `answer` instead",
        ("mock: {run_model", "mock: {answer"),
        related="it is replaced here",
        severity="warning",
    ),
    Mistake(
        "B173",
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
        "tests: {greets: {message: {}, expect: {ran: [«run_model»]}}}",
        "test `greets` expects stage `run_model` to run, but it is replaced by `answer` in profile `default`",
        "name `answer` instead",
        ("ran: [run_model]", "ran: [answer]"),
        related="it is replaced here",
        severity="warning",
    ),
    # B180: replaced in two layers
    Mistake(
        "B180",
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
        "profiles: {p: {stages: {run_model_stream: {kind: stream, replace: «run_model»}}}}",
        "stage `run_model_stream` replaces `run_model`, but `answer` replaces `run_model` already",
        "replace `answer`",
        ("replace: run_model}}}}", "replace: answer}}}}"),
        related="`run_model` is replaced here",
    ),
    # B181: a gate whose place is taken by no gate
    Mistake(
        "B181",
        f"{GATED}profiles: {{p: {{stages: {{look: {{«replace»: moderate}}}}}}}}",
        "stage `look` replaces the gate `moderate`, but is not a gate, so nothing is denied there any more",
        "make it a gate; if you want no gate there, switch the gate off with `enabled: false` and write `after:"
        " moderate` instead",
        ("look: {replace: moderate}", "moderate: {enabled: false}, look: {after: moderate}"),
        related="the gate",
        severity="warning",
    ),
    # B182: keys of what is replaced
    Mistake(
        "B182",
        f"{OWN}stages: {{answer: {{replace: run_model}}, run_model: {{«timeout»: 5m}}}}",
        "`timeout` of stage `run_model` changes nothing, since `answer` runs in its place",
        "move it to `answer`",
        ("run_model}, run_model: {timeout: 5m}", "run_model, timeout: 5m}"),
        related="it is replaced here",
        severity="warning",
    ),
    Mistake(
        "B182",
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
        "profiles: {p: {stages: {run_model: {«enabled»: true}}}}",
        "`enabled` of stage `run_model` changes nothing, since `answer` runs in its place",
        "switch `answer` off to run `run_model` again, or take `enabled` out",
        ("run_model: {enabled: true}", "answer: {enabled: false}"),
        related="it is replaced here",
        severity="warning",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.code} {mistake.message}")
def test_a_mistake_is_one_finding_at_its_place_and_its_mended_twin_is_none(mistake: Mistake) -> None:
    assert_is_found(mistake)


RIGHT = {
    "a stage that is off beside one that makes its value": (
        f"{OWN}stages: {{run_model: {{enabled: false}}, answer: {{before: save_state, into: model_output}}}}"
    ),
    "the same in a profile": (
        f"{OWN}profiles:\n  p:\n"
        "    stages: {run_model: {enabled: false}, answer: {after: run_model, into: model_output}}"
    ),
    "a stage that is off, of two that make versions of a value": (
        "extends: bub:default\nhooks: {polish: {kind: firstresult, takes: [model_output]}}\n"
        "stages: {polish: {after: run_model, into: model_output, enabled: false}}"
    ),
    "another kind": f"{OWN}stages: {{answer: {{replace: run_model}}}}",
    "several stages for one": f"{OWN}stages: {{look: {{replace: run_model}}, answer: {{replace: run_model}}}}",
    "a profile that replaces what the file put there": (
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
        "profiles: {p: {stages: {run_model_stream: {kind: stream, replace: answer}}}}"
    ),
    "two profiles that replace the same": (
        f"{OWN}profiles: {{p: {{stages: {{answer: {{replace: run_model}}}}}},"
        " q: {stages: {run_model_stream: {kind: stream, replace: run_model}}}}"
    ),
    "a replacement that a profile switches off": (
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\nprofiles: {{p: {{stages: {{answer: {{enabled: false}}}}}}}}"
    ),
    "what is set beside a stage that the file replaced": (
        f"{OWN}stages: {{answer: {{replace: run_model}}}}\n"
        "profiles: {p: {stages: {agent_done: {kind: void, after: run_model}}}}"
    ),
    "a clean-up in the place of another": (
        "extends: bub:default\nhooks: {keep: {kind: observer}}\nstages: {keep: {replace: save_state, timeout: 5s}}"
    ),
    "a gate in the place of a gate": f"{GATED}profiles: {{p: {{stages: {{strict: {{replace: moderate}}}}}}}}",
    "a gate in the place of a gate, and what looks on": (
        f"{GATED}profiles: {{p: {{stages: {{look: {{replace: moderate}}, strict: {{replace: moderate}}}}}}}}"
    ),
    "what is said of a stage and handed on": (
        f"{OWN}stages: {{answer: {{replace: run_model}}, run_model: {{needs: [build_prompt], before: save_state}}}}"
    ),
    "a mock of the hook that the replacing stage calls": (
        "extends: bub:default\nstages: {answer: {kind: firstresult, hook: run_model, replace: run_model}}\n"
        "tests: {greets: {message: {}, mock: {run_model: {return: hi}}, expect: {model_output: hi}}}"
    ),
    "both ways at once": f"{OWN}stages: {{run_model: {{enabled: false}}, answer: {{replace: run_model}}}}",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_a_swap_that_is_right_is_quiet(text: str) -> None:
    assert said(check(f"version: 1\n{text}")) == []


MOVED = {
    "a value made too late": (
        "stages: {resolve_session: {«after»: run_model}}",
        "stage `resolve_session` makes `session_id` below `load_state`, `build_prompt`, `run_model`, which take it",
    ),
    "the same in a profile": (
        "profiles: {default: {stages: {resolve_session: {«after»: run_model}}}}",
        "stage `resolve_session` makes `session_id` below `load_state`, `build_prompt`, `run_model`, which take it",
    ),
    "a stage moved above what it takes": (
        "stages: {run_model: {«before»: load_state}}",
        "stage `run_model` takes `prompt`, `state`, which are made below it",
    ),
    "a target moved below its clean-up": (
        "stages: {run_model: {«after»: save_state, default: hello}, render_outbound: {after: run_model}}",
        "stage `save_state` cleans up for `run_model`, which is below it",
    ),
}
"""What moves an inherited stage, and the one finding about the order that it leads to."""


@pytest.mark.parametrize(("text", "message"), MOVED.values(), ids=MOVED)
def test_a_finding_about_an_order_is_at_the_persons_key_that_moved_it(text: str, message: str) -> None:
    finding, place = found_in(f"extends: bub:default\n{text}")
    assert (finding.message, finding.file, finding.range) == (message, "pipelines.yaml", place)


def test_a_finding_about_an_order_names_the_profile_that_moved_it() -> None:
    finding, _ = found_in("extends: bub:default\nprofiles: {ci: {stages: {resolve_session: {«after»: run_model}}}}")
    assert finding.profile == "ci"


def test_a_key_that_is_taken_over_is_found_wrong_at_the_replacing_stage() -> None:
    finding, place = found_in(
        f"{OWN}stages: {{look: {{replace: «dispatch_outbound», enabled: true, cleanup_for: run_model, timeout: 5s}}}}"
    )
    assert (finding.code, finding.file, finding.range) == ("B126", "pipelines.yaml", place)


def found_in(text: str) -> tuple[Diagnostic, object]:
    """The one finding of a text, and the place that is marked in it."""
    plain, (place,) = marked(f"version: 1\n{text}")
    (finding,) = check(plain)
    return finding, place
