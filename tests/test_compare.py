"""What counts as a difference in behaviour between two pipelines, how dangerous it is, and what makes none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.base.diagnostics import PipelineError
from bub.base.resources import shipped_pipelines, shipped_schema
from bub.errors import UsageError
from bub.pipeline.show.compare import Comparison, compare
from bub.pipeline.show.differences.changes import AREAS, Change
from bub.pipeline.show.differences.order import find_moved
from bub.pipeline.source.merge import Document, load_document, load_shipped, load_text

TESTDATA = Path(__file__).parent / "testdata"

PIPELINE = """
    version: 1
    on_failure: skip
    description: what it is for
    stages:
      resolve_session: {kind: firstresult, into: session_id, default: "{channel}:{chat_id}", default_if: falsy}
      heard: {kind: void, hook: message_received}
      noted: {kind: void, hook: session_start}
      load_state: {kind: broadcast, combine: merge, into: state, thread: true, needs: [heard]}
      build_prompt: {kind: firstresult, into: prompt, default: "{content}", timeout: 10s}
      moderate: {kind: gate, only: [guard, second], when: {channel: telegram}, timeout: 5s}
      run_model: {kind: stream, hook: run_model_stream, into: model_output, retry: {times: 2, backoff: 1s}}
      save_state: {kind: broadcast, cleanup_for: run_model, timeout: 30s, on_failure: propagate}
      render_outbound: {kind: broadcast, combine: concat, into: outbounds, default: [{content: "{model_output}"}]}
      rewrite: {for_each: outbounds, changes: [message]}
      dispatch_outbound: {kind: broadcast, for_each: outbounds, enabled: false}
    hooks:
      moderate: {takes: [prompt, session_id]}
      rewrite: {kind: modifying, takes: [message], timeout: 2s, on_failure: propagate, only: [guard], thread: true}
      tool_gate: {kind: gate, only: [guard]}
      before_llm_call: {kind: void}
    plugins:
      guard: {path: plugins/guard.py, runtime: python}
      second: {optional: true}
    profiles:
      default:
        plugins: [guard, second]
        description: the usual one
        tools: {allow: [fs.read, bash], deny: [fs.write], ask: [bash]}
        concurrency: serial
        budget: {steps: 5, tokens_per_day: 100}
        channels: [telegram]
      work:
        extends: default
        plugins: [guard]
        settings: {model: "a:b"}
        stages: {run_model: {timeout: 60s}}
        hooks: {before_llm_call: {timeout: 1s}}
    routes:
      - {match: {channel: telegram, chat_id: "-1*"}, profile: work}
      - {match: {channel: cli}, profile: default}
    settings:
      model: "openrouter:openrouter/free"
      max_tokens: 100
      providers: {openrouter: {api_key: "${env:KEY}", api_base: "https://a.example"}}
      guard: {words: [a, b]}
    tests:
      a test: {message: {content: hello}, expect: {session_id: x}}
    x-mine: 1
"""


def pipeline(text: str) -> Document:
    return load_text(dedent(text), base=Path("/nowhere"))


def changes(old: str, new: str) -> list[Change]:
    return list(compare(pipeline(old), pipeline(new)).changes)


def messages(old: str, new: str) -> list[str]:
    return [change.message for change in changes(old, new)]


def dangers(old: str, new: str) -> list[str]:
    return [change.message for change in changes(old, new) if change.severity == "danger"]


CHILD = """
    version: 1
    extends: bub:default
    hooks: {moderate: {kind: gate, takes: [prompt]}}
    stages: {moderate: {before: run_model}}
    plugins: {guard: {path: guard.py}, shell: {path: plugins/shell.py}}
    profiles: {default: {plugins: [guard]}}
"""


def child(old: str, new: str) -> str:
    assert old in CHILD
    return CHILD.replace(old, new)


# Code


def test_a_plugin_that_is_newly_listed_will_be_imported() -> None:
    found = changes(CHILD, child("plugins: [guard]", "plugins: [guard, shell, telegram]"))
    assert [(change.severity, change.message) for change in found] == [
        ("danger", "plugin `shell` will be imported from `plugins/shell.py`"),
        ("notice", "plugin `telegram` will be imported from an installed package"),  # it came with Bub
    ]
    assert str(found[0].place) == "pipelines.yaml:7:39"


def test_another_file_for_a_listed_plugin_is_other_code() -> None:
    assert dangers(CHILD, child("guard.py", "other.py")) == [
        "plugin `guard` will be imported from `other.py`, no longer from `guard.py`"
    ]
    assert dangers(CHILD, child("{path: guard.py}", "{}")) == [
        "plugin `guard` will be imported from an installed package, no longer from `guard.py`"
    ]


def test_what_is_said_of_a_plugin_that_no_profile_lists_changes_nothing() -> None:
    assert messages(CHILD, child("plugins/shell.py", "plugins/other.py")) == []


def test_losing_a_plugin_is_dangerous_where_a_gate_may_be_its() -> None:
    assert dangers(CHILD, child("plugins: [guard]", "plugins: []")) == [
        "plugin `guard` will no longer be imported, though gates `tool_gate`, `moderate` may rely on it"
    ]
    assert dangers(CHILD, child("{path: guard.py}", "{path: guard.py, optional: true}")) == [
        "plugin `guard` may be missing, though gates `tool_gate`, `moderate` may rely on it"
    ]
    asking_another = CHILD.replace("{before: run_model}", "{before: run_model, only: [shell]}")
    asking_another = asking_another.replace("bub:default", "bub:ethos")  # which has no gate of its own
    assert dangers(asking_another, asking_another.replace("plugins: [guard]", "plugins: []")) == []


def test_the_order_of_the_list_is_the_order_in_which_plugins_are_asked() -> None:
    both = child("plugins: [guard]", "plugins: [guard, shell]")
    assert messages(both, both.replace("[guard, shell]", "[shell, guard]")) == [
        "plugins are asked in another order: `guard`, `shell` (was `shell`, `guard`)"
    ]


# Gates


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{before: run_model, enabled: false}", "gate `moderate` is switched off"),
        (
            '{before: run_model, enabled: "${env:GUARDED}"}',
            "`enabled` of gate `moderate` is `${env:GUARDED}` (was `true`)",
        ),
        (
            "{before: run_model, when: {channel: telegram}}",
            "gate `moderate` is for messages with channel `telegram` (was for all messages)",
        ),
        (
            "{before: run_model, only: []}",
            "`only` of gate `moderate` is `[]` (was every plugin of the profile)",
        ),
        ("{before: save_state}", "gate `moderate` no longer runs before `run_model`"),
        ("{before: run_model, hook: other}", "`hook` of gate `moderate` is `other` (was `moderate`)"),
    ],
)
def test_a_gate_that_opens_is_dangerous(written: str, said: str) -> None:
    hooks = "{moderate: {kind: gate, takes: [prompt]}, other: {kind: gate, takes: [prompt]}}"
    old = child("{moderate: {kind: gate, takes: [prompt]}}", hooks)
    assert dangers(old, old.replace("{before: run_model}", written)) == [said]


def test_a_gate_that_is_gone_is_told_with_what_it_guarded() -> None:
    without = child("stages: {moderate: {before: run_model}}", "").replace(
        "{moderate: {kind: gate, takes: [prompt]}}", "{}"
    )
    found = changes(CHILD, without)
    assert [change.message for change in found if change.severity == "danger"] == [
        "gate `moderate` is gone: it ran before `run_model`, `render_outbound`, `dispatch_outbound`"
    ]
    assert (found[0].kind, str(found[0].place)) == ("gates.removed", "pipelines.yaml:5:10")


def test_a_gate_that_becomes_another_kind_guards_nothing() -> None:
    assert dangers(CHILD, child("kind: gate", "kind: void"))[0] == "`kind` of gate `moderate` is `void` (was `gate`)"


def test_words_that_are_read_before_they_are_judged_are_dangerous() -> None:
    judged = child("takes: [prompt]", "takes: [model_output]").replace("before: run_model", "after: run_model")
    told = judged.replace("stages: {", "stages: {run_model: {show: at_once}, ")
    why = "Bub shows streamed text before the checks below have judged it"
    assert dangers(judged, told) == [f"`show` of stage `run_model` is `at_once` (was `checked`): {why}"]
    assert dangers(told, judged) == []
    assert changes(judged, told.replace("at_once", "checked")) == []
    added = judged.replace(
        "stages: {", "stages: {again: {kind: stream, hook: run_model, into: draft, after: run_model, show: at_once}, "
    )
    assert dangers(judged, added) == [f"stage `again` (stream) is new, after `run_model`: {why}"]


def test_a_gate_that_closes_is_no_danger() -> None:
    narrow = child("{before: run_model}", "{before: run_model, when: {channel: telegram}, only: [guard]}")
    found = changes(narrow, CHILD)
    assert {change.kind for change in found} == {"policies.when", "policies.only"}
    assert dangers(child("stages: {moderate: {before: run_model}}", ""), CHILD) == []
    assert dangers(child("{before: run_model}", "{before: run_model, enabled: '${env:GUARDED}'}"), CHILD) == []


@pytest.mark.parametrize(
    ("match", "is_danger"),
    [
        ("{channel: 'tele*'}", False),
        ("{channel: '*'}", False),
        ("{channel: 'telegra?'}", False),
        ("{channel: slack}", True),
        ("{channel: telegram, chat_id: '1'}", True),
        ("{chat_id: '*'}", True),
    ],
)
def test_a_gate_for_fewer_messages_is_open_for_the_others(match: str, is_danger: bool) -> None:
    old = child("{before: run_model}", "{before: run_model, when: {channel: telegram}}")
    assert bool(dangers(old, old.replace("{channel: telegram}", match))) is is_danger
    assert messages(old, old.replace("{channel: telegram}", match))


def test_a_new_stage_beside_the_gate_that_calls_what_the_gate_guards_is_dangerous() -> None:
    sneaky = "{moderate: {before: run_model}, sneaky: {before: moderate, kind: firstresult, hook: run_model}}"
    assert dangers(CHILD, child("{moderate: {before: run_model}}", sneaky)) == [
        "gate `moderate` does not run before `sneaky`, which also calls `run_model`"
    ]


def test_a_stage_that_becomes_a_cleanup_runs_although_the_gate_denies() -> None:
    assert dangers(
        CHILD,
        CHILD.replace(
            "{moderate: {before: run_model}}",
            "{moderate: {before: run_model}, dispatch_outbound: {cleanup_for: run_model, timeout: 1s}}",
        ),
    ) == ["gate `moderate` no longer runs before `dispatch_outbound`"]


def test_a_gate_inside_a_stage_is_a_gate_too() -> None:
    child_of_ethos = CHILD.replace("bub:default", "bub:ethos")  # which has no gate of its own
    old = child_of_ethos.replace("takes: [prompt]}}", "takes: [prompt]}, tool_gate: {kind: gate}}")
    assert dangers(old, child_of_ethos) == ["gate `tool_gate` is no longer declared"]
    narrowed = old.replace("tool_gate: {kind: gate}", "tool_gate: {kind: gate, only: [shell]}")
    assert dangers(old, narrowed) == ["`only` of gate `tool_gate` is `shell` (was every plugin of the profile)"]


def test_what_a_hook_point_says_of_a_gate_counts_for_the_gate() -> None:
    narrowed = child("kind: gate, takes", "kind: gate, only: [shell], takes")
    assert dangers(CHILD, narrowed) == ["`only` of gate `moderate` is `shell` (was every plugin of the profile)"]


def test_a_gate_whose_kind_its_stage_says_is_a_gate_at_its_hook_point_too() -> None:
    old = child("kind: gate, ", "").replace("{before: run_model}", "{kind: gate, before: run_model}")
    narrowed = old.replace("{takes: [prompt]}", "{only: [shell], takes: [prompt]}")
    assert dangers(old, narrowed) == ["`only` of gate `moderate` is `shell` (was every plugin of the profile)"]


def test_what_stood_beside_the_gate_before_may_go_on_to() -> None:
    early = "{moderate: {before: run_model}, early: {before: moderate, kind: firstresult, hook: run_model}}"
    old = child("{moderate: {before: run_model}}", early)
    assert dangers(old, old.replace("{before: run_model}", "{before: run_model, timeout: 5s}")) == []


def test_a_gate_for_each_item_guards_those_that_work_on_the_list() -> None:
    each = child("{before: run_model}", "{before: dispatch_outbound, for_each: outbounds}").replace(
        "[prompt]", "[message]"
    )
    noted = each.replace("stages: {", "stages: {noted: {kind: void, hook: agent_done, after: dispatch_outbound}, ")
    assert dangers(noted, noted.replace("after: dispatch_outbound", "before: render_outbound")) == []
    assert dangers(each, each.replace("before: dispatch_outbound", "after: dispatch_outbound")) == [
        "gate `moderate` no longer runs before `dispatch_outbound`"
    ]


def test_a_plugin_that_goes_with_its_gate_is_told_once_as_a_danger() -> None:
    old = CHILD.replace("bub:default", "bub:ethos")  # which has no gate of its own
    without = old.replace("stages: {moderate: {before: run_model}}", "").replace("plugins: [guard]", "plugins: []")
    assert dangers(old, without.replace("{moderate: {kind: gate, takes: [prompt]}}", "{}")) == [
        "gate `moderate` is gone: it ran before `run_model`, `agent_done`, `render_outbound`, `message_sending`,"
        " `before_dispatch`, `dispatch_outbound` and 1 more"
    ]


# Tools


TOOLS = child(
    "plugins: [guard]", "plugins: [guard], tools: {allow: [fs.read, 'net.*'], deny: ['net.*'], ask: [fs.read]}"
)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("{allow: [fs.read, 'net.*', bash], deny: ['net.*'], ask: [fs.read]}", ["tool `bash` may be used"]),
        (
            "{allow: [fs.read, 'net.*', bash], deny: ['net.*'], ask: ['*']}",
            ["tool `bash` may be used, after a person was asked"],
        ),
        ("{allow: [fs.read, 'net.*'], deny: [], ask: [fs.read]}", ["tool `net.*` is no longer denied"]),
        (
            "{allow: [fs.read, 'net.*'], deny: ['net.*'], ask: []}",
            ["nobody is asked any more before tool `fs.read` is used"],
        ),
        ("{allow: [fs.read, 'net.*'], deny: ['net.*'], ask: ['fs.*']}", []),
        ("{allow: [fs.read, 'net.*'], deny: ['net.?'], ask: [fs.read]}", ["tool `net.*` is no longer denied"]),
        ("{allow: [], deny: ['net.*'], ask: []}", []),
    ],
)
def test_what_tools_may_do_more_is_dangerous(tools: str, said: list[str]) -> None:
    new = TOOLS.replace("{allow: [fs.read, 'net.*'], deny: ['net.*'], ask: [fs.read]}", tools)
    assert dangers(TOOLS, new) == said
    assert messages(TOOLS, new)


def test_who_is_asked_no_more_before_some_of_a_pattern_is_in_danger() -> None:
    asking = TOOLS.replace("ask: [fs.read]", "ask: ['fs.*']")
    no_more = "nobody is asked any more before tool `fs.*` is used"
    assert dangers(asking, asking.replace("ask: ['fs.*']", "ask: []")) == [no_more]
    assert dangers(asking, asking.replace("ask: ['fs.*']", "ask: [net.read]")) == [no_more]
    other = asking.replace("allow: [fs.read, 'net.*']", "allow: [tape.read]")
    assert dangers(other, other.replace("ask: ['fs.*']", "ask: []")) == []


def test_commands_that_nobody_is_asked_about_are_dangerous_where_bash_was_asked_about() -> None:
    asking = TOOLS.replace(
        "{allow: [fs.read, 'net.*'], deny: ['net.*'], ask: [fs.read]}", "{allow: [bash], ask: [bash]}"
    )
    fewer = asking.replace("ask: [bash]", "ask: [bash], unasked: {bash: [ls, git log]}")
    said = [f"nobody is asked about a command that begins with `{one}`" for one in ("ls", "git log")]
    assert dangers(asking, fewer) == said
    assert dangers(fewer, asking) == []
    assert messages(fewer, asking)[0] == "a command that begins with `ls` is asked about like any other"
    assert dangers(asking.replace("ask: [bash]", "ask: []"), fewer) == []
    assert dangers(asking.replace("[bash], ask", "[fs.read], ask"), fewer) == [
        "tool `bash` may be used, after a person was asked",
        *said,
    ]


def test_bash_is_allowed_by_its_name_only() -> None:
    everything = TOOLS.replace("allow: [fs.read, 'net.*'], deny: ['net.*']", "allow: ['*'], deny: []")
    assert dangers(everything, everything.replace("['*']", "['*', fs.read]")) == []
    assert dangers(everything, everything.replace("['*']", "['*', bash]")) == ["tool `bash` may be used"]


# Stages, order, policies, values


def test_a_change_of_a_stage_is_told_where_the_new_value_stands() -> None:
    [change] = changes(
        CHILD, child("{moderate: {before: run_model}}", "{moderate: {before: run_model}, save_state: {timeout: 1m}}")
    )
    assert (change.severity, change.kind, change.path) == ("notice", "policies.timeout", "stages.save_state.timeout")
    assert change.message == "`timeout` of stage `save_state` is `1m` (was `30s`)"
    assert str(change.place) == "pipelines.yaml:5:54"
    assert (change.old, change.new) == ("30s", "1m")


def test_what_is_gone_is_told_where_it_stood() -> None:
    slow = child("{before: run_model}", "{before: run_model, timeout: 5s}")
    [change] = changes(slow, CHILD)
    assert (change.message, str(change.place)) == (
        "`timeout` of gate `moderate` is not set (was `5s`): if a plugin hangs there, the turn never ends",
        "pipelines.yaml:5:40",
    )


def test_of_two_stages_that_swap_the_one_that_says_so_has_moved() -> None:
    def moves(old: str, new: str) -> list[str]:
        return [change.message for change in changes(old, new) if change.area == "order"]

    below = child("{before: run_model}", "{after: run_model}")
    assert moves(CHILD, below) == ["stage `moderate` runs after `run_model` (was after `build_prompt`)"]
    assert moves(below, CHILD) == ["stage `moderate` runs after `build_prompt` (was after `run_model`)"]
    lifted = child("{moderate: {before: run_model}}", "{moderate: {before: run_model}, save_state: {before: moderate}}")
    assert moves(CHILD, lifted) == ["stage `save_state` runs after `build_prompt` (was after `run_model`)"]


def test_who_no_longer_waits_for_whom_is_told() -> None:
    def with_second(keys: str) -> str:
        stages = (
            f"{name}: {{{more}kind: void, hook: agent_done}}" for name, more in (("a", ""), ("b", keys), ("c", ""))
        )
        return f"version: 1\nstages: {{{', '.join(stages)}}}\n"

    assert messages(with_second(""), with_second("needs: [], ")) == ["stage `b` no longer waits for `a`"]
    assert messages(with_second("needs: [], "), with_second("")) == ["stage `b` waits for `a`"]
    assert messages(with_second(""), with_second("needs: [a], ")) == []


def test_the_default_policy_is_told_once() -> None:
    assert messages(CHILD, f"{CHILD}    on_failure: skip\n") == [
        "`on_failure` of the pipeline is `skip` (was `propagate`)"
    ]
    assert messages(CHILD, f"{CHILD}    on_failure: propagate\n") == []


def test_a_timeout_that_moves_to_the_hook_point_is_one_difference_at_most() -> None:
    slow = child("{before: run_model}", "{before: run_model, timeout: 5s}")
    assert messages(slow, child("kind: gate, takes", "kind: gate, timeout: 5s, takes")) == [
        "`timeout` of gate `moderate` is `5s` (was not set)"
    ]


@given(st.permutations(list("abcdefg")))
def test_the_fewest_stages_are_said_to_have_moved(after: list[str]) -> None:
    before = list("abcdefg")
    names = find_moved(before, after)
    rest = [name for name in after if name not in names]
    assert rest == sorted(rest)
    longest = max(
        sum(mask >> index & 1 for index in range(7))
        for mask in range(128)
        if (kept := [name for index, name in enumerate(after) if mask >> index & 1]) == sorted(kept)
    )
    assert len(rest) == longest


# Profiles and routes


def test_a_new_profile_is_compared_with_what_its_messages_got() -> None:
    new = child(
        "profiles: {default: {plugins: [guard]}}",
        "profiles: {default: {plugins: [guard]}, work: {extends: default, plugins: [shell]}}",
    )
    comparison = compare(pipeline(CHILD), pipeline(new))
    assert [(each.name, each.old, each.new, len(each.changes)) for each in comparison.profiles] == [
        ("default", "default", "default", 0),
        ("work", "default", "work", 3),
    ]
    assert [change.message for change in comparison.profiles[1].changes] == [
        "plugin `shell` will be imported from `plugins/shell.py`",
        "plugin `guard` will no longer be imported, though gates `tool_gate`, `moderate` may rely on it",
        "profile `work` is new; its messages got `default` before",
    ]
    back = compare(pipeline(new), pipeline(CHILD)).profiles[1]
    assert (back.name, back.old, back.new) == ("work", "work", None)
    assert [change.message for change in back.changes] == ["profile `work` is gone; no message got it by itself"]
    routed = f"{new}    routes: [{{match: {{channel: x}}, profile: work}}]\n"
    back = compare(pipeline(routed), pipeline(CHILD)).profiles[1]
    assert (back.name, back.old, back.new) == ("work", "work", "default")
    assert back.changes[-1].message == "profile `work` is gone; its messages get `default` now"


def test_profiles_that_are_named_are_compared_alone() -> None:
    document = pipeline(PIPELINE)
    comparison = compare(document, document, ("default", "work"))
    assert [(each.old, each.new) for each in comparison.profiles] == [("default", "work")]
    assert "`timeout` of stage `run_model` is `60s` (was not set)" in [each.message for each in comparison.changes]
    with pytest.raises(UsageError, match="has no profile `wrok`"):
        compare(document, document, ("default", "wrok"))


def test_routes_tell_who_gets_which_profile() -> None:
    def with_routes(*routes: str) -> str:
        return f"version: 1\nextends: bub:default\nprofiles: {{a: {{}}, b: {{}}}}\nroutes: [{', '.join(routes)}]\n"

    one, two = "{match: {channel: x, chat_id: '1'}, profile: a}", "{match: {}, profile: a}"
    assert messages(with_routes(one), with_routes("{profile: b, match: {chat_id: '1', channel: x}}")) == [
        "messages with chat_id `1`, channel `x` get profile `b` (was `a`)"
    ]
    assert messages(with_routes(one), with_routes(one, two)) == ["all messages get profile `a`"]
    assert messages(with_routes(two), with_routes()) == [
        "all messages no longer get profile `a` by a route of their own: strangers may do more than profile `a` let"
        " them: tool `*` may be used, and 1 more"
    ]
    three = "{match: {channel: y}, profile: b}"
    assert messages(with_routes(one, three, two), with_routes(three, two, one)) == [
        "the route of messages with channel `x`, chat_id `1` to profile `a` is at another place among the routes"
    ]


# Settings


def test_secrets_are_never_shown() -> None:
    def with_settings(key: str, token: str, base: str) -> str:
        return f"""
            version: 1
            extends: bub:default
            settings:
              api_key: {key}
              api_base: {base}
              other: {{token: {token}}}
        """

    comparison = compare(
        pipeline(with_settings("sk-one", "'${env:T:-sk-five}'", "https://user:sk-seven@a.example")),
        pipeline("\n" + with_settings("sk-two", "'${env:U:-sk-six}'", "https://user:sk-eight@b.example")),
    )
    assert "sk-" not in json.dumps(comparison.as_dict())
    assert sorted(change.message for change in comparison.changes) == [
        "`settings.api_base` is `https://…@b.example` (was `https://…@a.example`): messages and keys go there",
        "`settings.api_key` is changed",
        "`settings.other.token` is `${env:U:-…}` (was `${env:T:-…}`)",
    ]


def test_where_messages_and_keys_go_is_dangerous() -> None:
    old = "version: 1\nextends: bub:default\nsettings: {model: 'a:b'}\n"
    assert dangers(old, old.replace("'a:b'", "'a:b', providers: {a: {api_base: 'https://x.example'}}")) == [
        "`settings.providers.a.api_base` is `https://x.example` (was not set): messages and keys go there"
    ]


def test_where_messages_lie_is_told_without_a_password() -> None:
    old = "version: 1\nextends: bub:default\nsettings: {gateway: {store: 'redis://:hunter2@a.example'}}\n"
    change = "`redis://…@b.example` (was `redis://…@a.example`): all messages and tapes go there"
    assert dangers(old, old.replace("a.example", "b.example")) == [f"`settings.gateway.store` is {change}"]


def test_references_are_shown_and_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "same")
    monkeypatch.setenv("TWO", "same")
    old = "version: 1\nextends: bub:default\nsettings: {model: '${env:ONE}'}\n"
    assert messages(old, old.replace("ONE", "TWO")) == ["`settings.model` is `${env:TWO}` (was `${env:ONE}`)"]


# Everything that does something is compared

STAGE = {
    "kind": "kind: observer",
    "hook": "hook: message_received",
    "needs": "needs: []",
    "before": "before: load_state",
    "after": "after: load_state",
    "replace": "replace: load_state",
    "into": "into: other",
    "default": "default: 1",
    "default_if": "default_if: falsy",
    "combine": "combine: join",
    "changes": "changes: [system]",
    "for_each": "for_each: outbounds",
    "cleanup_for": "cleanup_for: run_model",
    "retry": "retry: {times: 3}",
    "show": "show: at_once",
    "idle_timeout": "idle_timeout: 77s",
    "when": "when: {channel: cli}",
    "enabled": "enabled: false",
    "timeout": "timeout: 77s",
    "on_failure": "on_failure: skip",
    "only": "only: [guard]",
    "thread": "thread: true",
}
HOOK = {key: STAGE[key] for key in ("kind", "timeout", "on_failure", "only", "thread")} | {"takes": "takes: [message]"}
PLUGIN = {"path": "path: other.py", "optional": "optional: true", "labels": "labels: {}", "runtime": "runtime: asyncio"}
PROFILE = {
    "extends": "extends: work",
    "plugins": "plugins: [guard, second]",
    "tools": "tools: {allow: [bash]}",
    "settings": "settings: {model: 'x:y'}",
    "stages": "stages: {save_state: {timeout: 1s}}",
    "hooks": "hooks: {before_llm_call: {timeout: 5s}}",
    "schedules": "schedules: {noon: {cron: '0 12 * * *', session: 'telegram:1', message: lunch}}",
    "approvers": "approvers: {telegram: ['4711']}",
    "mcp": "mcp: {time: {command: [x]}}",
    "reach": "reach: {write: [workspace]}",
    "concurrency": "concurrency: parallel",
    "budget": "budget: {steps: 3}",
    "channels": "channels: [cli]",
}
TOP = {
    "extends": "extends: bub:ethos",
    "stages": "stages: {save_state: {timeout: 1s}}",
    "hooks": "hooks: {before_llm_call: {timeout: 5s}}",
    "profiles": "profiles: {other: {}}",
    "routes": "routes: [{match: {}, profile: default}]",
    "schedules": "schedules: {noon: {cron: '0 12 * * *', session: 'telegram:1', message: lunch}}",
    "settings": "settings: {model: 'x:y'}",
    "on_failure": "on_failure: skip",
    "plugins": "plugins: {local_model: {path: x.py}}",
    "mcp": "mcp: {time: {command: [x]}}",
    "agents": "agents: {rex: [/work]}",
}


def keys_of(owner: str) -> set[str]:
    schema = json.loads(shipped_schema("pipeline.schema.json").read_text(encoding="utf-8"))
    return set(schema["$defs"][owner]["properties"] if owner else schema["properties"])


def test_the_tables_know_every_key() -> None:
    assert set(STAGE) == keys_of("stage")
    assert set(HOOK) == keys_of("hook") - {"description"}
    assert set(PLUGIN) == keys_of("plugin")
    assert set(PROFILE) == keys_of("profile") - {"description"}
    assert set(TOP) == keys_of("") - {"version", "description", "tests"}


@pytest.mark.parametrize("key", STAGE)
def test_every_key_of_a_stage_is_compared(key: str) -> None:
    base = (
        "version: 1\nextends: bub:default\nhooks: {mine: {kind: broadcast}}\nstages: {mine: {after: save_state, X}}\n"
    )
    new = base.replace(
        "after: save_state, X", STAGE[key] if key in ("before", "after") else f"after: save_state, {STAGE[key]}"
    )
    assert messages(base.replace(", X", ""), new)


@pytest.mark.parametrize("key", HOOK)
def test_every_key_of_a_hook_point_is_compared(key: str) -> None:
    base = "version: 1\nextends: bub:default\nhooks: {mine: {X}}\n"
    assert messages(base.replace("X", ""), base.replace("X", HOOK[key]))


@pytest.mark.parametrize("key", PLUGIN)
def test_every_key_of_a_plugin_is_compared(key: str) -> None:
    base = "version: 1\nextends: bub:default\nplugins: {guard: {X}}\nprofiles: {default: {plugins: [guard]}}\n"
    assert messages(base.replace("X", ""), base.replace("X", PLUGIN[key]))


@pytest.mark.parametrize("key", PROFILE)
def test_every_key_of_a_profile_is_compared(key: str) -> None:
    base = "version: 1\nextends: bub:default\nprofiles: {work: {plugins: [second]}, mine: {X}}\n"
    assert messages(base.replace("X", ""), base.replace("X", PROFILE[key]))


@pytest.mark.parametrize("key", TOP)
def test_every_key_of_a_file_is_compared(key: str) -> None:
    base = "version: 1\nextends: bub:default\n"
    new = base.replace("extends: bub:default", TOP[key]) if key == "extends" else f"{base}{TOP[key]}\n"
    assert messages(base, new)


COSMETIC = {
    ("version",),
    ("description",),
    ("profiles", "default", "description"),
    ("plugins", "guard", "runtime"),
    ("x-mine",),
}


def paths_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield (*above, key)
        yield from paths_in(below, (*above, key))


PIPELINE_TEXT = dedent(PIPELINE)
PLAIN = yaml.safe_load(PIPELINE)
WHOLE = load_text(PIPELINE_TEXT)


@pytest.mark.parametrize("path", list(paths_in(PLAIN)), ids=lambda path: ".".join(map(str, path)))
def test_whatever_is_taken_out_of_a_pipeline_is_told(path: tuple[Any, ...]) -> None:
    owner = plain = deepcopy(PLAIN)
    for step in path[:-1]:
        owner = owner[step]
    del owner[path[-1]]
    try:
        comparison = compare(WHOLE, load_text(json.dumps(plain)))
    except PipelineError:
        return  # what is left is no pipeline
    assert bool(comparison.changes) is not (path in COSMETIC or path[0] == "tests")


# Nothing else is


@pytest.mark.parametrize("name", shipped_pipelines())
def test_a_shipped_pipeline_does_not_differ_from_itself(name: str) -> None:
    assert compare(load_shipped(name), load_shipped(name)).changes == ()


def test_no_file_of_the_corpus_differs_from_itself() -> None:
    compared = 0
    for path in sorted(TESTDATA.rglob("*.y*ml")):
        try:
            document = load_document(path)
            comparison = compare(document, document)
        except (PipelineError, UsageError):
            continue  # it cannot be read, so there is nothing to compare
        assert comparison.changes == (), path
        compared += 1
    assert compared >= 5


def shuffled(value: Any, random: random.Random, ordered: bool = False) -> Any:
    """The same value with the keys of its mappings in another order; that of stages means something."""
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    items = list(value.items())
    if not ordered:
        random.shuffle(items)
    return {key: shuffled(below, random, ordered=key == "stages") for key, below in items}


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([None, True, False]), st.sampled_from([None, "'", '"']))
def test_layout_and_the_order_of_keys_make_no_difference(
    random: random.Random, flow: bool | None, quotes: str | None
) -> None:
    text = yaml.dump(shuffled(PLAIN, random), Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=flow)
    if quotes is not None:
        text = text.replace("'", quotes)
    assert compare(WHOLE, load_text(f"# a comment\n{text}")).changes == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("timeout: 60s", "timeout: 1m"),
        ("[guard, second], when", "[second, guard], when"),
        ("fs.read, bash", "bash, fs.read"),
        ("kind: stream,", "kind: stream, enabled: true, thread: false, default_if: none,"),
        ("takes: [prompt, session_id]", "takes: [session_id, prompt]"),
    ],
)
def test_what_means_the_same_makes_no_difference(old: str, new: str) -> None:
    assert old in PIPELINE
    assert messages(PIPELINE, PIPELINE.replace(old, new)) == []


def test_what_moves_to_a_parent_makes_no_difference(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    alone = write("alone.yaml", CHILD)
    write("shared/base.yaml", CHILD.replace("path: ", "path: ../"))
    split = write("split.yaml", "version: 1\nextends: shared/base.yaml\n")
    assert compare(load_document(alone), load_document(split)).changes == ()


# The whole


def test_the_dangerous_comes_first_then_area_by_area() -> None:
    comparison = compare(pipeline(PIPELINE), load_shipped("default"))
    for compared in comparison.profiles:
        assert list(compared.changes) == sorted(compared.changes, key=lambda each: each.rank)
    told = comparison.as_dict()["changes"]
    severities = [change["severity"] for change in told]
    assert severities == sorted(severities)
    assert {change["kind"].partition(".")[0] for change in told} <= set(AREAS)


def test_a_side_that_cannot_be_read_is_told_with_all_that_is_wrong() -> None:
    with pytest.raises(PipelineError) as caught:
        compare(pipeline("version: 1\nstages: {\n"), pipeline("version: 1\nprofiles: {a: {extends: a}}\n"))
    assert {finding.code for finding in caught.value.diagnostics} >= {"B001", "B163"}


def test_mistakes_in_what_can_be_read_are_counted_beside_the_changes() -> None:
    comparison = compare(pipeline(CHILD), pipeline(f"{CHILD}    stagse: {{}}\n    on_failure: skip\n"))
    assert [finding.code for finding in comparison.mistakes] == ["B100"]
    assert comparison.as_dict()["errors"] == 1
    assert [change.path for change in comparison.changes] == ["on_failure"]


def test_a_profile_of_a_parent_that_is_not_there_is_not_missed() -> None:
    orphan = pipeline("version: 1\nextends: gone.yaml\n")
    with pytest.raises(PipelineError, match=r"gone\.yaml. does not exist"):
        compare(orphan, orphan, ("work", "work"))


def test_a_pipeline_that_would_not_compile_can_be_compared() -> None:
    comparison: Comparison = compare(pipeline(CHILD), pipeline(child("before: run_model", "before: nowhere")))
    assert comparison.changes
