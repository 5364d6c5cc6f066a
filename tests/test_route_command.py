"""`bub route`: the profile that a message gets is the one that a turn gives it, and the reason stands beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import trio
from conftest import Write
from fakes.command_line import SOURCES, bub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bub import BubFramework
from bub.base.diagnostics import PipelineError, Place
from bub.base.layout import cells
from bub.envelope import add_address
from bub.pipeline.plan.conditions import When
from bub.pipeline.plan.routes import Route, RouteTable, Routing, choice_page, choose, routes_of
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import load_document, load_text

FILE = """
    version: 1
    extends: bub:default
    profiles:
      default: {plugins: []}
      night: {plugins: []}
      guests: {plugins: []}
    routes:
      - match: {channel: telegram, chat_id: "-2*"}
        profile: night
      - match: {channel: telegram, sender_id: "${env:OWNER}"}
        profile: night
      - match: {channel: telegram}
        profile: guests
"""


@pytest.fixture
def folder(write: Write) -> Path:
    return write("work/pipelines.yaml", FILE).parent


def route(folder: Path, message: dict[str, Any], start: str = "default", **environ: str) -> dict[str, Any]:
    document = load_document(folder / "pipelines.yaml")
    environment, _ = read_environment(folder, environ)
    return choose(routes_of(document, environment), add_address(message), start).as_dict()


def texts(made: Routing, width: int = 80) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in choice_page(made, width)]


def choice(text: str, message: dict[str, Any], **environment: str) -> Routing:
    return choose(routes_of(load_text(text), environment), add_address(message), "default")


def test_the_first_route_that_matches_counts_and_the_earlier_say_what_did_not(folder: Path) -> None:
    found = route(folder, {"channel": "telegram", "chat_id": -100})
    assert (found["profile"], found["route"]) == ("guests", 3)
    assert found["session_id"] == "telegram:-100"
    assert [(one["line"], one["matches"], one["refused_by"]) for one in found["routes"]] == [
        (8, False, "chat_id"),
        (10, False, "sender_id"),
        (12, True, None),
    ]
    assert route(folder, {"channel": "telegram", "chat_id": "-2"})["routes"][1]["matches"] is None


def test_a_reference_is_looked_up_and_shown_as_it_is_written(folder: Path) -> None:
    message = {"channel": "telegram", "sender_id": "a-private-number"}
    found = route(folder, message, OWNER="a-private-number")
    assert found["profile"] == "night"
    assert found["routes"][1]["match"]["sender_id"] == "${env:OWNER}"
    (folder / ".env").write_text("OWNER=a-private-number\n", encoding="utf-8")
    assert route(folder, message)["profile"] == "night"
    (folder / ".env").unlink()
    assert route(folder, message)["profile"] == "guests"


@pytest.mark.parametrize("glob", ["${env:OWNER}", "${env:OWNER}*"])
def test_a_route_with_a_reference_to_nothing_matches_no_message(write: Write, glob: str) -> None:
    file = write(
        "pipelines.yaml",
        f"""
        version: 1
        stages: {{build_prompt: {{kind: firstresult, into: prompt, default: "{{content}}"}}}}
        profiles:
          default: {{plugins: []}}
          owner: {{plugins: []}}
        routes:
          - match: {{sender_id: "{glob}"}}
            profile: owner
        """,
    )
    for sender in ("", "ann"):
        message = {"content": "hi", "sender_id": sender}
        assert route(file.parent, message)["profile"] == "default"
    with pytest.raises(PipelineError, match="the environment variable `OWNER` is not set"):
        BubFramework(file).load_hooks()


def test_without_a_route_it_is_the_profile_chosen_at_start(folder: Path) -> None:
    done = bub(folder, "route", "--json", "--message", '{"channel": "cli"}', "--profile", "night")
    found = json.loads(done.stdout)
    assert (found["profile"], found["route"], found["errors"]) == ("night", None, 0)
    text = (folder / "pipelines.yaml").read_text("utf-8")
    assert "why      no route matches, so Bub uses the profile chosen at start" in texts(choice(text, {}))
    assert "why      the file has no routes, so Bub uses the profile chosen at start" in texts(
        choice("version: 1\n", {})
    )


def test_channel_and_chat_are_default_as_in_a_turn(folder: Path) -> None:
    found = route(folder, {})
    assert found["message"] == {"channel": "default", "chat_id": "default"}
    assert found["session_id"] == "default:default"
    assert route(folder, {"session_id": " mine "})["session_id"] == "mine"


def test_the_message_may_be_piped_in(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bub", "route", "--message", "-"],
        cwd=folder,
        env={"PYTHONPATH": SOURCES, "BUB_HOME": str(folder / "home"), "NO_COLOR": "1"},
        input='{"channel": "telegram"}',
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("profile  guests\n")


@pytest.mark.parametrize("message", ["hello", "[]", "[" * 100_000])
def test_what_is_no_json_object_is_refused_with_an_example(folder: Path, message: str) -> None:
    done = bub(folder, "route", "--message", message)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the message is not a JSON object" in done.stderr
    assert """--message '{"channel": "telegram", "chat_id": "-100"}'""" in done.stderr


def test_an_unknown_profile_is_refused(folder: Path) -> None:
    done = bub(folder, "route", "--message", "{}", "--profile", "nihgt")
    assert done.returncode == 2
    assert "did you mean `night`?" in done.stderr


def test_a_file_with_errors_is_read_as_far_as_it_can_be() -> None:
    text = "version: 1\nroutes: [5, {match: x, profile: a}, {match: {}}, {match: {channel: [1]}, profile: b}, "
    found = choice(text + "{match: {}, profile: c}]\n", {"channel": "cli"})
    assert (found.profile, found.taken and found.taken.number) == ("c", 5)
    assert [(made.number, refusal) for made, refusal in found.routes] == [(4, "channel"), (5, None)]


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_wider_than_the_terminal(folder: Path, width: int) -> None:
    message = {"channel": "telegram", "chat_id": "-100", "content": "many words " * 20}
    lines = texts(choice((folder / "pipelines.yaml").read_text("utf-8"), message), width)
    assert len(lines) > 6
    assert [line for line in lines if cells(line) > width] == []


GLOBS = st.none() | st.text("ab*?[]", max_size=3)
FIELDS = st.sampled_from(["channel", "chat_id", "sender_id"])


@given(
    st.lists(st.dictionaries(FIELDS, GLOBS, max_size=3), max_size=10),
    st.dictionaries(FIELDS, st.none() | st.integers(0, 1) | st.text("ab*[", max_size=3)),
)
def test_the_first_route_that_matches_is_found_as_if_each_was_tried(
    matches: list[dict[str, str | None]], message: dict[str, Any]
) -> None:
    routes = [
        Route(number, {}, "any", Place("p.yaml"), globs, When.of(globs)) for number, globs in enumerate(matches, 1)
    ]
    tried = next((route for route in routes if route.when.matches(message)), None)
    assert RouteTable(routes).first(message) is tried
    expected = all(
        glob is not None and message.get(name) is not None and fnmatchcase(str(message[name]), glob)
        for name, glob in (tried.globs if tried is not None else {}).items()
    )
    assert expected


WORDS = st.sampled_from(["telegram", "cli", "tele*", "*", "?li", "-100", "-1*", ""])
MATCHES = st.dictionaries(st.sampled_from(["channel", "chat_id", "sender_id", "content"]), WORDS, max_size=3)
MESSAGES = st.dictionaries(
    st.sampled_from(["channel", "chat_id", "sender_id", "content"]),
    st.sampled_from(["telegram", "cli", "-100", -100, None, ""]),
    max_size=4,
)


@given(matches=st.lists(MATCHES, min_size=1, max_size=4), messages=st.lists(MESSAGES, min_size=1, max_size=5))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_the_answer_is_the_profile_that_a_turn_gets(
    tmp_path: Path, matches: list[dict[str, str]], messages: list[dict[str, Any]]
) -> None:
    """Routes that can never match are errors, so those that an earlier one hides are left out."""
    names = [f"p{number}" for number in range(len(matches))]
    file = tmp_path / "generated.yaml"
    document = {
        "version": 1,
        "stages": {"build_prompt": {"kind": "firstresult", "into": "prompt", "default": "{content}"}},
        "profiles": {name: {} for name in ["default", *names]},
        "routes": [{"match": match, "profile": name} for match, name in zip(matches, names, strict=True)],
    }
    framework = None
    while framework is None:
        file.write_text(json.dumps(document), encoding="utf-8")
        tried = BubFramework(file, workspace=tmp_path)
        try:
            tried.load_hooks()
            framework = tried
        except PipelineError:
            document["routes"] = document["routes"][:-1]  # type: ignore[index]
    routes = routes_of(load_document(file), {})

    async def profile_of(message: dict[str, Any]) -> str:
        return (await framework.process_inbound(message)).profile

    for message in messages:
        assert choose(routes, add_address(message), "default").profile == trio.run(profile_of, message)
