"""`bub profiles`: what each profile may do and which messages it gets, told without importing a plugin."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from conftest import Write
from fakes.command_line import bub

from bub.base.layout import Line, cells
from bub.pipeline.show.profiles import ProfileFacts, profiles, profiles_page
from bub.pipeline.source.merge import load_text

NEVER = "raise SystemExit('imported')\n"
FILE = """
    version: 1
    extends: bub:default
    plugins:
      house_rules: {path: house_rules.py}
      night_watch: {path: watch.py, optional: true}
    profiles:
      default:
        plugins: [local_model]
      reviewer:
        extends: default
        description: Reads, and never writes.
        plugins: [house_rules, night_watch]
        tools: {allow: [fs.read, "tape.*"], deny: [web.fetch]}
        budget: {steps: 5}
        channels: [telegram]
        settings: {model: "anthropic:claude-sonnet-4-5"}
      night:
        tools: {allow: ["*"], ask: [fs.write]}
      bare: {}
    routes:
      - match: {channel: telegram, chat_id: "-2*"}
        profile: night
      - match: {channel: telegram, chat_id: "${env:CHAT}"}
        profile: reviewer
    settings:
      model: openrouter:openrouter/free
      api_key: sk-or-a-literal-key
"""


@pytest.fixture
def folder(write: Write) -> Path:
    write("work/house_rules.py", NEVER)
    write("work/watch.py", NEVER)
    return write("work/pipelines.yaml", FILE).parent


def facts(text: str, start: str = "default", **environ: str) -> dict[str, ProfileFacts]:
    return {found.name: found for found in profiles(load_text(text), start, environ)}


def texts(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def as_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {found["name"]: found for found in json.loads(done.stdout)["profiles"]}


def test_each_profile_stands_with_all_that_it_takes_over(folder: Path) -> None:
    found = as_json(bub(folder, "profiles", "--json"))
    assert list(found) == ["default", "reviewer", "night", "bare"]
    reviewer = found["reviewer"]
    assert reviewer["extends"] == ["default"]
    assert reviewer["plugins"] == [
        {"name": "house_rules", "note": "house_rules.py"},
        {"name": "night_watch", "note": "watch.py, optional"},
    ]
    assert reviewer["tools"] == {
        "allow": ["fs.read", "tape.*"],
        "deny": ["web.fetch"],
        "ask": ["bash", "fs.write", "fs.edit"],  # what `default` says, and it does not
        "unasked": {},
    }
    assert (reviewer["model"], found["night"]["model"]) == (
        "anthropic:claude-sonnet-4-5",
        "openrouter:openrouter/free",
    )
    assert (reviewer["budget"], reviewer["channels"]) == ({"steps": 5}, ["telegram"])
    assert reviewer["routes"] == [
        {
            "match": {"channel": "telegram", "chat_id": "${env:CHAT}"},
            "unknown": None,
            "file": "pipelines.yaml",
            "line": 23,
            "column": 5,
        }
    ]


def test_a_profile_without_tools_has_those_that_only_read(folder: Path) -> None:
    bare = facts((folder / "pipelines.yaml").read_text("utf-8"))["bare"]
    assert bare.as_dict()["tools"] == {"allow": None, "deny": [], "ask": [], "unasked": {}}
    assert "  tools    the read-only ones" in texts(profiles_page([bare], 80))


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ('{allow: ["*"]}', "all but bash"),
        ('{allow: ["*", bash]}', "all"),
        ("{allow: []}", "none"),
        ("{deny: [web.fetch]}", "the read-only ones; never web.fetch"),
        ("{allow: [fs.read], ask: [fs.read]}", "fs.read; asks a person before fs.read"),
    ],
)
def test_tools_are_told_in_words(tools: str, words: str) -> None:
    assert facts(f"version: 1\nprofiles: {{default: {{tools: {tools}}}}}\n")["default"].tools.words == words


def test_no_plugin_is_imported_and_no_trust_is_needed(folder: Path) -> None:
    done = bub(folder, "profiles", "--profile", "reviewer")
    assert (done.returncode, done.stderr) == (0, "")
    assert "house_rules (house_rules.py)" in done.stdout


def test_the_profile_chosen_at_start_gets_what_no_route_takes(folder: Path) -> None:
    found = as_json(bub(folder, "profiles", "--json", BUB_PROFILE="bare"))
    assert [name for name, profile in found.items() if profile["chosen_at_start"]] == ["bare"]
    text = (folder / "pipelines.yaml").read_text("utf-8")
    assert texts(profiles_page([facts(text, "bare")["bare"]], 80))[-1] == "  gets     every message that no route takes"
    unreached = texts(profiles_page([facts(text)["bare"]], 80))[-1]
    assert unreached == "  gets     no message, unless `--profile bare` chooses it"


CHOSEN = """
    version: 1
    extends: bub:default
    settings:
      http:
        clients: {phone: {token: "${env:T}", profiles: [b, c]}}
        webhooks: {issues: {token: "${env:T}", prompt: "{body}", profile: b}}
    schedules:
      morning: {cron: "0 8 * * *", message: Hi, session: "telegram:7", profile: b}
      evening: {cron: "0 8 * * *", message: Hi, session: "telegram:7", profile: d, enabled: false}
    profiles:
      default: {}
      b: {}
      c: {}
      d: {}
      other: {schedules: {night: {cron: "0 8 * * *", message: Hi, session: "telegram:7", profile: d}}}
"""


def gets(text: str, profile: str, start: str = "default", width: int = 100, **environ: str) -> list[str]:
    """What a profile gets, line by line."""
    lines = texts(profiles_page([facts(text, start, **environ)[profile]], width))
    at = next(index for index, line in enumerate(lines) if line.startswith("  gets "))
    return [line.removeprefix("  gets").strip() for line in lines[at:]]


def test_a_profile_that_schedules_clients_and_webhooks_name_gets_their_messages() -> None:
    text = dedent(CHOSEN)
    assert gets(text, "b") == [
        "the messages of the schedule `morning` (pipelines.yaml:9:77)",
        "the requests of the HTTP client `phone` that name it (pipelines.yaml:6:53)",
        "the requests to the webhook `issues` (pipelines.yaml:7:71)",
    ]
    assert gets(text, "c") == ["the requests of the HTTP client `phone` that name it (pipelines.yaml:6:56)"]
    phone = {"kind": "client", "name": "phone", "unknown": None, "file": "pipelines.yaml", "line": 6, "column": 56}
    assert facts(text)["c"].as_dict()["named_by"] == [phone]


def test_only_what_is_on_in_the_profile_chosen_at_start_names_profiles() -> None:
    text = dedent(CHOSEN)
    assert gets(text, "d") == ["no message, unless `--profile d` chooses it"]
    assert gets(text, "d", "other") == ["the messages of the schedule `night` (pipelines.yaml:16:95)"]


REFERRED = """
    version: 1
    extends: bub:default
    settings:
      http:
        clients: {phone: {token: "${env:T}", profiles: ["${env:P:-b}"]}}
        webhooks: {issues: {token: "${env:T}", prompt: "{body}", profile: "${env:P:-b}"}}
    schedules:
      morning: {cron: "0 8 * * *", message: Hi, session: "telegram:7", profile: "${env:P:-b}"}
    profiles:
      default: {}
      b: {}
      c: {}
    routes:
      - {match: {channel: telegram}, profile: "${env:P:-b}"}
"""


def test_a_reference_gives_messages_to_the_profile_that_it_stands_for_at_a_start() -> None:
    text = dedent(REFERRED)
    said = [
        "channel: telegram (pipelines.yaml:15:5)",
        "the messages of the schedule `morning` (pipelines.yaml:9:77)",
        "the requests of the HTTP client `phone` that name it (pipelines.yaml:6:53)",
        "the requests to the webhook `issues` (pipelines.yaml:7:71)",
    ]
    unreached = "no message, unless `--profile {}` chooses it"
    assert gets(text, "b") == said
    assert gets(text, "c") == [unreached.format("c")]
    assert gets(text, "c", P="c") == said
    assert gets(text, "b", P="c") == [unreached.format("b")]


def test_a_reference_that_stands_for_nothing_here_may_give_messages_to_every_profile() -> None:
    text = dedent(REFERRED).replace("${env:P:-b}", "${env:P}")
    why = "Bub does not know the value of `${env:P}`"
    perhaps = [
        f"perhaps channel: telegram: {why} (pipelines.yaml:15:5)",
        f"perhaps the messages of the schedule `morning`: {why} (pipelines.yaml:9:77)",
        f"perhaps the requests of the HTTP client `phone` that name it: {why} (pipelines.yaml:6:53)",
        f"perhaps the requests to the webhook `issues`: {why} (pipelines.yaml:7:71)",
    ]
    assert gets(text, "b", width=200) == perhaps
    assert gets(text, "default", width=200) == ["every message that no route takes", *perhaps]
    [morning, *_] = facts(text)["b"].as_dict()["named_by"]
    assert (morning["name"], morning["unknown"]) == ("morning", "${env:P}")
    assert [route["unknown"] for route in facts(text)["b"].as_dict()["routes"]] == ["${env:P}"]


def test_a_hidden_default_is_shown_neither_as_a_profile_nor_in_words() -> None:
    text = dedent(REFERRED).replace("${env:P:-b}", "${env:API_TOKEN:-b}")
    assert not any("-b}" in line or line.startswith("the") for line in gets(text, "b", width=200))


def test_every_profile_gets_the_sessions_that_choose_it_if_sessions_may_choose() -> None:
    text = "version: 1\nprofiles:\n  c: {hooks: {personality_switched: {kind: modifying}}}\n  b: {}\n"
    assert gets(text, "b") == ["no message, unless `--profile b` chooses it"]
    routed = f"{text}routes: [{{match: {{channel: cli}}, profile: c}}]\n"
    assert gets(routed, "b") == ["the messages of sessions that choose it (pipelines.yaml:3:15)"]


def test_a_variable_that_chooses_the_model_chooses_it_for_all() -> None:
    text = "version: 1\nprofiles: {default: {}, b: {settings: {model: a:b}}}\n"
    assert [found.model for found in facts(text, BUB_MODEL="c:d").values()] == ["c:d", "c:d"]


def test_a_secret_is_shown_as_its_source_only(folder: Path) -> None:
    path = folder / "pipelines.yaml"
    text = path.read_text("utf-8").replace("model: openrouter:openrouter/free", "model: {api_key: sk-or-wrong-place}")
    text = text.replace("{steps: 5}", "{steps: 5, api_key: sk-or-another}")
    path.write_text(text.replace("description: Reads", "token: tg-secret-token\n    description: Reads"), "utf-8")
    for arguments in ((), ("--json",)):
        done = bub(folder, "profiles", *arguments)
        assert "sk-or" not in done.stdout + done.stderr
        assert "tg-secret" not in done.stdout + done.stderr


def test_a_file_with_errors_is_shown_as_far_as_it_can_be_read(write: Write) -> None:
    text = """
        version: 1
        extends: bub:nowhere
        profiles:
          a: {extends: b, plugins: [x, 7], tools: [y], channels: z, modle: q}
          b: {extends: a, description: [1]}
          c: 4
        routes: [{match: nonsense, profile: a}, {profile: b}, 5]
    """
    done = bub(write("work/pipelines.yaml", text).parent, "profiles", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["errors"] > 0
    assert done.stderr.startswith("bub: pipelines.yaml has ")
    assert [profile["name"] for profile in found["profiles"]] == ["default", "a", "b", "c"]
    assert found["profiles"][1]["plugins"] == [{"name": "x", "note": None}]


def test_the_shipped_pipelines_can_be_shown(tmp_path: Path) -> None:
    done = bub(tmp_path, "profiles")
    assert done.returncode == 0
    assert done.stdout.startswith("default  bub:default:")


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_wider_than_the_terminal_but_for_a_single_word(folder: Path, width: int) -> None:
    found = facts((folder / "pipelines.yaml").read_text("utf-8").replace("Reads,", "Reads 日本語 " * 10))
    assert [line for line in texts(profiles_page(found.values(), width)) if cells(line) > width] == []


def test_a_pipe_gets_no_colours(folder: Path) -> None:
    assert "\x1b" not in bub(folder, "profiles", NO_COLOR="", FORCE_COLOR="1").stdout


def test_a_default_that_nobody_wrote_is_there_all_the_same() -> None:
    found = facts("version: 1\nstages: {}\n")
    assert list(found) == ["default"]
    assert found["default"].place is None
    assert texts(profiles_page(found.values(), 80))[0] == "default  not written, and always there"
