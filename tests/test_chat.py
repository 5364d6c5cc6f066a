"""`bub chat` on a real terminal, against the scripted model server: what a person sees, types and gets."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import ROOT, bub
from fakes.screen import (
    ALT_ENTER,
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    CTRL_X,
    CTRL_Z,
    ENTER,
    LEFT,
    PATIENCE,
    TAB,
    UP,
    Sitting,
    paste,
)
from fakes.scripted import OPENAI, Called, Script, refusal
from hypothesis import given
from hypothesis import strategies as st

from bub.approval import Question
from bub.channels.terminal.answer import Look, Printout, label_of
from bub.channels.terminal.blocks import Blocks
from bub.channels.terminal.completion import Completions, complete
from bub.channels.terminal.escaping import encodable, escape_controls, escape_invisible
from bub.channels.terminal.history import history_file
from bub.channels.terminal.painting import Painter
from bub.channels.terminal.pasting import Pastes
from bub.channels.terminal.questions import arguments_of, change_of, is_edit
from bub.channels.terminal.resizing import breaks_rows
from bub.channels.terminal.rows import greet
from bub.tape import TapeEntry
from bub.tape.lines import write_lines
from bub.tape.store import number_entries
from bub.tape.tape import tape_name

PLUGIN = '''
"""What is said stands for the script of the model that has this name, else for one that says it again."""

import json
import pathlib
from bub import hookimpl
from bub.channels.channel import Channel
from bub.envelope import content_of

HERE = pathlib.Path(__file__).parent


class Phone(Channel):
    name = "phone"


class Plugin:
    @hookimpl
    def provide_channels(self, message_handler):
        return [Phone()]

    @hookimpl
    def build_prompt(self, message):
        words = content_of(message)
        script = HERE / f"{words}.script"
        if words == "print":
            print("printed by a plugin\\nin two lines")
        if len(words) < 20 and script.is_file():
            return script.read_text()
        if words.startswith(","):
            return None
        words += "".join(f" +{one['name']}" for one in message.media)
        return (HERE / "echo.script").read_text().replace("WORDS", json.dumps(words)[1:-1])


plugin = Plugin()
'''


class Room:
    """A folder with an agent, whose model does what a script of the name of a message says."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.file = folder / "pipelines.yaml"
        self._scripts = 0
        (folder / "scripts.py").write_text(PLUGIN, encoding="utf-8")
        self.file.write_text(
            "version: 1\n"
            "extends: bub:default\n"
            "settings:\n"
            "  model: test:m\n"
            "  retries: 0\n"
            f'  providers: {{test: {{api: openai, api_base: "{address}/v1", api_key: "${{env:TEST_KEY}}"}}}}\n'
            "plugins: {scripts: {path: scripts.py}}\n"
            'profiles: {default: {plugins: [scripts], tools: {allow: ["*", bash], ask: [bash]}}}\n',
            encoding="utf-8",
        )
        self.script("echo", OPENAI.answer("You said: WORDS", at_once=100))

    def script(self, words: str, *steps: Script) -> None:
        """What the model does when it is told these words."""
        self._scripts += 1  # nobody has begun to play this one
        own = [[{"of": f"{self.folder} {self._scripts}"}, *step] for step in steps]
        (self.folder / f"{words}.script").write_text(json.dumps(own), encoding="utf-8")

    def sit(self, *arguments: str, **options: Any) -> Sitting:
        return Sitting(self.folder, "--config", str(self.file), "chat", *arguments, TEST_KEY="sk-test-key-1", **options)

    def run(self, *arguments: str, input: bytes, stdout: Any, **environment: str) -> subprocess.CompletedProcess[bytes]:  # noqa: A002
        told = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "TEST_KEY": "sk-test-key-1", **environment}
        return subprocess.run(
            [sys.executable, "-m", "bub", "--config", str(self.file), *arguments],
            cwd=self.folder,
            env={**os.environ, **told},
            input=input,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
        )

    def pipe(self, text: str | bytes, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        data = text if isinstance(text, bytes) else text.encode()
        done = self.run("chat", *arguments, input=data, stdout=subprocess.PIPE, **environment)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def room(tmp_path: Path, address: str) -> Room:
    folder = tmp_path / "room"
    folder.mkdir()
    return Room(folder, address)


@pytest.fixture(scope="module")
def lounge(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[tuple[Room, Sitting]]:
    """A room in which one person sits through many tests."""
    room = Room(tmp_path_factory.mktemp("lounge"), address)
    with room.sit(BUB_HOME=str(room.folder / "home")) as chat:
        chat.see_prompt()
        yield room, chat
        assert chat.leave() == 0


@pytest.fixture
def seated(lounge: tuple[Room, Sitting]) -> Iterator[tuple[Room, Sitting]]:
    """The room in which somebody sits, whose screen is empty but for the line; and so they leave it."""
    _, chat = lounge
    chat.clear()
    yield lounge
    chat.see_prompt()


def calling(command: str, *, id: str = "call_1") -> Script:  # noqa: A002
    return OPENAI.answer(calls=[Called("bash", json.dumps({"command": command}), id)])


def begun(text: str) -> Script:
    """An answer that begins, and then waits until whoever asked is gone."""
    return [*OPENAI.beginning(text), {"hold": True}]


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
        chat.see("is asked too often (429)")
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


def painted(text: str, width: int = 40, look: Look = "markdown") -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", Painter("utf-8").paint(Printout(look, text), width))


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
            "bash            Run a shell command and",
            "                return what it prints. It",
        ]
        assert all(re.match(r"(\S+ +| {16})\S", row) for row in rows[:-2])


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


# Questions.


def test_a_question_is_answered_by_one_key_and_for_this_session_is_for_the_same_arguments(room: Room) -> None:
    calls = [calling("echo one"), calling("echo one", id="2"), calling("echo two", id="3")]
    room.script("work", *calls, OPENAI.answer("Done."))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("work")
        chat.see("bash is to be called with\n  command: echo one\n")
        chat.see("Allow bash?  [y]es  [n]o  [s]ession")
        chat.type("s")
        chat.see("command: echo two")
        assert re.search(r"● bash echo one · \d\.\d s\n● bash echo one · \d\.\d s\n", chat.text)
        assert chat.text.count("is to be called with") == 2
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
        assert chat.text.count("is to be called with") == 1


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
    assert chat.text.count("is to be called with") == 2
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
            "fs.edit is to be called with",
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
    chat.see("there is no file no/x: it is sent as text")
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


# Other terminals.


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (60, ["Bub · openai:gpt-5 · ,help lists commands, Ctrl-D leaves"]),
        (40, ["Bub · openai:gpt-5", ",help lists commands, Ctrl-D leaves"]),
        (20, ["Bub · openai:gpt-5", ",help lists", "commands, Ctrl-D", "leaves"]),
        (10, ["Bub", "openai:gpt", "-5", ",help", "lists", "commands,", "Ctrl-D", "leaves"]),
    ],
)
def test_the_greeting_is_whole_at_any_width(width: int, rows: list[str]) -> None:
    assert greet(("Bub", "openai:gpt-5", ",help lists commands, Ctrl-D leaves"), width) == rows


def test_a_window_can_be_made_narrow_while_an_answer_comes(room: Room) -> None:
    room.script("go", [*OPENAI.beginning("word " * 30), {"pause": 1.0}, *OPENAI.answer("end.\n\n" + "tail " * 12)])
    with room.sit(columns=80) as chat:
        chat.see_prompt()
        chat.say("go")
        chat.see("word word")
        chat.resize(40, 12)
        chat.see("tail")
        chat.see_prompt()
        chat.say("again")
        chat.see("You said: again")
        chat.see_prompt()
        assert chat.rows[-1] == ">"
        shown = chat.text[chat.text.index("word word word word word word word word\n") :]
        assert max(map(len, shown.splitlines())) <= 40


@pytest.mark.parametrize(
    "terminal", [{}, {"TMUX": "/tmp/t,1,0"}, {"XTERM_VERSION": "XTerm(390)"}], ids=["breaks rows", "tmux", "cuts rows"]
)
def test_a_resize_repeats_nothing_and_takes_nothing_away(room: Room, terminal: dict[str, str]) -> None:
    words = [f"word{number:03}" for number in range(150)]
    room.script("go", [*OPENAI.beginning(" ".join(words)), {"hold": True}])
    with room.sit(columns=80, **terminal) as chat:
        chat.see_prompt()
        chat.say("hello")
        chat.see("You said: hello")
        chat.see_prompt()
        chat.say("go")
        chat.see("word149")
        draft = "a draft of a line that is longer than the window will be in a moment"
        chat.type(draft)
        chat.see(f"> {draft}")
        for columns in (60, 40, 72, 50):
            before = len(chat.raw)
            chat.resize(columns, 24)
            chat.see(lambda _, before=before: draft[-9:] in chat.raw[before:])  # it is drawn anew
        chat.type(CTRL_C)
        chat.see("stopped")
        chat.see(lambda text: text.endswith("will be in a moment"))
        assert re.findall(r"word\d+", chat.text) == words
        assert "".join(chat.text.split()).count("".join(draft.split())) == 1
        assert chat.text.count("> hello\n\nYou said: hello\n\n> go\n") == 1
        assert chat.text.count("Bub · ") == 1


@pytest.mark.parametrize(
    ("environment", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "screen-256color", "STY": "1.pts", "TMUX": "/tmp/t,1,0"}, True),
        ({"TERM": "screen", "STY": "1.pts"}, False),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_which_terminals_break_rows_that_have_become_too_long(environment: dict[str, str], breaks: bool) -> None:
    assert breaks_rows(environment) is breaks


def test_a_terminal_with_few_letters_and_no_colours_gets_plainer_signs(room: Room) -> None:
    text = "- a … b\n\n`code`\n\n```python\nprint('x')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nhé"
    room.script("plan", calling("exit 3"), OPENAI.answer(text))
    with room.sit(NO_COLOR="1", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as chat:
        chat.see_prompt()
        chat.say("plan")
        chat.see("[s]ession")
        chat.type("y")
        chat.see("h?\n")
        chat.see_prompt()
        assert chat.raw.isascii()
        assert re.search(r"x bash exit 3 - \d\.\d s - error", chat.text)
        assert " * a ... b\n" in chat.text
        assert re.findall(r"\x1b\[(?:\d+;)*(?:[349]\d|10[0-7]|[34]8;[\d;]+)m", chat.raw) == []
        assert "\x1b[1m" in chat.raw  # bold stays


def test_a_dumb_terminal_gets_lines(room: Room) -> None:
    room.script("work", calling("touch done"), OPENAI.answer("**Done.**"))
    with room.sit(TERM="dumb") as chat:
        chat.see(">")
        chat.say("work")
        chat.see("Allow bash? [y/N/session/always]")
        chat.say("y")
        chat.see("**Done.**\n>")
        chat.type(CTRL_C)
        chat.see("(Ctrl-D leaves)")
        assert "\x1b" not in chat.raw
        assert (room.folder / "done").exists()
        assert chat.leave(CTRL_D) == 0


def test_on_a_dumb_terminal_only_a_whole_word_is_a_yes(room: Room) -> None:
    room.script("work", calling("touch one"), calling("touch two", id="2"), OPENAI.answer("Over."))
    with room.sit(TERM="dumb") as chat:
        chat.see(">")
        chat.say("work")
        chat.see("[y/N/session/always]")
        chat.say("and another thing")
        chat.see(lambda text: text.count("[y/N/session/always]") == 2)
        chat.say("yesterday")
        chat.see("Over.")
        assert not list(room.folder.glob("[ot][nw][eo]"))


def test_ctrl_z_has_the_shell_take_over_until_fg(room: Room) -> None:
    with room.sit(in_shell=True) as chat:
        chat.see_prompt()
        chat.type("half a" + CTRL_Z)
        chat.see(lambda _: chat.rows[-1] == "$")
        chat.say("fg")
        chat.see("\n> half a")
        chat.say(" line")
        chat.see("You said: half a line")
        chat.see_prompt()
        chat.type(CTRL_D)
        chat.see(lambda _: chat.rows[-1] == "$")


def test_what_runs_ends_when_the_window_is_closed(room: Room) -> None:
    with room.sit() as chat:
        chat.see_prompt()
        chat.say(",echo $$ > new && mv new pid; exec sleep 60")
        chat.see(lambda _: (room.folder / "pid").exists())
        os.kill(chat.process.pid, signal.SIGHUP)
        assert chat.end() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((room.folder / "pid").read_text()), 0)


@pytest.mark.parametrize(
    "command",
    [
        ",sleep 60 & echo $$ $! > new && mv new pids; exec sleep 60",
        ",sleep 60 & echo $$ $! > new && mv new pids; trap '' TERM HUP; sleep 60; sleep 60",
        ",bash 'sleep 60 & echo $$ $! > new && mv new pids; wait' background=true",
    ],
)
def test_no_command_lives_on_when_the_program_is_killed(room: Room, command: str) -> None:
    with room.sit() as chat:
        chat.see_prompt()
        chat.say(command)
        chat.see(lambda _: (room.folder / "pids").exists())
        os.kill(chat.process.pid, signal.SIGKILL)
        chat.process.wait()
        numbers = [int(number) for number in (room.folder / "pids").read_text().split()]
        assert len(numbers) == 2
        end = time.monotonic() + PATIENCE
        while any(map(is_alive, numbers)):
            assert time.monotonic() < end
            time.sleep(0.01)  # other processes set no event


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked about yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_terminal_is_given_back_when_the_program_is_ended(room: Room) -> None:
    room.script("go", begun("It goes on"))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("go")
        chat.see("It goes on")
        os.kill(chat.process.pid, signal.SIGTERM)
        assert chat.end() == 130
        assert chat.raw.rindex("\x1b[?2004l") > chat.raw.rindex("\x1b[?2004h")


# Pipes.


def test_O6_what_is_piped_in_is_one_message_and_only_its_answer_is_printed(room: Room) -> None:
    room.script("plan", OPENAI.answer("# Plan\n\n- **one**", thinks="hm"))
    done = room.pipe("plan\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "# Plan\n\n- **one**\n", "")
    done = room.pipe("first\nsecond \xff\n".encode("latin-1"), "say this:")
    assert done.stdout == "You said: say this:\n\nfirst\nsecond \ufffd\n"


def test_O6_a_failure_of_what_is_piped_in_is_told_on_stderr(room: Room) -> None:
    room.script("break", [{"status": 500, "body": "{}"}])
    done = room.pipe("break")
    assert (done.returncode, done.stdout) == (1, "")
    assert "(error " in done.stderr
    done = room.pipe(",fs.read path=nowhere")
    assert (done.returncode, done.stdout) == (1, "error: nowhere does not exist (fs.list shows what there is)\n")
    done = room.pipe(" \n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the message is empty" in done.stderr


def test_O6_an_answer_that_cannot_be_printed_is_a_failure(room: Room) -> None:
    with Path("/dev/full").open("wb") as full:
        done = room.run("chat", input=b"hi", stdout=full)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr


def test_through_a_pipe_nobody_can_be_asked(room: Room) -> None:
    room.script("work", calling("touch done"), OPENAI.answer("Not done."))
    assert room.pipe("work").stdout == "Not done.\n"
    assert not (room.folder / "done").exists()


# The parts.

MARKDOWN = st.lists(
    st.sampled_from(["a", "# a", "", "", "- a", "  b", "1. c", "```", "```py", "~~~", "    d", "| a |", "> q", "\t"]),
    max_size=12,
).map("\n".join)


@given(MARKDOWN, st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_blocks_are_the_text_however_it_was_cut(text: str, cuts: list[int]) -> None:
    assert "".join(blocks_of(text, cuts)) == text
    assert blocks_of(text, cuts) == blocks_of(text, [len(text) or 1])


def blocks_of(text: str, cuts: list[int]) -> list[str]:
    blocks, found, at, turn = Blocks(), [], 0, 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        found += blocks.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return [*found, rest] if (rest := blocks.finish()) else found


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\ntwo\n\nthree", ["one\ntwo\n\n", "three"]),
        ("```\na\n\nb\n```\nc", ["```\na\n\nb\n```\n", "c"]),
        ("````\n```\n\nx\n````\n", ["````\n```\n\nx\n````\n"]),
        ("- a\n\n  b\n\nc", ["- a\n\n  b\n\n", "c"]),
        ("- a\n  ```\n\n  x\n  ```\n- b", ["- a\n  ```\n\n  x\n  ```\n- b"]),
        ("\n\na", ["\n\na"]),
        ("``` is no ``` fence\n\na", ["``` is no ``` fence\n\n", "a"]),
    ],
)
def test_where_a_block_ends(text: str, blocks: list[str]) -> None:
    assert blocks_of(text, [1]) == blocks


ENCODE: dict[str, Callable[[str], str]] = {"safe": escape_controls, "exact": escape_invisible}


@given(st.text())
def test_no_text_acts_on_a_terminal(text: str) -> None:
    for made in (escape_controls(text), escape_invisible(text)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", made)
    encodable(escape_controls(text), "ascii").encode("ascii")


@given(st.text(), st.text())
def test_texts_that_differ_look_different_where_they_are_judged(one: str, other: str) -> None:
    plain = [text for text in (one, other) if "\\" not in text]
    assert len(plain) < 2 or one == other or escape_invisible(one) != escape_invisible(other)


def test_a_call_is_shown_in_short() -> None:
    assert label_of("bash", {"command": "ls\n-la"}) == "bash ls -la"
    assert label_of("x", {"a": 1, "b": "\x1b[2J"}) == r"x a=1 b=\x1b[2J"
    assert len(label_of("x", {"a": "y" * 10_000})) < 80
