"""The rules of a pipeline file: each mistake is one finding at its place, and its mended twin is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.mistakes import OWN_GATE, Mistake, assert_is_found

from bub.pipeline.check.validate import check_document

pytestmark = pytest.mark.anyio


MISTAKES = [
    # B110: no kind
    Mistake(
        "B110",
        "stages: {«build_prompt»: {into: prompt}}",
        "stage `build_prompt` has no kind",
        "say how Bub calls `build_prompt`, such as `kind: firstresult`",
        ("{into", "{kind: firstresult, into"),
    ),
    Mistake(
        "B110",
        "extends: bub:default\nhooks:\n  «ticked»: {takes: [what]}",
        "hook `ticked` has no kind",
        "say how Bub calls it: `ticked: {kind: observer, takes: […]}`",
        ("{takes", "{kind: observer, takes"),
    ),
    Mistake(
        "B110",
        "extends: bub:default\nhooks:\n  «before_lm_call»: {timeout: 5s}",
        "hook `before_lm_call` has no kind",
        "did you mean `before_llm_call`?",
        ("before_lm_call", "before_llm_call"),
    ),
    # B111: a kind that the point does not permit
    Mistake(
        "B111",
        "stages: {load_state: {kind: «gate»}, dispatch_outbound: {kind: broadcast}}",
        "stage `load_state` is of kind `gate`, which the hook `load_state` does not permit",
        "`load_state` can be `broadcast` or `firstresult`",
        ("gate", "firstresult"),
    ),
    Mistake(
        "B111",
        "extends: bub:ethos\nhooks: {tool_gate: {kind: «observer»}}",
        "hook `tool_gate` is of kind `observer`, which the hook `tool_gate` does not permit",
        "`tool_gate` can be `gate`",
        ("observer", "gate"),
    ),
    Mistake(
        "B111",
        "hooks: {moderate: {kind: gate}}\nstages: {moderate: {kind: «void»}, load_state: {kind: firstresult}}",
        "stage `moderate` is of kind `void`, which the hook `moderate` does not permit",
        "`moderate` can be `gate`",
        ("{kind: void}", "{}"),
    ),
    # B112: a kind that is inherited
    Mistake(
        "B112",
        "extends: bub:default\nstages: {run_model: {kind: «firstresult»}}",
        "stage `run_model` is of kind `stream`, which `pipelines.yaml` cannot change to `firstresult`",
        "take it out, and put a stage of your own in its place with `replace: run_model`",
        ("{kind: firstresult}", "{timeout: 5s}"),
        related="`stream` is set here",
    ),
    Mistake(
        "B112",
        "extends: bub:default\nprofiles: {default: {stages: {save_state: {kind: «observer»}}}}",
        "stage `save_state` is of kind `broadcast`, which `profile default` cannot change to `observer`",
        "take it out, and put a stage of your own in its place with `replace: save_state`",
        ("{kind: observer}", "{timeout: 5s}"),
        related="`broadcast` is set here",
    ),
    Mistake(
        "B112",
        "hooks: {guard: {kind: gate}}\nstages: {guard: {}, load_state: {kind: firstresult}}\n"
        "profiles: {lax: {hooks: {guard: {kind: «observer»}}}}",
        "hook `guard` is of kind `gate`, which `profile lax` cannot change to `observer`",
        "declare a hook of another name",
        ("{kind: observer}", "{timeout: 5s}"),
        related="`gate` is set here",
    ),
    # B113: keys that the kind does not know
    Mistake(
        "B113",
        "extends: bub:default\nstages: {run_model: {«combine»: merge}}",
        "stage `run_model` is of kind `stream`, which knows no `combine`",
        "`combine` is for `broadcast`",
        ("combine: merge", "timeout: 5s"),
    ),
    Mistake(
        "B113",
        "stages: {message_received: {kind: void, «into»: seen}}",
        "stage `message_received` is of kind `void`, which knows no `into`",
        "`into` is for `firstresult`, `broadcast`, `stream`",
        (", into: seen", ""),
    ),
    # B114: a policy that the kind does not know
    Mistake(
        "B114",
        f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: run_model, on_failure: «skip»}}}}",
        "stage `moderate` is a gate, and a gate that fails always denies",
        "leave `on_failure` out",
        ("skip", "deny"),
    ),
    Mistake(
        "B114",
        "extends: bub:default\nstages: {run_model: {on_failure: «deny»}}",
        "stage `run_model` cannot deny: only a gate can",
        "use `propagate` or `skip`, or make it a gate",
        ("deny", "propagate"),
    ),
    Mistake(
        "B114",
        "extends: bub:default\nhooks: {tool_gate: {on_failure: «skip»}}",
        "hook `tool_gate` is a gate, and a gate that fails always denies",
        "leave `on_failure` out",
        ("on_failure: skip", "timeout: 5s"),
    ),
    Mistake(
        "B114",
        "extends: bub:default\nhooks: {run_model_stream: {on_failure: «deny»}}",
        "hook `run_model_stream` cannot deny: only a gate can",
        "use `propagate` or `skip`, or make it a gate",
        ("deny", "propagate"),
    ),
    # B120: names of stages that do not exist
    Mistake(
        "B120",
        "extends: bub:default\nstages: {save_state: {needs: [«run_modell»]}}",
        "stage `save_state` needs `run_modell`, which does not exist",
        "did you mean `run_model`?",
        ("run_modell", "run_model"),
    ),
    Mistake(
        "B120",
        "extends: bub:default\nstages: {save_state: {cleanup_for: «model»}}",
        "stage `save_state` cleans up for `model`, which does not exist",
        "did you mean `run_model`?",
        ("model", "run_model"),
    ),
    Mistake(
        "B120",
        f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: «run_modle»}}}}",
        "stage `moderate` is placed before `run_modle`, which does not exist",
        "did you mean `run_model`?",
        ("run_modle", "run_model"),
    ),
    Mistake(
        "B120",
        "extends: bub:default\nprofiles: {p: {stages: {session_start: {kind: void, after: «zzz»}}}}",
        "stage `session_start` is placed after `zzz`, which does not exist",
        None,
        ("zzz", "resolve_session"),
    ),
    # B121: circles, and names of stages that stand below
    Mistake(
        "B121",
        "hooks: {a: {kind: void}, b: {kind: void}}\nstages:\n  a: {needs: [«b»]}\n  b: {needs: [a]}",
        "stage `a` waits for itself: a → b → a",
        "`a → b` means: a needs b; take one `needs` out",
        ("needs: [b]", ""),
    ),
    Mistake(
        "B121",
        "hooks: {a: {kind: void}, b: {kind: void}}\nstages:\n  a: {needs: [«b»]}\n  b: {}",
        "stage `a` needs `b`, which is below it",
        "move `a` below `b`",
        ("needs: [b]", ""),
    ),
    Mistake(
        "B121",
        "extends: bub:default\nhooks: {a: {kind: void}, b: {kind: void}}\nstages:\n  a: {after: «b»}\n  b: {before: a}",
        "stage `a` is placed beside itself: a → b → a",
        "set one of them beside another stage",
        ("after: b", "after: load_state"),
    ),
    Mistake(
        "B121",
        "extends: bub:default\nstages: {save_state: {cleanup_for: «save_state»}}",
        "stage `save_state` cannot clean up for itself",
        "name the stage that it cleans up for",
        ("cleanup_for: save_state", "cleanup_for: run_model"),
    ),
    Mistake(
        "B121",
        "extends: bub:default\nstages: {save_state: {before: run_model, cleanup_for: «run_model»}}",
        "stage `save_state` cleans up for `run_model`, which is below it",
        "move `save_state` below `run_model`",
        ("before", "after"),
        related="the place of `save_state` is set here",
    ),
    # B122, B123: the place of a new stage
    Mistake(
        "B122",
        "extends: bub:default\nstages:\n  «session_start»: {kind: void}",
        "stage `session_start` is new here, but does not say where it belongs",
        "add `before: STAGE` or `after: STAGE`, or `replace: STAGE` to run it instead of that stage",
        ("{kind: void}", "{kind: void, after: resolve_session}"),
    ),
    Mistake(
        "B122",
        "stages: {load_state: {kind: firstresult}}\nprofiles: {p: {stages: {«agent_done»: {kind: void}}}}",
        "stage `agent_done` is new here, but does not say where it belongs",
        "add `before: STAGE` or `after: STAGE`, or `replace: STAGE` to run it instead of that stage",
        ("{kind: void}", "{kind: void, after: load_state}"),
    ),
    # A slip in the name of an inherited stage is no new stage.
    Mistake(
        "B150",
        "extends: bub:default\nstages: {«render_outbund»: {timeout: 2m}}",
        "stage `render_outbund` calls the hook `render_outbund`, which does not exist",
        "did you mean `render_outbound`?",
        ("outbund", "outbound"),
    ),
    Mistake(
        "B123",
        "extends: bub:default\nstages:\n  session_start: {kind: void, before: run_model, «after»: load_state}",
        "stage `session_start` has both `before` and `after`",
        "keep one of the two: a stage is directly beside one other stage",
        (", after: load_state", ""),
        related="the other one is here",
    ),
    # B124, B126: clean-ups
    Mistake(
        "B124",
        "stages:\n  load_state: {kind: firstresult, into: state}\n"
        "  «save_state»: {kind: broadcast, cleanup_for: load_state}",
        "stage `save_state` is a clean-up without a `timeout`",
        "nothing cancels a clean-up, so say how long it may take, such as `timeout: 30s`",
        ("cleanup_for: load_state", "cleanup_for: load_state, timeout: 30s"),
    ),
    Mistake(
        "B126",
        "extends: bub:default\n"
        "stages: {dispatch_outbound: {cleanup_for: run_model, timeout: 5s, «for_each»: outbounds}}",
        "stage `dispatch_outbound` is a clean-up and runs for each of `outbounds`; a stage cannot be both",
        "take one of the two keys out",
        ("cleanup_for: run_model, ", ""),
    ),
    # B130: values that nobody makes, or that are made below
    Mistake(
        "B130",
        "extends: bub:default\nstages: {dispatch_outbound: {for_each: «outbunds»}}",
        "stage `dispatch_outbound` takes `outbunds`, which no stage makes",
        "did you mean `outbounds`?",
        ("outbunds", "outbounds"),
    ),
    Mistake(
        "B130",
        "extends: bub:default\nhooks: {moderate: {kind: gate, takes: [«promt»]}}\n"
        "stages: {moderate: {before: run_model}}",
        "stage `moderate` takes `promt`, which no stage makes",
        "did you mean `prompt`?",
        ("promt", "prompt"),
    ),
    Mistake(
        "B130",
        "extends: bub:default\nhooks: {tint: {kind: modifying}}\n"
        "stages: {tint: {after: build_prompt, changes: [«colour»]}}",
        "stage `tint` takes `colour`, which no stage makes",
        "let a stage above make it: `into: colour`",
        ("colour", "prompt"),
    ),
    Mistake(
        "B130",
        f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{«before»: build_prompt}}}}".replace(
            "takes: [prompt]", "takes: [«prompt»]"
        ).replace("«before»", "before"),
        "stage `moderate` takes `prompt`, which is made below it",
        "move it below `build_prompt`",
        ("before: build_prompt", "after: build_prompt"),
        related="stage `build_prompt` makes `prompt` here",
    ),
    Mistake(
        "B130",
        "extends: bub:default\nstages: {run_model: {«before»: build_prompt}}",
        "stage `run_model` takes `prompt`, which is made below it",
        "move it below `build_prompt`",
        ("before", "after"),
        related="stage `build_prompt` makes `prompt` here",
    ),
    Mistake(
        "B130",
        "hooks: {greet: {kind: void}}\nstages: {greet: {when: {«session»: new}}}",
        "stage `greet` takes `session_id`, which no stage makes",
        "let a stage above make it: `into: session_id`",
        ("session", "channel"),
    ),
    Mistake(
        "B130",
        'extends: bub:default\nstages: {build_prompt: {default: «"{model_output}"»}}',
        "stage `build_prompt` takes `model_output`, which is made below it",
        "take `model_output` out of `build_prompt`: `run_model` needs what `build_prompt` makes",
        ("model_output", "content"),
        related="stage `run_model` makes `model_output` here",
    ),
    # B131: values that are made twice
    Mistake(
        "B131",
        "extends: bub:default\nhooks: {other: {kind: firstresult}}\n"
        "stages: {other: {into: «prompt», after: build_prompt}}",
        "stage `other` makes `prompt`, which stage `build_prompt` makes already",
        "add `replace: build_prompt` to run this stage instead of `build_prompt`; otherwise give the value another"
        " name, or take the value and make a new version of it",
        ("{kind: firstresult}", "{kind: firstresult, takes: [prompt]}"),
        related="stage `build_prompt` makes `prompt` here",
    ),
    Mistake(
        "B131",
        "hooks: {load_state: {takes: [profile]}}\nstages: {load_state: {kind: firstresult, into: «message»}}",
        "stage `load_state` makes `message` without taking it, but `message` exists from the start",
        "give the value another name, or take the value and make a new version of it",
        ("into: message", "into: state"),
    ),
    # B132: stages that may yield nothing
    Mistake(
        "B132",
        "extends: bub:default\nstages: {run_model: {«enabled»: false}}",
        "`run_model` is switched off, but `save_state` takes `model_output`",
        "give it a `default`, the value for this case; or let another stage make the value with `into: model_output`",
        ("false", 'false, default: ""'),
        related="`save_state` takes it here",
    ),
    Mistake(
        "B132",
        "extends: bub:default\nstages: {run_model: {«when»: {channel: cli}}}",
        "`run_model` may be skipped by its `when`, but `save_state` takes `model_output`",
        "give it a `default`, the value for this case",
        ("{channel: cli}", '{channel: cli}, default: "closed"'),
        related="`save_state` takes it here",
    ),
    Mistake(
        "B132",
        "extends: bub:default\nstages: {run_model: {«on_failure»: skip}}",
        "`run_model` may be left out when it fails, but `save_state` takes `model_output`",
        "give it a `default`, the value for this case",
        ("skip", 'skip, default: "sorry"'),
        related="`save_state` takes it here",
    ),
    # B133: a slip in the name of a value
    Mistake(
        "B133",
        "extends: bub:default\nstages: {build_prompt: {into: «promt»}}",
        "stage `build_prompt` makes `promt`, which no stage takes; stages take `prompt`, which no stage makes",
        "did you mean `prompt`?",
        ("promt", "prompt"),
    ),
    Mistake(
        "B133",
        "extends: bub:default\nstages: {run_model: {into: «output»}}",
        "stage `run_model` makes `output`, which no stage takes; stages take `model_output`, which no stage makes",
        "did you mean `model_output`?",
        ("output", "model_output"),
    ),
    # B134: values that a modifying stage may not change
    Mistake(
        "B134",
        "extends: bub:default\nhooks: {amend: {kind: modifying}}\n"
        "stages: {amend: {changes: [«session_id», state], after: load_state}}",
        "stage `amend` changes `session_id`, but the turn is already in the queue of its session",
        "let the stage that makes `session_id` decide",
        ("session_id, state", "state"),
    ),
    Mistake(
        "B134",
        "extends: bub:default\nhooks: {amend: {kind: modifying}}\n"
        "stages: {amend: {for_each: outbounds, changes: [«state»], before: dispatch_outbound}}",
        "stage `amend` runs for each of `outbounds` and changes `state`, which all items share",
        "such a stage can change only `message`, the item",
        ("[state]", "[message]"),
    ),
    # B140: gates that guard nothing
    Mistake(
        "B140",
        f"extends: bub:default\n{OWN_GATE}stages: {{«moderate»: {{after: dispatch_outbound}}}}",
        "stage `moderate` is a gate, but there is no stage after it that it can stop",
        "move it above the stages that it has to guard, with `before: STAGE`",
        ("after: dispatch_outbound", "before: dispatch_outbound"),
    ),
    Mistake(
        "B140",
        "extends: bub:default\nhooks: {check_reply: {kind: gate}}\n"
        "stages: {«check_reply»: {for_each: outbounds, after: dispatch_outbound}}",
        "stage `check_reply` is a gate, but there is no stage after it that it can stop",
        "move it above the stages that it has to guard, with `before: STAGE`",
        ("after: dispatch", "before: dispatch"),
    ),
    Mistake(
        "B140",
        "hooks: {late: {kind: gate}}\nstages:\n  load_state: {kind: firstresult, into: state}\n  «late»: {}\n"
        "  save_state: {kind: broadcast, cleanup_for: load_state, timeout: 1s}",
        "stage `late` is a gate, but there is no stage after it that it can stop",
        "move it above the stages that it has to guard, with `before: STAGE`",
        ("cleanup_for: load_state, ", ""),
    ),
    # B150, B151: hook points
    Mistake(
        "B150",
        "extends: bub:default\nstages: {«load_sate»: {kind: broadcast, after: load_state}}",
        "stage `load_sate` calls the hook `load_sate`, which does not exist",
        "did you mean `hook: load_state`?",
        ("{kind: broadcast", "{hook: load_state, kind: broadcast"),
    ),
    Mistake(
        "B150",
        "extends: bub:default\nstages: {seen: {hook: «mesage_received», kind: void, after: load_state}}",
        "stage `seen` calls the hook `mesage_received`, which does not exist",
        "did you mean `message_received`?",
        ("mesage", "message"),
    ),
    Mistake(
        "B150",
        "extends: bub:default\nstages: {«qqq»: {kind: void, after: load_state}}",
        "stage `qqq` calls the hook `qqq`, which does not exist",
        "declare it: `hooks: {qqq: {kind: …, takes: […]}}`",
        ("stages:", "hooks: {qqq: {kind: void}}\nstages:"),
    ),
    Mistake(
        "B151",
        "extends: bub:default\nstages: {«provide_channels»: {kind: broadcast, after: load_state}}",
        "stage `provide_channels` calls `provide_channels`, but no turn calls this hook",
        "take the stage out: Bub calls the hook by itself",
        ("provide_channels: {kind: broadcast", "message_received: {kind: void"),
    ),
    Mistake(
        "B151",  # and of no kind that would be right
        "extends: bub:default\nstages: {x: {kind: gate, hook: «provide_channels», after: load_state}}",
        "stage `x` calls `provide_channels`, but no turn calls this hook",
        "take the stage out: Bub calls the hook by itself",
        ("kind: gate, hook: provide_channels", "kind: void, hook: message_received"),
    ),
    # B160, B161: the list of plugins
    Mistake(
        "B160",
        "extends: bub:default\nprofiles: {default: {plugins: [«local_modle»]}}",
        "plugin `local_modle` is listed, but not installed",
        "did you mean `local_model`?",
        ("local_modle", "local_model"),
    ),
    Mistake(
        "B160",
        "extends: bub:default\nplugins: {house: {path: «/nowhere/house.py»}}\nprofiles: {default: {plugins: [house]}}",
        "plugin `house`: the file /nowhere/house.py does not exist",
        "`path` is relative to the pipeline file that has it",
        ("{path: /nowhere/house.py}", "{optional: true}"),
    ),
    Mistake(
        "B161",
        "extends: bub:default\nprofiles: {default: {plugins: [«builtin»]}}",
        "`builtin` is part of every profile and cannot be listed",
        "take `builtin` off the list",
        ("[builtin]", "[]"),
    ),
    # B162 - B167: profiles and routes
    Mistake(
        "B162",
        "extends: bub:default\nroutes: [{match: {channel: cli}, profile: «revewer»}]\n"
        "profiles: {reviewer: {}, base: {}, "
        "other: {extends: base}}\ntests: {t: {profile: reviewer, message: {content: a}, expect: {session_id: a}},"
        " u: {profile: other, message: {content: a}, expect: {session_id: a}}}",
        "route 1 leads to profile `revewer`, which does not exist",
        "did you mean `reviewer`?",
        ("revewer", "reviewer"),
    ),
    Mistake(
        "B162",
        "extends: bub:default\nprofiles: {reviewer: {extends: «defalt»}}",
        "there is no profile `defalt`",
        "did you mean `default`?",
        ("defalt", "default"),
    ),
    Mistake(
        "B162",
        'extends: bub:default\nsettings: {http: {clients: {ada: {token: "${file:t}", profiles: [«defalt»]}}}}\n'
        "profiles: {default: {plugins: [http]}}",
        "`settings.http.clients.ada.profiles[0]` is for profile `defalt`, which does not exist",
        "did you mean `default`?",
        ("defalt", "default"),
    ),
    Mistake(
        "B163",
        "extends: bub:default\nprofiles:\n  one: {extends: «one»}",
        "profiles extend each other in a circle: one → one",
        "remove one `extends`",
        ("extends: one", ""),
    ),
    Mistake(
        "B164",
        "extends: bub:default\nstages: {run_model: {only: [«local_modell»]}}",
        "stage `run_model` asks plugin `local_modell`, which profile `default` does not allow",
        "did you mean `local_model`?",
        ("local_modell", "local_model"),
        related="the profile's list is here",
    ),
    Mistake(
        "B164",
        "stages: {load_state: {kind: firstresult, into: state}}\nhooks: {load_state: {only: [«xyz»]}}",
        "hook `load_state` asks plugin `xyz`, which profile `default` does not allow",
        "add `xyz` to the profile's `plugins`",
        ("xyz", "builtin"),
    ),
    Mistake(
        "B166",
        "extends: bub:default\nroutes:\n  - {match: {channel: telegram}, profile: default}\n"
        "  - {«match»: {channel: telegram, chat_id: '-1*'}, profile: default}",
        "route 2 can never match: an earlier route takes every message it asks for",
        "put the narrower route first, or take this one out",
        ("{channel: telegram, chat", "{channel: cli, chat"),
        related="the earlier route",
    ),
    Mistake(
        "B166",
        "extends: bub:default\nroutes: [{match: {«session»: new}, profile: default}]",
        "route 1 can never match: Bub chooses the profile before it knows the session",
        "take `session` out; a stage can ask for it in its `when`",
        ("session", "channel"),
    ),
    Mistake(
        "B167",
        "extends: bub:default\nroutes: [{match: {channel: cli}, profile: default}]\nprofiles: {«reviewer»: {}}",
        "no route leads to profile `reviewer`",
        "add a route, or choose it at start with `--profile reviewer`",
        ("profile: default", "profile: reviewer"),
        severity="warning",
    ),
    # B170 - B175: the file's tests
    Mistake(
        "B170",
        "extends: bub:default\nprofiles: {reviewer: {}}\n"
        "tests: {greets: {profile: «reviwer», message: {}, expect: {ran: [run_model]}}}",
        "test `greets` is for profile `reviwer`, which does not exist",
        "did you mean `reviewer`?",
        ("reviwer", "reviewer"),
    ),
    Mistake(
        "B171",
        "extends: bub:default\ntests: {greets: {message: {}, mock: {«run_modle»: {return: hi}}, expect: {prompt: hi}}}",
        "test `greets` mocks `run_modle`, which is neither a stage nor a hook of profile `default`",
        "did you mean `run_model`?",
        ("run_modle", "run_model"),
    ),
    Mistake(
        "B171",
        "extends: bub:default\ntests: {greets: {message: {}, mock: {«agent_done»: {return: a}}, expect: {prompt: a}}}",
        "test `greets` mocks `agent_done`, which is neither a stage nor a hook of profile `default`",
        "give a mock the name of a stage, or of the hook that stages call",
        ("agent_done", "run_model_stream"),
    ),
    Mistake(
        "B172",
        "extends: bub:default\ntests: {greets: {message: {}, expect: {skipped: [«savestate»]}}}",
        "test `greets` expects stage `savestate` to be skipped, but profile `default` has no such stage",
        "did you mean `save_state`?",
        ("savestate", "save_state"),
    ),
    Mistake(
        "B172",
        "extends: bub:default\ntests: {breaks: {message: {}, expect: {error: {stage: «zzz», type: ValueError}}}}",
        "test `breaks` expects stage `zzz` to fail, but profile `default` has no such stage",
        None,
        ("zzz", "load_state"),
    ),
    Mistake(
        "B172",
        f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: run_model}}}}\n"
        "tests: {stops: {message: {}, expect: {ended_by: «denied:modrate»}}}",
        "test `stops` expects stage `modrate` to end the turn, but profile `default` has no such stage",
        "did you mean `denied:moderate`?",
        ("modrate", "moderate"),
    ),
    Mistake(
        "B173",
        f"extends: bub:default\n{OWN_GATE}stages: {{moderate: {{before: run_model, enabled: false}}}}\n"
        "tests: {stops: {message: {}, expect: {ended_by: «denied:moderate»}}}",
        "test `stops` expects stage `moderate` to end the turn, but it is off in profile `default`",
        "take it out, or test a profile in which the stage is on",
        ("enabled: false", "enabled: true"),
        related="it is switched off here",
        severity="warning",
    ),
    Mistake(
        "B173",
        "extends: bub:default\nstages: {load_state: {enabled: false}}\n"
        "tests: {greets: {message: {}, mock: {«load_state»: {return: {}}}, expect: {skipped: [load_state]}}}",
        "test `greets` mocks stage `load_state`, which is off in profile `default`",
        "take it out, or test a profile in which the stage is on",
        ("load_state: {return", "run_model: {return"),
        related="it is switched off here",
        severity="warning",
    ),
    Mistake(
        "B173",
        "extends: bub:default\nprofiles: {ci: {stages: {load_state: {enabled: false}}}}\n"
        "tests: {greets: {profile: ci, message: {}, expect: {ran: [«load_state»]}}}",
        "test `greets` expects stage `load_state` to run, but it is off in profile `ci`",
        "take it out, or test a profile in which the stage is on",
        ("profile: ci", "profile: default"),
        related="it is switched off here",
        severity="warning",
    ),
    Mistake(
        "B174",
        "extends: bub:default\ntests: {greets: {message: {}, expect: {ran: [run_model], skipped: [«run_model»]}}}",
        "test `greets` expects stage `run_model` both to run and to be skipped",
        "take one of the two out",
        ("ran: [run_model], ", ""),
        related="the other one is here",
    ),
    Mistake(
        "B174",
        "extends: bub:default\n"
        "tests: {breaks: {message: {}, expect: {skipped: [«run_model»], error: {stage: run_model, type: OSError}}}}",
        "test `breaks` expects stage `run_model` both to fail and to be skipped",
        "take one of the two out",
        ("skipped: [run_model]", "skipped: [load_state]"),
        related="the other one is here",
    ),
    Mistake(
        "B175",
        "extends: bub:default\ntests: {slow: {message: {}, expect: {error: {type: «TooSlowEror»}}}}",
        "test `slow` names the exception `TooSlowEror`, which does not exist",
        "did you mean `TooSlowError`?",
        ("TooSlowEror", "TooSlowError"),
        severity="warning",
    ),
    Mistake(
        "B175",
        "extends: bub:default\n"
        "tests: {slow: {message: {}, mock: {run_model: {raise: «ConectionError»}}, expect: {skipped: [save_state]}}}",
        "test `slow` names the exception `ConectionError`, which does not exist",
        "did you mean `ConnectionError`?",
        ("ConectionError", "TheirOwnError"),
        severity="warning",
    ),
    # One mistake in two checks is one finding.
    Mistake(
        "B101",
        "extends: bub:default\nstages: {save_state: {enabled: «yes»}}",
        "`enabled` of stage `save_state` must be true or false, not the text `yes`",
        "write `true`",
        ("yes", "true"),
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.code} {mistake.message}")
def test_a_mistake_is_one_finding_at_its_place_and_its_mended_twin_is_none(mistake: Mistake) -> None:
    assert_is_found(mistake)


RULES = {
    finding
    for path in Path(check_document.__code__.co_filename).parent.glob("rules/*.py")
    for finding in re.findall('"(B[0-9]+)"', path.read_text())
}


def test_every_code_of_the_rules_is_tested() -> None:
    folder = Path(__file__).parent
    texts = [path.read_text() for path in (*folder.glob("test_rules*.py"), folder / "test_prompt.py")]
    tested = {code for text in texts for code in re.findall(r'"(B[0-9]+)"', text)}
    assert tested | {"B125", "B127"} >= RULES
