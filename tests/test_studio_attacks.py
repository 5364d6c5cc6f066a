"""What a stranger tries at the studio of a gateway at work: nothing is answered, changed, executed or given away.

`test_studio_access.py` has who may ask at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fakes.scripted import OPENAI, serving
from fakes.studio_gateway import KEY, PLANTED, Studio, Visitor, calling, studio, write_office

SCRIPT = "\"'></text></svg><img src=x onerror='window.__pwned = 1'><script>window.__pwned = 1</script>"
LITERAL = "sk-literal-in-a-file-2342"

READ = (
    *("state", "graph", "stage?stage=run_model", "turns", "turns/0123456789abcdef", "sessions", "tape?session=post:1"),
    *("search?query=a", "approvals", "chat?chat=1", "inbox", "health", "plots", "file", "feed"),
)
CHANGE = (
    *("way", "approvals/q1", "chat", "chat/stop", "inbox/m1/retry", "inbox/m1/drop"),
    *("file/check", "file/diff", "file/prove", "file/load", "leave"),
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A gateway in which each kind of turn has been, with script in whatever a stranger may write."""
    folder = tmp_path_factory.mktemp("studio") / "work"
    with serving() as address:
        write_office(folder, address)
        with studio(folder) as running:
            fill(running)
            yield running


def fill(running: Studio) -> None:
    """Let turns end well and badly, one ask for a yes, one wait and one be set aside."""
    secrets = f"{KEY} {PLANTED} {running.token}"
    running.say(f"{secrets} {SCRIPT}", sender_id=f"{PLANTED} {SCRIPT}")
    running.teach("note it", calling("notes_add", {"text": f"{SCRIPT} {secrets}"}), OPENAI.answer(SCRIPT))
    running.say("note it", chat_id=SCRIPT)
    running.say(f"[fail] {SCRIPT} {secrets}", chat_id="3")
    running.say(f"a password {SCRIPT}", chat_id="4")
    running.say(
        "hello", chat_id=f"5 {KEY}", media=[{"kind": "document", "name": f"{SCRIPT}.txt", "mime_type": "text/plain"}]
    )
    running.reply(5)
    running.teach("call it", calling("bash", {"command": f"touch pwned # {SCRIPT} {secrets}"}))
    running.say("call it", chat_id="6")
    running.say(f"{SCRIPT} [moderate] {secrets}", chat_id="7")
    running.wait_at("moderate")
    with running.visit() as visitor:
        running.until(lambda: visitor.ask("approvals")["open"], "a question is asked")


@pytest.fixture
def stranger(office: Studio) -> Iterator[Visitor]:
    """Somebody without the token."""
    with Visitor(office.address) as stranger:
        yield stranger


@pytest.fixture
def visitor(office: Studio) -> Iterator[Visitor]:
    with office.visit() as visitor:
        yield visitor


# Who has no token


@pytest.mark.parametrize("what", READ)
def test_nothing_is_read_without_the_token(office: Studio, stranger: Visitor, what: str) -> None:
    answer = stranger.get(what)
    assert answer.status_code in (401, 403)
    assert set(answer.json()) == {"error", "help"}
    for guess in ({"token": office.token}, {"cookie": office.token}):
        assert stranger.get(what, params=guess).status_code in (401, 403)
    assert stranger.get(what, headers={"Authorization": f"Bearer {office.token}"}).status_code in (401, 403)


@pytest.mark.parametrize("what", CHANGE)
def test_nothing_is_changed_without_the_token(office: Studio, stranger: Visitor, what: str) -> None:
    assert stranger.post(what, {"yes": True}).status_code in (401, 403)
    assert not (office.folder / "pwned").exists()


# Who makes the browser of the owner ask


FOREIGN: dict[str, dict[str, str | None]] = {
    "another site": {"Origin": "http://evil.example"},
    "no site": {"Origin": None},
    "a sandbox": {"Origin": "null"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "a site named like it": {"Origin": "http://127.0.0.1.evil.example"},
    "a script without the mark": {"X_Bub": None},
    "a form": {"Content_Type": "application/x-www-form-urlencoded"},
    "a form with files": {"Content_Type": "multipart/form-data; boundary=x"},
    "a form of plain text": {"Content_Type": "text/plain"},
    "a browser that says it": {"Sec_Fetch_Site": "cross-site"},
    "a neighbour on the machine": {"Sec_Fetch_Site": "same-site"},
}


@pytest.mark.parametrize("who", FOREIGN)
def test_no_other_page_changes_anything(office: Studio, visitor: Visitor, who: str) -> None:
    [question] = visitor.ask("approvals")["open"]
    for what, body in (
        (f"approvals/{question['id']}", {"yes": True}),
        ("chat", {"chat": "1", "profile": "default", "content": "hello"}),
        ("file/load", {"text": "version: 1", "digest": ""}),
        ("enter", {"token": office.token}),
    ):
        answer = visitor.post(what, body, **FOREIGN[who])
        assert 400 <= answer.status_code < 500, what
        assert "set-cookie" not in answer.headers
    assert [one["id"] for one in visitor.ask("approvals")["open"]] == [question["id"]]
    assert not (office.folder / "pwned").exists()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_a_change_has_one_way_only(visitor: Visitor, method: str) -> None:
    [question] = visitor.ask("approvals")["open"]
    for what in (f"approvals/{question['id']}?yes=true", "chat/stop", "inbox/m1/drop", "file/load"):
        headers = {**visitor.own, "X-HTTP-Method-Override": "POST"}
        assert visitor.request(method, what, headers=headers).status_code == 405, what


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "post:1", "cli:local", SCRIPT, "a" * 10_000, "\0", ""])
def test_a_name_from_outside_leads_to_nothing_else(office: Studio, visitor: Visitor, name: str) -> None:
    """Neither another session, nor another profile, stage or file."""
    before = visitor.ask("tape", session="post:1")
    for what, query in (
        ("turns/" + json.dumps(name)[1:-1].replace("/", "%2f"), {}),
        ("graph", {"profile": name or "no such"}),
        ("stage", {"profile": "default", "stage": name}),
    ):
        answer = visitor.get(what, params=query)
        assert 400 <= answer.status_code < 500, what
        assert answer.headers["content-type"] == "application/json", what
    said = visitor.post("chat", {"chat": name, "profile": "default", "content": "hello from the page"})
    assert said.status_code in (200, 400, 413)
    assert visitor.post("chat", {"chat": "1", "profile": name or "x", "content": "hello"}).status_code in (400, 404)
    assert visitor.ask("tape", session="post:1") == before
    assert not [one for one in visitor.ask("sessions")["sessions"] if one["session"].startswith("cli:")]


def test_what_is_no_request_of_the_page_is_refused_in_a_sentence(office: Studio, visitor: Visitor) -> None:
    headers = {**visitor.own, "Content-Type": "application/json"}
    for body in (b"", b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b"[" * 100_000, b'{"chat": {"a": 1}, "content": 7}'):
        answer = visitor.request("POST", "chat", content=body, headers=headers)
        assert answer.status_code == 400, body[:20]
        assert answer.json()["error"]
    large = visitor.request("POST", "file/check", content=b'{"text": "' + b"x" * 20_000_000 + b'"}', headers=headers)
    assert large.status_code == 413
    assert "Traceback" not in large.text


# Script, and secrets


def everything(visitor: Visitor) -> Iterator[tuple[str, str]]:
    """What the page can ask for, each with its answer."""
    state = visitor.ask("state")
    paths = [path for path in READ if path not in ("feed", "turns/0123456789abcdef")] + [
        "turns?state=all",
        "graph?profile=guests",
    ]
    paths += [f"stage?profile=default&stage={one['id']}" for one in visitor.ask("graph")["stages"]]
    paths += [f"turns/{turn['id']}" for turn in visitor.ask("turns", state="all", limit=50)["turns"]]
    sessions = [one["session"] for one in visitor.ask("sessions")["sessions"]]
    answers = [(path, visitor.get(path)) for path in paths]
    answers += [(f"tape of {one}", visitor.get("tape", params={"session": one})) for one in sessions]
    answers += [(f"search {word}", visitor.get("search", params={"query": word})) for word in ("noted", "script")]
    text = visitor.ask("file")["text"]
    wrong = text.replace("profile: guests", f"profile: {json.dumps(SCRIPT)}")
    for what in ("file/check", "file/diff"):
        answers += [(what, visitor.post(what, {"text": said})) for said in (text, wrong, SCRIPT, "")]
    asked = {"channel": SCRIPT, "chat_id": SCRIPT, "sender_id": "stranger", "kind": "normal", "content": SCRIPT}
    answers.append(("way", visitor.post("way", {"message": asked, "session": "new"})))
    assert state["profile"] == "default" and len(sessions) >= 4
    for what, answer in answers:
        assert answer.status_code in (200, 400, 404), f"{what}: {answer.status_code} {answer.text[:300]}"
        assert answer.headers["content-type"] == "application/json", what
        yield what, answer.text
    with visitor.stream("GET", "feed") as feed:
        assert feed.headers["content-type"].startswith("text/event-stream")
        lines = feed.iter_lines()
        yield "feed", next(line for line in lines if line.startswith("data: "))


def test_nothing_that_the_page_can_ask_for_has_a_secret(office: Studio, visitor: Visitor) -> None:
    for what, text in everything(visitor):
        for secret in (KEY, PLANTED, office.token, *dict(visitor.cookies).values()):
            assert secret not in text, what
            assert json.dumps(secret)[1:-1] not in text, what


def test_a_secret_that_is_in_the_file_itself_is_not_shown(tmp_path: Path) -> None:
    file = write_office(tmp_path / "work", "http://127.0.0.1:1")
    file.write_text(file.read_text().replace('"${env:STUDIO_KEY}"', LITERAL))
    with studio(tmp_path / "work") as office, office.visit() as visitor:
        shown = visitor.ask("file")["text"]
        assert LITERAL not in shown
        for what in ("file/check", "file/diff"):
            assert LITERAL not in visitor.post(what, {"text": file.read_text()}).text
        assert LITERAL not in visitor.get("stage", params={"profile": "default", "stage": "run_model"}).text
        # What is shown with a cover over it is not written like that.
        visitor.post("file/load", {"text": shown, "digest": visitor.ask("file")["digest"]})
        assert LITERAL in file.read_text()


def test_a_drawing_has_nothing_that_runs(visitor: Visitor, office: Studio) -> None:
    for profile in ("default", "guests"):
        picture = ElementTree.fromstring(visitor.ask("graph", profile=profile)["svg"])
        for element in picture.iter():
            assert element.tag.rpartition("}")[2] not in (
                "script",
                "style",
                "foreignObject",
                "image",
                "use",
                "animate",
                "set",
            )
            for name, value in element.attrib.items():
                assert not name.startswith("on") and name != "style", name
                assert not re.match(r"\s*(javascript|data|https?):", value) or name == "xmlns", value


def test_the_page_itself_has_no_way_to_run_a_text(office: Studio, stranger: Visitor) -> None:
    """No sink for HTML or script is in any of its files, and nothing of another host."""
    served = [stranger.get(f"{office.address}/").text]
    for name in sorted(set(re.findall(r'(?:src|href)="/?([\w./-]+)"', served[0]))):
        answer = stranger.get(f"{office.address}/{name}")
        assert answer.status_code == 200, name
        served.append(answer.text)
    source = "\n".join(served)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:", source
    )
    assert not [url for url in re.findall(r"https?://[^\s\"'`)]+", source) if "www.w3.org" not in url]


def test_a_command_in_the_page_is_asked_as_from_any_channel(office: Studio, visitor: Visitor) -> None:
    command = ',bash command="touch pwned"'
    assert visitor.post("chat", {"chat": "9", "profile": "default", "content": command}).status_code == 200
    asked = office.until(lambda: [one for one in visitor.ask("approvals")["open"] if one["chat"] == "9"], "it is asked")
    assert not (office.folder / "pwned").exists()
    said = visitor.post(f"approvals/{asked[0]['id']}", {"yes": False}).json()
    assert said["over"] is True
    again = visitor.post(f"approvals/{asked[0]['id']}", {"yes": True})
    assert again.status_code in (200, 404, 409) and (again.status_code != 200 or again.json()["counts"] is False)
    assert not (office.folder / "pwned").exists()


def test_what_an_editor_is_shown_imports_nothing_and_a_plugin_that_is_not_loaded_is_not_proved(
    office: Studio, visitor: Visitor
) -> None:
    (office.folder / "evil.py").write_text("open('pwned', 'w')\n")
    shown = visitor.ask("file")
    text = shown["text"].replace("plugins: {post:", "plugins: {evil: {path: evil.py}, post:")
    text = text.replace("  post: {path: post.py}", "  post: {path: post.py}\n  evil: {path: evil.py}").replace(
        "plugins: [post, office]", "plugins: [post, office, evil]"
    )
    for what in ("file/check", "file/diff"):
        assert visitor.post(what, {"text": text}).status_code == 200
    for what in ("file/prove", "file/load"):
        answer = visitor.post(what, {"text": text, "digest": shown["digest"]})
        assert answer.status_code in (200, 400, 403, 409)
        assert answer.status_code != 200 or answer.json()["outcome"] == "refused"
    assert not (office.folder / "pwned").exists()
    assert visitor.ask("file")["text"] == shown["text"]
