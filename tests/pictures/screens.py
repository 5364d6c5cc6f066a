"""What a person sees at `bub studio`: screenshots of a real gateway with turns under way, in light and dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from fakes.chromium import Chromium, Page, chromium
from fakes.scripted import OPENAI, Script, serving
from fakes.studio_gateway import Studio, Visitor, calling, studio, write_office

SCREENS = tuple(f"studio-{name}{look}.png" for name in ("graph", "turn") for look in ("", "-dark"))
"""The names of the files."""

LARGEST = 150_000
"""How many bytes a file may have."""

SIZE = {"width": 1240, "height": 660}
MORNING = (
    ("Is the build green?", "It is, since nine o'clock.", "ada"),
    ("What is on the list today?", "Two letters and a call at four.", "bob"),
    ("Thank you!", "You are welcome.", "ada"),
    ("The password is 1234", "", "cy"),
    ("Which branch is deployed?", "The one of yesterday: `main`, a4f2.", "bob"),
)
LIST = "Put bread and milk on the list, and tell me what is on it."


def slowly(script: Script, seconds: float) -> Script:
    """The script, a moment later."""
    return [{"pause": seconds}, *script]


def work(running: Studio) -> None:
    """Let a morning pass: turns that ended, one that called tools, a question, and some under way."""
    for number, (words, answer, _) in enumerate(MORNING):
        running.teach(words, slowly(OPENAI.answer(answer, usage=(812, 24)), 0.1 + 0.07 * number))
    for again in range(4):
        for number, (words, _, sender) in enumerate(MORNING):
            running.say(words, chat_id=f"room-{number}", sender_id=sender)
        running.reply(5 * (again + 1))
    running.teach(
        LIST,
        slowly(calling("notes_add", {"text": "bread"}, id="call_1"), 0.5),
        slowly(calling("notes_add", {"text": "milk"}, id="call_2"), 0.35),
        slowly(calling("fs_read", {"path": "notes.txt"}, id="call_3"), 0.3),
        slowly(OPENAI.answer("Bread and milk are on the list now, and nothing else.", usage=(1_240, 31)), 0.6),
    )
    running.say(LIST, chat_id="kitchen", sender_id="ada")
    running.reply(21)
    (running.folder / "before_llm_call.hold").touch()
    for number in range(5):
        running.say(MORNING[number][0], chat_id=f"desk-{number}", sender_id="bob")
    with running.visit() as visitor:
        running.until(lambda: in_stage(visitor, "run_model") == 4, "four turns ask the model, and one is denied")
    (running.folder / "moderate.hold").touch()
    for number in range(2):
        running.say("Good morning!", chat_id=f"door-{number}", sender_id="stranger")
        running.say("Good morning!", chat_id=f"lift-{number}", sender_id="ada")


def in_stage(visitor: Visitor, stage: str) -> int:
    """How many turns are in a stage now."""
    return int(visitor.ask("stage", profile="default", stage=stage)["numbers"]["running"])


def see_graph(page: Page) -> None:
    page.see('#stage-moderate[data-now="2"]')
    page.click("#stage-moderate")
    page.see("aside .tiles")


def see_turn(page: Page) -> None:
    page.turn_to("Turns")
    page.click('table.turns tbody tr:has-text("Put bread and milk") a')
    page.see('main :text("fs.read")')


VIEWS: Mapping[str, Callable[[Page], None]] = {"graph": see_graph, "turn": see_turn}


def take(browser: Chromium, running: Studio, folder: Path) -> None:
    for dark in (False, True):
        page = browser.open(dark=dark, viewport=SIZE)
        page.go(running.link)
        page.see("main svg .stage")
        for name, see in VIEWS.items():
            see(page)
            page.call("mouse_away")
            page.look("new Promise(done => setTimeout(done, 1200))")  # the numbers that the page asks for
            page.picture(folder / f"studio-{name}{'-dark' if dark else ''}.png")
        page.close()


def take_screens(folder: Path) -> None:
    """Write the screenshots; there has to be a browser."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name, serving() as address, chromium() as browser:
        file = write_office(Path(name) / "office", address, more="")
        file.write_text(file.read_text(encoding="utf-8").replace("timeout: 30s", "timeout: 5m"), encoding="utf-8")
        with studio(Path(name) / "office") as running:
            work(running)
            take(browser, running, folder)
