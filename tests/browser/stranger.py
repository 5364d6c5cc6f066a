"""Whatever a stranger writes is shown as text, in every view: nothing of it runs, and nothing is asked elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fakes.chromium import Chromium, Page
from fakes.scripted import OPENAI
from fakes.studio_gateway import KEY, PLANTED, Studio, calling, studio, write_office

MARKER = "window.__pwned = (window.__pwned || 0) + 1"
SCRIPT = (
    f"\"'></text></svg></title></script><img src=http://evil.example/x onerror='{MARKER}'><script>{MARKER}</script>"
    f"<svg onload='{MARKER}'><a href='javascript:{MARKER}'>click</a>${{{MARKER}}}[x](javascript:{MARKER})"
)
SHOWN = "<script>window.__pwned"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[Studio]:
    """A gateway that strangers have written to, and whose own file has such texts, too."""
    folder = tmp_path_factory.mktemp("studio") / "work"
    file = write_office(folder, model)
    described = json.dumps(SCRIPT.replace("${", "$${"))
    file.write_text(file.read_text().replace("Talks to strangers, and touches nothing.", described))
    with studio(folder) as running:
        secrets = f"{KEY} {PLANTED}"
        running.say(f"{secrets} {SCRIPT}", sender_id=f"{PLANTED} {SCRIPT}", chat_id="1")
        scripts = (calling("notes_add", {"text": f"{SCRIPT} {secrets}"}), OPENAI.answer(SCRIPT))
        running.teach(f"note {SCRIPT}", *scripts)
        running.say(f"note {SCRIPT}", chat_id=SCRIPT)
        running.say(f"[fail] {SCRIPT} {secrets}", chat_id="3")
        running.say(f"my password {SCRIPT}", chat_id="4")
        named = [{"kind": "document", "name": f"{SCRIPT}.txt", "mime_type": "text/plain"}]
        running.say(SCRIPT, chat_id="5", media=named, output_channel=SCRIPT)
        running.until(lambda: running.log.count("turn.ended") >= 5)
        running.teach("call", calling("bash", {"command": f"echo {SCRIPT} {secrets}"}))
        running.say("call", chat_id="6")
        running.say(f"{SCRIPT} [moderate]", chat_id="7")
        running.wait_at("moderate")
        yield running


def test_nothing_that_a_stranger_wrote_runs_in_any_view(browser: Chromium, office: Studio) -> None:
    page = browser.open()
    page.go(office.link)
    page.see("main svg .stage")
    with office.visit() as visitor:
        turns = [one["id"] for one in visitor.ask("turns", state="all")["turns"]]
        sessions = [one["session"] for one in visitor.ask("sessions")["sessions"]]
    places = ["graph", "graph/guests", "graph/default/load_state", "turns", *(f"turns/{one}" for one in turns)]
    places += ["tapes", *(f"tapes/{page.look(f'encodeURIComponent({json.dumps(one)})')}" for one in sessions)]
    places += ["approvals", "chat", "inbox", "health", "plots", "file", "nowhere", f"turns/{SCRIPT}", f"tapes/{SCRIPT}"]
    shown = 0
    for place in places:
        page.look(f"location.hash = {json.dumps('#/' + place)}")
        page.look("new Promise(done => setTimeout(done, 250))")
        text = page.call("innerText", "body")
        shown += SHOWN in text
        for secret in (KEY, PLANTED, office.token):
            assert secret not in page.call("content"), place
    assert shown >= len(turns)  # else nothing was tried
    page.look("location.hash = '#/tapes'")
    page.write("main [data-search]", SCRIPT)
    page.look("new Promise(done => setTimeout(done, 600))")
    assert page.look("window.__pwned ?? null") is None
    assert [one for one in page.problems if "status of 404" not in one] == []  # there is no turn of such a name
    hosts = {one["url"].split("/")[2] for one in page.requests if "://" in one["url"]}
    assert hosts == {office.address.removeprefix("http://")}
    page.close()


def test_the_policy_would_keep_a_script_away_that_got_in_all_the_same(page: Page) -> None:
    """The last line of defence: the browser refuses it by the page's own policy."""
    for attempt in (
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.__pwned = 1\">')",
        "document.body.setAttribute('onclick', 'window.__pwned = 1')",
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.__pwned = 1'}))",
    ):
        page.look(f"(() => {{ try {{ {attempt} }} catch (error) {{ (window.refused ??= []).push(error.name) }} }})()")
    page.look("new Promise(done => setTimeout(done, 100))")
    assert page.look("window.refused") == ["TypeError", "TypeError", "TypeError"]
    assert page.look("window.__pwned ?? null") is None
    problems = page.problems
    assert problems and all("Content Security Policy" in one or "requires 'Trusted" in one for one in problems)
    page.call("forget")
