"""`bub uninstall` removes what Bub made in its own folder, and nothing else, whatever lies there."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.command_line import ROOT, bub
from fakes.screen import CTRL_C, ENTER, Sitting

from bub.base.locate import DOTENV, FILE_NAME
from bub.base.private import lock_file
from bub.channels.terminal.history import history_file
from bub.cli.completion import known
from bub.inbox.file import inbox_file, lock_workspace
from bub.log import FILE_NAME as LOG
from bub.pipeline.edit.modeline import SCHEMA_FILE
from bub.runtime.trust import STORE_NAME
from bub.setup.installed import removal_of_program
from bub.setup.own_files import LOCKS, OWN_FILES, find_own_files, is_path_of
from bub.setup.removal import plan_removal, remove_files
from bub.tape.opening import archive_folder

Write = Callable[[str, str], Path]
PATHS = [path for kind in OWN_FILES for path in kind.paths]


def sample(pattern: str) -> str:
    """A path that a path of `OWN_FILES` stands for."""
    return re.sub(r"\bN\b", "3", pattern.replace("HASH", "0123456789abcdef").replace("*", "some"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Bub's own folder with every file that Bub may leave there."""
    home = tmp_path / "home"
    for pattern in PATHS:
        path = home / sample(pattern)
        inside = path / "deep" / "inside" if pattern.endswith("/") else path
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_bytes(b"x" * 10)
    return home


def left(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    )


def test_everything_that_bub_left_is_removed_and_a_second_time_nothing_is_there(home: Path, tmp_path: Path) -> None:
    done = bub(tmp_path, "uninstall", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"removed {len(PATHS)} files" in done.stdout
    assert not home.exists()
    again = bub(tmp_path, "uninstall")
    assert again.returncode == 0
    assert "There is nothing of Bub to remove" in again.stdout
    assert not home.exists()


def test_what_bub_really_writes_is_known(tmp_path: Path, write: Write) -> None:
    write("work/pipelines.yaml", "version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n")
    for words in (["trust"], ["run", ",help"], ["config", "set", "--person", "model", "openai:x"], ["hooks"]):
        assert bub(tmp_path / "work", *words).returncode == 0
    bub(tmp_path / "work", "config", "set", "--person", "model", "openai:y")
    bub(tmp_path / "work", "run", "hello")  # fails, and is logged
    found = find_own_files(tmp_path / "home")
    assert found.others == ()
    assert len(found.files) >= 6


def test_every_name_in_the_code_is_known(tmp_path: Path) -> None:
    home = tmp_path / "home"
    named = [FILE_NAME, f"{FILE_NAME}.bak", SCHEMA_FILE, DOTENV, STORE_NAME, known.FILE_NAME, f"logs/{LOG}"]
    named += [path.relative_to(home).as_posix() for path in (history_file(home, tmp_path), inbox_file(home))]
    named += [(archive_folder(home) / "a.jsonl").relative_to(home).as_posix()]
    with lock_workspace(inbox_file(home), str(tmp_path)) as lock:
        named.append(Path(str(lock.name)).relative_to(home).as_posix() if isinstance(lock.name, str) else "")
    (locked,) = (home / "tapes").glob("*.lock")
    named[-1] = locked.relative_to(home).as_posix()
    assert any(is_path_of(named[-1], lock) for lock in LOCKS)
    assert [name for name in named if not any(is_path_of(name, pattern) for pattern in PATHS)] == []


def test_no_other_name_is_put_below_bubs_own_folder() -> None:
    """Whoever writes `home / "new"` adds it to `OWN_FILES`, or says here whose it is."""
    known_names = {path.split("/")[0] for path in PATHS}
    # The person's; that of a home folder which `bub prove` makes; that of the other Bub, for its own plugins.
    others = {"skills", ".bub", "config.yml"}
    used = set()
    for module in [*(ROOT / "bub").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            match node:
                case ast.BinOp(left=folder, op=ast.Div(), right=ast.Constant(value=name)):
                    if re.fullmatch(r"(?:\w+\.)*_?home(?:\(\))?|bub_home\(.*\)", ast.unparse(folder)):
                        used.add(str(name))
    assert {"tapes", "history", "logs"} <= used
    assert used - known_names - others == set()


def test_the_page_lists_every_file() -> None:
    page = ROOT / "docs" / "files.md"
    if not page.exists():
        pytest.skip("the source archive carries no docs/ but one page")
    table = page.read_text(encoding="utf-8").partition("| below `$BUB_HOME` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert [path for row in rows for path in re.findall(r"`([^`]+)`", row)] == PATHS


def test_what_bub_did_not_make_and_what_a_link_leads_to_stay(home: Path, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    (treasure / "archive").mkdir(parents=True)
    (treasure / "tapes.db").write_text("mine", encoding="utf-8")
    shutil.rmtree(home / "tapes")
    (home / "tapes").symlink_to(treasure)
    (home / ".env").unlink()
    (home / ".env").symlink_to(treasure / "tapes.db")
    (home / "local" / "weights" / "link").symlink_to(treasure)
    (home / "skills").mkdir()
    for name in ("notes.txt", "skills/mine.md", "logs/other.log", "history/mine"):
        (home / name).touch()
    done = bub(tmp_path, "uninstall", "--yes")
    assert done.returncode == 0
    assert ".env, history/mine, logs/other.log, notes.txt, skills/, tapes" in " ".join(done.stdout.split())
    assert left(treasure) == ["tapes.db"]
    assert (treasure / "archive").is_dir()
    assert left(home) == [".env", "history/mine", "logs/other.log", "notes.txt", "skills/mine.md", "tapes"]


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(home: Path, tmp_path: Path) -> None:
    removal = plan_removal(home, keep_tapes=False)
    (home / "logs").rename(tmp_path / "mine")
    (home / "logs").symlink_to(tmp_path / "mine")
    failures = remove_files(home, removal.files)
    assert len(failures) == 2
    assert left(tmp_path / "mine") == ["bub.log", "bub.log.3"]


def test_the_home_folder_of_a_person_keeps_what_others_may_have_made(home: Path, tmp_path: Path) -> None:
    done = bub(tmp_path, "uninstall", "--yes", HOME=str(home))
    assert done.returncode == 0
    assert {".env", "pipelines.yaml", "local/weights/deep/inside"} <= set(left(home))
    assert "trusted.json" not in left(home)
    assert plan_removal(Path("/"), keep_tapes=False).files == ()


def test_tapes_can_be_kept(home: Path, tmp_path: Path) -> None:
    assert bub(tmp_path, "uninstall", "--yes", "--keep-tapes").returncode == 0
    assert left(home) == sorted(
        sample(path) for kind in OWN_FILES for path in kind.paths if "tapes.db" in kind.paths[0]
    )


@pytest.mark.parametrize("words", [["--dry-run"], ["--dry-run", "--yes"]])
def test_a_dry_run_removes_nothing(home: Path, tmp_path: Path, words: list[str]) -> None:
    before = left(home)
    done = bub(tmp_path, "uninstall", *words)
    assert done.returncode == 0
    assert "the small local model" in done.stdout
    assert left(home) == before


def test_if_nobody_can_be_asked_nothing_is_removed(home: Path, tmp_path: Path) -> None:
    before = left(home)
    done = bub(tmp_path, "uninstall")
    assert done.returncode == 2
    assert done.stderr == f"bub: there is no terminal to ask whether to remove {len(PATHS)} files (say --yes)\n"
    assert left(home) == before


@pytest.mark.parametrize(("keys", "code", "removed"), [(ENTER, 0, False), ("y", 0, True), (CTRL_C, 130, False)])
def test_a_person_is_asked_and_no_is_the_default(
    home: Path, tmp_path: Path, keys: str, code: int, removed: bool
) -> None:
    with Sitting(tmp_path, "uninstall") as person:
        person.see("(y/N)")
        person.type(keys)
        assert person.end() == code
    assert home.exists() is not removed


def test_nothing_is_removed_while_a_gateway_runs(home: Path, tmp_path: Path) -> None:
    before = left(home)
    with (home / "tapes" / "inbox-0123456789abcdef.lock").open("r+") as held:
        held.write("4711      ")
        held.truncate(4)
        held.flush()
        lock_file(held.fileno())
        done = bub(tmp_path, "uninstall", "--yes")
    assert done.returncode == 1
    assert "process 4711 works in" in done.stderr
    assert left(home) == before


def test_nothing_is_removed_while_somebody_chats(home: Path, tmp_path: Path) -> None:
    before = left(home)
    known = {"BUB_MODEL": "openai:x", "BUB_API_KEY": "k", "BUB_HOME": str(home)}
    (home / "pipelines.yaml").write_text("version: 1\nextends: bub:default\n", encoding="utf-8")
    with Sitting(tmp_path, "chat", **known) as one, Sitting(tmp_path, "chat", **known) as two:
        for sitting in (one, two):
            sitting.see("Ctrl-D leaves")
            sitting.see_prompt()
        assert one.leave() == 0
        done = bub(tmp_path, "uninstall", "--yes")
        assert (
            done.returncode == 1 and f"works in {home}: a chat, a gateway, bub studio, an MCP server, or" in done.stderr
        )
        assert set(before) <= set(left(home))
        assert two.leave() == 0
    with (home / "chats.lock").open("r+") as held:
        lock_file(held.fileno())
        late = bub(tmp_path, "chat", "hello", **known)
    assert late.returncode == 1 and "`bub uninstall` is removing" in late.stderr
    assert bub(tmp_path, "uninstall", "--yes").returncode == 0 and not home.exists()


class Interrupted(list):  # type: ignore[type-arg]
    """Files of which a person has enough after three."""

    def __iter__(self) -> Iterator[object]:
        yield from self[:3]
        raise KeyboardInterrupt


def test_a_ctrl_c_says_how_far_it_came_and_a_second_run_removes_the_rest(home: Path, tmp_path: Path) -> None:
    files = plan_removal(home, keep_tapes=False).files
    with pytest.raises(KeyboardInterrupt) as stopped:
        remove_files(home, Interrupted(files))
    (note,) = stopped.value.__notes__
    assert note == f"3 of {len(files)} are removed; `bub uninstall` again removes the rest"
    assert len(plan_removal(home, keep_tapes=False).files) == len(files) - 3
    assert bub(tmp_path, "uninstall", "--yes").returncode == 0
    assert not home.exists()


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Be somebody who is not root, to whom a folder belongs."""
    if os.geteuid() != 0:
        yield
        return
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 65534, 65534)
    for above in folder.parents[:4]:  # one more if several processes run tests
        above.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_cannot_be_removed_is_named_and_the_rest_is_removed(home: Path) -> None:
    (home / "logs").chmod(0o500)
    with as_nobody(home):
        failures = remove_files(home, plan_removal(home, keep_tapes=False).files)
    assert failures == [f"{home}/logs/{name}: permission denied" for name in ("bub.log", "bub.log.3")]
    assert left(home) == ["logs/bub.log", "logs/bub.log.3"]
    (home / "logs").chmod(0o700)


def test_the_environment_file_of_a_folder_cannot_choose_what_is_removed(
    home: Path, write: Write, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "trusted.json").touch()
    write("work/.env", f"BUB_HOME={victim}\nHOME={victim}\n")
    write("work/pipelines.yaml", "version: 1\nextends: bub:default\n")
    assert bub(tmp_path / "work", "uninstall", "--yes").returncode == 0
    assert left(victim) == ["trusted.json"]
    assert not home.exists()


@pytest.mark.parametrize(
    ("receipt", "command"),
    [("uv-receipt.toml", "uv tool uninstall bub-pipelines"), ("pipx_metadata.json", "pipx uninstall bub-pipelines")],
)
def test_the_program_is_removed_by_what_installed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receipt: str, command: str
) -> None:
    prefix = tmp_path / "bub-pipelines"
    prefix.mkdir()
    (prefix / receipt).touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    assert removal_of_program() == f"run `{command}`"


def test_lines_for_completion_and_a_unit_are_named(home: Path, tmp_path: Path) -> None:
    person = tmp_path / "person"
    unit = person / ".config" / "systemd" / "user" / "bub.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    (person / ".zshrc").write_text("source <(bub completion zsh)\n", encoding="utf-8")
    done = bub(tmp_path, "uninstall", "--dry-run")
    assert "out of ~/.zshrc" in done.stdout
    assert ".bashrc" not in done.stdout
    assert "systemctl --user disable --now bub" in done.stdout
