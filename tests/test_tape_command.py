"""`bub tape`: sessions listed, read, searched, taken out and put back, whatever store the profile has."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pexpect
import pytest
import trio
from fakes.command_line import SOURCES, bub
from fakes.redis_server import TAPES

from bub.base.layout import cells
from bub.cli.root import command_line
from bub.errors import BubError, TapeError, UsageError
from bub.tape import Tape, TapeEntry
from bub.tape.spill import spill
from bub.tape.tape import tape_name
from bub.tape.transcript import excerpt, transcript
from tests.test_tape_stores import MAKERS, Store, said

pytestmark = pytest.mark.usefixtures("redis_for_tapes")

PIPELINE = """
    version: 1
    extends: bub:default
    plugins: {keeper: {path: keeper.py}}
    profiles: {default: {plugins: [keeper]}}
"""

KEEPER = """
    import os
    from contextlib import closing
    from pathlib import Path
    from bub import hookimpl
    from bub.tape.jsonl import JsonlTapeStore
    from bub.tape.sqlite import SqliteTapeStore

    @hookimpl
    def provide_tape_store():
        print("a plugin's noise")
        if os.environ["STORE"] == "redis":
            return None  # Bub itself opens it, as BUB_GATEWAY_STORE says
        if os.environ["STORE"] == "sqlite":
            return closing(SqliteTapeStore(Path("tapes.db").absolute()))
        return JsonlTapeStore(Path("tapes").absolute())
"""


NOISE = "a plugin's noise\n"


@pytest.fixture(params=MAKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def work(kind: str, write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace whose plugin keeps the tapes in it; its readers live in Greenwich."""
    write("work/keeper.py", KEEPER)
    folder = write("work/pipelines.yaml", PIPELINE).parent
    monkeypatch.chdir(folder)
    for name, value in {"STORE": kind, "BUB_CONFIG": str(folder / "pipelines.yaml"), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    if kind == "redis":
        monkeypatch.setenv("BUB_GATEWAY_STORE", os.environ[TAPES])
    time.tzset()
    yield folder
    monkeypatch.delenv("TZ")
    time.tzset()


@pytest.fixture
def store(work: Path, kind: str) -> Iterator[Store]:
    with closing(MAKERS[kind](work)) as opened:
        yield opened


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `bub tape ARGUMENTS` prints on standard output."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert command_line(["tape", *arguments]) == 0
        return capsys.readouterr().out

    return run


def at(second: int, entry: TapeEntry) -> TapeEntry:
    return TapeEntry(0, entry.kind, entry.payload, entry.meta, f"2026-03-01T10:00:{second:02}.000000+00:00")


def session(store: Store, workspace: Path, name: str, *entries: TapeEntry) -> str:
    """The tape of a session, begun as a turn begins it."""
    tape = Tape(tape_name(workspace, name), store)
    trio.run(tape.ensure_bootstrap_anchor, name, workspace)
    trio.run(tape.append, *entries)
    return tape.name


def test_tapes_are_listed_by_session_the_one_used_last_first(
    store: Store, work: Path, printed: Callable[..., str]
) -> None:
    assert printed("list") == ""
    assert json.loads(printed("list", "--json")) == []
    home = Path.home() / "notes"
    one = session(store, home, "telegram:1", said("a"), said("and\nthis, " * 20))
    two = session(store, work, "cli:local", TapeEntry.anchor("next"), said("c"), TapeEntry.event("run"))
    store.append("imported", at(1, TapeEntry.event("run")))
    trio.run(spill, Tape(one, store), "x" * 20_000)  # beside a tape, so nobody's concern
    head, first, second, third = printed("list").splitlines()
    assert re.split("  +", head) == ["used", "entries", "session", "folder", "last words"]
    assert re.split("  +", first)[1:] == ["5", "cli:local", str(work), "c"]
    words = f"{'and this, ' * 5}and this,…"
    assert re.split("  +", second)[1:] == ["4", "telegram:1", "~/notes", words]
    assert re.split("  +", third)[1:] == ["1", "imported", "-", "-"]
    found = json.loads(printed("list", "--json"))[:2]
    assert [each["last_words"][:9] for each in found] == ["c", "and\nthis,"]
    assert [(each["name"], each["session"], each["entries"]) for each in found] == [
        (two, "cli:local", 5),
        (one, "telegram:1", 4),
    ]


SHOWN = """\
#1  2026-03-01 10:00:01  anchor part two
  {"summary": "we met"}

#2  2026-03-01 10:00:02  user
  look\\x1b[31m
  [image_url]

#3  2026-03-01 10:00:03  tool call
  let me see
  → fs.read {"path": "ü"}

#4  2026-03-01 10:00:04  tool result
  1
  2
  3
  4
  5
  6
  7
  8
  9
  10
  11
  12
  … 8 more lines

#5  2026-03-01 10:00:05  error ValueError
  no

#8  2026-03-01 10:00:08  command
  → fs.list .
  a.txt

#9  2026-03-01 10:00:09  assistant
  done
"""

BOOKKEEPING = """
#6  2026-03-01 10:00:06  event run
  {"status": "ok"}

#7  2026-03-01 10:00:07  system
  You are Bub.
"""


def test_a_tape_is_shown_as_people_read_it(store: Store, printed: Callable[..., str]) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:…"}}
    entries = [
        TapeEntry.anchor("part two", {"summary": "we met"}),
        TapeEntry.message({"role": "user", "content": [{"type": "text", "text": "look\x1b[31m"}, picture]}),
        TapeEntry.tool_call([{"id": "1", "name": "fs.read", "arguments": {"path": "ü"}}], content="let me see"),
        TapeEntry.tool_result([{"id": "1", "content": "\n".join(map(str, range(1, 21)))}]),
        TapeEntry.error(ValueError("no")),
        TapeEntry.event("run", {"status": "ok"}),
        TapeEntry.system("You are Bub."),
        TapeEntry.event("command", {"raw": "fs.list .", "status": "ok", "output": "a.txt"}),
        TapeEntry.message({"role": "assistant", "content": "done\n"}),
    ]
    store.extend("t", [at(index, entry) for index, entry in enumerate(entries, start=1)])
    assert printed("show", "t") == SHOWN
    before, command, after = SHOWN.partition("\n#8")
    assert printed("show", "t", "--all") == before + BOOKKEEPING + command + after


def test_what_was_said_is_counted_without_bookkeeping(
    store: Store, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = [TapeEntry.event("loop.step") for _ in range(9)]
    session(store, work, "cli:local", said("a"), *noted, said("b"), *noted)

    def shown(*options: str) -> tuple[list[str], str]:
        capsys.readouterr()
        assert command_line(["tape", "show", "cli:local", *options]) == 0
        out, err = capsys.readouterr()
        return [line.strip() for line in out.splitlines() if line.startswith("  ")], err.removeprefix(NOISE)

    assert shown() == (["a", "b"], "")
    assert shown("-n", "2") == (["a", "b"], "")
    assert shown("-n", "1") == (["b"], "older entries are not shown (--all shows them)\n")
    trio.run(Tape(tape_name(work, "cli:local"), store).reset)
    assert shown() == ([], "nothing was said (--all shows what Bub noted)\n")


def test_what_is_shown_of_a_tape_can_be_chosen(store: Store, printed: Callable[..., str]) -> None:
    store.extend("t", [said("0"), TapeEntry.anchor("a"), said("1"), TapeEntry.anchor("b"), said("2"), said("3")])

    def ids(*options: str) -> list[int]:
        shown = json.loads(printed("show", "t", "--json", *options))
        assert shown["tape"] == "t"
        return [entry["id"] for entry in shown["entries"]]

    assert ids() == [4, 5, 6]
    assert ids("--since", "a") == [3, 4, 5, 6]
    assert ids("-n", "2") == [5, 6]
    assert ids("--all") == [1, 2, 3, 4, 5, 6]
    with pytest.raises(UsageError):
        ids("--all", "-n", "2")
    with pytest.raises(TapeError, match="no anchor `c`") as caught:
        ids("--since", "c")
    assert caught.value.help == "its anchors: `b`, `a`"


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_tape_is_found_by_its_session_its_name_or_the_beginning_of_one(
    store: Store, work: Path, printed: Callable[..., str]
) -> None:
    here = session(store, work, "cli:local")
    there = session(store, work.parent, "cli:local")
    elsewhere = session(store, work.parent, "telegram:7")
    for called, name in [
        ("cli:local", here),
        (there, there),
        ("telegram:7", elsewhere),
        (here[:12], here),
        ("telegram:7", elsewhere),
    ]:
        assert json.loads(printed("show", called, "--json"))["tape"] == name
    with pytest.raises(TapeError) as caught:
        printed("show", there[:16])
    assert "can mean 2 tapes" in str(caught.value)
    assert f"{there} ({work.parent})" in str(caught.value.help)
    for called, help_ in [("cli:locl", "did you mean `cli:local`?"), ("zzz", "`bub tape list` shows")]:
        with pytest.raises(TapeError) as caught:
            printed("show", called)
        assert str(caught.value.help).startswith(help_)
        assert caught.value.reason == "not_found"


def test_a_text_is_found_in_all_tapes_the_newest_first(store: Store, work: Path, printed: Callable[..., str]) -> None:
    one = session(store, work, "telegram:1", at(1, said("The weather is fine")), at(2, said("no")))
    session(store, work, "cli:local", at(3, said(f"{'x ' * 100}WEATHER{' y' * 100}")))
    lines = printed("search", "weather").splitlines()
    assert lines[0] == "2026-03-01 10:00:03  cli:local  #3 message"
    assert lines[1].startswith("  …")
    assert "WEATHER" in lines[1]
    assert cells(lines[1]) <= 80
    assert lines[2:] == ["2026-03-01 10:00:01  telegram:1  #3 message", "  user The weather is fine"]
    (found,) = json.loads(printed("search", "weather", "--tape", "telegram:1", "--json"))
    assert (found["tape"], found["id"], found["payload"]["content"]) == (one, 3, "The weather is fine")
    assert len(json.loads(printed("search", "weather", "-n", "1", "--json"))) == 1
    assert printed("search", "snow") == ""
    with pytest.raises(UsageError):
        printed("search", " ")


def test_what_was_exported_is_imported_as_it_was(store: Store, work: Path, printed: Callable[..., str]) -> None:
    name = session(store, work, "cli:local", said("Grüße 日本\u2028", n=1), TapeEntry.anchor("a"), said("2"))
    assert printed("export", "cli:local", "out.jsonl") == ""
    assert stat.S_IMODE((work / "out.jsonl").stat().st_mode) == 0o600
    assert printed("import", "out.jsonl") == ""
    assert printed("import", "out.jsonl", "--as", "again") == ""
    for copy in ("out", "again"):
        assert printed("export", copy) == printed("export", name) == (work / "out.jsonl").read_text(encoding="utf-8")


def test_nothing_is_written_over_and_nothing_imported_by_halves(
    store: Store, work: Path, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append("t", said("mine"))
    printed("export", "t", "t.jsonl")
    before = (work / "t.jsonl").read_text()
    for arguments in (("export", "t", "t.jsonl"), ("import", "t.jsonl")):
        with pytest.raises(TapeError, match="already"):
            printed(*arguments)
    (work / "bad.jsonl").write_text(before + "nonsense\n")
    with pytest.raises(TapeError, match="line 2"):
        printed("import", "bad.jsonl")
    for arguments in (("import", "none.jsonl"), ("import", "."), ("import", "-")):
        with pytest.raises(UsageError):
            printed(*arguments)
    with pytest.raises(TapeError, match="cannot be the name"):
        printed("import", "t.jsonl", "--as", "a/b")
    assert (store.list_tapes(), (work / "t.jsonl").read_text()) == (["t"], before)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(before.encode())))
    printed("import", "-", "--as", "piped")
    assert printed("export", "piped") == before


def test_stats_tell_how_much_there_is_and_what_cannot_be_read(
    store: Store, work: Path, kind: str, printed: Callable[..., str]
) -> None:
    name = session(store, work, "cli:local", said("one"))
    trio.run(spill, Tape(name, store), "x" * 20_000)
    if kind == "jsonl":
        with (work / "tapes" / f"{name}.jsonl").open("a") as file:
            file.write("torn\n")
    found = json.loads(printed("stats", "--json"))
    assert (found["tapes"], found["sidecars"], found["entries"]) == (1, 1, 7)
    assert found["size"] > 20_000
    assert found["bad_lines"] == ({name: 1} if kind == "jsonl" else None)
    text = printed("stats")
    assert "entries  " in text
    assert ("bad lines  1" in text) == (kind == "jsonl")


@pytest.mark.parametrize("kind", ["sqlite"])
def test_options_of_every_command_may_stand_behind_it(store: Store, work: Path, printed: Callable[..., str]) -> None:
    (work / "elsewhere").mkdir()
    name = session(store, work / "elsewhere", "cli:local")
    assert json.loads(printed("show", "cli:local", "--json", "-w", "elsewhere"))["tape"] == name


# Whole processes


@pytest.mark.parametrize("kind", ["sqlite"])
def test_only_results_stand_on_standard_output(store: Store, work: Path) -> None:
    store.extend("t", [said(str(number)) for number in range(20_000)])
    done = bub(work, "tape", "export", "t", **{name: os.environ[name] for name in ("STORE", "BUB_CONFIG")})
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 20_000)
    assert done.stderr == "a plugin's noise\n"
    # Whoever reads the first line and leaves ends the command quietly.
    piped = subprocess.run(
        f"{sys.executable} -m bub tape show t --all | head -1",
        shell=True,
        cwd=work,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (piped.stdout[:3], piped.stderr) == ("#1 ", "a plugin's noise\n")


@pytest.mark.parametrize("kind", ["jsonl"])
def test_a_narrow_terminal_gets_short_lines_in_colour(
    store: Store, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(store, work, "cli:local", said("many words " * 20))
    monkeypatch.delenv("NO_COLOR")
    for arguments in (["list"], ["show", "cli:local"], ["search", "many"]):
        child = pexpect.spawn(
            sys.executable,
            ["-m", "bub", "tape", *arguments],
            env={**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm"},
            dimensions=(24, 40),
            encoding="utf-8",
            timeout=60,
        )
        text = str(child.read())
        child.close()
        assert "\x1b[1m" in text
        plain = text.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[2m", "")
        assert [line for line in plain.splitlines() if line.startswith("  ") and cells(line) > 40] == [], text


def test_the_profiles_own_store_is_below_bubs_folder(tmp_path: Path) -> None:
    home = Path(os.environ["BUB_HOME"])
    with closing(MAKERS["sqlite"](home / "tapes")) as store:
        name = session(store, tmp_path, "cli:local", said("hello"))
    done = bub(tmp_path, "--config", "bub:default", "tape", "list", "--json")
    assert json.loads(done.stdout)[0]["name"] == name, done.stderr


def problem(folder: Path) -> str:
    """The one line that `bub tape list` says of a store that cannot be used."""
    done = bub(folder, "--config", "bub:default", "tape", "list")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done
    return done.stderr


def test_a_store_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    tapes = Path(os.environ["BUB_HOME"]) / "tapes"
    tapes.parent.mkdir()
    tapes.write_text("a file, no folder")
    assert str(tapes) in problem(tmp_path)
    tapes.unlink()
    tapes.mkdir()
    (tapes / "tapes.db").write_text("this is no database, " * 100)
    assert "move the file away to start over" in problem(tmp_path)


# What a tape of somebody else's can hold


@pytest.mark.parametrize("kind", ["message", "tool_call", "tool_result", "anchor", "event", "error", "system", "?"])
@pytest.mark.parametrize("value", [None, 5, "x", [], ["x", None, {"content": 3}], {"a": 1}])
def test_whatever_was_written_can_be_shown(kind: str, value: Any) -> None:
    keys = ("role", "content", "tool_calls", "calls", "results", "name", "state", "data", "message", "type")
    entry = TapeEntry(1, kind, dict.fromkeys(keys, value), {}, "no date")
    assert list(transcript([entry, TapeEntry(2, kind, {})], 30))
    assert excerpt(entry, "x", 30)


def test_the_words_around_a_find_fit_the_line() -> None:
    for text in ("STRASSE", "straße", "日本"):
        entry = said(f"{'日本 ' * 40}Straße 日本{' 語' * 40}")
        assert sum(cells(span.text) for span in excerpt(entry, text, 30)) <= 31


def test_an_error_of_these_commands_is_one_for_people() -> None:
    assert issubclass(TapeError, BubError)
