"""What the page can ask for, each thing once: of a `bub studio` that may write."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.studio import Browser, StudioProcess, bub_studio

from bub.studio.app import ENDPOINTS

SECRET = "tok-Zx81yyPq20aBnothing"

PIPELINE = """
version: 1
extends: bub:default
settings: {model: "openai:gpt-x", gateway: {studio: {write: false}}}
profiles:
  default: {description: For the day., plugins: [telegram]}
  night: {plugins: []}
routes: [{match: {channel: telegram, chat_id: "-*"}, profile: night}]
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioProcess]:
    folder = tmp_path_factory.mktemp("studio")
    (folder / "pipelines.yaml").write_text(PIPELINE)
    environ = {"BUB_TRUST_WORKSPACE": "1", "OPENAI_API_KEY": SECRET}
    with bub_studio(folder, write=True, environ=environ) as process:
        yield process


@pytest.fixture
def browser(page: StudioProcess) -> Iterator[Browser]:
    with page.browser() as browser:
        yield browser


def test_what_runs_is_described(page: StudioProcess, browser: Browser) -> None:
    state = browser.get("state")
    assert (state["file"], state["profile"], state["gateway"]) == ("pipelines.yaml", "default", False)
    assert state["workspace"] == str(page.home.parent)
    assert [(one["name"], one["description"], one["is_start"]) for one in state["profiles"]] == [
        ("default", "For the day.", True),
        ("night", "", False),
    ]
    assert state["routes"] == [{"match": {"channel": "telegram", "chat_id": "-*"}, "profile": "night"}]
    assert state["write"]
    assert state["writable_why"] is None


def test_the_pipeline_is_drawn_and_a_stage_explained(browser: Browser) -> None:
    graph = browser.get("graph", profile="night")
    assert graph["svg"].startswith("<svg ")
    assert graph["stages"][0]["id"] == "resolve_session"
    stage = browser.get("stage", profile="default", stage="run_model")
    assert stage["explain"].startswith("stage run_model")
    assert stage["numbers"] == {"count": 0, "failed": 0, "running": 0, "p50": None, "p95": None, "p99": None}
    assert browser.ask("stage", profile="default", stage="nothing").status_code == 404
    assert browser.ask("graph", profile="nobody").status_code == 404
    way = browser.post("way", message={"channel": "telegram", "chat_id": "-7", "content": "hi"}, session="new")
    assert (way["profile"], way["route"], way["session_id"]) == ("night", 1, "telegram:-7")
    assert browser.send("way", message="hi").status_code == 400


def test_a_turn_leaves_a_tape_numbers_and_no_secret(browser: Browser) -> None:
    with browser.feed() as feed:
        said = browser.post("chat", chat="main", profile="default", content=f",skill {SECRET}")
        events = feed.events("main", said["message_id"])
    assert SECRET not in str(events)
    (turn,) = browser.get("turns", session="studio:main")["turns"]
    told = str([browser.get(f"turns/{turn['id']}"), browser.get("chat", chat="main"), browser.get("turns")])
    assert "***" in told
    assert SECRET not in told
    assert browser.get("stage", profile="default", stage="run_model")["numbers"]["count"] == 1
    (session,) = browser.get("sessions")["sessions"]
    assert session["session"] == "studio:main"
    assert browser.get("tape", session="studio:main", limit=2)["more"]
    assert browser.ask("tape", session="nobody").status_code == 404
    assert browser.get("search", query="skill")["found"]
    assert sum(browser.get("plots")["turns"]["ok"]) == 1


def test_nothing_waits_and_all_is_well(browser: Browser) -> None:
    assert browser.get("approvals") == {"open": []}
    assert browser.get("inbox") == {"waiting": [], "outgoing": [], "dead": []}
    assert browser.get("health")["status"] == "ok"
    for path in ("inbox/m1/retry", "inbox/m1/drop", "inbox/x/drop"):
        assert browser.send(path).status_code == 404
    assert browser.post("approvals/q1", yes=False)["over"]


def test_the_file_is_checked_compared_and_loaded(page: StudioProcess, browser: Browser) -> None:
    file = browser.get("file")
    assert file["text"] == PIPELINE
    assert file["write"]
    typo = PIPELINE.replace("settings: {model", "settings: {modle")
    (finding,) = browser.post("file/check", text=typo)["findings"]
    assert (finding["code"], finding["fix"]["text"]) == ("B100", "model")
    assert browser.get("file/code", code="B100")["text"].startswith("B100:")
    other = PIPELINE.replace("For the day.", "For the week.").replace("openai:gpt-x", "openai:gpt-y")
    assert browser.post("file/diff", text=other)["groups"]
    assert browser.post("file/prove", text=other)["outcome"] == "ok"
    with browser.feed() as feed:
        refused = browser.post("file/load", text=typo, digest=file["digest"])
        assert (refused["outcome"], len(refused["findings"])) == ("refused", 1)
        assert browser.post("file/load", text=other, digest=file["digest"])["outcome"] == "ok"
        assert feed.until(lambda batch: batch["reload"]) == 1
    assert browser.send("file/load", text=PIPELINE, digest=file["digest"]).status_code == 409
    assert browser.get("state")["profiles"][0]["description"] == "For the week."
    assert browser.get("health")["reloads"][0]["outcome"] == "ok"
    assert (page.home.parent / "pipelines.yaml").read_text() == other


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("turns", {"limit": "x"}),
        ("turns", {"state": "a\nb"}),
        ("tape", {}),
        ("tape", {"session": "x" * 2_000}),
        ("sessions", {"before": "x"}),
        ("file/code", {"code": ""}),
    ],
)
def test_what_means_nothing_is_refused_with_words(browser: Browser, path: str, query: dict[str, str]) -> None:
    answer = browser.ask(path, **query)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


def test_a_list_says_all_that_can_be_asked_for() -> None:
    assert len({(one.method, one.path) for one in ENDPOINTS}) == len(ENDPOINTS)
    uncovered = [one.path for one in ENDPOINTS if not one.covered]
    assert uncovered == [one.path for one in ENDPOINTS if one.path.startswith("file")]  # they cover what they show


def test_ctrl_c_ends_it_at_once_though_browsers_look(tmp_path: Path) -> None:
    with bub_studio(tmp_path) as process, process.browser() as browser, browser.feed() as feed:
        feed.until(lambda batch: batch["health"])
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(10) == 130
    assert (tmp_path / "stderr").read_text() == ""
