"""`bub chat` on a real terminal: talking, sessions, what an answer looks like, and files that are named."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.chat_room import Room, begun, calling, clear_screen, make_room, open_lounge, painted
from fakes.command_line import bub
from fakes.screen import (
    CTRL_C,
    CTRL_D,
    CTRL_X,
    ENTER,
    TAB,
    UP,
    Sitting,
    paste,
)
from fakes.scripted import OPENAI, Called, Script, refusal

from bub.approval import Question
from bub.channels.terminal.history import history_file
from bub.channels.terminal.questions import change_of, is_edit
from bub.tape import TapeEntry
from bub.tape.lines import write_lines
from bub.tape.store import number_entries
from bub.tape.tape import tape_name


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


# Talking.


def test_C35_a_person_says_something_reads_the_answer_and_leaves(room: Room) -> None:
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("good morning")
        chat.see("You said: good morning")
        chat.see_prompt()
        assert chat.rows == [
            "Bub · test:m · ,help lists commands, Ctrl-D leaves",
            "",
            "> good morning",
            "",
            "You said: good morning",
            "",
            ">",
        ]
        assert chat.leave(CTRL_D) == 0
        assert chat.rows[-1] == "You said: good morning"


def test_C35_quit_leaves_also_from_shell_mode_and_what_was_typed_ahead_was_sent(room: Room) -> None:
    with room.sit() as chat:
        chat.say("one")
        chat.type("tw")
        chat.see("You said: one\n\n> tw")
        chat.say("o")
        chat.see("You said: two")
        chat.see_prompt()
        assert chat.text.count("Bub · ") == 1
        chat.say(",fs.read path=nowhere")
        chat.see("error: nowhere does not exist")  # of which the exit code says nothing: it was read
        chat.see_prompt()
        chat.type(CTRL_X)
        chat.type("quit")
        assert chat.leave(ENTER) == 0


def test_C35_exit_stops_what_is_under_way_and_leaves(room: Room) -> None:
    room.script("go", begun("It goes on"))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("go")
        chat.see("It goes on")
        chat.type(", exit")
        assert chat.leave(ENTER) == 0


def test_C35_ctrl_d_leaves_when_the_answer_is_complete(room: Room) -> None:
    room.script("go", [*OPENAI.beginning("The beginning"), {"pause": 0.5}, *OPENAI.answer(" and the end.")])
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("go")
        chat.see("The beginning")
        chat.type(CTRL_D)
        chat.see("leaving when this is done")
        assert chat.end() == 0
        assert chat.rows[-1] == "The beginning and the end."


def test_C35_ctrl_c_interrupts_the_line(seated: tuple[Room, Sitting]) -> None:
    _, chat = seated
    chat.type("nothing of it")
    chat.see("> nothing of it")
    chat.type(CTRL_C)
    chat.see_prompt()
    chat.type(CTRL_C)
    chat.see("\n>\nCtrl-D leaves")
    chat.say("this")
    chat.see("You said: this")
    chat.see_prompt()


def test_ctrl_c_stops_the_answer_and_keeps_what_is_being_typed(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    room.script("go", begun("First.\n\nSecond"))
    chat.say("go")
    chat.see("Second")
    chat.type("and then")
    chat.see("> and then")
    chat.type(CTRL_C)
    chat.see("Second\n\nstopped\n\n> and then")
    chat.say("?")
    chat.see("You said: and then?")


def test_C35_what_is_typed_while_a_turn_runs_steers_it(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    room.script("work", calling("while ! test -e go; do sleep 0.02; done"), OPENAI.answer("All done."))
    chat.say("work")
    chat.see("[s]ession")
    chat.type("y")
    chat.see("0.5 s")
    chat.say("be quick")
    chat.see("> be quick")
    (room.folder / "go").touch()
    chat.see("All done.")
    assert chat.text.index("> be quick") < chat.text.index("● bash") < chat.text.index("All done.")
    assert "You said: be quick" not in chat.text  # no turn of its own


def test_C35_shell_mode_makes_a_command_of_each_line(seated: tuple[Room, Sitting]) -> None:
    _, chat = seated
    chat.type(CTRL_X)
    chat.see_prompt(",> ")
    chat.say("echo $((40 + 2))")
    chat.see("> ,echo $((40 + 2))\n\n42\n\n,>")
    chat.type(CTRL_X)
    chat.see_prompt()
    chat.say("hello")
    chat.see("You said: hello")
    chat.see_prompt()


def test_C35_the_history_of_a_workspace_is_kept_for_its_owner(room: Room, tmp_path: Path) -> None:
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("remember this")
        chat.see("You said: remember this")
        chat.say(" export KEY=sk-of-mine")
        chat.see("You said: export")
        chat.see_prompt()
        chat.leave()
    (file,) = (tmp_path / "home" / "history").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "sk-of-mine" not in file.read_text(encoding="utf-8")
    with room.sit() as chat:
        chat.see_prompt()
        chat.type(UP)
        chat.see("> remember this")
    assert history_file(tmp_path, room.folder) != history_file(tmp_path, tmp_path)


def test_O6_the_prompt_is_said_first_in_the_session_that_is_named(room: Room, tmp_path: Path) -> None:
    with room.sit("look around", "--session-id", "night:7") as chat:
        chat.see("> look around\n\nYou said: look around")
        chat.see_prompt()
        chat.say(",tape.info")
        chat.see("entries")
        chat.leave()
    assert room.pipe("hello", "--chat-id", "garden").stdout == "You said: hello\n"
    listed = bub(room.folder, "--config", str(room.file), "tape", "list", TEST_KEY="sk-test-key-1").stdout
    assert "night:7" in listed
    assert "cli:garden" in listed
    assert "cli:local" not in listed


# Sessions.


def test_what_is_piped_in_begins_a_session_of_its_own(room: Room) -> None:
    for words in ("one", "two"):
        assert room.pipe(words).stdout == f"You said: {words}\n"
    for words in ("three", "four"):
        assert room.pipe(words, "--session-id", "night:7").stdout == f"You said: {words}\n"
    assert room.pipe("five", "--resume").stdout == "You said: five\n"
    done = bub(room.folder, "--config", str(room.file), "tape", "list", "--json", TEST_KEY="sk-test-key-1")
    sessions = sorted(summary["session"] for summary in json.loads(done.stdout))
    assert len(sessions) == 3
    assert all(session.startswith("cli:local:") for session in sessions[:2])
    assert sessions[2] == "night:7"
    assert "night:7" in room.pipe(",sessions").stdout
    assert " · 3 turns · " in room.pipe(",sessions").stdout


def remember(room: Room, session: str, *said: str, folder: Path | None = None, **meta: Any) -> None:
    """Have a session in which a person and the agent said something by turns."""
    tape = tape_name(folder or room.folder, session)
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
    begun = TapeEntry.anchor("session/start", session=session, workspace=str(folder or room.folder))
    entries = [begun, *(TapeEntry.message(message, **meta) for message in messages)]
    file = room.folder / "entries.jsonl"
    write_lines(file, number_entries(entries, 0))
    done = bub(room.folder, "--config", str(room.file), "tape", "import", str(file), "--as", tape, TEST_KEY="sk-test")
    assert done.returncode == 0, done.stderr
    file.unlink()


def test_resume_goes_on_with_the_last_conversation_and_sessions_lists_them(room: Room, tmp_path: Path) -> None:
    remember(room, "cli:local", "first of all", "Yes?")
    remember(room, "cli:local/helper", "of a sub-agent", "Yes.")
    remember(room, "cli:local:0123abcd", "explain\nthis diff", "It adds.", "and the tests?", "They **pass**.")
    remember(room, "phone:7", "from afar", "Hello.")
    remember(room, "cli:local:elsewhere", "in another folder", folder=tmp_path)
    with room.sit("--resume", columns=60) as chat:
        chat.see_prompt()
        assert chat.rows[0] == "Bub · test:m · ,help lists commands, Ctrl-D leaves"
        goes_on = "cli:local:0123abcd goes on: 2 turns, the last one of "
        assert " ".join(chat.rows[2:4]).startswith(goes_on)
        assert chat.rows[4:] == ["", "> and the tests?", "", "They pass.", "", ">"]
        chat.say("thanks")
        chat.see("You said: thanks")
        chat.see_prompt()
        chat.say(",sessions")
        chat.see("continues the last one")
        chat.see_prompt()
        listed = chat.text.split("> ,sessions\n\n")[1].split("\n\n")[0].splitlines()
        assert [row.split("  ")[0] for row in listed if row[0] != " "] == ["cli:local:0123abcd", "phone:7", "cli:local"]
        assert re.sub(r"\d", "0", listed[0][20:]) == "0000-00-00 00:00 · 0 turns · explain"
        assert listed[1] == " " * 20 + "this diff"
        assert "sub-agent" not in chat.text
        assert "another folder" not in chat.text
        chat.leave()


def test_resume_shows_no_answer_where_a_gate_may_have_kept_it_back(room: Room) -> None:
    gate = "from bub import hookimpl\n\n\n@hookimpl\ndef judge(model_output):\n    return {'deny': 'withheld'}\n"
    (room.folder / "guard.py").write_text(gate, encoding="utf-8")
    text = room.file.read_text(encoding="utf-8").replace("[scripts]", "[scripts, guard]")
    text = text.replace("plugins: {scripts", "plugins: {guard: {path: guard.py}, scripts", 1)
    hooks = "hooks: {judge: {kind: gate, takes: [model_output]}}\nstages: {judge: {after: run_model, timeout: 5s}}\n"
    room.file.write_text(text + hooks, encoding="utf-8")
    remember(room, "cli:local", "tell me the secret", "It is hunter2.")
    with room.sit("--resume", columns=60) as chat:
        chat.see("> tell me the secret")
        chat.see_prompt()
        assert "hunter2" not in chat.text
        chat.leave()


def test_resume_needs_a_conversation_and_no_other_session(room: Room) -> None:
    missing = room.pipe("hello", "--resume")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "there is no conversation to continue in this workspace (`bub chat` begins one)" in missing.stderr
    assert room.pipe("hello", "--resume", "--session-id", "night:7").returncode == 2


# What an answer looks like.


def test_markdown_is_shown_block_by_block_and_what_is_unfinished_below_it(room: Room) -> None:
    text = "# Plan\n\nUse **care** and `make`:\n\n- one\n- two\n\n```python\nprint(1)\n```\nThen it *sto"
    room.script("plan", [*OPENAI.answer(text)[:-3], {"hold": True}])
    with room.sit(columns=40) as chat:
        chat.see_prompt()
        chat.say("plan")
        chat.see("Then it *sto")
        chat.see("Ctrl-C stops")
        assert chat.timeless == [
            "Bub · test:m",
            ",help lists commands, Ctrl-D leaves",
            "",
            "> plan",
            "",
            "                  Plan",
            "",
            "Use care and make:",
            "",
            " • one",
            " • two",
            "",
            " print(1)",
            "",
            "Then it *sto",
            "* 0.0 s · Ctrl-C stops",
            ">",
        ]
        chat.type(CTRL_C)
        chat.see("Then it *sto\n\nstopped\n\n>")


def test_a_pause_that_the_server_wants_is_in_the_line_of_what_is_under_way(room: Room) -> None:
    busy = refusal({"error": {"message": "slow down"}}, 429, retry_after="3")
    room.script("hurry", busy, OPENAI.answer("Here."))
    with room.sit(BUB_RETRIES="1", columns=100) as chat:
        chat.see_prompt()
        chat.say("hurry")
        chat.see("Ctrl-C stops · waiting 2.")
        chat.see("got too many requests (429)")
        chat.see("Here.")
        assert "waiting" not in "\n".join(chat.rows)


def test_ctrl_c_ends_a_wait_for_a_command_in_the_background_at_once(room: Room) -> None:
    wait = Called("bash_output", json.dumps({"id": "b1", "wait": 600, "text": "never"}), "w1")
    room.script("wait", OPENAI.answer(calls=[wait]), OPENAI.answer("It is there."))
    with room.sit(columns=100) as chat:
        chat.see_prompt()
        chat.say(",bash 'sleep 100' background=true")
        chat.see("started in the background")
        chat.see_prompt()
        chat.say("wait")
        chat.see("bash.output id=b1 wait=600 text=never")
        stopped_at = time.monotonic()
        chat.type(CTRL_C)
        chat.see("stopped")
        assert time.monotonic() - stopped_at < 5
        chat.see("bash.output id=b1 wait=600 text=never · not finished")
        chat.say(",bash.output b1")
        chat.see("[b1 is still running; go on with offset=0]")  # the wait ended, not the command


def test_a_plan_is_drawn_in_its_place_and_stays_at_the_end(room: Room) -> None:
    def planned(**steps: Any) -> Script:
        return OPENAI.answer(calls=[Called("plan", json.dumps(steps), f"p{len(steps)}")])

    long, wide = "Test all that is there, however long that takes", "读取所有文件并检查每一个测试是否仍然通过"
    room.script(
        "work",
        planned(left=["Read it", wide, long]),
        [*planned(done=["Read it"], doing=wide, left=[long])[:-1], {"pause": 0.5}, OPENAI.answer()[-1]],
        [*OPENAI.beginning("So far "), {"hold": True}],
    )
    with room.sit(columns=38) as chat:
        chat.see_prompt()
        chat.say("work")
        chat.see("So far")
        drawn = ["✔ Read it", f"▶ {wide[:17]}…", f"○ {long[:34]}…"]
        chat.see(
            lambda _: ["".join(row.split()) for row in chat.rows[-5:-2]] == ["".join(row.split()) for row in drawn]
        )
        assert chat.text.count("Read it") == 1
        chat.type(CTRL_C)
        wrapped = f"▶ {wide[:18]}\n  {wide[18:]}\n○ Test all that is there, however long\n  that takes\n"
        chat.see(lambda text: "".join(text.split()).endswith("".join(f"So far ✔ Read it {wrapped} stopped >".split())))


def test_reasoning_tools_and_their_failures_are_shown_as_they_happen(room: Room) -> None:
    calls = [
        Called("fs_write", json.dumps({"path": "a.txt", "content": "x\n" * 90}), "1"),
        Called("fs_read", json.dumps({"path": "nowhere.txt"}), "2"),
    ]
    room.script("work", OPENAI.answer("I write.", thinks="Hm, what\nto do?", calls=calls), OPENAI.answer("Written."))
    with room.sit(columns=72) as chat:
        chat.see_prompt()
        chat.say("work")
        chat.see("Written.")
        chat.see_prompt()
        assert chat.timeless[2:] == [
            "> work",
            "",
            "Hm, what",
            "to do?",
            "",
            "I write.",
            "",
            "● fs.write path=a.txt content=x x x x x x x x x x x x x x x x x x x x x",
            "  x x x x x x x x x… · 0.0 s",
            "✗ fs.read nowhere.txt · 0.0 s · error: nowhere.txt does not exist",
            "  (fs.list shows what there is)",
            "",
            "Written.",
            "",
            ">",
        ]
        assert chat.colour_of("✗ fs.read") == "red"
        assert "\x1b[2;3mHm, what" in chat.raw


def test_nothing_that_a_model_or_a_tool_says_moves_the_cursor(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eback\r\n"
    room.script("evil", calling(f"true '{evil}'"), OPENAI.answer(f"So.{evil}"))
    chat.say("evil")
    chat.see("[s]ession")
    chat.type("y")
    chat.see("So.")
    chat.see_prompt()
    assert "So.\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202eback" in chat.text
    assert r"  command: true '\x1b[2J\x1b]0;owned\x07\x9b31m\u202eback\r" in chat.text
    assert "owned\x07" not in chat.raw
    assert "\u202e" not in chat.raw


def test_nothing_of_an_answer_is_left_out() -> None:
    assert painted("Give <path> a name.") == "Give <path> a name.\n"
    assert painted("<div>\nhello\n</div>") == "<div> hello </div>\n"
    assert painted("See [1].\n\n[1]: http://x.y") == "See [1].\n\n[1]: http://x.y\n"
    assert painted("before ![cat](a.png) " + "word " * 12).split() == ["before", "!cat", "(a.png)", *["word"] * 12]
    assert painted("a\n" * 50_000) == "a\n" * 50_000  # as it is, rather than after many seconds


LIST = "bash          Run a shell command and return what it prints.\ntape.anchors  The anchors of this session."


WIDE_WORDS = "a  \u6f22\u5b57\u6f22\u5b57 \u6f22\u5b57"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        (LIST, 80, LIST.splitlines()),
        (
            LIST,
            40,
            [
                "bash          Run a shell command and",
                "              return what it prints.",
                "tape.anchors  The anchors of this",
                "              session.",
            ],
        ),
        (LIST, 20, ["bash", "    Run a shell", "    command and", "    return what it", "    prints.", "tape.anchors"]),
        (WIDE_WORDS, 10, ["a  \u6f22\u5b57\u6f22", "   \u5b57 \u6f22\u5b57"]),
        ("one  two three four\nfive six seven", 10, ["one  two", "three four", "five six", "seven"]),
    ],
)
def test_what_is_said_of_each_name_in_a_list_stays_below_itself(text: str, width: int, shown: list[str]) -> None:
    assert painted(text, width, "plain").splitlines()[: len(shown)] == shown


def test_help_has_its_words_below_each_other_in_a_narrow_window(room: Room) -> None:
    with room.sit(columns=44, rows=60) as chat:
        chat.see_prompt()
        chat.say(",help")
        chat.see("tape.search")
        chat.see_prompt()
        rows = chat.text.split("> ,help\n\n")[1].splitlines()
        assert rows[:2] == [
            "bash             Run a shell command and",
            "                 return what it prints. It",
        ]
        assert all(re.match(r"(\S+ +| {17})\S", row) for row in rows[:-2])


def test_errors_and_what_plugins_print_stand_above_the_line(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    room.script("break", [{"status": 500, "body": "{}"}])
    chat.say("break")
    chat.see("(error")
    chat.see_prompt()
    assert re.search(r"127\.0\.0\.1[^>]* \(error\s[0-9a-f]{8}\)", chat.text)
    assert chat.colour_of("test ") == "red"
    chat.say("print")
    chat.see("You said: print")
    chat.see_prompt()
    assert "\n\n> print\n\nprinted by a plugin\nin two lines\n\nYou said: print\n\n>" in chat.text


# Files that are named.


def test_a_file_is_named_with_an_at_sign_and_completed_with_tab(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    (room.folder / "pictures").mkdir()
    (room.folder / "pictures" / "a b.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    chat.type("what is @pic")
    chat.see("pictures/")
    chat.type(TAB)
    chat.see("> what is @pictures/")
    chat.type(TAB)
    chat.see('> what is @"pictures/a b.png"')
    chat.say(r", \@cat, @no/x?")
    chat.see("attached pictures/a b.png (image/png)")
    chat.see("there is no file no/x, so Bub sends it as text")
    chat.see('You said: what is @"pictures/a b.png", @cat, @no/x? +pictures/a b.png')


def test_what_is_pasted_names_no_file_but_the_path_of_a_picture_does(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    (room.folder / "secret").write_text("s", encoding="utf-8")
    (room.folder / "a cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    chat.type("read" + paste(" @secret ") + "now")
    chat.see("> read[pasted")
    chat.type(ENTER)
    chat.see("You said: read @secret now")
    chat.see_prompt()
    dropped = str(room.folder / "a cat.png").replace(" ", "\\ ")
    chat.type("look at" + paste(dropped))
    chat.see('> look at @"a cat.png"')
    chat.say("closely")
    chat.see('You said: look at @"a cat.png" closely +a cat.png')
    chat.see_prompt()
    chat.type(paste(str(room.folder / "secret")))
    chat.see(f"> {room.folder}"[:60])
    chat.type(CTRL_C)


def test_a_file_that_cannot_be_attached_keeps_the_message_back(seated: tuple[Room, Sitting]) -> None:
    room, chat = seated
    (room.folder / "program").write_bytes(b"\x7fELF\0\0")
    chat.say("run @program")
    chat.see("not sent: program is neither an image")
    chat.see_prompt()
    assert "You said: run" not in chat.text


def test_what_is_piped_in_names_no_file(room: Room) -> None:
    (room.folder / "secret").write_text("s", encoding="utf-8")
    assert room.pipe("read @secret").stdout == "You said: read @secret\n"
    with room.sit(TERM="dumb") as chat:
        chat.see(">")
        chat.say("read @secret")
        chat.see("You said: read @secret\n")
        chat.leave()


def test_several_edits_and_a_patch_are_shown_as_changes() -> None:
    edits = [{"old": "a", "new": "b"}, {"old": "c\x1b", "new": "d", "all": True}]
    several = Question("s", "fs.edit", {"path": "f", "old": "", "new": "", "all": False, "edits": edits})
    shown = [
        "  path: f",
        "  edit 1 of 2:",
        "  - a",
        "  + b",
        "  edit 2 of 2, wherever it occurs:",
        "  - c\\x1b",
        "  + d",
    ]
    assert change_of(several) == ("\n".join(shown), 0)
    patch = Question("s", "fs.patch", {"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n same\n-old\x1b[2J\n+new\n"})
    assert change_of(patch)[0].splitlines() == [
        "    --- a/f",
        "    +++ b/f",
        "    @@ -1 +1 @@",
        "    same",
        "  - old\\x1b[2J",
        "  + new",
    ]
    assert is_edit(several) and is_edit(patch)
