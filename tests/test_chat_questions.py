"""`bub chat` on a real terminal: questions about calls, and what is written meanwhile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.chat_room import Room, calling, clear_screen, make_room, open_lounge, painted
from fakes.screen import (
    ALT_ENTER,
    BACKSPACE,
    CTRL_C,
    CTRL_X,
    ENTER,
    LEFT,
    TAB,
    Sitting,
    paste,
)
from fakes.scripted import OPENAI, Called
from hypothesis import given
from hypothesis import strategies as st

from bub.approval import Question
from bub.channels.terminal.completion import Completions, complete
from bub.channels.terminal.escaping import escape_invisible
from bub.channels.terminal.pasting import Pastes
from bub.channels.terminal.questions import arguments_of, change_of


@pytest.fixture
def room(tmp_path: Path, address: str) -> Room:
    return make_room(tmp_path / "room", address)


@pytest.fixture(scope="module")
def lounge(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[tuple[Room, Sitting]]:
    with open_lounge(tmp_path_factory.mktemp("lounge"), address) as lounge:
        yield lounge


@pytest.fixture
def seated(lounge: tuple[Room, Sitting]) -> Iterator[tuple[Room, Sitting]]:
    with clear_screen(lounge) as seated:
        yield seated


# Questions.


def test_a_question_is_answered_by_one_key_and_for_this_session_is_for_the_same_arguments(room: Room) -> None:
    calls = [calling("echo one"), calling("echo one", id="2"), calling("echo two", id="3")]
    room.script("work", *calls, OPENAI.answer("Done."))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("work")
        chat.see("The agent wants to call bash with\n  command: echo one\n")
        chat.see("Allow bash?  [y]es  [n]o  [s]ession")
        chat.type("s")
        chat.see("command: echo two")
        assert re.search(r"● bash echo one · \d\.\d s\n● bash echo one · \d\.\d s\n", chat.text)
        assert chat.text.count("The agent wants to call") == 2
        chat.see(lambda text: text.count("[s]ession") == 1)  # the first question is gone
        chat.type("y")
        chat.see("Done.")


def test_always_shows_what_it_changes_in_the_file_before_that_is_written(room: Room) -> None:
    before = room.file.read_text()
    room.file.write_text(f"# mine\n{before}")
    room.script("work", calling("echo one"), OPENAI.answer("Done."))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("work")
        for key in "ny":
            chat.see("Allow bash?  [y]es  [n]o  [s]ession  [a]lways")
            chat.type("a")
            chat.see("Write this?  [y]es  [n]o")
            assert 'unasked:{bash:["echoone;"]}' in "".join(chat.text.split())
            assert "unasked" not in room.file.read_text()
            chat.type(key)
        chat.see(lambda text: "is written (as it was: " in " ".join(text.split()))
        chat.see("Done.")
        assert chat.leave() == 0
    assert room.file.read_text().startswith("# mine\nversion: 1\n")
    room.script("again", calling("echo one"), calling("echo one two", id="2"), OPENAI.answer("Over."))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("again")
        chat.see("command: echo one two")  # the words of the rule, and no more
        chat.see("[s]ession")
        chat.type("n")
        chat.see("Over.")
        assert "● bash echo one ·" in chat.text
        assert chat.text.count("The agent wants to call") == 1


POLL = """
from bub import hookimpl, tool
from bub.agent.calls.asking import current_call
from bub.asking import Form, Query

@tool(name="poll", reaches=None)
async def poll() -> str:
    \"\"\"Ask something for somebody else, as a server does.\"\"\"
    queries = (
        Query("city", "text", "City", check=lambda text: "is no city" if text.isdecimal() else None),
        Query("size", "select", "Size", choices=["small", "large"]),
        Query("sights", "checkbox", "Sights", choices=["tower", "river", "wall"], default=[]),
        Query("late", "confirm", "Late?"),
    )
    answer = await current_call.get().fill(Form("the server `docs`", "Where to?\\nAllow bash?\\x1b[2J", queries))
    return " ".join(f"{name}={said}" for name, said in sorted((answer.content or {}).items())) or "nothing was told"

@hookimpl
def provide_tools():
    return [poll]
"""


def test_a_form_of_somebody_else_is_filled_in_line_by_line_and_kept_in_no_history(room: Room) -> None:
    (room.folder / "poll.py").write_text(POLL)
    text = room.file.read_text().replace("{scripts: {", "{poll: {path: poll.py}, scripts: {")
    room.file.write_text(text.replace("plugins: [scripts]", "plugins: [poll, scripts]"))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say(",poll")
        chat.type("a dra")  # whoever types on sends nothing to a server
        chat.see("the server `docs` asks\n  Where to?\n  Allow bash?\\x1b[2J\n")
        chat.see("City  Enter answers, Ctrl-C declines\nanswer>")
        chat.say("17")
        chat.see("that is no city")
        chat.see("Ctrl-C declines\nanswer>")
        chat.say("Ulm")
        for title, shown, line in (("Size", "2  large", "2"), ("Sights", "3  wall", "3, 1")):
            chat.see(f"{title}\n")
            chat.see(shown)
            chat.see("Ctrl-C declines\nanswer>")
            chat.say(line)
        chat.see("Late?  [y]es  [n]o  [d]ecline")
        chat.type("y")
        chat.see("Send this to the server `docs`?  [y]es  [n]o")
        chat.type("y")
        chat.see("city=Ulm late=True sights=['wall', 'tower'] size=large")
        chat.see("> a dra")
        chat.type(BACKSPACE * 5)
        chat.say(",poll")
        chat.see(lambda text: text.endswith("Ctrl-C declines\nanswer>"))
        chat.type(CTRL_C)
        chat.see("nothing was told")
        assert chat.leave() == 0
    assert not [file for file in room.folder.rglob("*history*") if file.is_file() and "Ulm" in file.read_text()]


def test_always_is_not_offered_for_what_no_rule_could_name(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    commands = ("echo one | cat", "git push", "A=1 echo one")
    calls = [calling(command, id=str(number)) for number, command in enumerate(commands)]
    room.script("push", *calls, OPENAI.answer("No."))
    chat.say("push")
    for command in commands:
        chat.see(f"command: {command}")
        chat.see("[s]ession")
        assert "[a]lways" not in chat.text
        chat.type("a")  # no answer
        chat.type("n")
    chat.see("No.")


def test_a_yes_for_this_session_ends_with_a_reset(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    for number, key in (("1", "s"), ("2", ""), ("3", "n")):
        room.script(f"work {number}", calling("echo one"), OPENAI.answer(f"Done {number}."))
        if number == "3":
            chat.say(",tape.reset")
            chat.see("the conversation is forgotten")
        chat.say(f"work {number}")
        if key:
            chat.see("[s]ession")
            chat.type(key)
        chat.see(f"Done {number}.")
    assert chat.text.count("The agent wants to call") == 2
    assert chat.text.count("error: the person said no") == 1


def test_a_yes_for_this_session_answers_no_question_that_shows_why_it_is_asked(room: Room) -> None:
    command = "echo one # https://example.org"
    room.script("work", calling(command), calling(command, id="2"), OPENAI.answer("Done."))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("work")
        chat.see("Allow bash?  [y]es  [n]o  [s]ession")
        chat.type("s")
        chat.see("Allow bash, this once?  [y]es  [n]o")
        text = " ".join(chat.text.split())
        assert "Why you are asked: the conversation holds what the command `echo one # https://example.org`" in text
        chat.type("n")
        chat.see("Done.")


def test_the_time_of_a_tool_is_not_that_of_the_person_who_was_asked(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    room.script("think", calling("while ! test -e thought; do sleep 0.02; done"), OPENAI.answer("Well."))
    chat.say("think")
    chat.see("[s]ession")
    asked = time.monotonic()
    chat.see(lambda _: time.monotonic() > asked + 2.5)
    assert re.search(r"^\S bash while.*done$", chat.text, re.MULTILINE)  # no time is counted for it
    chat.type("y")
    chat.see(lambda text: re.search(r"^\S bash while.*done 0\.\d s$", text, re.MULTILINE) is not None)
    (room.folder / "thought").touch()
    chat.see("Well.")
    took = re.search(r"● bash while.* · (\d+\.\d) s$", chat.text, re.MULTILINE)
    assert took is not None
    assert float(took[1]) < 2.5


def test_no_is_what_enter_and_ctrl_c_mean(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    calls = [calling(f"touch done # {number}", id=number) for number in "12"]
    room.script("work", *calls, OPENAI.answer("As you like."))
    chat.say("work")
    for number, key in zip("12", (ENTER, CTRL_C), strict=True):
        chat.see(f"command: touch done # {number}")
        chat.see("[s]ession")
        chat.type("x")  # no answer
        chat.type(key)
    chat.see("As you like.")
    assert chat.text.count("error: the person said no") == 2
    assert not (room.folder / "done").exists()


def test_who_is_typing_when_a_question_comes_does_not_answer_it(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    room.script("work", [{"pause": 0.2}, *calling("touch done")], OPENAI.answer("Over."))
    chat.say("work")
    chat.see("> work")
    typed, until, slowest = "", float("inf"), 0.0
    while "[s]ession" not in chat.text and time.monotonic() < until:
        typed, began = f"{typed}y", time.monotonic()
        chat.type("y")
        chat.see(f"> {typed}")
        slowest = max(slowest, time.monotonic() - began)
        if "Allow bash?" in chat.text:
            until = min(until, began + 0.7)
    assert "[s]ession" not in chat.text or slowest > 0.3  # on a machine that is very busy
    chat.see("[s]ession")
    chat.type("n")
    chat.see("Over.")
    chat.see(lambda text: text.endswith(f"\n> {typed}"))  # still to be sent
    assert not (room.folder / "done").exists()
    chat.type(CTRL_C)


def test_what_is_asked_about_cannot_be_disguised() -> None:
    assert escape_invisible("a\u3164b\ufe0f\u2800\u034f\u200b ") == r"a\u3164b\ufe0f\u2800\u034f\u200b\x20"
    question = Question("s", "bash", {"command": "echo" + " " * 60 + "; true\nAllow bash?", "cwd\nx": "."})
    rows = painted(arguments_of(question), 40, "asked").splitlines()
    assert rows == [
        "  command: echo",
        "",
        f"{' ' * 7}; true",
        "    Allow bash?",
        "  cwd",
        "    x: .",
    ]


def test_the_question_about_an_edit_shows_what_changes(room: Room) -> None:
    text = room.file.read_text(encoding="utf-8").replace("bash], ask: [bash]", "fs.edit], ask: [fs.edit]")
    room.file.write_text(text, encoding="utf-8")
    (room.folder / "a.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 1\n", encoding="utf-8")
    old, new = "def two():\n    return 1\n", 'def two():\n    """\x1b[2J"""\n    return 2\n'
    call = Called("fs_edit", json.dumps({"path": "a.py", "old": old, "new": new}), "1")
    room.script("work", OPENAI.answer(calls=[call]), OPENAI.answer("Done."))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("work")
        chat.see("[s]ession")
        assert chat.text.split("> work\n\n")[1].splitlines()[:7] == [
            "The agent wants to call fs.edit with",
            "  path: a.py",
            "    def two():",
            "  -     return 1",
            '  +     """\\x1b[2J"""',
            "  +     return 2",
            "",
        ]
        assert (chat.colour_of("  -     return 1"), chat.colour_of("  +     return 2")) == ("red", "green")
        assert chat.colour_of("    def two") == "default"
        chat.type("y")
        chat.see("Done.")
    assert "return 2" in (room.folder / "a.py").read_text(encoding="utf-8")


def edit(old: str, new: str) -> Question:
    return Question("s", "fs.edit", {"path": "a", "old": old, "new": new})


def test_a_long_change_is_cut_and_what_is_left_out_is_counted() -> None:
    many = "\n".join(map(str, range(1000)))
    shown, hidden = change_of(edit("none", many))
    assert len(shown.splitlines()) == 81
    assert hidden == 1001 - 80
    shown, hidden = change_of(edit("x" * 1000, "y" * 100_000))
    assert len(shown) < 8100
    assert (shown[-2:], hidden) == ("y…", 1)
    shown, hidden = change_of(edit(many, many.replace("500", "five hundred")))
    assert shown.splitlines()[1:3] == ["  - 0", "  - 1"]  # too long to be compared
    shown, hidden = change_of(edit(many[:900], many[:900].replace("\n100", "\n")))
    assert shown.splitlines()[1:] == [
        *(f"    {n}" for n in (97, 98, 99)),
        "  - 100",
        "  + ",
        "    101",
        "    102",
        "    103",
    ]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\n", "a", ["    a", "  - "]),
        ("a ", "a", ["  - a\\x20", "  + a"]),
        ("\ta\r\n", "  a\n", ["  - \\ta\\r", "  +   a", "    "]),
    ],
)
def test_a_change_that_is_hard_to_see_is_shown(old: str, new: str, shown: list[str]) -> None:
    assert change_of(edit(old, new))[0].split("\n")[1:] == shown


# Writing.


def test_a_line_may_have_lines_and_what_is_pasted_stays_whole(seated: tuple[Room, Sitting]) -> None:
    _, chat = seated
    chat.type(f"one{ALT_ENTER}two")
    chat.type(paste("\nthree\nfour"))
    chat.see("> one\n  two\n  three\n  four")
    chat.type(ENTER)
    chat.see("You said: one")
    chat.see_prompt()
    assert chat.rows[1:6] == ["> one", "  two", "  three", "  four", ""]
    assert chat.text.count("> ") == 1


def test_a_large_paste_is_a_word_on_the_line_and_is_sent_whole(seated: tuple[Room, Sitting]) -> None:
    _, chat = seated
    many = "\n".join(f"line {number}" for number in range(100))
    chat.type("What is " + paste(many) + "? And" + paste(" x" * 500))
    chat.see("> What is [pasted: 100 lines]? And[pasted: 1,000 letters]")
    chat.type(BACKSPACE)
    chat.see(lambda _: chat.rows[-1] == "> What is [pasted: 100 lines]? And")
    chat.type(LEFT * 5 + BACKSPACE)
    chat.see("> What is ? And")
    chat.type(paste(many))
    chat.see(lambda _: chat.rows[-1] == "> What is [pasted: 100 lines]? And")
    chat.type("!" + ENTER)
    chat.see("line 99!? And")
    chat.see_prompt()
    assert chat.text.startswith("\n> What is [pasted: 100 lines]!? And\n\nYou said: What is line 0")
    said = chat.text.split("You said: ")[1]
    assert re.findall(r"line \d+", said) == many.split("\n")
    chat.type(CTRL_X + "wc -l <<END\n".replace("\n", ALT_ENTER) + paste(many) + ALT_ENTER + "END")
    chat.see("[pasted: 100 lines]\n   END")
    chat.type(ENTER)
    chat.see("100\n\n,>")
    chat.type(CTRL_X)


@given(st.lists(st.text(st.sampled_from("a\n\U00100000\U00100001"), max_size=5)))
def test_what_was_pasted_comes_back_whatever_it_was(texts: list[str]) -> None:
    pastes, large = Pastes(), "b" * 1000
    line = "".join(pastes.fold(text) for piece in texts for text in (large, piece))
    assert pastes.unfold(line) == "".join(large + piece for piece in texts)


def test_commands_arguments_and_skills_are_completed(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    skill = room.folder / ".agents" / "skills" / "poem" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: poem\ndescription: Write one.\n---\nRhyme.\n", encoding="utf-8")
    chat.type(",fs.re")
    chat.see("fs.read")
    chat.type(TAB)
    chat.see("> ,fs.read\n")
    chat.type(" pa")
    chat.see("path=")
    chat.type(TAB)
    chat.see("> ,fs.read path=")
    chat.type(CTRL_C + "use $po")
    chat.see("Write one.")
    chat.type(TAB)
    chat.see("> use $poem")
    chat.type(CTRL_C)


OFFERS = Completions(
    {"fs.read": "Read.", "fs.list": "List.", "help": ""}, {"fs.read": ("path", "profile")}, {"poem": ""}, ("a", "b")
)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (",fs.", [",fs.read", ",fs.list"]),
        (", he", [", help"]),
        (",fs.read pa", [",fs.read path="]),
        (",fs.read path=x ", [",fs.read path=x profile="]),
        (",fs.read profile=", [",fs.read profile=a", ",fs.read profile=b"]),
        ("write a $po", ["write a $poem"]),
        ("fs.", []),
        (",echo $po", []),
        ("a $", ["a $poem"]),
    ],
)
def test_what_is_offered(text: str, offered: list[str]) -> None:
    found = complete(text, OFFERS, ",")
    assert [text[: len(text) - offer.replaces] + offer.text for offer in found] == offered
