"""What is declared and can come to nothing is found at its place; what is near it and right stays quiet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from fakes.checking import check_file
from fakes.installed import install_section
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, marked, said

from bub import BubFramework
from bub.base.diagnostics import is_slip
from bub.channels import ChannelMessage
from bub.envelope import FIELDS

Write = Callable[[str, str], Path]
HEAD = "extends: bub:default\n"
QUOTE = "'"
HERE = "it is said here"
GATE = f"{HEAD}hooks: {{guard: {{kind: gate, takes: [message]}}}}\n"
TURN = """
stages:
  resolve_session: {kind: firstresult, into: session_id, default: "{channel}:{chat_id}"}
  run_model: {kind: stream, hook: run_model_stream, into: model_output}
"""


def own(kind: str, stage: str, takes: str = "message") -> str:
    """A file with one stage of its own."""
    return f"{HEAD}hooks: {{own: {{kind: {kind}, takes: [{takes}]}}}}\nstages: {{own: {{{stage}}}}}"


MISTAKES = [
    # B184: conditions that no message meets
    Mistake(
        "B184",
        f"{GATE}stages: {{guard: {{before: run_model, when: {{channel: «telegramm»}}}}}}",
        "stage `guard` asks for channel `telegramm`, but Bub knows no channel of that name",
        "did you mean `telegram`?",
        ("telegramm", "telegram"),
    ),
    Mistake(
        "B184",
        f"{HEAD}stages: {{load_state: {{when: {{channel: «telegarm*»}}}}}}",
        "stage `load_state` asks for channel `telegarm*`, but Bub knows no channel of that name",
        "did you mean `telegram`?",
        ("telegarm*", "tele*"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{HEAD}stages: {{load_state: {{when: {{channel: «Telegram»}}}}}}",
        "stage `load_state` asks for channel `Telegram`, but that channel is `telegram`: a glob tells capitals from"
        " small letters",
        "write `telegram`",
        ("Telegram", "telegram"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{HEAD}stages: {{save_state: {{when: {{session: «fresh»}}}}}}",
        "stage `save_state` asks for session `fresh`, but a session is `new` or `known`",
        "write `new`",
        ("fresh", '"k*"'),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{GATE}stages: {{guard: {{before: resolve_session, when: {{session_id: «'telegram:*'»}}}}}}",
        "stage `guard` asks for session_id `telegram:*`, but `resolve_session`, below it, makes `session_id`",
        "move it below `resolve_session`, or match `channel`",
        ("before: resolve_session", "after: resolve_session"),
        related="stage `resolve_session` makes `session_id` here",
    ),
    Mistake(
        "B184",
        "hooks: {own: {kind: void}}\nstages: {own: {when: {session_id: «work»}}}",
        "stage `own` asks for session_id `work`, but no stage makes `session_id`",
        "match `channel` and `chat_id`",
        ("session_id", "chat_id"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{HEAD}stages: {{load_state: {{when: {{kind: «voice»}}}}}}",
        "stage `load_state` asks for kind `voice`, but Bub's own messages never have this kind",
        "their kinds are normal, command, error, denied; a channel may have others",
        ("voice", "command"),
        severity="note",
    ),
    Mistake(
        "B184",
        f"{GATE}stages: {{guard: {{before: run_model, when: {{kind: «denied»}}}}}}",
        "stage `guard` asks for kind `denied`, but only replies have this kind",
        "a message that comes in is `normal` or `command`",
        ("denied", "normal"),
        severity="note",
    ),
    Mistake(
        "B030",
        f"{HEAD}plugins: {{guard: {{optional: true}}}}\nprofiles: {{default: {{plugins: [guard]}}}}\n"
        "settings: {guard: {address: «'$HOUSE'»}}",
        "`$HOUSE` is a string, not a reference",
        "write `${env:HOUSE}`, or `$$HOUSE` for the text itself",
        ("$HOUSE", "${env:HOUSE}"),
        severity="note",
    ),
    Mistake(
        "B184",
        f"{HEAD}routes: [{{match: {{chat_id: «'7|8'»}}, profile: default}}]",
        "route 1 asks for chat_id `7|8`, which looks like a regular expression, but Bub reads it as a glob",
        "`*` means any characters, `?` means one character",
        ("7|8", "[78]"),
        severity="note",
    ),
    Mistake(
        "B184",
        f"{HEAD}stages: {{load_state: {{when: {{session_id: «'telegramm:*'»}}}}}}",
        "stage `load_state` asks for session_id `telegramm:*`, but Bub knows no channel of the name before the colon",
        "did you mean `telegram`?",
        ("telegramm", "telegram"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{HEAD}stages: {{load_state: {{when: {{kind: «comand»}}}}}}",
        "stage `load_state` asks for kind `comand`, but Bub knows no kind of that name",
        "did you mean `command`?",
        ("comand", "command"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f'{HEAD}stages: {{load_state: {{when: {{chat_id: «"-[9-0]*"»}}}}}}',
        "stage `load_state` asks for chat_id `-[9-0]*`, but this glob matches nothing",
        "`[a-z]` is one letter from the first to the last",
        ("9-0", "0-9"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{HEAD}routes: [{{match: {{channel: «telegam»}}, profile: default}}]",
        "route 1 asks for channel `telegam`, but Bub knows no channel of that name",
        "did you mean `telegram`?",
        ("telegam", "telegram"),
        severity="warning",
    ),
    Mistake(
        "B184",
        f"{HEAD}routes: [{{match: {{session_id: «'telegram:5*'»}}, profile: default}}]",
        "route 1 asks for session_id `telegram:5*`, but Bub chooses the profile before a stage finds the session",
        "match `channel` and `chat_id`",
        ("telegram:5*", "work"),
        severity="warning",
    ),
    # B185: names in a default
    Mistake(
        "B185",
        f'{HEAD}stages: {{build_prompt: {{default: "Hello {{«sender»}}, {{content}}"}}}}',
        "the default of stage `build_prompt` names `{sender}`, which no stage makes and no message has",
        "did you mean `sender_id`?",
        ("{sender}", "{sender_id}"),
        severity="warning",
    ),
    Mistake(
        "B185",
        f'{HEAD}stages: {{run_model: {{on_failure: skip, default: "{{«weather»}} today"}}}}',
        "the default of stage `run_model` names `{weather}`, which no stage makes and no message has",
        "let a stage above make it: `into: weather`; to mean the characters themselves, write `{{weather}}`",
        ("{weather}", "{{weather}}"),
        severity="warning",
    ),
    # B186: replies without an address
    Mistake(
        "B186",
        f'{HEAD}stages: {{render_outbound: {{default: [«{{content: "{{model_output}}"}}»]}}}}',
        "the default of stage `render_outbound` makes a reply without channel and chat_id, so it goes to nobody",
        'write `channel: "{channel}"`, `chat_id: "{chat_id}"` beside its `content`',
        ('"{model_output}"', '"{model_output}", channel: "{channel}", chat_id: "{chat_id}"'),
        severity="warning",
    ),
    Mistake(
        "B186",
        f'{HEAD}stages: {{render_outbound: {{«default»: "{{model_output}}"}}}}',
        "the default of stage `render_outbound` makes a reply without channel and chat_id, so it goes to nobody",
        'write a whole reply: `{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}`',
        ('"{model_output}"', '[{content: hi, channel: cli, chat_id: "{chat_id}"}]'),
        severity="warning",
    ),
    # B187: what is no list
    Mistake(
        "B187",
        own("gate", "for_each: «prompt», after: build_prompt"),
        "stage `own` runs for each item of `prompt`, but `prompt` is a text, not a list: the stage would take this"
        " value out of the turn, or make a list of it",
        "take `for_each` out, and let the hook take `prompt`; lists are `outbounds` and every value that a"
        " `broadcast` makes with"
        " `combine: list` or `combine: concat`",
        ("for_each: prompt, ", ""),
    ),
    Mistake(
        "B187",
        own("observer", "for_each: «state», after: load_state"),
        "stage `own` runs for each item of `state`, but `state` is a mapping, not a list",
        "take `for_each` out, and let the hook take `state`; lists are `outbounds` and every value that a"
        " `broadcast` makes with"
        " `combine: list` or `combine: concat`",
        ("for_each: state, after: load_state", "for_each: outbounds, after: render_outbound"),
        severity="warning",
    ),
    # B188: modifying without changes
    Mistake(
        "B188",
        own("modifying", "before: run_model", "prompt").replace("{own: {before", "{«own»: {before"),
        "stage `own` lists no value under `changes`, so Bub ignores what plugins return there",
        "list the values that it may set, such as `changes: [prompt]`",
        ("before: run_model", "before: run_model, changes: [prompt]"),
        severity="warning",
    ),
    Mistake(
        "B188",
        f"{HEAD}stages: {{message_sending: {{kind: modifying, for_each: outbounds, before: dispatch_outbound,"
        " «changes»: []}}",
        "stage `message_sending` lists no value under `changes`, so Bub ignores what plugins return there",
        "list the values that it may set, such as `changes: [message]`",
        ("[]", "[message]"),
        severity="warning",
    ),
    # B189: keys without effect
    Mistake(
        "B189",
        own("broadcast", "«combine»: join, before: run_model"),
        "stage `own` has a `combine`, but no `into`, so its result is thrown away",
        "name the value with `into: NAME`, or take `combine` out",
        ("combine: join", "combine: join, into: notes"),
        severity="warning",
    ),
    Mistake(
        "B189",
        own("firstresult", '«default»: "none", before: run_model'),
        "stage `own` has a `default`, but no `into`, so its result is thrown away",
        "name the value with `into: NAME`, or take `default` out",
        ("default", "into: notes, default"),
        severity="warning",
    ),
    Mistake(
        "B189",
        own("firstresult", "«default»: null, into: notes, before: run_model"),
        "stage `own` has no `default`: null is not one",
        'write the value itself, such as `""`, `[]` or `{}`',
        ("null", '""'),
        severity="warning",
    ),
    Mistake(
        "B189",
        own("broadcast", "«default_if»: falsy, combine: join, into: notes, before: run_model"),
        "stage `own` has a `default_if`, but no `default`",
        "add a `default`, or take it out",
        ("default_if", "default: none, default_if"),
        severity="warning",
    ),
    Mistake(
        "B189",
        own("gate", "before: run_model, «needs»: [load_state]"),
        "stage `own` is a gate, so it waits for all stages above it, even with `needs`",
        "take `needs` out: no stage runs beside a gate or a claim, or passes it",
        (", needs: [load_state]", ""),
        severity="warning",
    ),
    Mistake(
        "B189",
        f"{HEAD}stages: {{load_state: {{«when»: {{}}}}}}",
        "stage `load_state` has an empty `when`, which every message matches",
        "say which messages it is for, or take `when` out",
        ("{}", "{channel: cli}"),
        severity="warning",
    ),
    Mistake(
        "B189",
        f"{HEAD}stages: {{run_model: {{«retry»: {{backoff: 1s}}}}}}",
        "stage `run_model` has a `retry` without `times`, so nothing is tried again",
        "say how often, such as `retry: {times: 2, backoff: 1s}`",
        ("backoff", "times: 1, backoff"),
        severity="warning",
    ),
    Mistake(
        "B189",
        f"{HEAD}stages: {{load_state: {{timeout: 2s, retry: {{times: 2, «backoff»: 5s}}}}}}",
        "stage `load_state` waits longer before it tries again than its `timeout`, so it never tries again",
        "make `timeout` longer: it counts for all tries together",
        ("2s", "2m"),
        severity="warning",
    ),
    Mistake(
        "B189",
        f"{HEAD}stages: {{load_state: {{«when»: {{channel: '*'}}}}}}",
        "stage `load_state` has a `when` that every message matches",
        "say which messages it is for, or take `when` out",
        ("'*'", "'c*'"),
        severity="warning",
    ),
    Mistake(
        "B189",
        f"{HEAD}hooks: {{own: {{kind: void}}}}\nstages: {{save_state: {{enabled: false}},"
        " own: {after: save_state, timeout: 5s, «cleanup_for»: save_state}}",
        "stage `own` cleans up for `save_state`, but `save_state` is off, so this stage is not a clean-up",
        "name a stage that is on, or take `cleanup_for` out",
        ("cleanup_for: save_state", "cleanup_for: run_model"),
        severity="warning",
    ),
    # B107: what is said of models and heeded by no request
    Mistake(
        "B107",
        f"{HEAD}settings: {{«fallback_models»: [openai:gpt-4o]}}",
        "Bub never falls back on these: no `model` is set, here or in your own file",
        "set `model`, which Bub asks first",
        ("{fallback_models", "{model: openai:gpt-5, fallback_models"),
        severity="note",
    ),
    Mistake(
        "B107",
        f'{HEAD}settings: {{model: "openai:a", fallback_models: ["openai:b", «"openai:a"»]}}',
        "`openai:a` is the model itself, so Bub never falls back on it",
        "name another model",
        ('"openai:a"]', '"openai:c"]'),
        related="the model",
        severity="warning",
    ),
    Mistake(
        "B107",
        f"{HEAD}settings: {{providers: {{«anthropc»: {{api_key: '${{env:KEY}}'}}}}}}",
        "Bub never uses `providers.anthropc`: it has no address, and Bub knows no provider `anthropc`",
        "did you mean `anthropic`?",
        ("anthropc", "anthropic"),
        severity="warning",
    ),
    Mistake(
        "B107",
        f"{HEAD}settings: {{providers: {{«corner»: {{api_key: '${{env:KEY}}'}}}}}}",
        "Bub never uses `providers.corner`: it has no address, and Bub knows no provider `corner`",
        "give its address: `providers.corner.api_base`",
        ("api_key: '${env:KEY}'", 'api_base: "http://127.0.0.1:9"'),
        severity="note",
    ),
    Mistake(
        "B107",
        f"{HEAD}settings: {{model: 'openai:a', «api_key»: '${{env:A}}',"
        " providers: {openai: {api_key: '${env:B}'}}}",
        "Bub never uses `api_key`: `providers.openai.api_key` counts instead",
        "take one of the two out",
        ("openai: {", "groq: {"),
        related="this one counts",
        severity="note",
    ),
    Mistake(
        "B107",
        f'{HEAD}settings: {{model: "openai:gpt-4o", «reasoning»: high}}',
        "`openai:gpt-4o` has no setting for how much to think",
        "choose another level, or leave `reasoning` to the provider",
        ("openai:gpt-4o", "openai:gpt-5"),
        related="the model",
        severity="warning",
    ),
    Mistake(
        "B107",
        f'{HEAD}settings: {{model: "openai:gpt-4o", fallback_models: ["moonshot:kimi-k3"], «reasoning»: "off"}}',
        "`moonshot:kimi-k3` always thinks",
        "choose another level, or leave `reasoning` to the provider",
        ("kimi-k3", "kimi-k2.6"),
        related="the model",
        severity="warning",
    ),
    Mistake(
        "B107",
        f'{HEAD}settings: {{model: "deepseek:v4", «reasoning»: 3000}}',
        "`deepseek:v4` knows no number of tokens, and takes `low` for it",
        "choose another level, or leave `reasoning` to the provider",
        ("deepseek:v4", "openrouter:deepseek/v4"),
        related="the model",
        severity="warning",
    ),
    Mistake(
        "B107",
        f"{HEAD}settings: {{model: 'vllm:qwen3-32b', providers: {{vllm: {{context: {{«gemma*»: 8192}}}}}}}}",
        "`providers.vllm.context` names `gemma*`, but the settings name no such model",
        "write it as you write the model, `qwen3-32b`, or as a glob that matches the model",
        ("gemma*", "qwen3*"),
        severity="note",
    ),
    # B190, B191: what is said of plugins that nobody lists
    Mistake(
        "B190",
        f"{HEAD}settings: {{«telegram»: {{allow_chats: ['-1']}}}}\nprofiles: {{default: {{plugins: []}}}}",
        "no profile lists the plugin `telegram`, so nobody reads its settings",
        "list it: `profiles: {default: {plugins: [telegram]}}`",
        ("[]}}", "[telegram]}}"),
        severity="note",
    ),
    Mistake(
        "B190",
        f"{HEAD}settings:\n  «telegramm»: {{allow_chats: ['-1']}}",
        "nobody reads the settings `telegramm`: it is not a setting of Bub, and no plugin of that name is listed or"
        " installed",
        "did you mean `telegram`?",
        ("telegramm", "telegram"),
        severity="warning",
    ),
    Mistake(
        "B190",
        f"{HEAD}plugins: {{rules: {{optional: true}}}}\n"
        "profiles: {default: {plugins: [rules]}, a: {settings: {«words»: {list: []}}}}",
        "nobody reads the settings `words`: it is not a setting of Bub, and no plugin of that name is"
        " listed or installed",
        "list the plugin `words` in a profile, or take the section out",
        ("words", "rules"),
        severity="warning",
    ),
    Mistake(
        "B191",
        f"{HEAD}plugins:\n  «rules»: {{optional: true}}",
        "plugin `rules` is declared, but no profile lists it, so it does not run",
        "list it: `profiles: {default: {plugins: [local_model, telegram, rules]}}`",
        ("rules: {optional: true}", "telegram: {optional: true}"),
        severity="warning",
    ),
    # B212: a channel of a profile, as far as its name tells
    Mistake(
        "B212",
        f"{HEAD}profiles: {{default: {{channels: [«'!telegarm'»]}}}}",
        "no plugin of profile `default` brings a channel `telegarm`",
        "did you mean `telegram`?",
        ("telegarm", "telegram"),
        severity="warning",
    ),
    # B192: nothing is sent
    Mistake(
        "B192",
        TURN.replace("run_model:", "«run_model»:"),
        "stage `run_model` answers, but no stage makes `outbounds`, so nobody gets the answer",
        "add a stage such as `render_outbound: {kind: broadcast, combine: concat, into: outbounds, default:"
        ' [{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}]}`',
        (
            "into: model_output}",
            "into: model_output}\n  render_outbound: {kind: broadcast, combine: concat, into: outbounds}\n"
            "  dispatch_outbound: {kind: broadcast, for_each: outbounds}",
        ),
        severity="warning",
    ),
    Mistake(
        "B192",
        f"{TURN}  «render_outbound»: {{kind: broadcast, combine: concat, into: outbounds}}",
        "no stage dispatches `outbounds`: `bub run` prints them, but in `bub chat` and `bub gateway` nobody gets them",
        "add the stage `dispatch_outbound: {kind: broadcast, for_each: outbounds}`",
        ("outbounds}", "outbounds}\n  dispatch_outbound: {kind: broadcast, for_each: outbounds}"),
        severity="note",
    ),
    Mistake(
        "B192",
        f"{HEAD}stages: {{render_outbound: {{«enabled»: false, default: []}}}}",
        "stage `run_model` answers, but no stage makes `outbounds`, so nobody gets the answer",
        "switch it on, or give it a `default`",
        (", default: []", ""),
        severity="warning",
    ),
    Mistake(
        "B192",
        f"{HEAD}stages: {{dispatch_outbound: {{«enabled»: false}}}}",
        "no stage dispatches `outbounds`: `bub run` prints them, but in `bub chat` and `bub gateway` nobody gets them",
        "switch it on",
        ("false", "true"),
        severity="warning",
    ),
    Mistake(
        "B192",
        f"{HEAD}stages: {{render_outbound: {{«default»: []}}}}",
        "stage `run_model` answers, but no plugin makes replies, and the `default` of stage `render_outbound` has none,"
        " so nobody gets the answer",
        'write one: `[{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}]`',
        ("[]", '[{content: "{model_output}", channel: "{channel}", chat_id: "{chat_id}"}]'),
        severity="warning",
    ),
    Mistake(
        "B192",
        'stages:\n  «resolve_session»: {kind: firstresult, into: session_id, default: "{channel}:{chat_id}"}\n'
        "  load_state: {kind: broadcast, combine: merge, into: state}",
        "no stage answers, sends or looks at anything, so Bub does nothing with a message",
        "extend a shipped pipeline, such as `extends: bub:default`, or add the stages that answer",
        ("into: state}", "into: state}\n  message_received: {kind: void}"),
        severity="warning",
    ),
    # B193: a default that is never used
    Mistake(
        "B193",
        f'{HEAD}stages: {{resolve_session: {{«default»: "{{channel}}:{{sender_id}}"}}}}',
        "the default of stage `resolve_session` is never used: the builtin plugin finds a session for every message",
        "write `enabled: false` beside the default, and Bub uses the default for every message; or write a plugin with"
        " `resolve_session`",
        ("default:", "enabled: false, default:"),
        severity="warning",
    ),
    # B194: tests that do not test what they say
    Mistake(
        "B194",
        f"{HEAD}tests: {{t: {{message: {{}}, expect: {{«skipped»: []}}}}}}",
        "test `t` expects no stage to have been skipped, which is true of every turn",
        "name the stages, or take it out",
        ("[]", "[run_model]"),
        severity="warning",
    ),
    Mistake(
        "B194",
        f"{HEAD}tests: {{t: {{message: {{}}, mock: {{load_state: {{«return»: {{}}, raise: OSError}}}}, expect:"
        " {error: {type: OSError}}}}",
        "test `t` mocks `load_state` with `return` and `raise`, but what fails returns nothing",
        "take one of the two out",
        ("return: {}, ", ""),
        severity="warning",
    ),
    Mistake(
        "B194",
        f"{HEAD}tests: {{t: {{message: {{«chanel»: cli}}, expect: {{ran: [run_model]}}}}}}",
        "the message of test `t` has `chanel`, which no other message has",
        "did you mean `channel`?",
        ("chanel", "channel"),
        severity="warning",
    ),
    Mistake(
        "B194",
        f"{HEAD}tests: {{t: {{message: {{channel: «telgram»}}, expect: {{ran: [run_model]}}}}}}",
        "the message of test `t` has channel `telgram`, which no other message has",
        "did you mean `telegram`?",
        ("telgram", "telegram"),
        severity="warning",
    ),
    Mistake(
        "B194",
        f"{HEAD}stages: {{load_state: {{when: {{channel: telegram}}}}}}\n"
        "tests: {t: {message: {channel: cli}, mock: {«load_state»: {return: {}}}, expect: {ran: [run_model]}}}",
        "test `t` mocks stage `load_state`, which does not run for its message: it asks for channel `telegram`",
        "give the message such a channel, or expect the stage in `skipped`",
        ("channel: cli", "channel: telegram"),
        related="it is asked for here",
        severity="warning",
    ),
    # B231: approvers that are no persons
    Mistake(
        "B231",
        f"{HEAD}profiles: {{default: {{approvers: {{telegram: [«'*'»]}}}}}}",
        "`*` is no id of a person in the channel `telegram`",
        "list ids, not names or `*`: nobody can choose an id; the bot tells people their ids",
        ("'*'", "'4711'"),
    ),
    Mistake(
        "B231",
        f"{HEAD}profiles: {{default: {{approvers: {{telegram: ['4711', «ada»]}}}}}}",
        "`ada` is no id of a person in the channel `telegram`",
        "list ids, not names or `*`: nobody can choose an id; the bot tells people their ids",
        ("ada", "'8'"),
    ),
    Mistake(
        "B231",
        f"{HEAD}profiles: {{default: {{approvers: {{telegram: [«'1087968824'»]}}}}}}",
        "`1087968824` is every anonymous admin, not one person",
        "list the id of each person who may say yes",
        ("1087968824", "4711"),
    ),
    Mistake(
        "B231",
        f"{HEAD}profiles: {{default: {{approvers: {{«telegramm»: ['4711']}}}}}}",
        "the channel `telegramm` does not prove who writes, so nobody there can say yes",
        "did you mean `telegram`?",
        ("telegramm", "telegram"),
    ),
    # B235: entries of `reach` that are no folders, or all of them
    *(
        Mistake(
            "B235",
            f"{HEAD}profiles: {{default: {{reach: {{write: [workspace/a, «'{entry}'»]}}}}}}",
            f"`{entry}` is no folder for `reach`: {problem}",
            "write `workspace`, `workspace/folder`, `~/folder` or `/folder`",
            (entry, "workspace/b"),
        )
        for entry, problem in {
            "build": "it begins neither with `workspace` nor with `~/` or `/`",
            "../x": "it begins neither with `workspace` nor with `~/` or `/`",
            "~ada/x": "it begins neither with `workspace` nor with `~/` or `/`",
            "workspace/../x": "`..` leads out of it; write the folder itself",
            "~/*.txt": "it has to be one folder or file, not a pattern",
        }.items()
    ),
    *(
        Mistake(
            "B235",
            f"{HEAD}profiles: {{default: {{reach: {{{key}: [«{entry}»]}}}}}}",
            f"with `{key}: [{entry.strip(QUOTE)}]`, `reach` shuts nothing out: {problem}",
            "list the folders that commands need",
            (entry, "/srv"),
        )
        for key, entry, problem in (
            ("write", "/", "that is the whole machine"),
            ("read", "//", "that is the whole machine"),
            ("write", "'~'", "who writes there decides what runs outside of it"),
            ("write", "/etc/", "who writes there decides what runs outside of it"),
        )
    ),
    # B236: what `reach` says in vain
    Mistake(
        "B236",
        f"{HEAD}profiles: {{default: {{tools: {{allow: [fs.read], ask: []}}, «reach»: {{write: []}}}}}}",
        "`reach` confines nothing: profile `default` does not allow `bash`",
        "add `bash` to `tools.allow`, or take `reach` out",
        ("[fs.read]", "[bash]"),
        severity="warning",
    ),
    *(
        Mistake(
            "B236",
            f"{HEAD}profiles: {{default: {{reach: {{{entries.replace(entry, f'«{entry}»')}}}}}}}",
            f"`{entry}` in `reach.{key}` changes nothing: {reason}",
            "take it out",
            (entry, "/srv/b"),
            related=related,
            severity="warning",
        )
        for key, entry, entries, reason, related in (
            ("write", "workspace/a", "write: [workspace, workspace/a]", "commands may write all of `workspace`", HERE),
            ("read", "/x/a", "read: [/x/a], write: [/x]", "commands may write `/x`, and so read it", HERE),
            ("read", "/x/a", "read: [/x, /x/a]", "commands may read all of `/x`", HERE),
            ("read", "workspace", "read: [workspace], write: []", "commands may always read the workspace", ""),
            ("read", "/usr/share", "read: [/usr/share]", "programs need it, so commands may always read it", ""),
        )
    ),
    # B238: what a list takes back
    Mistake(
        "B238",
        f"{HEAD}profiles: {{default: {{tools: {{allow: [fs.list, «fs.read»], deny: ['fs.r*']}}}}}}",
        "`tools.allow` has `fs.read`, but `tools.deny` has `fs.r*`, which comes first",
        "take out one of the two, `fs.read` or `fs.r*`",
        ("'fs.r*'", "'fs.w*'"),
        related="here",
        severity="warning",
    ),
    Mistake(
        "B238",
        f"{HEAD}profiles: {{default: {{channels: [«cli», '!cli']}}}}",
        "`channels` has `cli`, but also `!cli`, which comes first",
        "take out one of the two, `cli` or `!cli`",
        (", '!cli'", ""),
        related="here",
        severity="warning",
    ),
    # B195: limits beyond others
    Mistake(
        "B195",
        f"{HEAD}profiles: {{default: {{budget: {{tool_calls: 10, «calls_per_tool»: 20}}}}}}",
        "`calls_per_tool` has no effect: Bub always reaches `budget.tool_calls` first",
        "make it smaller than `budget.tool_calls`, or take it out",
        ("20", "10"),
        related="`budget.tool_calls` is set here",
        severity="warning",
    ),
    Mistake(
        "B195",
        f"{HEAD}profiles: {{default: {{budget: {{«calls_per_tool»: 200}}}}}}",
        "`calls_per_tool` has no effect: Bub always reaches `budget.tool_calls` (100 if it is not set) first",
        "make it smaller than `budget.tool_calls`, or take it out",
        ("200", "200, tool_calls: 300"),
        severity="warning",
    ),
    Mistake(
        "B195",
        f"{HEAD}settings: {{gateway: {{max_wait: 5s, «debounce»: 10s}}}}",
        "`debounce` has no effect: Bub always reaches `gateway.max_wait` first",
        "make it smaller than `gateway.max_wait`, or take it out",
        ("10s", "2s"),
        related="`gateway.max_wait` is set here",
        severity="warning",
    ),
    Mistake(
        "B195",
        f"{HEAD}stages: {{run_model: {{timeout: 1m, «idle_timeout»: 2m}}}}",
        "`idle_timeout` has no effect: Bub always reaches `stages.run_model.timeout` first",
        "make it smaller than `stages.run_model.timeout`, or take it out",
        ("2m", "30s"),
        related="`stages.run_model.timeout` is set here",
        severity="warning",
    ),
    Mistake(
        "B195",
        f"{HEAD}stages: {{run_model: {{timeout: 1m}}}}\nsettings: {{«timeout»: 5m}}",
        "`timeout` has no effect: Bub always reaches `stages.run_model.timeout` first",
        "make it smaller than `stages.run_model.timeout`, or take it out",
        ("5m", "30s"),
        related="`stages.run_model.timeout` is set here",
        severity="warning",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.code} {mistake.message}")
def test_what_can_come_to_nothing_is_found_and_its_mended_twin_is_not(mistake: Mistake) -> None:
    assert_is_found(mistake)


QUIET = [
    # channels: of a plugin that the file declares, of a program, of a group of them, told by a variable
    f"{HEAD}plugins: {{lines: {{optional: true}}}}\nprofiles: {{default: {{plugins: [lines]}}}}\n"
    "stages: {load_state: {when: {channel: lines}}}",
    f"{HEAD}stages: {{load_state: {{when: {{channel: 'work-*'}}}}}}",
    f"{HEAD}routes: [{{match: {{channel: ci}}, profile: default}}]",
    f"{HEAD}routes: [{{match: {{channel: telegram2}}, profile: default}}]",
    f'{HEAD}stages: {{load_state: {{when: {{channel: "${{env:CHANNEL:-telegarm}}"}}}}}}',
    f"{HEAD}stages: {{load_state: {{when: {{channel: '[ct]*'}}}}}}",
    # `session` and `session_id`: where they are known, and whether the message brings one
    f"{GATE}stages: {{guard: {{before: run_model, when: {{session: known, session_id: 'cli:*'}}}}}}",
    f"{HEAD}stages: {{inbound_claim: {{kind: claiming, before: resolve_session, when: {{session_id: '?*'}}}}}}",
    f"{HEAD}routes: [{{match: {{session_id: 'team:*'}}, profile: default}}]",
    f"{HEAD}profiles: {{default: {{channels: [all, '!cli', line]}}}}",
    # defaults: fields of any message, of a test's own message, of a message that a plugin may have made anew
    f'{HEAD}stages: {{build_prompt: {{default: "{{sender_id}} {{message_id}} {{answers}} {{kind}}: {{content}}"}}}}',
    f'{HEAD}stages: {{build_prompt: {{default: "{{subject}}: {{content}}"}}}}\n'
    "tests: {t: {message: {subject: hi}, expect: {prompt: 'hi: '}}}",
    'extends: bub:classic\nstages: {build_prompt: {default: "{subject}: {content}"}}',
    f"{HEAD}stages: {{build_prompt: {{default: '{{\"a\": {{content}}}}'}}}}",
    # replies that say where they go, or that another stage has made
    f'{HEAD}stages: {{render_outbound: {{default: [{{content: hi, output_channel: "null"}}]}}}}',
    f"{HEAD}hooks: {{own: {{kind: firstresult}}}}\nstages: {{own: {{into: answers, default: [], after: run_model}},"
    ' render_outbound: {default: "{answers}"}}',
    # lists, and what may be one
    f"{HEAD}hooks: {{parts: {{kind: broadcast}}, own: {{kind: modifying}}}}\nstages: {{parts: {{combine: concat,"
    " into: parts, after: load_state}, own: {for_each: parts, changes: [message], after: parts}}",
    f"{HEAD}hooks: {{parts: {{kind: firstresult}}, own: {{kind: gate}}}}\nstages: {{parts: {{into: parts,"
    " after: load_state}, own: {for_each: parts, after: parts},"
    " each: {kind: void, hook: message_sent, for_each: parts, after: own}}",
    # a point that the agent fires says itself what it may change
    f"{HEAD}hooks: {{before_llm_call: {{timeout: 5s}}}}",
    # null takes an inherited default away
    f"{HEAD}stages: {{resolve_session: {{default: null}}}}",
    f"{HEAD}stages: {{resolve_session: {{default: '{{sender_id}}', only: [local_model]}}}}",
    'stages: {resolve_session: {kind: firstresult, into: session_id, default: "{channel}:{chat_id}"},'
    " message_received: {kind: void}}",
    f"{HEAD}hooks: {{own: {{kind: gate}}}}\n"
    "stages: {own: {for_each: outbounds, before: dispatch_outbound, needs: [render_outbound]}}",
    f"{HEAD}stages: {{load_state: {{timeout: 20s, retry: {{times: 3, backoff: 5s}}}}}}",
    # a plugin that only one profile lists, and one whose list a variable completes
    f"{HEAD}plugins: {{rules: {{optional: true}}}}\nsettings: {{rules: {{a: 1}}}}\n"
    "profiles: {strict: {plugins: [rules]}}",
    # an `idle_timeout` that is inherited, a key of a hook that a stage leaves to it, a stage that stands in
    f"{HEAD}stages: {{run_model: {{timeout: 90s}}}}",
    f"{HEAD}hooks: {{load_state: {{thread: true}}, before_tool_call: {{kind: modifying, timeout: 5s}}}}",
    f"{HEAD}stages: {{answer: {{replace: run_model, kind: firstresult, hook: run_model}}}}",
    # settings of providers that may be asked, and a text that only looks like a pattern
    f'{HEAD}settings: {{model: "openai:a", fallback_models: ["openai:b", "groq:c"], providers: {{anthropic: {{}},'
    ' corner: {api_base: "http://127.0.0.1:9"}}}',
    f"{HEAD}stages: {{load_state: {{when: {{content: '*costs $5 (or more)?*'}}}}}}",
    # a reference may lead to any profile
    f"{HEAD}profiles: {{default: {{plugins: [http]}}, spare: {{plugins: []}}}}\n"
    "routes: [{match: {channel: cli}, profile: default}]\n"
    'settings: {http: {clients: {ada: {token: "${env:T}", profiles: ["${env:P:-spare}"]}}}}',
    # sessions may choose every profile, if the file says so, or a profile that gets messages
    "extends: bub:ethos\nroutes: [{match: {channel: cli}, profile: default}]\nprofiles: {coder: {}}",
    f"{HEAD}routes: [{{match: {{channel: cli}}, profile: lively}}]\n"
    "profiles: {lively: {hooks: {personality_switched: {kind: modifying}}}, coder: {}}",
    # what answers nobody: a pipeline that only listens
    "hooks: {note_down: {kind: void}}\nstages: {note_down: {}}",
    # a stream can say something before it fails
    f"{HEAD}tests: {{t: {{message: {{}}, mock: {{run_model: {{return: half, raise: OSError}}}}, expect:"
    " {error: {type: OSError}}}}",
    f"{HEAD}stages: {{load_state: {{when: {{channel: telegram}}}}}}\n"
    "tests: {t: {message: {channel: cli}, mock: {load_state: {raise: OSError}}, expect: {skipped: [load_state]}}}",
    f"{HEAD}tests: {{t: {{message: {{thread: 7}}, expect: {{outbounds: []}}}}}}",
    f"{HEAD}profiles: {{default: {{budget: {{steps: 5, tool_calls: 5, tokens_per_turn: 9, tokens_per_day: 9}}}}}}",
]


@pytest.mark.parametrize("text", QUIET)
def test_what_is_near_a_mistake_and_right_stays_quiet(text: str) -> None:
    assert said(check(VERSION + text)) == []


@pytest.mark.parametrize("pipeline", ["default", "classic", "ethos"])
def test_a_shipped_pipeline_has_not_even_a_note(pipeline: str) -> None:
    assert said(check(f"{VERSION}extends: bub:{pipeline}")) == []
    assert check_file(Path(f"pipelines/{pipeline}.yaml")).diagnostics == ()


# What is installed, and what lies beside a file.


def test_the_names_of_installed_plugins_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install_section(tmp_path, {"type": "object"}, plugin="signal"))
    text = f"{VERSION}{HEAD}settings: {{signal: {{}}}}\nroutes: [{{match: {{channel: %s}}, profile: default}}]"
    assert said(check(text % "signal")) == []
    (finding,) = check(text % "singal")
    assert (finding.code, finding.help) == ("B184", "did you mean `signal`?")


def test_a_file_that_another_one_extends_may_declare_for_it(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("")
    base, heir = tmp_path / "base.yaml", tmp_path / "team" / "pipelines.yaml"
    base.write_text(f"{VERSION}{HEAD}plugins: {{rules: {{path: rules.py}}}}")
    assert [finding.code for finding in check_file(base).diagnostics] == ["B191"]
    heir.parent.mkdir()
    heir.write_text(f"{VERSION}extends: ../base.yaml\nprofiles: {{default: {{plugins: [rules]}}}}")
    assert check_file(base).diagnostics == () == check_file(heir).diagnostics
    heir.write_text(f"{VERSION}extends: ../base.yaml\nprofiles: {{default: {{plugins: []}}}}")
    assert [finding.code for finding in check_file(base).diagnostics] == ["B191"]


LINE = """
from bub import hookimpl
from bub.channels import Channel

class Line(Channel):
    name = "line"
    async def start(self): ...
    async def send(self, message): ...

@hookimpl
def provide_channels(message_handler):
    return [Line()]
"""


def test_a_channel_that_nobody_brings_is_a_note_once_the_plugins_are_loaded(write: Write) -> None:
    write("wire.py", LINE)
    text, (place,) = marked(
        f"{VERSION}{HEAD}plugins: {{wire: {{path: wire.py}}}}\nprofiles: {{default: {{plugins: [wire]}}}}\n"
        "stages: {load_state: {when: {channel: line}}, save_state: {when: {channel: «'work-*'»}}}"
    )
    framework = BubFramework(write("pipelines.yaml", text))
    framework.load_hooks()
    framework.check_channels()
    (finding,) = framework.findings
    assert (finding.code, finding.severity, finding.range) == ("B218", "note", place)
    assert finding.message == "no plugin of profile `default` brings a channel that `work-*` matches"
    assert framework.warnings == ()


def test_a_plugin_that_cannot_say_its_channels_fails_no_check_for_a_note(write: Write) -> None:
    write("wire.py", "from bub import hookimpl\n@hookimpl\ndef provide_channels(message_handler):\n    1 / 0")
    text = f"{VERSION}{HEAD}plugins: {{wire: {{path: wire.py}}}}\nprofiles: {{default: {{plugins: [wire]}}}}\n"
    framework = BubFramework(write("pipelines.yaml", f"{text}stages: {{load_state: {{when: {{channel: 'work-*'}}}}}}"))
    framework.load_hooks()
    framework.check_channels()
    assert [(one.code, one.severity, one.file) for one in framework.findings] == [("B210", "note", "wire.py")]


# The words.


@pytest.mark.parametrize(
    ("name", "known", "is_one"),
    [
        ("telegarm", "telegram", True),
        ("Tele-Gram", "telegram", True),
        ("cly", "cli", True),
        ("cil", "cli", True),
        ("cl", "cli", False),
        ("ci", "cli", False),
        ("telegram", "telegram", False),
        ("telegram2", "telegram", False),
        ("telemgarm", "telegram", False),
    ],
)
def test_a_slip_is_one_letter_away(name: str, known: str, is_one: bool) -> None:
    assert is_slip(name, known) is is_one


def test_the_fields_of_a_message_are_those_of_a_channels_message() -> None:
    named = {field.name for field in fields(ChannelMessage)}
    assert named | {name for name, what in vars(ChannelMessage).items() if isinstance(what, property)} == FIELDS
