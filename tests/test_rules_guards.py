"""What would keep a guard from guarding is found before a turn, and what only looks like it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.guards import GUARD, LISTED, OTHER, PLUGINS, assert_is_one, findings
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, marked, said

pytestmark = pytest.mark.anyio

Write = Callable[[str, str], Path]

GATE = "extends: bub:default\nhooks: {moderate: {kind: gate, takes: [prompt]}}\n"
"""A pipeline with a gate that has no stage yet."""

MISTAKES = [
    # B176: an `only` for nobody
    Mistake(
        "B176",
        f"{GATE}stages: {{moderate: {{before: run_model, «only»: []}}}}",
        "stage `moderate` is a gate that asks nobody, so it lets everything pass",
        "name the plugins to ask, leave `only` out to ask all, or say `enabled: false` to switch the stage off",
        ("only: []", "only: [builtin]"),
    ),
    Mistake(
        "B176",
        "extends: bub:default\nhooks:\n  tool_gate:\n    «only»: []",
        "hook `tool_gate` is a gate that asks nobody, so it lets everything pass",
        "name the plugins to ask, leave `only` out to ask all, or take the entry out",
        ("only: []", "only: [local_model]"),
    ),
    Mistake(
        "B176",
        f"{GATE}stages: {{moderate: {{before: run_model}}}}\n"
        "profiles: {default: {plugins: [local_model]}, late: {plugins: [], hooks: {moderate: {«only»: []}}}}",
        "hook `moderate` is a gate that asks nobody, so it lets everything pass",
        "name the plugins to ask, leave `only` out to ask all, or take the entry out",
        ("only: []", "only: [builtin]"),
    ),
    Mistake(
        "B176",
        "extends: bub:default\nstages: {load_state: {«only»: []}}",
        "stage `load_state` asks nobody",
        "name the plugins to ask, leave `only` out to ask all, or say `enabled: false` to switch the stage off",
        ("only: []", "enabled: false"),
        severity="warning",
    ),
    # B177: an entry under `hooks:` that says nothing of any point
    Mistake(
        "B177",
        "extends: bub:ethos\nhooks:\n  «tool_gat»: {kind: gate}",
        "no stage calls hook `tool_gat`, and its name is almost `tool_gate`, so it guards nothing",
        "did you mean `tool_gate`? If not, let a stage call it",
        ("tool_gat:", "tool_gate:"),
    ),
    Mistake(
        "B177",
        "extends: bub:default\nprofiles: {default: {hooks: {«before_tool_cal»: {kind: modifying, timeout: 5s}}}}",
        "no stage calls hook `before_tool_cal`, and its name is almost `before_tool_call`",
        "did you mean `before_tool_call`? If not, let a stage call it",
        ("before_tool_cal:", "before_tool_call:"),
        severity="warning",
    ),
    Mistake(
        "B177",
        "extends: bub:default\nhooks: {«call_model»: {thread: true}}",
        "Bub calls `call_model` by itself, so `thread` here changes nothing",
        "take the entry out",
        ("call_model:", "run_model_stream:"),
        severity="warning",
    ),
    Mistake(
        "B177",
        "extends: bub:default\nhooks: {«run_model»: {only: [builtin]}}",
        "stage `run_model` calls `run_model_stream`, so `only` of `run_model` changes nothing",
        "move it to `run_model_stream`, or to the stage",
        ("run_model:", "run_model_stream:"),
        severity="warning",
    ),
    Mistake(
        "B177",
        "extends: bub:default\nhooks: {load_state: {«timeout»: 5s}}",
        "stage `load_state` has a `timeout` of its own, so that of hook `load_state` changes nothing",
        "change it at the stage: `stages: {load_state: {timeout: …}}`",
        ("hooks:", "stages:"),
        related="this one counts",
        severity="warning",
    ),
    Mistake(
        "B177",
        "extends: bub:default\nhooks: {own: {kind: void, «timeout»: 5s}}\n"
        "stages: {own: {after: load_state, timeout: 9s}}",
        "stage `own` has a `timeout` of its own, so that of hook `own` changes nothing",
        "change it at the stage: `stages: {own: {timeout: …}}`",
        (", timeout: 9s", ""),
        related="this one counts",
        severity="note",
    ),
    # B178: a stage for what the agent fires
    Mistake(
        "B178",
        "extends: bub:ethos\nstages: {«tool_gate»: {kind: gate, before: run_model}}",
        "the agent fires `tool_gate`; stage `tool_gate` calls it only once, and without `tool`, `args`, `call_id`,"
        " so it guards nothing",
        "declare it under `hooks:` instead: `tool_gate: {kind: gate}`",
        ("stages: {tool_gate: {kind: gate, before: run_model}}", "hooks: {tool_gate: {kind: gate}}"),
    ),
    Mistake(
        "B178",
        "extends: bub:default\nstages: {seen: {hook: «after_llm_call», after: run_model}}",
        "the agent fires `after_llm_call`; stage `seen` calls it only once, and without `request`, `response`",
        "declare it under `hooks:` instead: `after_llm_call: {kind: void}`",
        ("{hook: after_llm_call, ", "{hook: message_received, kind: void, "),
        severity="warning",
    ),
    # B196: a stage that stays off
    Mistake(
        "B196",
        f"{GATE}stages: {{moderate: {{before: run_model, enabled: false}}}}\n"
        "profiles: {strict: {stages: {moderate: {«timeout»: 5s}}}}",
        "profile `strict` sets `timeout` of stage `moderate`, but this stage is switched off",
        "write `enabled: true` beside it, or take it out",
        ("{timeout: 5s}", "{timeout: 5s, enabled: true}"),
        related="it is switched off here",
        severity="warning",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[f"{one.code} {one.message[:60]}" for one in MISTAKES])
def test_each_mistake_is_found_once_at_its_place(mistake: Mistake) -> None:
    assert_is_found(mistake)


QUIET = [
    f"{GATE}stages: {{moderate: {{before: run_model, only: [local_model]}}}}",
    f"{GATE}stages: {{moderate: {{before: run_model, only: [], enabled: false}}}}",
    f"{GATE}stages: {{moderate: {{before: run_model, only: [local_model]}}}}\n"
    "profiles: {default: {plugins: [local_model], hooks: {moderate: {only: []}}}}",
    'extends: bub:default\nstages: {load_state: {only: ["${env:WHO:-builtin}"]}}',
    f"{GATE}stages: {{moderate: {{before: run_model}}}}\n"
    "profiles: {loose: {stages: {moderate: {timeout: 5s, enabled: false}}}, looser: {extends: loose}}",
    f"{GATE}stages: {{moderate: {{before: run_model, timeout: 5s, enabled: false}}}}\n"
    "profiles: {strict: {stages: {moderate: {enabled: true}}},"
    " stricter: {extends: strict, stages: {moderate: {timeout: 3s}}}}",
    # Hooks of one's own: a stage calls them, the known one is of another kind, or their name is no slip.
    "extends: bub:default\nhooks: {load_stats: {kind: broadcast}}\nstages: {load_stats: {after: load_state}}",
    "extends: bub:default\nhooks: {load_stats: {kind: broadcast}}\n"
    "profiles: {default: {}, busy: {stages: {figures: {hook: load_stats, after: load_state}}}}",
    "extends: bub:default\nhooks: {load_stats: {kind: gate}}",
    "extends: bub:default\nhooks: {tool_quota: {kind: gate}}",
    "extends: bub:default\nhooks: {call_model: {description: asked for each request}}",
    "extends: bub:classic\nhooks: {run_model: {only: [builtin]}}",
    # A stage may fire what the agent fires elsewhere, if all that it takes is there.
    "extends: bub:default\nhooks: {continue_prompt: {takes: [session_id]}}\n"
    "stages: {continue_prompt: {into: more, after: run_model, default: ''}}",
    "extends: bub:ethos\nstages: {tool_gate: {kind: gate, before: run_model, enabled: false}}",
]


@pytest.mark.parametrize("text", QUIET)
def test_what_is_right_stays_quiet(text: str) -> None:
    assert said(check(VERSION + text)) == []


# With plugins loaded.

TOOL_GUARD = "@hookimpl\nasync def tool_gate(tool): ...\n"


@pytest.mark.parametrize(
    ("text", "plugin", "message"),
    [
        (
            f"{GATE}stages: {{moderate: {{before: run_model, only: [«other»]}}}}\n{LISTED}",
            GUARD,
            "stage `moderate` asks only `other`, which does not implement `moderate`, so it lets everything pass",
        ),
        (
            f"{GATE}stages: {{moderate: {{before: run_model, «only»: [other, builtin]}}}}\n{LISTED}",
            GUARD,
            "stage `moderate` asks only `other`, `builtin`, none of which implements `moderate`,"
            " so it lets everything pass",
        ),
        (
            f"{GATE}stages: {{moderate: {{before: run_model, only: [«gone»]}}}}\n{LISTED}",
            GUARD,
            "stage `moderate` asks only `gone`, which does not implement `moderate`, so it lets everything pass",
        ),
        (
            f"extends: bub:default\nhooks: {{moderate: {{kind: gate, takes: [prompt], only: [«other»]}}}}\n"
            f"stages: {{moderate: {{before: run_model}}}}\n{LISTED}",
            GUARD,
            "stage `moderate` asks only `other`, which does not implement `moderate`, so it lets everything pass",
        ),
        (
            f"extends: bub:default\nhooks: {{tool_gate: {{only: [«other»]}}}}\n{LISTED}",
            TOOL_GUARD,
            "hook `tool_gate` asks only `other`, which does not implement `tool_gate`, so it lets everything pass",
        ),
        (
            f"extends: bub:default\nhooks: {{tool_gate: {{only: [«gone»]}}}}\n{LISTED}",
            OTHER,
            "hook `tool_gate` asks only `gone`, which does not implement `tool_gate`, so it lets everything pass",
        ),
        (
            f"extends: bub:default\n{PLUGINS}"
            "profiles: {default: {plugins: [guard, other], hooks: {tool_gate: {only: [«builtin»]}}}}",
            TOOL_GUARD,
            "hook `tool_gate` asks only `builtin`, which does not implement `tool_gate`, so it lets everything pass",
        ),
        (
            f"{GATE}stages: {{moderate: {{before: run_model}}}}\n{PLUGINS}"
            "profiles: {default: {plugins: [guard, other], stages: {moderate: {only: [«other»]}}}}",
            GUARD,
            "stage `moderate` asks only `other`, which does not implement `moderate`, so it lets everything pass",
        ),
    ],
)
def test_an_only_that_leaves_out_the_guard_is_an_error(write: Write, text: str, plugin: str, message: str) -> None:
    pipeline, (place,) = marked(VERSION + text)
    found = findings(write, pipeline.removeprefix(VERSION), guard=plugin)
    assert_is_one(found, "B213", "error", place, message)
    assert found[0].profile == "default"


def test_an_only_that_leaves_out_who_implements_a_hook_is_a_warning_elsewhere(write: Write) -> None:
    text, (place,) = marked(f"{VERSION}extends: bub:default\nstages: {{load_state: {{only: [«guard»]}}}}\n{LISTED}")
    found = findings(write, text.removeprefix(VERSION), guard="@hookimpl\ndef build_prompt(): ...\n")
    message = "stage `load_state` asks only `guard`, which does not implement `load_state`"
    assert_is_one(found, "B213", "warning", place, message)
    assert found[0].help == "`load_state` is implemented by `builtin`: name it, or leave `only` out"


@pytest.mark.parametrize(
    ("text", "guard", "other"),
    [
        (f"{GATE}stages: {{moderate: {{before: run_model, only: [guard]}}}}\n{LISTED}", GUARD, OTHER),
        (f"extends: bub:default\nhooks: {{tool_gate: {{only: [guard]}}}}\n{LISTED}", TOOL_GUARD, OTHER),
        (f"extends: bub:default\nstages: {{run_model: {{only: [builtin]}}}}\n{LISTED}", OTHER, OTHER),
        # The hook has a twin.
        (
            f"extends: bub:default\nstages: {{run_model: {{only: [guard]}}}}\n{LISTED}",
            "@hookimpl\ndef run_model(): ...\n",
            OTHER,
        ),
        # A stage's own `only` goes before that of its hook.
        (
            "extends: bub:default\nhooks: {moderate: {kind: gate, takes: [prompt], only: [other]}}\n"
            f"stages: {{moderate: {{before: run_model, only: [guard]}}}}\n{LISTED}",
            GUARD,
            OTHER,
        ),
        # What may be missing is missing, and nothing is guarded.
        (f"extends: bub:default\nstages: {{load_state: {{only: [gone]}}}}\n{LISTED}", OTHER, OTHER),
        # Handlers come while the program runs.
        (
            f"extends: bub:ethos\nstages: {{message_received: {{only: [guard]}}}}\n{LISTED}",
            "@hookimpl\ndef load_state(): ...\n\ndef look(hooks):\n"
            "    hooks.register_void('message_received', print, plugin='guard')\n",
            OTHER,
        ),
        (f"{GATE}stages: {{moderate: {{before: run_model, enabled: false, only: [other]}}}}\n{LISTED}", OTHER, OTHER),
    ],
)
def test_an_only_that_names_who_implements_the_hook_stays_quiet(
    write: Write, text: str, guard: str, other: str
) -> None:
    assert said(findings(write, text, guard=guard, other=other)) == []


def test_a_guard_that_is_left_out_beside_another_one_is_a_note(write: Write) -> None:
    text, (place,) = marked(f"{VERSION}{GATE}stages: {{moderate: {{before: run_model, «only»: [guard]}}}}\n{LISTED}")
    found = findings(write, text.removeprefix(VERSION), guard=GUARD, other=GUARD)
    message = "stage `moderate` does not ask `other`, which implements it too"
    assert_is_one(found, "B213", "note", place, message)


def test_a_name_in_only_beside_the_guard_that_implements_nothing_is_a_note(write: Write) -> None:
    text, (place,) = marked(
        f"{VERSION}{GATE}stages: {{moderate: {{before: run_model, only: [guard, «other»]}}}}\n{LISTED}"
    )
    found = findings(write, text.removeprefix(VERSION), guard=GUARD)
    assert_is_one(found, "B213", "note", place, "stage `moderate` asks `other`, which does not implement `moderate`")


def test_a_gate_that_a_profile_switches_off_is_a_note(write: Write) -> None:
    text, (place,) = marked(
        f"{VERSION}{GATE}stages: {{moderate: {{before: run_model}}}}\n{PLUGINS}"
        "profiles: {default: {plugins: [guard, other], stages: {moderate: {«enabled»: false}}}}"
    )
    found = findings(write, text.removeprefix(VERSION), guard=GUARD)
    message = "stage `moderate` is off, so plugin `guard`, which implements the gate, guards nothing"
    assert_is_one(found, "B209", "note", place, message)


@pytest.mark.parametrize(
    ("guard", "code"),
    [("@hookimpl\ndef build_promt(): ...\n", "B201"), ("import nothing_of_this_name\n", "B200")],
)
def test_what_is_told_of_a_plugin_is_not_told_of_the_only_that_names_it(write: Write, guard: str, code: str) -> None:
    text = f"extends: bub:default\nstages: {{build_prompt: {{only: [guard]}}}}\n{LISTED}"
    assert [item.code for item in findings(write, text, guard=guard)] == [code]


def test_a_plugin_that_is_not_allowed_is_told_once(write: Write) -> None:
    text = f"{GATE}stages: {{moderate: {{before: run_model, only: [stranger]}}}}\n{LISTED}"
    assert [item.code for item in findings(write, text, guard=GUARD)] == ["B164"]


# Points that nobody fires.

QUOTA = "@hookimpl\ndef quota(): ...\n"
FIRES = "@hookimpl\nasync def build_prompt(fire):\n    await fire('quota')\n"
"""A plugin that fires the point `quota`."""


@pytest.mark.parametrize(("kind", "severity"), [("gate", "error"), ("observer", "warning")])
@pytest.mark.parametrize(
    "other",
    [
        OTHER,
        "@hookimpl\nasync def build_prompt(fire):\n    await fire('quotas')\n",
        "@hookimpl\nasync def build_prompt(fire):\n    if 'tool_gate' in fire:\n        await fire('tool_gate')\n",
        "'quota'\n\n" + OTHER,
    ],
)
def test_a_point_that_no_stage_calls_and_no_plugin_fires_is_found(
    write: Write, kind: str, severity: str, other: str
) -> None:
    text, (place,) = marked(
        f"{VERSION}extends: bub:default\nhooks: {{«quota»: {{kind: {kind}}}}}\n{PLUGINS}"
        "profiles: {default: {plugins: [guard, other]}}"
    )
    found = findings(write, text.removeprefix(VERSION), guard=QUOTA, other=other)
    what = "a gate" if kind == "gate" else "declared"
    message = f"hook `quota` is {what}, but no stage calls it and no plugin of profile `default` fires it"
    assert_is_one(found, "B214", severity, place, message)


@pytest.mark.parametrize(
    "other",
    [
        FIRES,
        "@hookimpl\nasync def build_prompt(**more):\n    await more['fire']('quo' + 'ta')\n",
        "ASKED = 'quota'\n\n@hookimpl\nasync def build_prompt(fire):\n    await fire(ASKED)\n",
        "@hookimpl\nasync def build_prompt(fire):\n    await ask(fire, 'quo' + 'ta')\n\n"
        "async def ask(ring, what):\n    await ring(what)\n",
        "import bub\n\n@bub.tool\nasync def shop(context):\n    'Buy.'\n    await context.fire('quota')\n\n"
        "@hookimpl\ndef provide_tools():\n    return [shop]\n",
        "exec('@hookimpl\\nasync def build_prompt(fire):\\n    await fire(\"quota\")')\n",
    ],
)
def test_a_point_that_a_plugin_fires_or_may_fire_stays_quiet(write: Write, other: str) -> None:
    text = f"extends: bub:default\nhooks: {{quota: {{kind: gate}}}}\n{LISTED}"
    assert said(findings(write, text, guard=QUOTA, other=other)) == []


def test_a_point_of_a_stage_that_this_pipeline_lacks_is_found(write: Write) -> None:
    text, (place,) = marked(
        f"{VERSION}extends: bub:default\nhooks: {{«message_sent»: {{kind: void}}}}\n{PLUGINS}"
        "profiles: {default: {plugins: [guard, other]}}"
    )
    found = findings(write, text.removeprefix(VERSION), guard="@hookimpl\ndef message_sent(message): ...\n")
    message = "hook `message_sent` is declared, but no stage calls it and no plugin of profile `default` fires it"
    assert_is_one(found, "B214", "warning", place, message)


def test_a_gate_on_tools_where_no_stage_asks_the_agent_is_found(write: Write) -> None:
    text, (place,) = marked(
        f"{VERSION}extends: bub:default\nhooks: {{«tool_gate»: {{timeout: 5s}}}}\n"
        f"stages: {{run_model: {{only: [other]}}}}\n{PLUGINS}profiles: {{default: {{plugins: [guard, other]}}}}"
    )
    model = "@hookimpl\ndef run_model(): ...\n"
    found = findings(write, text.removeprefix(VERSION), guard=TOOL_GUARD, other=model)
    message = "hook `tool_gate` is a gate, but no stage calls it and no plugin of profile `default` fires it"
    assert_is_one(found, "B214", "error", place, message)


@pytest.mark.parametrize(
    "profiles",
    [
        # Another profile has who fires it, or the stage that calls it.
        "profiles: {default: {plugins: [guard]}, shop: {plugins: [guard, other]}}",
        "profiles: {default: {plugins: [guard]},"
        " shop: {plugins: [guard, other], stages: {quota: {before: run_model}}}}",
        "profiles: {default: {plugins: [other]}, shop: {plugins: [guard], stages: {quota: {before: run_model}}}}",
    ],
)
def test_a_point_for_another_profile_is_no_mistake(write: Write, profiles: str) -> None:
    text = f"extends: bub:default\nhooks: {{quota: {{kind: gate}}}}\n{PLUGINS}{profiles}"
    found = findings(write, text, guard=QUOTA, other=FIRES)
    assert [one for one in found if one.severity != "note"] == []


def test_a_misspelt_point_is_told_once(write: Write) -> None:
    text = f"extends: bub:ethos\nhooks: {{tool_gat: {{kind: gate}}}}\n{LISTED}"
    assert [one.code for one in findings(write, text)] == ["B177"]
