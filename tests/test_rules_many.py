"""Findings about a file's own tests, and about files with many mistakes."""

from __future__ import annotations

import pytest
from fakes.mistakes import OWN_GATE, VERSION, check, marked, said

from bub.base.diagnostics import (
    START,
)
from bub.pipeline.plan.plan import MOST_STAGES

pytestmark = pytest.mark.anyio


# The file's tests.


FOR_CI = """version: 1
extends: bub:default
profiles: {ci: {stages: {agent_done: {kind: void, after: run_model}}}}
routes: [{match: {channel: "c*"}, profile: ci}]
tests:
"""


@pytest.mark.parametrize(
    "test",
    [
        "{profile: ci, message: {}, mock: {agent_done: {return: 1}}, expect: {ran: [agent_done]}}",
        "{message: {channel: cli}, mock: {agent_done: {return: 1}}, expect: {ran: [agent_done]}}",
        "{message: {channel: telegram}, mock: {run_model: {return: 1}}, expect: {ran: [run_model]}}",
        "{message: {}, mock: {on_error: {return: null}, run_model_stream: {return: a}}, expect: {took: 1s}}",
        '{profile: "${env:PROFILE:-ci}", message: {}, expect: {ran: [agent_done]}}',
        "{message: {}, mock: {run_model: {raise: no luck today}}, expect: {error: {type: HouseError}}}",
    ],
)
def test_a_test_is_checked_for_the_profile_that_it_runs_in(test: str) -> None:
    assert said(check(f"{FOR_CI}  it works: {test}")) == []


@pytest.mark.parametrize("test", ["{profile: default, message: {channel: cli}", "{message: {channel: telegram}"])
def test_a_stage_of_another_profile_is_unknown_to_a_test(test: str) -> None:
    found = check(f"{FOR_CI}  it works: {test}, mock: {{agent_done: {{return: 1}}}}, expect: {{ran: [agent_done]}}}}")
    assert [finding.code for finding in found] == ["B171", "B172"]
    assert {finding.profile for finding in found} == {"default"}


def test_a_route_that_asks_the_environment_leaves_open_which_profile_a_test_is_for() -> None:
    text = FOR_CI.replace('"c*"', '"${env:CHANNEL:-c}"')
    assert said(check(text + "  it works: {message: {}, expect: {ran: [agent_done]}}")) == []


@pytest.mark.parametrize("text", ["version: 1", "version: 1\nsettings: {model: 'openai:x'}\nprofiles: {default: {}}"])
def test_a_file_that_forgot_what_it_extends_is_not_fine(text: str) -> None:
    (finding,) = check(text)
    assert (finding.code, finding.range) == ("B127", START)
    assert finding.help == "add `extends: bub:default`, or stages of your own"
    assert check(f"{text}\nextends: bub:default") == () == check(f"{text}\nstages: {{}}")


def test_related_places_point_at_what_they_say() -> None:
    text, (first, second) = marked(
        VERSION + "extends: bub:default\nhooks: {a: {kind: firstresult}, b: {kind: firstresult}}\n"
        "stages:\n  a: {«into»: thing, after: load_state}\n  b: {into: «thing», after: a}"
    )
    (finding,) = check(text)
    assert (finding.code, finding.range) == ("B131", second)
    assert [related.range for related in finding.related] == [first]


def test_a_finding_about_an_inherited_stage_points_at_the_users_key_and_the_parents_place() -> None:
    (finding,) = check(VERSION + "extends: bub:default\nstages: {run_model: {kind: firstresult}}")
    assert finding.file == "pipelines.yaml"
    (related,) = finding.related
    assert related.file == "bub:default"
    assert (related.range.start.line, related.range.end.column - related.range.start.column) == (8, len("stream"))


def test_a_circle_is_printed_as_a_whole_path() -> None:
    names = ["a", "b", "c", "d"]
    hooks = ", ".join(f"{name}: {{kind: void}}" for name in names)
    text = (
        f"hooks: {{{hooks}}}\nstages:\n  a: {{needs: [d]}}\n  b: {{needs: [a]}}\n  c: {{needs: [b]}}\n"
        f"  d: {{needs: [c]}}"
    )
    assert [finding.message for finding in check(VERSION + text)] == ["stage `a` waits for itself: a → d → c → b → a"]


def test_a_long_pipeline_is_bounded_and_reported_once() -> None:
    lines = "".join(f"  s{number}: {{hook: message_received, kind: void}}\n" for number in range(MOST_STAGES + 5))
    (finding,) = check(f"{VERSION}stages:\n{lines}")
    assert (finding.code, finding.range.start.line) == ("B125", MOST_STAGES + 3)
    assert finding.message == f"a pipeline has {MOST_STAGES} stages at most, this one {MOST_STAGES + 5}"


# Many mistakes.


def test_mistakes_of_every_kind_are_told_together_and_each_once() -> None:
    text, places = marked(
        VERSION
        + """extends: bub:default
hooks:
  moderate: {kind: gate, takes: [«promt»]}
  «ticked»: {takes: [what]}
stages:
  moderate: {after: build_prompt}
  run_model: {«combine»: merge, timeout: «5»}
  save_state: {needs: [«build_promt»]}
  «watch»: {kind: observer}
  dispatch_outbound: {for_each: «outbond», on_failure: «deny»}
routes:
  - {match: {channel: a}, profile: «ghost»}
profiles:
  default: {plugins: [«nobody_has_this»]}
  one: {extends: two}
  two: {extends: «one»}
"""
    )
    found = check(text)
    assert [finding.code for finding in found if finding.severity == "error"] == [
        "B130",
        "B110",
        "B113",
        "B104",
        "B120",
        "B122",
        "B150",
        "B130",
        "B114",
        "B162",
        "B160",
        "B163",
    ]
    pointed = {finding.range for finding in found if finding.severity == "error"}
    assert set(places) <= pointed


def test_a_mistake_in_the_shared_part_is_told_once_for_all_profiles() -> None:
    text = "extends: bub:default\nstages: {save_state: {needs: [nowhere]}}\nprofiles: {a: {}, b: {}, c: {extends: a}}"
    assert [finding.code for finding in check(VERSION + text)] == ["B120"]


def test_a_mistake_in_the_hooks_of_a_profile_is_told_though_no_profile_has_a_stage() -> None:
    text = "stages: {}\nprofiles: {default: {}, work: {hooks: {tool_gat: {kind: gate}}}}"
    assert [(one.code, one.path) for one in check(VERSION + text)] == [("B177", "hooks.tool_gat")]


def test_two_circles_are_two_findings() -> None:
    hooks = ", ".join(f"{name}: {{kind: void}}" for name in "abcd")
    stages = "  a: {before: b}\n  b: {before: a}\n  c: {after: d}\n  d: {after: c}\n"
    found = check(f"{VERSION}extends: bub:default\nhooks: {{{hooks}}}\nstages:\n{stages}")
    assert [(finding.code, finding.range.start.line) for finding in found] == [("B121", 5), ("B121", 7)]


ONE_CAUSE = [
    # the mistake between « and », which other rules would stumble over too
    "extends: bub:default\nhooks: {ask: {kind: «gates», takes: [prompt]}}\nstages: {ask: {before: run_model}}",
    "extends: bub:default\nhooks: {ask: {takes: [prompt]}}\nstages: {ask: {kind: «gat», before: run_model}}",
    "extends: bub:default\nhooks: {«ask»: {takes: [prompt]}}\n"
    "stages: {ask: {before: run_model}, again: {hook: ask, before: run_model}}",
    "extends: bub:default\nstages: {«Run_Model»: {timeout: 5s}}",
    "extends: bub:default\nstages: {run_model: {into: «Model_Output»}}",
    "extends: bub:default\nprofiles: {work: {}}\nroutes: [{match: {}, «profle»: work}]",
    "extends: bub:default\nprofiles: {work: {}}\nroutes: [«{match: {}}»]",
    "extends: bub:default\nplugins: {local_model: {optional: false}}\n"
    "profiles: {default: {plugins: [local_model, «local_model»]}}",
    "extends: bub:default\nstages: {run_model: {«<<»: *slow}}",
    "extends: bub:default\nstages:\n  «run_model»:\n  timeout: 5s\n  thread: true",
    "extends: bub:default\nprofiles:\n  «default»:\n  plugins: []\n  description: quiet",
    "extends: bub:default\nstages: {run_model: «5»}",
    "extends: bub:default\nstages: {render_outbound: «[]»}",
    "extends: bub:default\nstages: {render_outbound: {into: «5»}}",
    "extends: bub:default\nstages: {run_model: {kind: «strem»}}",
    "extends: bub:default\nstages: {moderate: {hook: «7», kind: gate, before: run_model}}",
    f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: «nowhere»}}}}",
    f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{needs: «build_prompt», before: run_model}}}}",
    f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: run_model}}, build_prompt: {{into: «promt»}}}}",
    "extends: bub:default\nstages: {build_prompt: {after: «nowhere»}}",
    "extends: bub:default\nstages: {run_model: {kind: «gate»}}",
    "hooks: {a: {kind: observer, takes: [«gone»]}}\nstages: {one: {hook: a}, two: {hook: a}}",
    "hooks: {a: {kind: firstresult}, b: {kind: void, takes: [x]}}\nstages:\n  b: {needs: [«a»]}\n  a: {into: x}",
    "extends: bub:default\nstages: {save_state: {cleanup_for: «run_model», before: run_model}}",
    "«extends»:\nstages: {moderate: {before: run_model}}",
    "extends: «bub:defalt»\nstages: {moderate: {before: run_model}}",
    "extends: «team.yaml»\nprofiles: {default: {plugins: []}}\nstages: {run_model: {timeout: 5s}}",
    "extends: bub:default\nstages: {save_state: {needs: [«Run Model»]}}",
    "extends: bub:default\nhooks: {tint: {kind: modifying, takes: [«Prompt Text»]}}\n"
    "stages: {tint: {after: build_prompt, changes: [prompt]}}",
    "extends: bub:default\nstages: {dispatch_outbound: {for_each: «Out Bounds»}}",
    "extends: bub:default\nstages: {save_state: {cleanup_for: «Run-Model»}}",
    "extends: bub:default\nstages: {save_state: {after: «Run-Model»}}",
    "extends: bub:default\nstages: {seen: {hook: «Message-Received», kind: void, after: run_model}}",
    "extends: bub:default\nprofiles: {a: {extends: b}, b: {extends: c}, c: {extends: «a»}}",
    "extends: bub:default\nprofiles: {a: {extends: «gone», stages: {run_model: {timeout: 5s}}}}",
    "extends: bub:default\nstages: {run_model: {enabled: «off»}}",
    "extends: bub:default\ntests: {t: {profile: «reviwer», message: {}, mock: {a: {return: 1}}, expect: {ran: [b]}}}",
    "extends: bub:default\nplugins: {p: {path: «p.py»}}\nprofiles: {default: {plugins: [p]}, a: {plugins: [p]}}",
    "extends: bub:default\ntests: {t: {message: {}, mock: «run_model», expect: {prompt: a}}}",
    "extends: bub:default\ntests: {t: {message: {}, expect: {ran: «run_modell»}}}",
]


@pytest.mark.parametrize("text", ONE_CAUSE)
def test_one_cause_is_one_finding(text: str) -> None:
    plain, (place,) = marked(VERSION + text)
    found = check(plain)
    assert [finding.range for finding in found] == [place], said(found)
