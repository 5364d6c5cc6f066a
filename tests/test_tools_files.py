"""The tools for files: what they do, and that they stay where they may be."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.agent.tools import files
from bub.agent.tools.editing import Edit, replace_text
from bub.agent.tools.search import DEEPEST
from bub.tools import ToolContext, ToolError

Call = Callable[..., str]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace beside a file that is none of the agent's business."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "diary.txt").write_text("dear diary", "utf-8")
    return folder


@pytest.fixture
def call(workspace: Path) -> Call:
    """Calls a tool by its name in the workspace."""
    return partial(called, workspace)


def called(workspace: Path, name: str, /, set_to: Any = None, **arguments: Any) -> str:
    tool = {tool.name: tool for tool in files.file_tools()}[name]
    context = ToolContext("s", workspace, settings={"files": set_to} if set_to is not None else {})
    result = trio.run(tool.call, tool.check(arguments), context)
    assert isinstance(result, str)
    return result


def refusal(call: Call, name: str, /, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(name, **arguments)
    return caught.value


# Staying inside


def links(workspace: Path) -> None:
    """Ways out that lie in the workspace itself."""
    (workspace / "out").symlink_to(workspace.parent / "outside")
    (workspace / "file").symlink_to(workspace.parent / "outside" / "diary.txt")
    (workspace / "twice").symlink_to("out/diary.txt")
    (workspace / "dangling").symlink_to(workspace.parent / "outside" / "new.txt")
    (workspace / "loop").symlink_to("loop")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "up").symlink_to("../..")
    (workspace / "root").symlink_to("/")


ESCAPES = [
    "../outside/diary.txt",
    "sub/../../outside/diary.txt",
    "{outside}/diary.txt",
    "{workspace}/../outside/diary.txt",
    "{workspace}-twin/x",
    "out/diary.txt",
    "out/new.txt",
    "file",
    "twice",
    "dangling",
    "loop",
    "sub/up/outside/diary.txt",
    "root/etc/passwd",
    "/etc/passwd",
    "~/diary.txt",
    "/proc/self/cwd/../outside/diary.txt",
    "/proc/self/root/etc/passwd",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "/dev/fd/0",
    "//etc/passwd",
    "/..//etc/./passwd",
    "x" * 300,
    "x/" * 3000,
    "\ud800",
    "",
    "x\0y",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_A27_no_path_leads_out_of_the_workspace(path: str, call: Call, workspace: Path) -> None:
    links(workspace)
    given = path.format(outside=workspace.parent / "outside", workspace=workspace)
    before = sorted(workspace.parent.rglob("*"))
    for name, more in [("read", {}), ("write", {"content": "x"}), ("edit", {"old": "dear", "new": "x"})]:
        told = refusal(call, f"fs.{name}", path=given, **more)
        assert told.kind in ("denied", "invalid_input", "tool")
        assert "dear diary" not in str(told)
    for name, more in [("list", {}), ("search", {"pattern": "dear"})]:
        if given:
            assert "dear diary" not in str(refusal(call, f"fs.{name}", path=given, **more))
    assert sorted(workspace.parent.rglob("*")) == before
    assert (workspace.parent / "outside" / "diary.txt").read_text("utf-8") == "dear diary"


def test_A27_a_chain_of_links_leads_nowhere_however_long_it_is(call: Call, workspace: Path) -> None:
    for number in range(1500):
        (workspace / f"far{number}").symlink_to(f"far{number - 1}" if number else "../outside")
    for path in ("far30/diary.txt", "far1499/diary.txt"):
        assert refusal(call, "fs.read", path=path).kind in ("denied", "tool")
        assert refusal(call, "fs.write", path=path, content="x").kind in ("denied", "tool")


def test_A27_links_inside_of_the_workspace_are_followed(call: Call, workspace: Path) -> None:
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    assert call("fs.write", path="link/new/a.txt", content="hello\n") == "wrote 6 bytes to real/new/a.txt"
    assert call("fs.read", path=str(workspace / "link/new/a.txt")) == "hello\n"


@pytest.mark.parametrize(("swapped", "path"), [("folder", "folder/diary.txt"), ("file", "file")])
def test_A27_a_link_that_is_put_there_meanwhile_leads_nowhere(swapped: str, path: str, workspace: Path) -> None:
    """A program of its own turns a folder, or a file, into a link and back, as fast as it can, while it is read."""
    (workspace / "folder").mkdir()
    (workspace / path).write_text("mine", "utf-8")
    swap = f"""
import os
os.chdir({str(workspace)!r})
os.symlink("../outside" if {swapped!r} == "folder" else "../outside/diary.txt", "link")
while True:
    os.rename({swapped!r}, "kept"); os.rename("link", {swapped!r})
    os.rename({swapped!r}, "link"); os.rename("kept", {swapped!r})
"""
    reach = files.Reach.of(ToolContext("s", workspace))
    seen = set()
    with subprocess.Popen([sys.executable, "-c", swap]) as swapping:
        try:
            until = time.monotonic() + 1
            while time.monotonic() < until:
                try:
                    place = reach.place(path)
                    with place.parent() as folder, place.open(folder)[0] as file:
                        seen.add(file.read())
                except ToolError:
                    seen.add(b"refused")
        finally:
            swapping.kill()
    assert seen == {b"mine", b"refused"}


def test_A27_the_settings_can_list_more_folders(call: Call, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    assert call("fs.read", path="../outside/diary.txt", set_to={"folders": ["../outside"]}) == "dear diary"
    assert call("fs.read", path=f"{outside}/diary.txt", set_to={"folders": [str(outside / "diary.txt")]})
    with pytest.raises(ToolError, match="outside of the workspace"):
        call("fs.read", path=f"{outside}/other.txt", set_to={"folders": [str(outside / "diary.txt")]})


def test_a_folder_of_ones_home_can_be_listed(call: Call, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    assert call("fs.read", path="~/outside/diary.txt", set_to={"folders": ["~/outside"]}) == "dear diary"


KEY_FILES = [".env", "sub/.env", ".ENV", "sub/.env.local", ".env.production"]


@pytest.mark.parametrize("path", [*KEY_FILES, "link", "hard", "./.env/.", "sub/../.env", "sub/linked/../.env"])
def test_files_with_keys_are_not_for_the_agent(path: str, call: Call, workspace: Path) -> None:
    (workspace / "sub" / "linked").mkdir(parents=True)
    for name in KEY_FILES:
        (workspace / name).write_text("OPENAI_API_KEY=sk-1\n", "utf-8")
    (workspace / "link").symlink_to(".env")
    (workspace / "hard").hardlink_to(workspace / ".env")
    (workspace / ".env.example").write_text("OPENAI_API_KEY=\n", "utf-8")
    assert refusal(call, "fs.read", path=path).kind == "denied"
    assert refusal(call, "fs.write", path=path, content="").kind == "denied"
    assert call("fs.search", pattern="sk-") == "[nothing was found]"
    assert call("fs.read", path=".env", set_to={"folders": [".env"]}) == "OPENAI_API_KEY=sk-1\n"
    assert call("fs.read", path=".env.example") == "OPENAI_API_KEY=\n"


@pytest.mark.parametrize("path", [".env", "keys/production", "sub/.env"])
def test_keys_that_a_link_leads_to_are_not_for_the_agent_either(path: str, call: Call, workspace: Path) -> None:
    (workspace / "keys").mkdir()
    (workspace / "keys" / "production").write_text("OPENAI_API_KEY=sk-1\n", "utf-8")
    (workspace / ".env").symlink_to("keys/production")
    (workspace / "sub").mkdir()
    (workspace / "keys" / "other").write_text("OPENAI_API_KEY=", "utf-8")
    (workspace / "sub" / ".env").symlink_to("../keys/other")
    assert refusal(call, "fs.read", path=path).kind == "denied"
    assert refusal(call, "fs.search", pattern="sk-", path=path).kind == "denied"
    assert refusal(call, "fs.write", path=path, content="").kind == "denied"
    assert refusal(call, "fs.edit", path=path, old="sk", new="").kind == "denied"
    assert call("fs.search", pattern="sk-") == "[nothing was found]"
    assert call("fs.read", path=".env", set_to={"folders": [".env"]}) == "OPENAI_API_KEY=sk-1\n"


def test_bubs_own_folder_is_not_for_the_agent(call: Call, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = workspace / "bub"
    (home / "tapes").mkdir(parents=True)
    (home / "tapes" / "t.jsonl").write_text("secret\n", "utf-8")
    monkeypatch.setenv("BUB_HOME", str(home))
    for path in ("bub/tapes/t.jsonl", "bub/new.txt"):
        assert refusal(call, "fs.read", path=path).kind == "denied"
        assert refusal(call, "fs.write", path=path, content="x").kind == "denied"
    assert refusal(call, "fs.list", path="bub").kind == "denied"
    assert call("fs.search", pattern="secret") == "[nothing was found]"
    assert call("fs.list", recursive=True) == "bub/"
    assert call("fs.read", path="bub/tapes/t.jsonl", set_to={"folders": ["bub/tapes"]}) == "secret\n"
    assert call("fs.read", path="bub/tapes/t.jsonl", set_to={"folders": ["bub/tapes/t.jsonl"]}) == "secret\n"
    (home / "notes.txt").write_text("mine", "utf-8")
    assert call("fs.read", path="bub/notes.txt", set_to={"folders": ["bub/notes.txt"]}) == "mine"
    assert called(home / "tapes", "fs.read", path="t.jsonl") == "secret\n"
    with pytest.raises(ToolError, match="Bub's own"):
        called(home, "fs.read", path="tapes/t.jsonl")


def test_bubs_own_folder_is_not_made_by_the_agent(call: Call, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `pipelines.yaml` there would be the user's own, which needs no trust."""
    monkeypatch.setenv("BUB_HOME", str(workspace / ".bub"))
    for path in (".bub/pipelines.yaml", "./.bub/../.bub/skills/x/SKILL.md", ".bub"):
        assert refusal(call, "fs.write", path=path, content="x").kind == "denied"
    assert list(workspace.iterdir()) == []


def test_a_workspace_of_everything_does_not_hold_the_systems_own_files() -> None:
    with pytest.raises(ToolError, match="of the system"):
        called(Path("/"), "fs.read", path="/proc/self/environ")


def test_the_agent_does_not_write_what_it_may_do(call: Call, workspace: Path) -> None:
    (workspace / "pipelines.yaml").write_text("version: 1\n", "utf-8")
    assert call("fs.read", path="pipelines.yaml") == "version: 1\n"
    assert refusal(call, "fs.edit", path="pipelines.yaml", old="1", new="2").kind == "denied"
    assert refusal(call, "fs.write", path="sub/../pipelines.yaml", content="").kind == "denied"
    assert call("fs.write", path="sub/pipelines.yaml", content="") == "wrote 0 bytes to sub/pipelines.yaml"
    (workspace / "pipelines.yaml").rename(workspace / "real.yaml")
    (workspace / "pipelines.yaml").symlink_to("real.yaml")
    for path in ("pipelines.yaml", "real.yaml"):
        assert refusal(call, "fs.write", path=path, content="").kind == "denied"
        assert refusal(call, "fs.edit", path=path, old="1", new="2").kind == "denied"
        assert call("fs.read", path=path) == "version: 1\n"


def test_the_agent_makes_no_lock_and_is_told_why_it_writes_no_parent_and_no_plugin(workspace: Path) -> None:
    for name in ("parent.yaml", "plugin.py"):
        (workspace / name).write_text("", "utf-8")
    (workspace / "link.py").symlink_to("plugin.py")
    own = (workspace / "parent.yaml", workspace / "link.py")
    write = {tool.name: tool for tool in files.file_tools()}["fs.write"]
    for name in ("pylock.bub.toml", "PYLOCK.bub-team.toml", "parent.yaml", "plugin.py", "link.py"):
        with pytest.raises(ToolError, match="says what the agent may do") as caught:
            trio.run(
                write.call, write.check({"path": name, "content": "x"}), ToolContext("s", workspace, own_files=own)
            )
        assert caught.value.kind == "denied"
    assert not (workspace / "pylock.bub.toml").exists()


def test_what_is_no_file_is_refused_at_once(call: Call, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    for name, more in [("read", {}), ("write", {"content": "x"}), ("edit", {"old": "a", "new": "b"})]:
        assert "not a regular file" in str(refusal(call, f"fs.{name}", path="pipe", **more))
        assert "is a folder" in str(refusal(call, f"fs.{name}", path="folder", **more))
        assert refusal(call, f"fs.{name}", path="pipe/x", **more)
    assert "not a regular file" in str(refusal(call, "fs.search", path="pipe", pattern="x"))
    assert call("fs.search", pattern="x") == "[nothing was found]"


# Reading


def test_a_file_is_read_by_lines(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\nthree\nfour", "utf-8")
    assert call("fs.read", path="a.txt") == "one\ntwo\nthree\nfour"
    assert call("fs.read", path="a.txt", offset=2, limit=2) == "two\nthree\n[go on with offset=4]"
    assert call("fs.read", path="a.txt", offset=4) == "four"
    assert "it has 4" in str(refusal(call, "fs.read", path="a.txt", offset=9))
    assert "does not exist" in str(refusal(call, "fs.read", path="b.txt"))


def test_a_long_file_is_cut_and_can_be_read_to_its_end(call: Call, workspace: Path) -> None:
    lines = [f"{number:06} {'x' * 300}\n" for number in range(2000)]
    (workspace / "a.txt").write_text("".join(lines), "utf-8")
    read, offset = "", 1
    while True:
        text, gap, note = call("fs.read", path="a.txt", offset=offset, limit=100_000).partition("[cut after ")
        read += text
        if not gap:
            break
        offset = int(note.partition("offset=")[2].rstrip("]"))
    assert read == "".join(lines)


def test_a_line_without_end_is_cut(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text("x" * 1_000_000 + "\nend", "utf-8")
    shown = call("fs.read", path="a.txt")
    assert shown.endswith("[cut after 262,144 bytes; go on with offset=2]")
    assert call("fs.read", path="a.txt", offset=2) == "end"


def test_a_file_that_is_nothing_but_a_hole_is_not_read_to_its_end(call: Call, workspace: Path) -> None:
    with (workspace / "hole").open("wb") as file:
        file.write(b"x\n" * 5000)
        file.truncate(2**40)
    assert "binary" in str(refusal(call, "fs.read", path="hole", offset=6000))
    assert "too large" in str(refusal(call, "fs.edit", path="hole", old="x", new="y"))


def test_what_is_unusual_in_a_file_is_said(call: Call, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (workspace / "b").write_bytes(b"gr\xfcn\n")
    (workspace / "c").write_bytes(b"\x89PNG\0\0")
    (workspace / "d").write_bytes(b"")
    assert call("fs.read", path="a") == "one\ntwo\n"
    assert call("fs.read", path="b") == "gr\ufffdn\n[what is not UTF-8 is shown as \ufffd]"
    assert "binary, 6 bytes" in str(refusal(call, "fs.read", path="c"))
    assert call("fs.read", path="d") == "[the file is empty]"


# Writing


def test_writing_makes_folders_and_keeps_the_mode(call: Call, workspace: Path) -> None:
    assert call("fs.write", path="a/b/c.sh", content="echo ü\n") == "wrote 8 bytes to a/b/c.sh"
    file = workspace / "a/b/c.sh"
    file.chmod(0o750)
    assert call("fs.write", path="a/b/c.sh", content="x") == "wrote 1 bytes to a/b/c.sh, over 8 bytes"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert [path.name for path in file.parent.iterdir()] == ["c.sh"]
    assert "half a character" in str(refusal(call, "fs.write", path="x", content="\ud800"))


def test_a_file_that_runs_as_its_owner_does_not_when_the_agent_has_written_it(call: Call, workspace: Path) -> None:
    (workspace / "run").write_text("a", "utf-8")
    (workspace / "run").chmod(0o6755)
    call("fs.edit", path="run", old="a", new="b")
    assert stat.S_IMODE((workspace / "run").stat().st_mode) == 0o755


def test_a_write_that_fails_leaves_the_file_as_it_was(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text("old", "utf-8")
    script = f"""
import resource, signal
from pathlib import Path
from tests.test_tools_files import called
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    called(Path({str(workspace)!r}), "fs.write", path="a.txt", content="x" * 100_000)
except Exception as error:
    print(type(error).__name__, error)
"""
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ToolError a.txt cannot be used: file too large")
    assert [(path.name, path.read_text("utf-8")) for path in workspace.iterdir()] == [("a.txt", "old")]


def test_a_link_stays_a_link_when_its_file_is_written(call: Call, workspace: Path) -> None:
    (workspace / "real.txt").write_text("a", "utf-8")
    (workspace / "link.txt").symlink_to("real.txt")
    call("fs.edit", path="link.txt", old="a", new="b")
    assert (workspace / "link.txt").is_symlink()
    assert (workspace / "real.txt").read_text("utf-8") == "b"


# Editing


def test_A27_an_edit_changes_one_place_and_nothing_else(call: Call, workspace: Path) -> None:
    file = workspace / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthr\xffee\r\nmixed\nend\r\n")
    file.chmod(0o640)
    assert call("fs.edit", path="a.txt", old="one\ntwo\n", new="1\n2\n3\n") == "edited a.txt at line 1"
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\nthr\xffee\r\nmixed\nend\r\n"
    call("fs.edit", path="a.txt", old="mixed\n", new="m\nn\n")
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\nthr\xffee\r\nm\nn\nend\r\n"
    call("fs.edit", path="a.txt", old="end", new="the\nend")
    assert file.read_bytes().endswith(b"n\nthe\r\nend\r\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("ending", ["", "\n"])
def test_A27_an_edit_keeps_the_final_newline(ending: str, call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text(f"one\ntwo{ending}", "utf-8")
    call("fs.edit", path="a.txt", old="two", new="2")
    assert (workspace / "a.txt").read_text("utf-8") == f"one\n2{ending}"


def test_A27_an_ambiguous_edit_is_an_error(call: Call, workspace: Path) -> None:
    file = workspace / "a.txt"
    file.write_text("x = 1\ny\nx = 1\naaa\n", "utf-8")
    told = refusal(call, "fs.edit", path="a.txt", old="x = 1", new="x = 2")
    assert str(told).startswith("`old` occurs in a.txt at 2 places, lines 1, 3")
    assert "2 places" in str(refusal(call, "fs.edit", path="a.txt", old="aa", new="b"))
    assert file.read_text("utf-8") == "x = 1\ny\nx = 1\naaa\n"
    assert call("fs.edit", path="a.txt", old="x = 1", new="x = 2", all=True) == "edited a.txt at 2 places, lines 1, 3"
    assert file.read_text("utf-8") == "x = 2\ny\nx = 2\naaa\n"


def test_A27_an_edit_of_nothing_is_an_error(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text("    return total\n", "utf-8")
    assert "`old` is empty" in str(refusal(call, "fs.edit", path="a.txt", old="", new="x"))
    assert "the same" in str(refusal(call, "fs.edit", path="a.txt", old="x", new="x"))
    told = refusal(call, "fs.edit", path="a.txt", old="  return  total", new="x")
    assert "the closest is line 1: `return total`; spaces and indentation count" in str(told)
    assert "nothing in it is like that" in str(refusal(call, "fs.edit", path="a.txt", old="§§§§", new="x"))


def test_a_newline_at_an_edge_of_an_edit_is_one_newline(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"a\r\nb\r\nc")
    call("fs.edit", path="a.txt", old="\nb\n", new="\n")
    assert (workspace / "a.txt").read_bytes() == b"a\r\nc"


texts = st.text(st.sampled_from("ab \r\nü\ufeff"), max_size=30)
lines = st.text(st.sampled_from("ab \nü"), max_size=10)


@settings(max_examples=200, deadline=None)
@given(before=texts, old=st.text(st.sampled_from("ab\n"), min_size=1, max_size=4), new=lines, after=texts)
def test_A27_all_that_is_not_replaced_stays(before: str, old: str, new: str, after: str) -> None:
    text = before + old + after
    try:
        changed, found = replace_text("a.txt", text, Edit(old, new))
    except ToolError as told:
        assert "occurs" in str(told)
        return
    assert len(found) == 1
    at = found[0]
    assert changed.startswith(text[:at])
    assert text[at:].replace("\r\n", "\n").startswith(old)
    rest = next(text[end:] for end in range(at, len(text) + 1) if text[at:end].replace("\r\n", "\n") == old)
    assert changed.endswith(rest)
    assert changed[at : len(changed) - len(rest)].replace("\r\n", "\n") == new


def test_edits_side_by_side_lose_nothing(workspace: Path) -> None:
    (workspace / "a.txt").write_text("".join(f"<{number}>" for number in range(20)), "utf-8")
    tools = {tool.name: tool for tool in files.file_tools()}

    async def all_at_once() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                arguments = {"path": "a.txt", "old": f"<{number}>", "new": f"[{number}]", "all": False}
                nursery.start_soon(tools["fs.edit"].call, arguments, ToolContext("s", workspace))

    trio.run(all_at_once)
    assert (workspace / "a.txt").read_text("utf-8") == "".join(f"[{number}]" for number in range(20))


def test_an_edit_does_not_undo_what_somebody_else_wrote(call: Call, workspace: Path) -> None:
    file = workspace / "a.txt"
    file.write_text("here" + "x" * 3_000_000, "utf-8")
    stop = threading.Event()

    def rewriting() -> None:
        fresh = workspace / "fresh"
        for number in itertools.count():
            fresh.write_text(f"here{number}" + "x" * 3_000_000, "utf-8")
            fresh.replace(file)
            if stop.is_set():
                return

    other = threading.Thread(target=rewriting)
    other.start()
    told = ""
    until = time.monotonic() + 10
    try:
        while "changed by somebody else" not in told and time.monotonic() < until:
            try:
                told = call("fs.edit", path="a.txt", old="here", new="there")
            except ToolError as error:
                told = str(error)
    finally:
        stop.set()
        other.join()
    assert told == "a.txt was changed by somebody else meanwhile (read it again)"


# Listing and searching


@pytest.fixture
def tree(workspace: Path) -> Path:
    for name in ("a.py", "b.txt", "src/c.py", "src/deep/d.py", ".git/config", "src/deep/e.txt"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"this is {name}\r\nneedle in {name}\n", "utf-8")
    (workspace / "link").symlink_to("src")
    return workspace


def test_a_tree_that_is_too_large_is_not_listed_for_ever(
    call: Call, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LIST_SECONDS", 0)
    told = refusal(call, "fs.list", recursive=True, glob="*.none")
    assert (str(told), told.kind) == ("to list . took longer than 0 s (list a folder further down)", "timeout")


def test_a_pattern_has_a_bounded_length(call: Call, tree: Path) -> None:
    assert "length <= 10000" in str(refusal(call, "fs.search", pattern="a" * 200_000))
    assert "length <= 1000" in str(refusal(call, "fs.search", pattern="a", glob="a" * 200_000))


def test_a_folder_is_listed(call: Call, tree: Path) -> None:
    assert call("fs.list").split("\n") == ["a.py", "b.txt", "link/", "src/"]
    assert call("fs.list", path="src").split("\n") == ["src/c.py", "src/deep/"]
    everything = ["a.py", "b.txt", "link/", "src/", "src/c.py", "src/deep/", "src/deep/d.py", "src/deep/e.txt"]
    assert call("fs.list", recursive=True).split("\n") == everything
    assert call("fs.list", glob="*.py", recursive=True).split("\n") == ["a.py", "src/c.py", "src/deep/d.py"]
    assert call("fs.list", glob="src/**/*.py", recursive=True).split("\n") == ["src/c.py", "src/deep/d.py"]
    assert call("fs.list", recursive=True, limit=3) == "a.py\nb.txt\nlink/\n[cut after 3: there are more]"
    assert call("fs.list", glob="*.rs") == "[nothing in . matches `*.rs`]"
    assert "not a directory" in str(refusal(call, "fs.list", path="a.py"))


def test_lines_are_found(call: Call, tree: Path) -> None:
    assert call("fs.search", pattern=r"need\w+ in (a|src/c)").split("\n") == [
        "a.py:2: needle in a.py",
        "src/c.py:2: needle in src/c.py",
    ]
    assert call("fs.search", pattern="NEEDLE", path="src", glob="*.txt", ignore_case=True) == (
        "src/deep/e.txt:2: needle in src/deep/e.txt"
    )
    assert call("fs.search", pattern="this", path="b.txt") == "b.txt:1: this is b.txt"
    assert call("fs.search", pattern="needle", limit=1) == "a.py:2: needle in a.py\n[cut after 1: there may be more]"
    assert call("fs.search", pattern="config") == "[nothing was found]"
    assert "missing )" in str(refusal(call, "fs.search", pattern="(a"))


def test_a_pattern_that_never_ends_is_stopped(call: Call, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "b.txt").write_text("a" * 60 + "!", "utf-8")
    monkeypatch.setattr(files, "SEARCH_SECONDS", 0.5)
    found = call("fs.search", pattern="(a+)+$|needle")
    assert found == "a.py:2: needle in a.py\n[stopped after 0.5 s: not everything was searched]"


def test_names_that_are_no_text_and_trees_without_end_are_listed(call: Call, workspace: Path) -> None:
    with open(os.path.join(os.fsencode(workspace), b"gr\xfcn"), "wb") as file:  # noqa: PTH118, PTH123
        file.write(b"needle")
    folder = workspace
    for _ in range(DEEPEST + 20):
        folder = folder / "d"
        folder.mkdir()
    listed = call("fs.list", recursive=True, limit=1000).split("\n")
    assert "gr\ufffdn" in listed
    assert len(listed) == DEEPEST + 1
    assert call("fs.search", pattern="needle") == "gr\ufffdn:1: needle"
