"""What is right is let through."""

from __future__ import annotations

import re
import time

import pytest
from fakes.mistakes import OWN_GATE, VERSION, Write, check, said

from bub import BubFramework
from bub.base.diagnostics import (
    PipelineError,
    suggest,
    without_notes,
)
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.validate import ProfileChecker, check_profile
from bub.pipeline.run.compiler import plan_for
from bub.pipeline.source.merge import load_text

pytestmark = pytest.mark.anyio


VALID = [
    'stages: {build_prompt: {kind: firstresult, into: prompt, default: "hi"}}',
    "stages: {}",
    "x-team: platform\nextends: bub:default",
    """
stages:
  answer: {kind: firstresult, hook: run_model, into: model_output, default: x}
  render: {kind: broadcast, hook: render_outbound, combine: concat, into: outbounds}
  send: {kind: broadcast, hook: dispatch_outbound, for_each: outbounds}
""",
    f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: run_model, timeout: 5s}}}}",
    'extends: bub:default\nstages: {run_model: {timeout: 120s, on_failure: skip, default: "sorry"}}',
    'extends: bub:default\nstages: {run_model: {enabled: false, default: "we are closed"}}',
    "extends: bub:classic\nstages: {save_state: {timeout: 5s}}",
    "extends: bub:ethos\nprofiles: {quiet: {stages: {message_received: {enabled: false}}}}",
    "extends: bub:default\nprofiles:\n  default: {plugins: []}\n"
    "  fast: {extends: default, stages: {run_model: {timeout: 5s}}}",
    """
extends: bub:default
hooks:
  facts: {kind: broadcast, takes: [session_id]}
  weather: {kind: firstresult, takes: [message]}
stages:
  facts: {into: facts, needs: [resolve_session], after: load_state}
  weather: {into: forecast, needs: [resolve_session], after: facts, default: "unknown"}
""",
    "extends: bub:default\nhooks: {redact: {kind: modifying, takes: [prompt]}}\n"
    "stages: {redact: {changes: [prompt], after: build_prompt}}",
    "extends: bub:default\nhooks: {rewrite: {kind: firstresult, takes: [prompt]}}\n"
    'stages: {rewrite: {into: prompt, default: "{prompt}", after: build_prompt, when: {channel: telegram}}}',
    "extends: bub:default\nstages: {before_dispatch: {kind: claiming, for_each: outbounds, before: dispatch_outbound}}",
    "extends: bub:default\nhooks: {outbound_gate: {kind: gate}}\n"
    "stages: {outbound_gate: {for_each: outbounds, before: dispatch_outbound}}",
    """
extends: bub:default
hooks: {outbound_gate: {kind: gate}, log_replies: {kind: observer, takes: [outbounds]}}
stages:
  outbound_gate: {for_each: outbounds, after: render_outbound}
  dispatch_outbound: {enabled: false}
  log_replies: {after: dispatch_outbound}
""",
    """
extends: bub:default
stages:
  before_prompt_build: {kind: modifying, changes: [system], after: system_prompt}
  system_prompt: {kind: broadcast, combine: join, into: system, before: run_model}
""",
    """
extends: bub:default
routes:
  - {match: {channel: telegram, chat_id: "-1001*"}, profile: reviewer}
  - {match: {channel: telegram}, profile: default}
  - {match: {}, profile: default}
profiles: {reviewer: {plugins: []}}
""",
    'extends: bub:default\nstages: {run_model: {timeout: "${env:MODEL_TIMEOUT:-30s}"}}',
    "extends: bub:default\nstages: {session_start: {kind: void, when: {session: new}, after: resolve_session}}",
    """
stages:
  resolve_session: {kind: firstresult, into: session_id, default: "one", enabled: false}
  quota: {kind: firstresult, into: status, default: {left: 5}}
  build_prompt: {kind: firstresult, into: prompt, default: "{content}"}
  run_model: {kind: firstresult, into: model_output, default: "{prompt}"}
  render_outbound: {kind: broadcast, combine: concat, into: outbounds}
  dispatch_outbound: {kind: broadcast, for_each: outbounds}
hooks: {quota: {takes: [session_id]}}
""",
    "extends: bub:default\n"
    "hooks: {before_llm_call: {kind: modifying}, tool_gate: {kind: gate}, quota: {kind: observer, takes: [what]}}",
    "extends: bub:default\nhooks: {audit: {kind: void, takes: [session_id, model_output]}}\n"
    "stages: {audit: {needs: [run_model], after: run_model}}",
    "extends: bub:default\nhooks: {close: {kind: observer, takes: [session_id]}}\n"
    "stages: {close: {cleanup_for: load_state, timeout: 5s, after: dispatch_outbound}}",
    """
on_failure: skip
stages:
  load_state: {kind: broadcast, combine: merge, into: state}
  build_prompt: {kind: firstresult, into: prompt, default: "{content}"}
  run_model: {kind: stream, hook: run_model_stream, into: model_output, default: ""}
  render_outbound: {kind: broadcast, combine: concat, into: outbounds}
  dispatch_outbound: {kind: broadcast, for_each: outbounds}
""",
    "extends: bub:default\n"
    "stages: {dispatch_outbound: {on_failure: skip, retry: {times: 3, backoff: 1s}, timeout: 30s}}",
    "extends: bub:default\nstages: {inbound_claim: {kind: claiming, before: resolve_session, when: {kind: command}}}",
    """
extends: bub:default
profiles:
  default: {plugins: []}
  shop: {stages: {guard: {before: run_model}}, hooks: {guard: {kind: gate, takes: [prompt]}}}
""",
    """
extends: bub:default
hooks: {a: {kind: observer}, b: {kind: observer}, c: {kind: observer}}
stages:
  c: {after: b}
  b: {after: a}
  a: {after: build_prompt}
""",
    "hooks: {one: {kind: firstresult}, two: {kind: firstresult, takes: [x]}}\n"
    'stages:\n  one: {into: x, default: 1}\n  two: {into: x, default: "{x}", needs: [one]}',
    "extends: bub:default\nstages: {message_received: {kind: observer, after: resolve_session, thread: true}}",
    "extends: bub:default\n"
    "stages: {load_state: {enabled: false}, render_outbound: {enabled: false}, save_state: {enabled: false}}",
    "hooks: {ask: {kind: gate}, act: {kind: void}}\nstages: {ask: {when: {channel: telegram}}, act: {}}",
    "extends: bub:default\nstages:\n"
    '  normalize_inbound: {kind: firstresult, into: message, default: "{message}", before: resolve_session}',
    "extends: bub:default\nhooks: {save_state: {on_failure: skip}}\nstages: {save_state: {only: [builtin]}}",
    "extends: bub:ethos\nhooks: {message_sending: {on_failure: propagate}}",
    "extends: bub:default\nhooks: {note: {kind: observer}}\n"
    "stages: {note: {for_each: outbounds, after: dispatch_outbound}}",
    "extends: bub:default\nhooks: {summary: {kind: firstresult, takes: [model_output]}}\n"
    'stages: {summary: {into: summary, default: "", needs: [run_model], after: run_model}}',
    """
hooks: {split: {kind: firstresult}, each_part: {kind: broadcast}}
stages:
  split: {into: parts, default: [{content: a}]}
  each_part: {for_each: parts, into: answers}
""",
]


MODEL = """@hookimpl
async def run_model(fire):
    if "quota" in fire:
        await fire("quota", what="an answer")
    return "an answer"

"""


@pytest.mark.parametrize("text", VALID)
async def test_a_valid_pipeline_compiles_and_runs(write: Write, text: str) -> None:
    assert said(without_notes(check(VERSION + text))) == []
    plan = plan_for(load_text(VERSION + text), "default", {})
    own = {
        name
        for name in [*plan.hooks, *(stage.hook.point.name for stage in plan.stages)]
        if not (plan.hooks[name].known if name in plan.hooks else True)
    }
    functions = "".join(f"@hookimpl\ndef {name}():\n    return None\n\n" for name in sorted(own))
    asked = {stage.hook.point.name for stage in plan.stages}
    model = MODEL if not asked.isdisjoint(("run_model", "run_model_stream")) else "@hookimpl\ndef on_error(): ...\n\n"
    write("player.py", f"from bub import hookimpl\n\n{model}{functions}")
    every = "plugins: {player: {path: player.py}}\n"
    if "profiles:" in text:
        text = re.sub(r"default: \{plugins: \[\]\}", "default: {plugins: [player]}", text)
        text = text.replace("profiles: {", "profiles: {default: {plugins: [player]}, ", 1)
    else:
        every += "profiles: {default: {plugins: [player]}}\n"
    path = write("pipelines.yaml", f"{VERSION}{every}{text.lstrip()}")
    framework = BubFramework(config_file=path)
    framework.load_hooks()
    assert said(framework.warnings) == []
    result = await framework.process_inbound({"content": "hello", "channel": "cli", "chat_id": "1"})
    assert result.ended_by is None
    ran = {record.stage for record in result.trace}
    # Where there are no items, nothing runs for each of them.
    assert ran >= {stage.id for node in framework.graph.nodes if node.each is None for stage in node.steps}


ROUTED = """version: 1
extends: bub:default
profiles: {team: {plugins: []}}
routes: [{match: {chat_id: "${env:TEAM_CHAT}"}, profile: "${env:TEAM_PROFILE:-team}"}]
"""


async def test_a_route_may_ask_for_what_the_environment_says(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("pipelines.yaml", ROUTED + 'stages: {run_model: {default: "-", on_failure: skip}}\n')
    monkeypatch.setenv("TEAM_CHAT", "-100*")
    framework = BubFramework(config_file=path)
    results = [await framework.process_inbound({"content": ",help", "chat_id": chat}) for chat in ("-1007", "7")]
    assert [result.profile for result in results] == ["team", "default"]


def test_a_route_that_asks_for_an_unset_variable_keeps_its_messages_from_another_profile(write: Write) -> None:
    path = write("pipelines.yaml", ROUTED + 'stages: {run_model: {default: "-", on_failure: skip}}\n')
    with pytest.raises(PipelineError, match="`TEAM_CHAT` is not set"):
        BubFramework(config_file=path).load_hooks()


def test_shipped_pipelines_have_no_findings() -> None:
    for name in ("default", "classic", "ethos"):
        assert said(check(f"{VERSION}extends: bub:{name}\n")) == []


def test_thousands_of_misspelt_names_are_told_in_seconds() -> None:
    stages = "".join(f"  stage{number}: {{hook: note, needs: [stag{number + 1}]}}\n" for number in range(1_000))
    started = time.process_time()
    found = check(f"version: 1\nhooks: {{note: {{kind: observer}}}}\nstages:\n{stages}")
    assert time.process_time() - started < 5  # about 0.3 s; it was half a minute with a guess for each
    missing = [finding for finding in found if finding.code == "B120"]
    assert len(missing) == 1_000
    assert [missing[at].help for at in (0, 27, 999)] == ["did you mean `stage1`?", "did you mean `stage28`?", None]


def test_thousands_of_profiles_that_extend_nothing_are_told_in_seconds() -> None:
    profiles = "".join(f"  profile{number}: {{extends: profil{number}}}\n" for number in range(300))
    started = time.process_time()
    found = check(f"version: 1\nextends: bub:default\nprofiles:\n{profiles}")
    assert time.process_time() - started < 10
    assert [finding.help for finding in found] == ["name one of the 301 profiles"] * 300


def test_a_thousand_stages_are_checked_at_once() -> None:
    hooks = "".join(f"  h{number}: {{kind: broadcast, takes: [v{number - 1}]}}\n" for number in range(1, 1_000))
    stages = "".join(f"  s{number}: {{hook: h{number}, into: v{number}}}\n" for number in range(1_000))
    needs = stages.replace("}", ", needs: [s0]}")
    tests = "".join(f"  t{number}: {{message: {{}}, expect: {{ran: [s{number}]}}}}\n" for number in range(1_000))
    document = load_text(f"{VERSION}hooks:\n  h0: {{kind: broadcast}}\n{hooks}stages:\n{needs}tests:\n{tests}")
    started = time.process_time()
    found = check_profile(ProfileChecker(outline_of(document)), "default")
    assert time.process_time() - started < 2  # about 0.07 s
    assert [finding.message for finding in found] == ["stage `s0` waits for itself: s0 → s0"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("volumes", ["routes", "stages"], None),
        ("dispatch", ["dispatch_outbound", "save_state"], "dispatch_outbound"),
        ("msg", ["message", "prompt"], "message"),
        ("key", ["api_key", "kind"], "api_key"),
        ("timeout-minutes", ["timeout", "retry"], "timeout"),
        ("steps", ["stages", "tests"], "stages"),
        ("retries", ["retry", "routes"], "retry"),
    ],
)
def test_only_what_is_near_a_name_or_a_part_of_it_is_suggested(name: str, known: list[str], meant: str | None) -> None:
    assert suggest(name, known) == meant


def test_names_of_any_length_are_compared_at_once() -> None:
    long = "ab" * 100_000
    started = time.process_time()
    assert suggest(long, [long + "c", "name"]) is None
    assert time.process_time() - started < 1


@pytest.mark.parametrize("text", ['settings: {api_key: "${X}"}', 'profiles: {a: {settings: {api_key: "sk ${X}"}}}'])
def test_a_secret_that_is_a_malformed_reference_is_one_finding(text: str) -> None:
    assert [finding.code for finding in check(VERSION + "extends: bub:default\n" + text)] == ["B030"]
