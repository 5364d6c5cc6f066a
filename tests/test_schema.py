"""The schema check says each mistake once, in the user's words, at exactly the right place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from bub.base.diagnostics import START, Diagnostic, Position, Range
from bub.base.duration import parse_duration
from bub.base.resources import shipped_pipeline, shipped_pipelines, shipped_schema
from bub.hooks.facts import HOOK_KEYS, KIND_KEYS, KINDS, STAGE_KEYS
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.check.editor_schema import editor_schema
from bub.pipeline.check.literal_secrets import literal_secrets
from bub.pipeline.check.schema import check_layer
from bub.pipeline.check.sections import check_section
from bub.pipeline.check.validate import check_document
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import load_text
from bub.pipeline.source.yaml_reader import parse

REGENERATE = "python -m bub.pipeline.check.editor_schema"
FILE = "pipelines.yaml"


def read(text: str) -> Node:
    root = parse(text.encode(), file=FILE, layer=FILE).root
    assert root is not None
    return root


def marked(text: str) -> tuple[str, Range]:
    """The text without `«` and `»`, and the range that stood between them."""
    before, found, rest = text.partition("«")
    inside, _, after = rest.partition("»")
    if not found:
        return text, START
    return before + inside + after, Range(_end(before), _end(before + inside))


def _end(text: str) -> Position:
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def check(text: str) -> list[Diagnostic]:
    return check_layer(read(text))


KIND_LIST = "`firstresult`, `broadcast`, `observer`, `void`, `modifying`, `claiming`, `gate` or `stream`"
SMALL = "must begin with a small letter and go on with small letters, digits and `_`"
DURATION = "must be a duration such as `500ms`, `30s` or `2m`"
ZERO = "it has to be more than zero: leave it out, or write `1ms`"

# What stands between « and » is where the finding points; `version: 1` is put in front of each text.
MISTAKES = [
    # B100: keys nobody knows
    ("«stagse»: {}", "B100", "unknown key `stagse` at the top level", "did you mean `stages`?", "stagse"),
    ("«Stages»: {}", "B100", "unknown key `Stages` at the top level", "did you mean `stages`?", "Stages"),
    (
        "stages: {run_model: {«timout»: 5s}}",
        "B100",
        "unknown key `timout` in stage `run_model`",
        "did you mean `timeout`?",
        "stages.run_model.timout",
    ),
    (
        "stages:\n  run_model:\n    «takes»: [a]",
        "B100",
        "unknown key `takes` in stage `run_model`",
        "`takes` is a key of a hook",
        "stages.run_model.takes",
    ),
    (
        "plugins: {p: {«timeout»: 5s}}",
        "B100",
        "unknown key `timeout` in plugin `p`",
        "`timeout` is a key of a stage, a hook or a server",
        "plugins.p.timeout",
    ),
    (
        "plugins: {p: {«zzz»: 1}}",
        "B100",
        "unknown key `zzz` in plugin `p`",
        "known keys: `path`, `optional`, `runtime`, `labels`",
        "plugins.p.zzz",
    ),
    (
        "hooks: {h: {«needs»: [x]}}",
        "B100",
        "unknown key `needs` in hook `h`",
        "`needs` is a key of a stage",
        "hooks.h.needs",
    ),
    (
        "profiles: {p: {«plugin»: [x]}}",
        "B100",
        "unknown key `plugin` in profile `p`",
        "did you mean `plugins`?",
        "profiles.p.plugin",
    ),
    (
        "profiles: {p: {tools: {«alow»: [x]}}}",
        "B100",
        "unknown key `alow` in `tools` of profile `p`",
        "did you mean `allow`?",
        "profiles.p.tools.alow",
    ),
    (
        "profiles: {p: {stages: {s: {«nedes»: [x]}}}}",
        "B100",
        "unknown key `nedes` in stage `s` of profile `p`",
        "did you mean `needs`?",
        "profiles.p.stages.s.nedes",
    ),
    (
        "stages: {s: {when: {«chanel»: x}}}",
        "B100",
        "unknown key `chanel` in `when` of stage `s`",
        "did you mean `channel`?",
        "stages.s.when.chanel",
    ),
    (
        "routes:\n  - {match: {}, profile: a}\n  - {match: {}, profile: b, «wehn»: {}}",
        "B100",
        "unknown key `wehn` in route 2",
        "known keys: `match`, `profile`",
        "routes[1].wehn",
    ),
    (
        "tests: {a greeting: {message: {}, mock: {m: {«retrun»: 1}}, expect: {ran: [x]}}}",
        "B100",
        "unknown key `retrun` in mock `m` of test `a greeting`",
        "did you mean `return`?",
        "tests.a greeting.mock.m.retrun",
    ),
    ("settings: {«modle»: x}", "B100", "unknown key `modle` in `settings`", "did you mean `model`?", "settings.modle"),
    (
        "profiles: {p: {settings: {«modle»: x}}}",
        "B100",
        "unknown key `modle` in `settings` of profile `p`",
        "did you mean `model`?",
        "profiles.p.settings.modle",
    ),
    (
        "settings: {«foo»: x}",
        "B100",
        "unknown key `foo` in `settings`",
        "known keys: `model`, `api_key`, `api_base`, `fallback_models`, `command_prefix`, `max_tokens`, `temperature`, "
        "`reasoning`, `timeout`, `retries`, `tapes`, `prompt`, `files`, `bash`, `web`, `gateway`, `telemetry`, "
        "`providers`; "
        "the settings of a plugin are a mapping under its name",
        "settings.foo",
    ),
    (
        "settings: {providers: {openrouter: {«key»: x}}}",
        "B100",
        "unknown key `key` in `settings.providers.openrouter`",
        "did you mean `api_key`?",
        "settings.providers.openrouter.key",
    ),
    # B101: wrong types, and nothing at all
    (
        "stages: {x: {enabled: «yes»}}",
        "B101",
        "`enabled` of stage `x` must be true or false, not the text `yes`",
        "write `true`",
        "stages.x.enabled",
    ),
    (
        "stages: {x: {thread: «1»}}",
        "B101",
        "`thread` of stage `x` must be true or false, not the number `1`",
        None,
        "stages.x.thread",
    ),
    (
        "stages: {x: {enabled: «'${env:A} and more'»}}",
        "B101",
        "`enabled` of stage `x` must be true or false, not the text `${env:A} and more`",
        None,
        "stages.x.enabled",
    ),
    (
        "stages: {x: {needs: «a»}}",
        "B101",
        "`needs` of stage `x` must be a list, not the text `a`",
        "write it as a list: `[…]`",
        "stages.x.needs",
    ),
    (
        "stages: {x: {needs: [a, «3»]}}",
        "B101",
        "item 2 of `needs` of stage `x` must be text, not the number `3`",
        "put it in quotes",
        "stages.x.needs[1]",
    ),
    (
        "stages: {x: {only: [a, «[b]»]}}",
        "B101",
        "item 2 of `only` of stage `x` must be text, not a list",
        None,
        "stages.x.only[1]",
    ),
    (
        "hooks: {h: {takes: [«1»]}}",
        "B101",
        "item 1 of `takes` of hook `h` must be text, not the number `1`",
        "put it in quotes",
        "hooks.h.takes[0]",
    ),
    (
        "routes: [{match: {chat_id: «-100»}, profile: p}]",
        "B101",
        "`chat_id` of `match` of route 1 must be text, not the number `-100`",
        "put it in quotes",
        "routes[0].match.chat_id",
    ),
    (
        "stages:\n  «- a\n  - b»",
        "B101",
        "`stages` must be a mapping, not a list",
        "write each name as a key, `name: {…}`, not as an item with `-`",
        "stages",
    ),
    (
        "stages:\n  timeout: «5s»",
        "B101",
        "stage `timeout` must be a mapping, not the text `5s`",
        "`timeout` is a key of a stage: write it below the name of the stage",
        "stages.timeout",
    ),
    ("routes: «{}»", "B101", "`routes` must be a list, not a mapping", None, "routes"),
    (
        "stages: {x: {kind: «[gate]»}}",
        "B101",
        f"`kind` of stage `x` must be {KIND_LIST}, not a list",
        None,
        "stages.x.kind",
    ),
    (
        "stages: {x: {«into»: }}",
        "B101",
        "`into` of stage `x` is empty",
        "give it a value, or remove the line",
        "stages.x.into",
    ),
    (
        "stages: {x: {«when»: }}",
        "B101",
        "`when` of stage `x` is empty",
        "write `{}` if that is on purpose, or remove the line",
        "stages.x.when",
    ),
    (
        "profiles: {p: {«channels»: ~}}",
        "B101",
        "`channels` of profile `p` is empty",
        "write `[]` if that is on purpose, or remove the line",
        "profiles.p.channels",
    ),
    (
        "settings: {retries: «'3'»}",
        "B101",
        "`settings.retries` must be a whole number from 0 to 10, not text",
        "write it without quotes",
        "settings.retries",
    ),
    (
        "settings: {max_tokens: «2.0»}",
        "B101",
        "`settings.max_tokens` must be a whole number, 1 or more, not a fraction",
        None,
        "settings.max_tokens",
    ),
    (
        "settings: {temperature: «.nan»}",
        "B101",
        "`settings.temperature` must be a number from 0 to 2, not `.inf` or `.nan`",
        None,
        "settings.temperature",
    ),
    ("settings: {api_key: «5»}", "B101", "`settings.api_key` must be text, not a number", "put it in quotes", None),
    # B102: values that are none of those allowed
    (
        "stages: {x: {kind: «firstreslt»}}",
        "B102",
        f"`kind` of stage `x` must be {KIND_LIST}, not `firstreslt`",
        "did you mean `firstresult`?",
        "stages.x.kind",
    ),
    (
        "stages: {x: {combine: «sum»}}",
        "B102",
        "`combine` of stage `x` must be `list`, `merge`, `concat` or `join`, not `sum`",
        None,
        "stages.x.combine",
    ),
    (
        "profiles: {p: {concurrency: «paralel»}}",
        "B102",
        "`concurrency` of profile `p` must be `serial` or `parallel`, not `paralel`",
        "did you mean `parallel`?",
        "profiles.p.concurrency",
    ),
    ("on_failure: «deny»", "B102", "`on_failure` must be `propagate` or `skip`, not `deny`", None, "on_failure"),
    (
        "plugins: {p: {runtime: «node»}}",
        "B102",
        "`runtime` of plugin `p` must be `python` or `asyncio`, not `node`",
        None,
        "plugins.p.runtime",
    ),
    # B103: something is missing
    ("routes:\n  - «match: {}»", "B103", "route 1 lacks `profile`", None, "routes[0]"),
    ("tests: {«t»: {message: {}}}", "B103", "test `t` lacks `expect`", None, "tests.t"),
    # B104: durations
    (
        "stages: {x: {timeout: «30»}}",
        "B104",
        f"`timeout` of stage `x` {DURATION}, not `30`",
        "did you mean `30s`?",
        None,
    ),
    (
        "stages: {x: {timeout: «5 minutes»}}",
        "B104",
        f"`timeout` of stage `x` {DURATION}, not `5 minutes`",
        "did you mean `5m`?",
        None,
    ),
    ("stages: {x: {timeout: «0s»}}", "B104", f"`timeout` of stage `x` {DURATION}, not `0s`", ZERO, "stages.x.timeout"),
    (
        "stages: {x: {timeout: «soon»}}",
        "B104",
        f"`timeout` of stage `x` {DURATION}, not `soon`",
        None,
        "stages.x.timeout",
    ),
    ("stages: {x: {timeout: «[5s]»}}", "B104", f"`timeout` of stage `x` {DURATION}", None, "stages.x.timeout"),
    (
        "stages: {x: {retry: {times: 2, backoff: «1sec»}}}",
        "B104",
        f"`backoff` of `retry` of stage `x` {DURATION}, not `1sec`",
        "did you mean `1s`?",
        "stages.x.retry.backoff",
    ),
    (
        "tests: {t: {message: {}, mock: {m: {delay: «1d»}}, expect: {ran: [x]}}}",
        "B104",
        f"`delay` of mock `m` of test `t` {DURATION}, not `1d`",
        None,
        "tests.t.mock.m.delay",
    ),
    # B105: names, limits, repetitions, emptiness
    (
        "stages: {«Run-Model»: {}}",
        "B105",
        f"the name of stage `Run-Model` {SMALL}",
        "did you mean `run_model`?",
        "stages.Run-Model",
    ),
    ("stages: {«1»: {}}", "B105", f"the name of stage `1` {SMALL}", None, "stages.1"),
    ("stages: {x: {into: «Prompt»}}", "B105", f"`into` of stage `x` {SMALL}", None, "stages.x.into"),
    (
        "profiles: {p: {plugins: [telegram, «a b»]}}",
        "B105",
        "item 2 of `plugins` of profile `p` must begin with a letter and go on with letters, digits, `_`, `-` and `.`",
        None,
        "profiles.p.plugins[1]",
    ),
    (
        "stages: {x: {retry: {times: «11»}}}",
        "B105",
        "`times` of `retry` of stage `x` must be a whole number from 1 to 10",
        None,
        "stages.x.retry.times",
    ),
    (
        "profiles: {p: {budget: {steps: «0»}}}",
        "B105",
        "`steps` of `budget` of profile `p` must be a whole number, 1 or more",
        None,
        "profiles.p.budget.steps",
    ),
    (
        "settings: {gateway: {listen: «'127.0.0.1:65536'»}}",
        "B105",
        "`settings.gateway.listen` must be an address of this machine and a port up to 65535, such as `127.0.0.1:9464`",
        None,
        None,
    ),
    (
        "settings: {temperature: «2.5»}",
        "B105",
        "`settings.temperature` must be a number from 0 to 2",
        None,
        "settings.temperature",
    ),
    (
        "stages: {x: {needs: [a, b, «a»]}}",
        "B105",
        "item 3 of `needs` of stage `x` repeats item 1",
        "remove one of them",
        "stages.x.needs[2]",
    ),
    ("stages: {x: {«for_each»: ''}}", "B105", "`for_each` of stage `x` is empty", None, "stages.x.for_each"),
    (
        "tests: {t: {message: {}, «expect»: {}}}",
        "B105",
        "`expect` of test `t` is empty",
        "known keys: `session_id`, `prompt`, `model_output`, `outbounds`, `state`, `ended_by`, `ran`, `skipped`, "
        "`error`, `took`, `streamed`, `calls`, `tool_calls`",
        "tests.t.expect",
    ),
]


@pytest.mark.parametrize(("text", "code", "message", "hint", "path"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_each_mistake_is_one_finding_at_its_place(
    text: str, code: str, message: str, hint: str | None, path: str | None
) -> None:
    clean, span = marked("version: 1\n" + text + "\n")
    [finding] = check(clean)
    assert (finding.code, finding.message, finding.help) == (code, message, hint)
    assert finding.range == span
    assert (finding.severity, finding.file) == ("error", FILE)
    assert path is None or finding.path == path


def test_a_file_without_a_version_is_told_at_its_beginning() -> None:
    [finding] = check("# a comment\nstages: {}\n")
    assert (finding.code, finding.message, finding.range) == ("B103", "the file lacks `version`", START)
    assert finding.help == "write `version: 1` at the top of the file"


def test_a_misspelt_version_is_not_missing_as_well() -> None:
    [finding] = check("verison: 1\n")
    assert (finding.code, finding.help) == ("B100", "did you mean `version`?")


@pytest.mark.parametrize(
    ("version", "code", "message", "fix"),
    [
        ("2", "B102", "`version` must be `1`, not `2`", None),
        ("'1'", "B101", "`version` must be `1`, not the text `1`", "1"),
        ("1.0", "B101", "`version` must be `1`, not the fraction `1.0`", "1"),
        ("true", "B101", "`version` must be `1`, not `true`", None),
    ],
)
def test_only_version_one_is_known(version: str, code: str, message: str, fix: str | None) -> None:
    [finding] = check(f"version: {version}\n")
    assert (finding.code, finding.message, finding.fix) == (code, message, fix)


@pytest.mark.parametrize("version", ["2", "1.0", "'3.8'", "true", "v1"])
def test_another_version_is_told_which_one_to_write(version: str) -> None:
    [finding] = check(f"version: {version}\n")
    assert str(finding.help).startswith("write `version: 1`")


@pytest.mark.parametrize(
    ("written", "hint", "fix"),
    [
        ("1h30m", "did you mean `90m`?", "90m"),
        ("1h 30m", "did you mean `90m`?", "90m"),
        ("2m5s", "did you mean `125s`?", "125s"),
        ("1:30", "write `90s` for minutes and seconds, `90m` for hours and minutes", None),
        ("5 min", "did you mean `5m`?", "5m"),
        ("0", ZERO, None),
        ("0.0 s", ZERO, None),
        ("0h0m", None, None),
        ("30m1h", None, None),
        ("forever", None, None),
    ],
)
def test_a_duration_in_other_words_is_told_how_to_write_it(written: str, hint: str | None, fix: str | None) -> None:
    [finding] = check(f"version: 1\nstages: {{x: {{timeout: {written}}}}}\n")
    assert (finding.code, finding.help, finding.fix) == ("B104", hint, fix)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("stages: {x: {depends_on: [y]}}", "did you mean `needs`?"),
        ("stages: {x: {if: y}}", "did you mean `when`?"),
        ("jobs: {}", "did you mean `stages`?"),
        ("tasks: {}", "did you mean `stages`?"),
        ("include: x.yaml", "did you mean `extends`?"),
        ("settings: {base_url: x}", "did you mean `api_base`?"),
        ("settings: {providers: {openai: {base_url: x}}}", "did you mean `api_base`?"),
        ("settings: {providers: {openai: {baseURL: x}}}", "did you mean `api_base`?"),
        ("settings: {providers: {openai: {url: x}}}", "did you mean `api_base`?"),
        ("settings: {providers: {openai: {endpoint: x}}}", "did you mean `api_base`?"),
        ("settings: {providers: {openai: {api-url: x}}}", "did you mean `api_base`?"),
        ("settings: {providers: {openai: {token: x}}}", "did you mean `api_key`?"),
        ("settings: {providers: {openai: {key: x}}}", "did you mean `api_key`?"),
        ("profiles: {p: {settings: {providers: {openai: {base_url: x}}}}}", "did you mean `api_base`?"),
    ],
)
def test_the_words_of_other_tools_are_understood(text: str, hint: str) -> None:
    [finding] = check(f"version: 1\n{text}\n")
    assert (finding.code, finding.help, finding.fix) == ("B100", hint, None)


@pytest.mark.parametrize("text", ["if: channel", "settings: {token: x}", "settings: {url: x}"])
def test_a_word_of_another_tool_is_not_known_where_its_meaning_has_no_place(text: str) -> None:
    [finding] = check(f"version: 1\n{text}\n")
    assert not str(finding.help).startswith(("did you mean `api_", "did you mean `when"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("naïve", "did you mean `naive`?"),
        ("Größe", None),
        ("a日", None),
        ("日本", None),
        ("My Stage", "did you mean `my_stage`?"),
    ],
)
def test_a_name_is_spelt_for_the_user_only_where_all_of_it_can_be(name: str, hint: str | None) -> None:
    [finding] = check(f"version: 1\nstages: {{{name}: {{}}}}\n")
    assert (finding.code, finding.help) == ("B105", hint)


def test_everything_is_told_at_once() -> None:
    text = "version: 1\nstages: {Bad: {timout: 5s, timeout: 5}, x: {kind: gat}}\nroutes: [{}]\nfoo: 1\n"
    assert sorted(finding.code for finding in check(text)) == ["B100", "B100", "B102", "B103", "B103", "B104", "B105"]


def test_a_section_the_reader_found_empty_is_not_told_again() -> None:
    parsed = parse(b"version: 1\ntests:\n  a:\nstages:\n", file=FILE, layer=FILE)
    assert [finding.code for finding in parsed.findings] == ["B011", "B011"]
    assert parsed.root is not None
    assert check_layer(parsed.root) == []


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("stages: {x: {enabled: off}}", "false"),
        ("stages: {x: {enabled: 'True'}}", "true"),
        ("settings: {retries: '3'}", "3"),
        ("stages: {x: {when: {chat_id: -1001}}}", '"-1001"'),
        ("stages: {x: {when: {chat_id: 0x1F}}}", None),
        ("settings: {api_key: 12345}", None),
        ("stages: {x: {when: {chat_id: True}}}", None),
        ("stages: {x: {when: {chat_id: 0x174876E800}}}", None),
        ("stages: {x: {when: {chat_id: 1E+16}}}", None),
        ("stages: {x: {kind: gat}}", "gate"),
        ("stages: {x: {combine: merging}}", None),
        ("stages: {x: {kind: 5}}", None),
        ("stages: {x: {timout: 5s}}", "timeout"),
        ("stages: {x: {on-failure: skip}}", "on_failure"),
        ("stages: {x: {timout: 5s, timeout: 6s}}", None),
        ("settings: {modle: x}", "model"),
        ("settings: {modle: x, model: y}", None),
        ("profiles: {p: {settings: {modle: x}}}", "model"),
        ("stages: {x: {timeout: 5 s}}", "5s"),
        ("stages: {x: {timeout: 5S}}", "5s"),
        ("stages: {x: {timeout: 5sec}}", "5s"),
        ("stages: {x: {timeout: 1.5 Minutes}}", "1.5m"),
        ("stages: {x: {timeout: 5M}}", None),
        ("stages: {x: {timeout: 5}}", None),
        ("stages: {x: {timeout: '5'}}", None),
        ("stages: {x: {timeout: 0 s}}", None),
    ],
)
def test_a_fix_is_given_only_where_it_is_sure(text: str, fix: str | None) -> None:
    [finding] = check(f"version: 1\n{text}\n")
    assert finding.fix == fix


def test_of_two_keys_that_mean_one_neither_is_renamed() -> None:
    findings = check("version: 1\nstages: {x: {timout: 5s, timeuot: 6s}}\nsettings: {modle: a, modell: b}\n")
    assert [(finding.code, finding.fix) for finding in findings] == [("B100", None)] * 4


def test_a_finding_in_a_profile_names_it() -> None:
    [finding] = check("version: 1\nprofiles: {ci: {plugns: []}}\n")
    assert finding.profile == "ci"


def test_a_repeated_item_points_at_the_first_one() -> None:
    text, span = marked("version: 1\nstages: {x: {only: [«a», a]}}\n")
    [finding] = check(text)
    [related] = finding.related
    assert (related.message, related.range) == ("the same item is here", span)


ACCEPTED = [
    "x-notes: {anything: [1, 2]}",
    "stages: {run_model: {combine: merge}}",  # an overlay has no kind to judge by
    "stages: {guard: {kind: gate, into: x, on_failure: skip}}",  # judged on the merged document
    "stages: {a: {default: null, enabled: '${env:ON}', timeout: '${env:T:-5s}', retry: {times: '${file:n}'}}}",
    "stages: {a: {timeout: 1.5s}, b: {timeout: 500ms}, c: {timeout: 1h}}",
    "settings: {temperature: 1, max_tokens: '${env:N}', telegram: {token: 5}}",
    "profiles: {p.q-r: {plugins: [my-plugin, a.b], tools: {allow: ['*', bash]}}}",
    "tests: {t: {message: {}, mock: {m: {return: null}}, expect: {model_output: null}}}",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_allowed_is_accepted(text: str) -> None:
    assert check(f"version: 1\n{text}\n") == []


@pytest.mark.parametrize("name", shipped_pipelines())
def test_shipped_pipelines_fit_the_schema(name: str) -> None:
    path = shipped_pipeline(name)
    assert path is not None
    assert check(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text", ["500ms", "30s", "2m", "1h", "1.5s", "0s", "0.0s", "0.5ms", "5", "s", "30s\n", "٣s", "1d"]
)
def test_the_schema_and_the_engine_agree_on_durations(text: str) -> None:
    accepted = check(f"version: 1\nstages: {{x: {{timeout: {json.dumps(text)}}}}}\n") == []
    ascii_only = text.isascii()  # the engine also reads digits of other scripts, which an editor would refuse
    assert accepted == (ascii_only and parse_duration(text) is not None)


# Secrets


def test_a_literal_secret_is_a_warning_at_its_value() -> None:
    text, span = marked("version: 1\nsettings:\n  providers:\n    openrouter: {api_key: «sk-or-123»}\n")
    [finding] = literal_secrets(read(text))
    assert (finding.code, finding.severity, finding.range) == ("B040", "warning", span)
    assert finding.message == "`settings.providers.openrouter.api_key` is a secret, and the file shows it as plain text"
    assert finding.path == "settings.providers.openrouter.api_key"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("${env:KEY}", False),
        ("${file:/run/secrets/key}", False),
        ("Bearer ${env:KEY}", False),
        ("${env:KEY:-}", False),
        ("${env:KEY:-sk-123}", True),
        ("$${env:KEY}", True),
        ("sk-123", True),
    ],
)
def test_a_reference_is_no_literal_secret(value: str, literal: bool) -> None:
    found = literal_secrets(read(f"version: 1\nsettings: {{api_key: {json.dumps(value)}}}\n"))
    assert bool(found) == literal


def test_secrets_of_profiles_and_of_plugins_are_found() -> None:
    telegram = {
        "properties": {"token": {"$ref": "#/$defs/secret"}},
        "$defs": {"secret": {"type": "string", "writeOnly": True}},
    }
    text = "version: 1\nsettings: {telegram: {token: abc}}\nprofiles: {p: {settings: {api_key: abc}}}\n"
    found = literal_secrets(read(text), {"telegram": telegram})
    assert [finding.path for finding in found] == ["settings.telegram.token", "profiles.p.settings.api_key"]


SECRET = "sk-very-secret-9"


@pytest.mark.parametrize(
    "value",
    [SECRET, f"[{SECRET}]", f"{{{SECRET}: {SECRET}}}", f"'{SECRET} {SECRET}'"],
    ids=["text", "list", "map", "two"],
)
@pytest.mark.parametrize("key", ["api_key", "api_kye", "model", "retries", "timeout", "temperature"])
def test_no_finding_about_settings_shows_a_value(key: str, value: str) -> None:
    root = read(f"version: 1\nsettings: {{{key}: {value}}}\n")
    section = {"properties": {key: {"oneOf": [{"type": "integer"}, {"const": 1}, {"enum": ["a"]}]}}}
    settings = root.get("settings")
    assert settings is not None
    findings = [*check_layer(root), *literal_secrets(root), *check_section("p", settings, section)]
    assert findings
    assert SECRET not in json.dumps([finding.as_dict() for finding in findings])


# Sections of plugins


def test_a_plugins_section_is_checked_against_its_own_schema() -> None:
    own = json.loads(shipped_schema("settings", "local_model.schema.json").read_text(encoding="utf-8"))
    text = (
        "version: 1\nsettings: {local_model: {threds: 2, threads: 65, context: x, path: 3, max_tokens: '${env:N}'}}\n"
    )
    section = read(text).get("settings", "local_model")
    assert section is not None
    found = check_section("local_model", section, own)
    assert {(item.code, item.path, item.message) for item in found} == {
        ("B100", "settings.local_model.threds", "unknown key `threds` in `settings.local_model`"),
        ("B105", "settings.local_model.threads", "`settings.local_model.threads` must be a whole number from 1 to 64"),
        (
            "B101",
            "settings.local_model.context",
            "`settings.local_model.context` must be a whole number from 128 to 131072, not text",
        ),
        ("B101", "settings.local_model.path", "`settings.local_model.path` must be text, not a number"),
    }


def test_a_section_of_a_profile_is_named_with_it() -> None:
    section = read("version: 1\nprofiles: {ci: {settings: {tg: {a: 1}}}}\n").get("profiles", "ci", "settings", "tg")
    assert section is not None
    schema_ = {"properties": {"a": {"maximum": 0}, "b": {"type": "string"}}, "required": ["b"]}
    found = check_section("tg", section, schema_, profile="ci")
    assert [(item.message, item.profile) for item in found] == [
        ("`settings.tg` of profile `ci` lacks `b`", "ci"),
        ("`settings.tg.a` of profile `ci` must be at most 0", "ci"),
    ]


# The published files


def published(*parts: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(shipped_schema(*parts).read_text(encoding="utf-8"))
    return loaded


SCHEMAS = [
    ("pipeline.schema.json",),
    *(("settings", path.name) for path in sorted(shipped_schema("settings").glob("*.json"))),
]


@pytest.mark.parametrize("parts", SCHEMAS, ids=lambda parts: parts[-1])
def test_the_schemas_are_valid_draft_2020_12(parts: tuple[str, ...]) -> None:
    loaded = published(*parts)
    assert loaded["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(loaded)


def test_the_generated_parts_of_the_schema_are_up_to_date() -> None:
    assert published("pipeline.schema.json") == editor_schema(), f"run `{REGENERATE}`"


def test_editors_know_the_keys_and_values_that_the_engine_knows() -> None:
    defs = published("pipeline.schema.json")["$defs"]
    assert set(defs["stage"]["properties"]) == set(STAGE_KEYS)
    assert set(defs["hook"]["properties"]) == set(HOOK_KEYS)
    assert defs["kind"]["enum"] == list(KINDS)
    assert defs["stage"]["properties"]["combine"]["enum"] == ["list", "merge", "concat", "join"]
    assert " ".join(defs["message_fields"]["properties"]) == "channel chat_id session_id sender_id kind content session"
    assert set(defs["on_failure"]["enum"]) == {policy for kind in KINDS.values() for policy in kind.policies}
    assert set(published("pipeline.schema.json")["properties"]["on_failure"]["enum"]) == {
        policy for kind in KINDS.values() if kind.tunable for policy in kind.policies
    }


VALUES = {
    "into": "x",
    "default": 1,
    "default_if": "falsy",
    "combine": "list",
    "changes": ["x"],
    "for_each": "outbounds",
    "cleanup_for": "x",
    "retry": {"times": 1},
    "show": "at_once",
    "idle_timeout": "1m",
}


@pytest.mark.parametrize("kind", KINDS)
def test_editors_refuse_exactly_what_a_kind_does_not_know(kind: str) -> None:
    editor = jsonschema.Draft202012Validator(published("pipeline.schema.json"))

    def accepted(**stage: Any) -> bool:
        return bool(editor.is_valid({"version": 1, "stages": {"s": stage}}))

    for key, knowing in KIND_KEYS.items():
        assert accepted(**{key: VALUES[key]})
        assert accepted(kind=kind, **{key: VALUES[key]}) == (kind in knowing)
    for policy in ("propagate", "skip", "deny"):
        assert accepted(on_failure=policy)
        assert accepted(kind=kind, on_failure=policy) == (policy in KINDS[kind].policies)
        hook = {"version": 1, "hooks": {"h": {"kind": kind, "on_failure": policy}}}
        assert bool(editor.is_valid(hook)) == (policy in KINDS[kind].policies)


def nested(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every schema inside a schema."""
    if isinstance(value, dict):
        yield path, value
        for keyword, below in value.items():
            if keyword in ("properties", "patternProperties", "$defs"):
                for name, inner in below.items():
                    yield from nested(inner, (*path, keyword, name))
            elif keyword in ("items", "additionalProperties", "propertyNames", "if", "then"):
                yield from nested(below, (*path, keyword))
            elif keyword == "allOf":
                for index, inner in enumerate(below):
                    yield from nested(inner, (*path, keyword, str(index)))


NAMED = ("stages", "hooks", "expected")
"""The sections whose keys are names: of some the schema knows what they are."""


@pytest.mark.parametrize("part", ["properties", "$defs/profile/properties"])
def test_editors_offer_the_stages_and_hook_points_that_bub_knows_and_explain_them(part: str) -> None:
    schema = published("pipeline.schema.json")
    sections = schema
    for step in part.split("/"):
        sections = sections[step]
    stages, hooks = sections["stages"]["properties"], sections["hooks"]["properties"]
    assert {"run_model", "resolve_session", "inbound_claim", "normalize_inbound"} <= stages.keys()
    assert {"tool_gate", "before_llm_call", "subagent_ended"} <= hooks.keys() <= HOOK_POINTS.keys()
    assert "onboard_config" not in hooks  # Bub calls it by itself, so nothing can be said of it here
    for name, said in {**stages, **hooks}.items():
        assert said["description"] and said["markdownDescription"], name
    keys = schema["$defs"]["stage"]["properties"]
    assert "message_received" in keys["hook"]["examples"]
    assert {"run_model"} <= set(keys["before"]["examples"]) == set(keys["after"]["examples"])


@pytest.mark.parametrize("parts", SCHEMAS, ids=lambda parts: parts[-1])
def test_the_schemas_keep_to_what_every_tool_understands(parts: tuple[str, ...]) -> None:
    for path, inner in nested(published(*parts)):
        where = "/".join(path)
        assert not {"oneOf", "anyOf", "not", "format", "multipleOf", "maxLength"} & set(inner), where
        assert r"\p{" not in inner.get("pattern", ""), where
        kinds = inner.get("type")
        if isinstance(kinds, list):
            assert len(kinds) == 2 and kinds[1] == "string" and "env|file" in inner["pattern"], where
        conditions = {"if", "then"} & set(path)
        if "properties" in inner and not conditions:
            unknown = inner["additionalProperties"]
            assert unknown is False or unknown.get("title") == "plugin section" or path[-1] in NAMED, where


@pytest.mark.parametrize("parts", SCHEMAS, ids=lambda parts: parts[-1])
def test_every_key_is_described(parts: tuple[str, ...]) -> None:
    for path, inner in nested(published(*parts)):
        if len(path) > 1 and path[-2] == "properties" and not {"if", "then"} & set(path):
            described = (
                inner if "description" in inner else published(*parts)["$defs"][inner["$ref"].rpartition("/")[2]]
            )
            assert described["description"] == re.sub("`", "", described["markdownDescription"]), path


# Cost


def test_thousands_of_mistakes_are_told_in_seconds() -> None:
    started = time.process_time()
    assert len(check("version: 1\nstages: {x: {only: [" + "a, " * 5_000 + "]}}\n")) == 4_999
    assert time.process_time() - started < 5


def test_thousands_of_unknown_keys_are_told_in_seconds() -> None:
    started = time.process_time()
    found = check("version: 1\n" + "".join(f"versio{number}: 1\n" for number in range(5_000)))
    assert time.process_time() - started < 5
    assert len(found) == 5_000
    assert found[0].help == "did you mean `version`?"


def test_importing_the_module_does_not_import_jsonschema() -> None:
    code = (
        "import sys, bub.pipeline.check.schema, bub.pipeline.check.sections\n"
        "from bub.pipeline.source.schemas import settings_schema\n"
        "settings_schema(); print('jsonschema' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


class TestSectionsOfShippedPlugins:
    @pytest.mark.parametrize("place", ["settings: {local_model: %s}", "profiles: {p: {settings: {local_model: %s}}}"])
    def test_a_slip_in_a_plugins_section_is_found_in_the_file_and_in_a_profile(self, place: str) -> None:
        document = load_text("version: 1\nextends: bub:default\n" + place % "{thread: 2}")
        found = [finding for finding in check_document(document) if finding.severity == "error"]
        assert [(finding.code, finding.help) for finding in found] == [("B100", "did you mean `threads`?")]

    def test_a_right_section_is_fine(self) -> None:
        document = load_text("version: 1\nextends: bub:default\nsettings: {local_model: {threads: 2, context: 2048}}")
        assert check_document(document) == []


@pytest.mark.parametrize(
    "text",
    [
        "settings: {max_tokens: sk-pasted-here}",
        "profiles: {default: {settings: {max_tokens: sk-pasted-here}}}",
        "hooks: {api_token: {thread: sk-pasted-here}}",
        "settings: {providers: {openrouter: {api_key: [sk-pasted-here]}}}",
    ],
)
def test_no_message_names_what_may_be_a_secret(text: str) -> None:
    found = check_layer(load_text(f"version: 1\n{text}\n").root)
    assert found
    assert not [finding.message for finding in found if "sk-pasted" in finding.message]
