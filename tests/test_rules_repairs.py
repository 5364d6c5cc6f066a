"""What findings suggest: sure repairs, guesses, and what only a rule knows."""

from __future__ import annotations

import pytest
from fakes.checking import check_file
from fakes.mistakes import OWN_GATE, VERSION, Write, check, marked, repaired, said

from bub.base.diagnostics import (
    sure_repair,
)

pytestmark = pytest.mark.anyio


REPAIRED = {
    "a stage in `needs`": ("stages: {save_state: {needs: [«run-model»]}}", "run_model"),
    "a stage in `cleanup_for`": ("stages: {save_state: {cleanup_for: «run_modle»}}", "run_model"),
    "a stage in `before`": (f"{OWN_GATE}stages: {{moderate: {{before: «run_modl»}}}}", "run_model"),
    "a hook": ("stages: {seen: {hook: «mesage_received», kind: void, after: load_state}}", "message_received"),
    "a value in `for_each`": ("stages: {dispatch_outbound: {for_each: «outbunds»}}", "outbounds"),
    "a value in `into`": ("stages: {build_prompt: {into: «promt»}}", "prompt"),
    "a plugin in `only`": ("stages: {run_model: {only: [«local_modell»]}}", "local_model"),
    "a profile that is extended": ("profiles: {ci: {extends: «defalt»}}", "default"),
    "a profile of a route": ("routes: [{match: {channel: cli}, profile: «Default»}]", "default"),
    "a profile of a test": ("tests: {t: {profile: «defualt», message: {}, expect: {prompt: a}}}", "default"),
    "a mock": ("tests: {t: {message: {}, mock: {«load-state»: {return: {}}}, expect: {prompt: a}}}", "load_state"),
    "a stage that is expected": ("tests: {t: {message: {}, expect: {ran: [«save_stat»]}}}", "save_state"),
}
"""References with one sure repair: the text, and what would be written in the place between « and »."""


@pytest.mark.parametrize(("text", "fix"), REPAIRED.values(), ids=REPAIRED)
def test_a_reference_with_one_sure_repair_says_it(text: str, fix: str) -> None:
    plain, (place,) = marked(f"{VERSION}extends: bub:default\n{text}")
    (finding,) = check(plain)
    assert (finding.range, finding.fix) == (place, fix)
    assert finding.help == f"did you mean `{fix}`?"
    assert said(check(repaired(plain, finding))) == []


def test_a_plugin_that_the_file_declares_is_repaired_in_a_list_and_an_installed_one_is_not(write: Write) -> None:
    write("house_rules.py", "")
    declared = f"{VERSION}extends: bub:default\nplugins: {{house_rules: {{path: house_rules.py}}}}\n"
    path = write("pipelines.yaml", declared + "profiles: {default: {plugins: [house_rule, local_modell]}}\n")
    found = check_file(path).diagnostics
    assert [(finding.code, finding.help, finding.fix) for finding in found] == [
        ("B160", "did you mean `house_rules`?", "house_rules"),
        ("B160", "did you mean `local_model`?", None),  # what is installed would be imported: a person decides
    ]


@pytest.mark.parametrize(
    "text",
    [
        "stages: {save_state: {cleanup_for: model}}",  # meant, perhaps, but far off
        "stages: {load_sate: {kind: broadcast, after: load_state}}",  # a name of one's own, to which others refer
        "tests: {t: {message: {}, expect: {error: {type: TooSlowEror}}}}",  # may be a plugin's own
    ],
)
def test_what_is_only_a_guess_is_not_repaired(text: str) -> None:
    (finding,) = check(f"{VERSION}extends: bub:default\n{text}")
    assert finding.help is not None and finding.help.startswith("did you mean")
    assert finding.fix is None


SLIPS = [
    ("sesion", "session"),
    ("sessiion", "session"),
    ("sessoin", "session"),
    ("sassion", "session"),
    ("Session", "session"),
    ("run-model", "run_model"),
    ("RunModel", "run_model"),
    ("CI", "ci"),
    ("session", None),  # is known
    ("sezzion", None),  # two edits
    ("c1", None),  # too short for a guess
    ("cii", None),
    ("stage_2", None),  # another number is another thing
    ("team_a", None),  # near two
    ("s" * 100_000, None),
]


@pytest.mark.parametrize(("name", "meant"), SLIPS, ids=[name[:12] for name, _ in SLIPS])
def test_a_repair_is_sure_only_for_a_slip_of_one_name(name: str, meant: str | None) -> None:
    known = {"session", "run_model", "ci", "stage_1", "team_b", "team_c"}
    assert sure_repair(name, known) == meant


def test_a_name_that_two_known_ones_come_near_is_not_repaired() -> None:
    assert sure_repair("save_stat", ["save_state"]) == "save_state"
    assert sure_repair("save_stat", ["save_state", "save_stats"]) is None
    assert sure_repair("save_stat", ["save_state", "safe_stats"]) is None  # two edits away
    assert sure_repair("runmodel", ["run_model", "run-model"]) is None


ONLY_A_RULE_KNOWS = {
    "a value that nobody produces": ("B130", "error", "stages: {dispatch_outbound: {for_each: «parts»}}"),
    "a value that is produced below": ("B130", "error", "stages: {run_model: {«before»: build_prompt}}"),
    "a value that two stages produce": (
        "B131",
        "error",
        "hooks: {other: {kind: firstresult}}\nstages: {other: {into: «prompt», after: build_prompt}}",
    ),
    "a kind that the point does not permit": (
        "B111",
        "error",
        "stages: {agent_done: {kind: «gate», after: run_model}}",
    ),
    "a gate with nothing behind it": (
        "B140",
        "error",
        "hooks: {late: {kind: gate}}\nstages: {«late»: {after: dispatch_outbound}}",
    ),
    "`skip` on a gate": (
        "B114",
        "error",
        f"{OWN_GATE}stages: {{moderate: {{before: run_model, on_failure: «skip»}}}}",
    ),
    "a stage that is off, whose value is taken": ("B132", "error", "stages: {run_model: {«enabled»: false}}"),
    "a stage that may be skipped, whose value is taken": (
        "B132",
        "error",
        "stages: {run_model: {«when»: {channel: cli}}}",
    ),
    "a new stage without a place": ("B122", "error", "stages: {«agent_done»: {kind: void}}"),
    "a `when` on a field that no message has": (
        "B100",
        "error",
        "stages: {load_state: {when: {«chanel»: cli}}}",
    ),
    "a `cleanup_for` without a time-out": (
        "B124",
        "error",
        "stages: {«agent_done»: {kind: void, after: run_model, cleanup_for: run_model}}",
    ),
    "a plugin in `only` that the profile does not allow": (
        "B164",
        "error",
        "stages: {run_model: {only: [«bouncer»]}}",
    ),
    "a route that an earlier one hides": (
        "B166",
        "error",
        "routes: [{match: {}, profile: default}, {«match»: {channel: cli}, profile: default}]",
    ),
    "a profile that no route and no default reaches": (
        "B167",
        "warning",
        "profiles: {«spare»: {}}\nroutes: [{match: {channel: cli}, profile: default}]",
    ),
    "an unquoted `no`": ("B012", "warning", "description: «no»"),
    "an unquoted `on`": ("B012", "warning", "stages: {run_model: {default: «on»}}"),
    "a literal secret": ("B040", "warning", "settings: {api_key: «sk-of-somebody»}"),
}


@pytest.mark.parametrize(("code", "severity", "text"), ONLY_A_RULE_KNOWS.values(), ids=ONLY_A_RULE_KNOWS)
def test_what_no_schema_can_know_is_told_at_its_place(code: str, severity: str, text: str) -> None:
    plain, (place,) = marked(f"{VERSION}extends: bub:default\n{text}")
    (finding,) = check(plain)
    assert (finding.code, finding.severity, finding.range) == (code, severity, place)


SUGGESTED = {
    "a stage": ("stages: {save_state: {needs: [run_modl]}}", "run_model"),
    "a hook": ("stages: {seen: {hook: load_stat, kind: broadcast, after: load_state}}", "load_state"),
    "an installed plugin": ("profiles: {default: {plugins: [locale_model]}}", "local_model"),
    "an allowed plugin": ("stages: {run_model: {only: [bultin]}}", "builtin"),
    "a profile": ("profiles: {reviewer: {}, ci: {extends: revewer}}", "reviewer"),
    "a field": ("routes: [{match: {chanel: cli}, profile: default}]", "channel"),
}


@pytest.mark.parametrize(("text", "meant"), SUGGESTED.values(), ids=SUGGESTED)
def test_a_misspelt_reference_is_asked_back(text: str, meant: str) -> None:
    (finding,) = check(f"{VERSION}extends: bub:default\n{text}")
    assert finding.help == f"did you mean `{meant}`?"


@pytest.mark.parametrize("other", ["two: {}", "two: {extends: ci}"])
def test_a_stage_that_a_profile_switches_off_is_said_to_be_off_in_that_profile(other: str) -> None:
    text, (place,) = marked(
        f"{VERSION}extends: bub:default\nprofiles: {{ci: {{stages: {{run_model: {{«enabled»: false}}}}}}, {other}}}"
    )
    (finding,) = check(text)
    assert (finding.code, finding.range) == ("B132", place)
    assert finding.message == "`run_model` is defined, but off in profile `ci`, and `save_state` takes `model_output`"
    assert [related.file for related in finding.related] == ["bub:default"]


def test_a_plugin_that_no_profile_allows_is_one_finding_however_many_profiles_there_are() -> None:
    profiles = "".join(f"  p{number}: {{}}\n" for number in range(9))
    text = f"{VERSION}extends: bub:default\nstages: {{run_model: {{only: [xyz]}}}}\nprofiles:\n{profiles}"
    (finding,) = check(text)
    assert finding.message == (
        "stage `run_model` asks plugin `xyz`, which profile `default` does not allow"
        " (the same in `p0`, `p1` and 7 more)"
    )
    assert finding.profile is None
    (finding,) = check(text.split("  p1:")[0])
    assert finding.message.endswith("(the same in `p0`)")


def test_a_plugin_that_one_profile_does_not_allow_is_told_for_that_profile() -> None:
    stages = "stages: {run_model: {only: [local_model]}}\n"
    (finding,) = check(f"{VERSION}extends: bub:default\n{stages}profiles: {{bare: {{plugins: []}}}}")
    assert finding.message == "stage `run_model` asks plugin `local_model`, which profile `bare` does not allow"
    assert finding.profile == "bare"


def test_an_unset_variable_is_a_note_at_its_place_and_a_set_one_is_none() -> None:
    text, (place,) = marked(VERSION + 'extends: bub:default\nstages: {run_model: {timeout: "«${env:PATIENCE}»"}}')
    (finding,) = check(text, {})
    assert (finding.code, finding.severity, finding.range) == ("B031", "note", place)
    assert check(text, {"PATIENCE": "5s"}) == ()


def test_what_cannot_be_known_without_the_environment_is_not_guessed() -> None:
    text = """extends: bub:default
stages:
  mystery: {hook: "${env:HOOK}", kind: observer, after: run_model}
  run_model: {timeout: "${env:PATIENCE}", enabled: "${env:ON}"}
routes: [{match: {channel: "${env:CHANNEL}"}, profile: default}, {match: {channel: cli}, profile: default}]
"""
    assert said(check(VERSION + text)) == []
