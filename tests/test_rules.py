"""Every rule says each mistake once, at exactly the right place, and nothing about pipelines that are right."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.checking import check_file
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, marked, repaired, said

from bub import BubFramework
from bub.base.diagnostics import (
    START,
    Diagnostic,
    PipelineError,
    Position,
    Range,
    suggest,
    sure_repair,
    without_notes,
)
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.validate import ProfileChecker, check_document, check_profile
from bub.pipeline.plan.plan import MOST_STAGES
from bub.pipeline.run.compiler import plan_for
from bub.pipeline.source.merge import load_text

pytestmark = pytest.mark.anyio

Write = Callable[[str, str], Path]

OWN_GATE = "hooks: {moderate: {kind: gate, takes: [prompt]}}\n"

MISTAKES = [
    # B110: no kind
    Mistake(
        "B110",
        "stages: {«build_prompt»: {into: prompt}}",
        "stage `build_prompt` has no kind",
        "say how `build_prompt` is called, such as `kind: firstresult`",
        ("{into", "{kind: firstresult, into"),
    ),
    Mistake(
        "B110",
        "extends: bub:default\nhooks:\n  «ticked»: {takes: [what]}",
        "hook `ticked` has no kind",
        "say how it is called: `ticked: {kind: observer, takes: […]}`",
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
        related="`stream` is said here",
    ),
    Mistake(
        "B112",
        "extends: bub:default\nprofiles: {default: {stages: {save_state: {kind: «observer»}}}}",
        "stage `save_state` is of kind `broadcast`, which `profile default` cannot change to `observer`",
        "take it out, and put a stage of your own in its place with `replace: save_state`",
        ("{kind: observer}", "{timeout: 5s}"),
        related="`broadcast` is said here",
    ),
    Mistake(
        "B112",
        "hooks: {guard: {kind: gate}}\nstages: {guard: {}, load_state: {kind: firstresult}}\n"
        "profiles: {lax: {hooks: {guard: {kind: «observer»}}}}",
        "hook `guard` is of kind `gate`, which `profile lax` cannot change to `observer`",
        "declare a hook of another name",
        ("{kind: observer}", "{timeout: 5s}"),
        related="`gate` is said here",
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
        "`a → b` reads: a needs b; take one of them out",
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
        related="the place of `save_state` is said here",
    ),
    # B122, B123: the place of a new stage
    Mistake(
        "B122",
        "extends: bub:default\nstages:\n  «session_start»: {kind: void}",
        "stage `session_start` is new here, but does not say where it belongs",
        "add `before: STAGE` or `after: STAGE`, or `replace: STAGE` if it is to run in its stead",
        ("{kind: void}", "{kind: void, after: resolve_session}"),
    ),
    Mistake(
        "B122",
        "stages: {load_state: {kind: firstresult}}\nprofiles: {p: {stages: {«agent_done»: {kind: void}}}}",
        "stage `agent_done` is new here, but does not say where it belongs",
        "add `before: STAGE` or `after: STAGE`, or `replace: STAGE` if it is to run in its stead",
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
        "stage `session_start` says both `before` and `after`",
        "a stage is set directly beside one other; keep one of the two",
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
        "stage `dispatch_outbound` is a clean-up and runs for each of `outbounds`; it can be only one of them",
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
        "take `model_output` out of it: `run_model` works with what it makes",
        ("model_output", "content"),
        related="stage `run_model` makes `model_output` here",
    ),
    # B131: values that are made twice
    Mistake(
        "B131",
        "extends: bub:default\nhooks: {other: {kind: firstresult}}\n"
        "stages: {other: {into: «prompt», after: build_prompt}}",
        "stage `other` makes `prompt`, which stage `build_prompt` makes already",
        "add `replace: build_prompt` if it is to run in its stead; else give it a name of its own, or take the value"
        " and make a new version of it",
        ("{kind: firstresult}", "{kind: firstresult, takes: [prompt]}"),
        related="stage `build_prompt` makes `prompt` here",
    ),
    Mistake(
        "B131",
        "hooks: {load_state: {takes: [profile]}}\nstages: {load_state: {kind: firstresult, into: «message»}}",
        "stage `load_state` makes `message`, which exists from the start, without taking it",
        "give it a name of its own, or take the value and make a new version of it",
        ("into: message", "into: state"),
    ),
    # B132: stages that may yield nothing
    Mistake(
        "B132",
        "extends: bub:default\nstages: {run_model: {«enabled»: false}}",
        "`run_model` is switched off, but `save_state` takes `model_output`",
        "give it a `default`: what it yields then; or let another stage make the value with `into: model_output`",
        ("false", 'false, default: ""'),
        related="`save_state` takes it here",
    ),
    Mistake(
        "B132",
        "extends: bub:default\nstages: {run_model: {«when»: {channel: cli}}}",
        "`run_model` may be skipped by its `when`, but `save_state` takes `model_output`",
        "give it a `default`: what it yields then",
        ("{channel: cli}", '{channel: cli}, default: "closed"'),
        related="`save_state` takes it here",
    ),
    Mistake(
        "B132",
        "extends: bub:default\nstages: {run_model: {«on_failure»: skip}}",
        "`run_model` may be left out when it fails, but `save_state` takes `model_output`",
        "give it a `default`: what it yields then",
        ("skip", 'skip, default: "sorry"'),
        related="`save_state` takes it here",
    ),
    # B133: a slip in the name of a value
    Mistake(
        "B133",
        "extends: bub:default\nstages: {build_prompt: {into: «promt»}}",
        "stage `build_prompt` makes `promt`, which nobody takes, while `prompt` is taken and never made",
        "did you mean `prompt`?",
        ("promt", "prompt"),
    ),
    Mistake(
        "B133",
        "extends: bub:default\nstages: {run_model: {into: «output»}}",
        "stage `run_model` makes `output`, which nobody takes, while `model_output` is taken and never made",
        "did you mean `model_output`?",
        ("output", "model_output"),
    ),
    # B134: values that a modifying stage may not change
    Mistake(
        "B134",
        "extends: bub:default\nhooks: {amend: {kind: modifying}}\n"
        "stages: {amend: {changes: [«session_id», state], after: load_state}}",
        "stage `amend` changes `session_id`, but the turn has taken its place in that session already",
        "let the stage that makes it decide",
        ("session_id, state", "state"),
    ),
    Mistake(
        "B134",
        "extends: bub:default\nhooks: {amend: {kind: modifying}}\n"
        "stages: {amend: {for_each: outbounds, changes: [«state»], before: dispatch_outbound}}",
        "stage `amend` runs for each of `outbounds` and changes `state`, which the items share",
        "only `message`, the item, can be changed there",
        ("[state]", "[message]"),
    ),
    # B140: gates that guard nothing
    Mistake(
        "B140",
        f"extends: bub:default\n{OWN_GATE}stages: {{«moderate»: {{after: dispatch_outbound}}}}",
        "stage `moderate` is a gate, but nothing comes after it that it could keep from running",
        "move it above what it is to guard, with `before: STAGE`",
        ("after: dispatch_outbound", "before: dispatch_outbound"),
    ),
    Mistake(
        "B140",
        "extends: bub:default\nhooks: {check_reply: {kind: gate}}\n"
        "stages: {«check_reply»: {for_each: outbounds, after: dispatch_outbound}}",
        "stage `check_reply` is a gate, but nothing comes after it that it could keep from running",
        "move it above what it is to guard, with `before: STAGE`",
        ("after: dispatch", "before: dispatch"),
    ),
    Mistake(
        "B140",
        "hooks: {late: {kind: gate}}\nstages:\n  load_state: {kind: firstresult, into: state}\n  «late»: {}\n"
        "  save_state: {kind: broadcast, cleanup_for: load_state, timeout: 1s}",
        "stage `late` is a gate, but nothing comes after it that it could keep from running",
        "move it above what it is to guard, with `before: STAGE`",
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
        "stage `provide_channels` calls `provide_channels`, which is not called in a turn",
        "the framework calls it by itself; leave the stage out",
        ("provide_channels: {kind: broadcast", "message_received: {kind: void"),
    ),
    Mistake(
        "B151",  # and of no kind that would be right
        "extends: bub:default\nstages: {x: {kind: gate, hook: «provide_channels», after: load_state}}",
        "stage `x` calls `provide_channels`, which is not called in a turn",
        "the framework calls it by itself; leave the stage out",
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
        "`path` is relative to the pipeline file that says it",
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
        "B163",
        "extends: bub:default\nprofiles:\n  one: {extends: «one»}",
        "profiles extend each other in a circle: one → one",
        "remove one `extends`",
        ("extends: one", ""),
    ),
    Mistake(
        "B164",
        "extends: bub:default\nstages: {run_model: {only: [«local_modell»]}}",
        "stage `run_model` is for plugin `local_modell`, which profile `default` does not allow",
        "did you mean `local_model`?",
        ("local_modell", "local_model"),
        related="the profile's list is here",
    ),
    Mistake(
        "B164",
        "stages: {load_state: {kind: firstresult, into: state}}\nhooks: {load_state: {only: [«xyz»]}}",
        "hook `load_state` is for plugin `xyz`, which profile `default` does not allow",
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
        "route 1 can never match: its profile is chosen before the session is known",
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
        "a mock is called like a stage, or like the hook that stages call",
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
        "stage `run_model` is for plugin `xyz`, which profile `default` does not allow"
        " (the same in `p0`, `p1` and 7 more)"
    )
    assert finding.profile is None
    (finding,) = check(text.split("  p1:")[0])
    assert finding.message.endswith("(the same in `p0`)")


def test_a_plugin_that_one_profile_does_not_allow_is_told_for_that_profile() -> None:
    stages = "stages: {run_model: {only: [local_model]}}\n"
    (finding,) = check(f"{VERSION}extends: bub:default\n{stages}profiles: {{bare: {{plugins: []}}}}")
    assert finding.message == "stage `run_model` is for plugin `local_model`, which profile `bare` does not allow"
    assert finding.profile == "bare"


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


# References.


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


# With plugins loaded.


def plugin_findings(write: Write, pipeline: str, plugin: str, *, name: str = "guard") -> tuple[Diagnostic, ...]:
    """What is found when a pipeline is loaded with one plugin of its own; () when it compiles."""
    write("guard.py", f"from bub import hookimpl\n\n{plugin}")
    path = write("pipelines.yaml", f"{VERSION}plugins: {{{name}: {{path: guard.py}}}}\n{pipeline}")
    framework = BubFramework(config_file=path)
    try:
        framework.load_hooks()
    except PipelineError as error:
        return error.diagnostics
    return framework.warnings


LISTED = "extends: bub:default\nprofiles: {default: {plugins: [guard]}}\n"
GUARDED = LISTED + "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n"

IN_PLUGINS = [
    (
        "B200",
        LISTED,
        "import nothing_of_this_name",
        "import json",
        "plugin `guard` does not load: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "install the package that brings `nothing_of_this_name`, or take `guard` off the list",
    ),
    (
        "B201",
        LISTED,
        "@hookimpl  # here\ndef load_sate(): ...",
        "@hookimpl\ndef load_state(): ...",
        "plugin `guard` implements `load_sate`, which is not a hook",
        "did you mean `load_state`?",
    ),
    (
        "B202",
        LISTED,
        "@hookimpl  # here\ndef load_state(mesage): ...",
        "@hookimpl\ndef load_state(message): ...",
        "plugin `guard` asks `load_state` for `mesage`, which that hook does not have",
        "did you mean `message`?",
    ),
    (
        "B202",
        LISTED + "hooks: {load_state: {takes: [session_id]}}\n",
        "@hookimpl  # here\ndef load_state(message): ...",
        "@hookimpl\ndef load_state(session_id): ...",
        "plugin `guard` asks `load_state` for `message`, which that hook does not have; this pipeline narrows it to"
        " session_id",
        "it has: session_id",
    ),
    (
        "B203",
        LISTED,
        "@hookimpl  # here\nasync def system_prompt(): ...",
        "@hookimpl\ndef system_prompt(): ...",
        "plugin `guard` implements `system_prompt` as `async def`, but Bub calls it from code that cannot await",
        "write it as a plain `def`",
    ),
    (
        "B205",
        LISTED,
        "@hookimpl  # here\ndef run_model(): ...\n\n@hookimpl\ndef run_model_stream(): ...",
        "@hookimpl\ndef run_model_stream(): ...",
        "plugin `guard` implements both `run_model` and `run_model_stream`, which answer the same question",
        "keep `run_model_stream`",
    ),
    (
        "B206",
        LISTED,
        "@hookimpl(wrapper=True)  # here\ndef load_state():\n    yield",
        "@hookimpl\ndef load_state(): ...",
        "plugin `guard` implements `load_state` as a wrapper, which Bub does not have",
        "write it as a plain function; a stage of its own can run before or after another",
    ),
    (
        "B209",
        LISTED.replace("bub:default", "bub:ethos"),
        "@hookimpl  # here\ndef tool_gate(tool): ...",
        "@hookimpl\ndef on_error(error): ...",
        "plugin `guard` implements `tool_gate`, which this pipeline never calls, so it guards nothing",
        "use a pipeline that has it, or declare it: a stage, or an entry under `hooks:`",
    ),
    (
        "B209",
        LISTED,
        "@hookimpl  # here\ndef message_received(): ...",
        "@hookimpl\ndef provide_channels(message_handler): ...",
        "plugin `guard` implements `message_received`, which this pipeline never calls",
        "use a pipeline that has it, or declare it: a stage, or an entry under `hooks:`",
    ),
]


@pytest.mark.parametrize(("code", "pipeline", "wrong", "right", "message", "help_"), IN_PLUGINS)
def test_a_mistake_in_a_plugin_points_at_its_function(
    write: Write, code: str, pipeline: str, wrong: str, right: str, message: str, help_: str
) -> None:
    (finding,) = plugin_findings(write, pipeline, wrong)
    assert (finding.code, finding.message, finding.help) == (code, message, help_)
    if "# here" in wrong:
        assert Path(finding.file).name == "guard.py"
        before, name = re.findall(r"^((?:async )?def )(\w+)", wrong, re.MULTILINE)[0]
        start = len(before) + 1
        assert finding.range == Range(Position(4, start), Position(4, start + len(name)))
    else:
        assert finding.range == Range(Position(4, 32), Position(4, 37))  # where the profile lists it
    assert finding.severity == ("warning" if code == "B209" and "guards" not in message else "error")
    assert plugin_findings(write, pipeline, f"@hookimpl\ndef render_outbound(): ...\n{right}") == ()


def test_a_function_below_several_decorators_is_pointed_at_by_its_name(write: Write) -> None:
    decorated = "@hookimpl(\n    tryfirst=True,\n)\nasync  def  load_sate(\n    state): ..."
    (finding,) = plugin_findings(write, LISTED, decorated)
    assert (finding.code, finding.range) == ("B201", Range(Position(6, 13), Position(6, 22)))


def test_a_function_without_a_def_is_pointed_at_by_its_line(write: Write) -> None:
    (finding,) = plugin_findings(write, LISTED, "load_sate = hookimpl(lambda: 1)\n\ndef load_sate_too(): ...")
    assert (finding.code, finding.range) == ("B201", Range(Position(3, 1), Position(3, 1)))


def test_a_gate_that_nothing_implements_is_an_error_at_its_stage(write: Write) -> None:
    (finding,) = plugin_findings(write, GUARDED, "@hookimpl\ndef load_state(): ...")
    assert finding.code == "B204"
    assert finding.message == "stage `moderate` is a gate that no plugin of profile `default` implements"
    assert finding.range == Range(Position(6, 10), Position(6, 18))
    assert finding.profile == "default"
    assert plugin_findings(write, GUARDED, "@hookimpl\ndef moderate(prompt): ...") == ()


def test_a_declared_point_that_nothing_implements_is_an_error_at_its_key(write: Write) -> None:
    pipeline = LISTED + "hooks: {ticked: {kind: observer}}"
    (finding,) = plugin_findings(write, pipeline, "@hookimpl\ndef load_state(): ...")
    assert (finding.code, finding.range) == ("B204", Range(Position(5, 9), Position(5, 15)))
    fired = "@hookimpl\ndef ticked(): ...\n\n@hookimpl\nasync def build_prompt(fire):\n    await fire('ticked')\n"
    assert plugin_findings(write, pipeline, fired) == ()


def test_a_switched_off_gate_needs_nobody(write: Write) -> None:
    off = GUARDED.replace("run_model}", "run_model, enabled: false}")
    assert plugin_findings(write, off, "@hookimpl\ndef load_state(): ...") == ()


def test_a_plugin_without_hooks_is_reported_where_it_is_listed(write: Write) -> None:
    (finding,) = plugin_findings(write, LISTED, "def load_state(): ...")
    assert (finding.code, finding.range) == ("B207", Range(Position(4, 32), Position(4, 37)))
    assert finding.help is not None and finding.help.startswith("mark its functions with `@bub.hookimpl`, name a class")


@pytest.mark.parametrize(
    ("plugin", "code"),
    [
        ("import nothing_of_this_name", "B200"),
        ("@hookimpl\ndef moderat(prompt): ...", "B201"),
        ("@hookimpl\ndef moderate(promt): ...", "B202"),
        ("@hookimpl(wrapper=True)\ndef moderate(prompt):\n    yield", "B206"),
    ],
)
def test_a_gate_whose_plugin_is_broken_is_told_once(write: Write, plugin: str, code: str) -> None:
    assert [finding.code for finding in plugin_findings(write, GUARDED, plugin)] == [code]


def test_an_optional_plugin_that_is_missing_leaves_no_gate_unguarded(write: Write) -> None:
    pipeline = GUARDED.replace("plugins: [guard]", "plugins: [extra]")
    path = write("pipelines.yaml", f"{VERSION}plugins: {{extra: {{optional: true}}}}\n{pipeline}")
    with pytest.raises(PipelineError) as caught:
        BubFramework(config_file=path).load_hooks()
    assert [finding.code for finding in caught.value.diagnostics] == ["B204"]


def test_an_optional_plugin_that_breaks_is_a_warning_and_its_gate_an_error(write: Write) -> None:
    write("guard.py", "raise RuntimeError('boom')")
    path = write("pipelines.yaml", VERSION + "plugins: {guard: {path: guard.py, optional: true}}\n" + GUARDED)
    with pytest.raises(PipelineError) as caught:
        BubFramework(config_file=path).load_hooks()
    assert [(finding.code, finding.severity) for finding in caught.value.diagnostics] == [
        ("B200", "warning"),
        ("B204", "error"),
    ]


def test_every_mistake_of_all_plugins_is_told_together(write: Write) -> None:
    write("one.py", "from bub import hookimpl\n\n@hookimpl\ndef load_sate(): ...\n")
    write("two.py", "from bub import hookimpl\n\n@hookimpl\nasync def system_prompt(x): ...\n")
    write("three.py", "1 +\n")
    path = write(
        "pipelines.yaml",
        VERSION + "extends: bub:default\nplugins: {one: {path: one.py}, two: {path: two.py}, three: {path: three.py}}\n"
        "profiles: {default: {plugins: [one, two, three]}}\n",
    )
    with pytest.raises(PipelineError) as caught:
        BubFramework(config_file=path).load_hooks()
    assert sorted(finding.code for finding in caught.value.diagnostics) == ["B200", "B201", "B202", "B203"]


# What is right is let through.

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
