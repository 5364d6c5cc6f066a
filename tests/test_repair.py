"""`--fix` repairs what is sure, changes nothing else, and never leaves a file half written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.checking import check_file
from fakes.command_line import SOURCES

from bub.base.resources import shipped_pipeline
from bub.base.rewrite import rewrite
from bub.errors import BubError, UsageError
from bub.pipeline.edit.repair import Repair, repair_file

Write = Callable[[str, str], Path]


def pipeline(text: str) -> str:
    return f"version: 1\nextends: bub:default\n{text}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pipelines.yaml"


def repaired(file: Path, text: str) -> tuple[str, Repair]:
    """What a text becomes, and what is said of it."""
    file.write_bytes(text.encode())
    repair = repair_file(file)
    return file.read_bytes().decode(), repair


@pytest.mark.parametrize(
    ("bad", "mended"),
    [
        ("stages: {run_model: {timout: 5s}}", "stages: {run_model: {timeout: 5s}}"),
        ("stages: {run_model: {'timout': 5s}}", "stages: {run_model: {'timeout': 5s}}"),
        ("stages: {run_model: {timeout: 5 s}}", "stages: {run_model: {timeout: 5s}}"),
        ('stages: {run_model: {timeout: "5 seconds"}}', 'stages: {run_model: {timeout: "5s"}}'),
        ("stages: {run_model: {timout: 5 s}}", "stages: {run_model: {timeout: 5s}}"),
        ("stages: {save_state: {thread: yes}}", "stages: {save_state: {thread: true}}"),
        ("stages: {save_state: {thread: 'yes'}}", "stages: {save_state: {thread: true}}"),
        ("settings: {command_prefix: no}", 'settings: {command_prefix: "no"}'),
        ("settings: {retries: '3'}", "settings: {retries: 3}"),
        ('settings: {model: "opnai:gpt-5-mini"}', 'settings: {model: "openai:gpt-5-mini"}'),
        ("profiles: {a: {concurrency: Serial}}", "profiles: {a: {concurrency: serial}}"),
        ("profiles: {a: {extends: defualt}}", "profiles: {a: {extends: default}}"),
        ("stages: {load_state: {needs: [resolve_sesion]}}", "stages: {load_state: {needs: [resolve_session]}}"),
    ],
)
def test_what_has_one_sure_repair_is_repaired(file: Path, bad: str, mended: str) -> None:
    text, repair = repaired(file, pipeline(bad))
    assert text == pipeline(mended)
    assert len(repair.repaired) == 1 and repair.refused == ()
    assert check_file(file).diagnostics == ()


def test_all_is_repaired_at_once_and_all_else_stays_byte_for_byte(file: Path) -> None:
    bad = (
        '\ufeff# 漢字 first\r\n---\r\nversion: "1"   # one\r\nextends:   bub:default\r\n\r\nstages:\r\n'
        "    run_model:   {timout: 5 s , on_failure: 'Propagate'}   # 漢\r\n\r\n\r\n# last, without a line end"
    )
    text, repair = repaired(file, bad)
    mended = bad.replace('"1"', "1").replace("timout", "timeout").replace("5 s", "5s").replace("Propagate", "propagate")
    assert text == mended
    assert str(repair) == f"repaired 3 findings in {repair.file} (as it was: pipelines.yaml.bak)"


def test_a_second_run_has_nothing_to_do(file: Path) -> None:
    repaired(file, pipeline("stages: {run_model: {timout: 5s}}"))
    os.utime(file, (1, 1))
    assert repair_file(file) == Repair(repair_file(file).file)
    assert str(repair_file(file)) == ""
    assert file.stat().st_mtime == 1


@pytest.mark.parametrize(
    "text",
    [
        "stages: {run_model: {timeout: 5}}",  # of which unit?
        "stages: {run_model: {tmt: 5s}}",
        "stages: {run_model: {timout: 5s, timeout: 6s}}",  # which of the two counts?
        "stages: {run_model: {kind: xyz}}",
        "settings: {api_key: 5}",  # a secret
    ],
)
def test_what_is_not_sure_is_left_to_the_reader(file: Path, text: str) -> None:
    after, repair = repaired(file, pipeline(text))
    assert after == pipeline(text)
    assert repair.repaired == repair.refused == ()
    assert not file.with_name("pipelines.yaml.bak").exists()


def test_a_repair_that_would_bring_another_error_is_left_and_the_others_are_made(file: Path) -> None:
    wrong = "run_model: {timout: 5, on_failure: Skip}"  # a skipped stream yields nothing, though its value is taken
    lines = [f"  {name}: {{thread: yes}}" for name in ("load_state", "build_prompt", "save_state")]
    text, repair = repaired(file, pipeline("\n".join(["stages:", f"  {wrong}", *lines])))
    assert text == pipeline("\n".join(["stages:", f"  {wrong}", *lines])).replace("yes", "true")
    assert len(repair.repaired) == 3
    assert [finding.path for finding in repair.refused] == ["stages.run_model.timout", "stages.run_model.on_failure"]
    assert str(repair).endswith(f"left 2 findings in {repair.file} alone, whose repair would bring up another error")


def test_a_value_that_an_alias_repeats_is_not_changed_where_it_means_something_else(file: Path) -> None:
    bad = pipeline("stages: {save_state: {thread: &word yes}, load_state: {default: *word}}")
    text, repair = repaired(file, bad)
    assert text == bad
    assert len(repair.refused) == 1


@pytest.mark.parametrize(
    "text",
    ["stages: {run_model: {timout: 5s}\n", "version: 1\n---\nversion: 1\n", "version: 1\nversion: 1\nstagse: {}\n"],
    ids=["broken", "two documents", "a key twice"],
)
def test_a_file_that_is_no_proper_yaml_is_never_written(file: Path, text: str) -> None:
    after, repair = repaired(file, text)
    assert after == text
    assert str(repair) == f"nothing is repaired in {repair.file}: mend its YAML first"


def test_bytes_that_are_not_utf_8_are_left_alone(file: Path) -> None:
    file.write_bytes(b"version: 1\nstagse: {}\n# \xff\n")
    assert repair_file(file).unreadable
    assert file.read_bytes().endswith(b"\xff\n")


def test_a_parent_is_not_written_through_its_child(write: Write) -> None:
    parent = write("parent.yaml", "version: 1\nextends: bub:default\nstages: {run_model: {timout: 5s}}\n")
    child = write("sub/child.yaml", "version: 1\nextends: ../parent.yaml\nstages: {save_state: {thread: yes}}\n")
    before = parent.read_bytes()
    repair = repair_file(child)
    assert (len(repair.repaired), repair.refused) == (1, ())
    assert parent.read_bytes() == before


def test_a_shipped_file_is_never_written() -> None:
    path = shipped_pipeline("default")
    assert path is not None
    with pytest.raises(UsageError, match=r"^bub:default is shipped with Bub"):
        repair_file(path)


def test_a_file_that_does_not_exist_is_a_mistake_in_the_command(file: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        repair_file(file)


def test_only_the_profiles_that_are_checked_are_looked_at(file: Path) -> None:
    bad = pipeline("profiles:\n  a: {}\n  b: {stages: {load_state: {needs: [resolve_sesion]}}}")
    file.write_text(bad, encoding="utf-8")
    assert repair_file(file, profiles=["a"]).repaired == ()
    assert len(repair_file(file, profiles=["b"]).repaired) == 1


def test_many_repairs_that_do_harm_come_to_an_end(file: Path) -> None:
    bad = pipeline("hooks:\n" + "".join(f"  h{number}: {{kind: void, timout: 5}}\n" for number in range(50)))
    text, repair = repaired(file, bad)
    assert text == bad
    assert len(repair.refused) == 50


# Writing

BAD = pipeline("stages: {run_model: {timout: 5s}}")
GOOD = pipeline("stages: {run_model: {timeout: 5s}}")


def test_the_text_as_it_was_is_kept_beside_the_file(file: Path) -> None:
    backup = file.with_name("pipelines.yaml.bak")
    backup.write_text("older", encoding="utf-8")
    repaired(file, BAD)
    assert backup.read_text(encoding="utf-8") == BAD
    assert sorted(path.name for path in file.parent.glob("*pipelines*")) == ["pipelines.yaml", "pipelines.yaml.bak"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_the_file_keeps_its_mode_and_the_backup_is_for_its_owner_only(file: Path, mode: int) -> None:
    file.write_text(BAD, encoding="utf-8")
    file.chmod(mode)
    repair_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert stat.S_IMODE(file.with_name("pipelines.yaml.bak").stat().st_mode) == 0o600


def test_what_a_killed_write_left_is_removed_by_the_next_one(file: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    left = file.with_name(f".bub-{ended.pid}-0123456789abcdef")
    writing = file.with_name(f".bub-{os.getpid()}-0123456789abcdef")
    draft = file.with_name(".bub-0123456789abcdef.yaml")
    for path in (left, writing, draft):
        path.write_text("a half", encoding="utf-8")
    repaired(file, BAD)
    assert (left.exists(), writing.exists(), draft.exists()) == (False, True, True)


def test_a_ctrl_c_in_the_middle_of_a_write_says_what_the_file_holds(file: Path) -> None:
    said: list[tuple[str, str]] = []
    for stop in range(1, 30):
        file.write_text(BAD, encoding="utf-8")
        told, ended = interrupted(file, stop)
        if ended == 0:
            break
        said.append((told, file.read_text(encoding="utf-8")))
        assert ended == 130
        assert not list(file.parent.glob(".bub-*"))
    assert set(said) <= {
        ("bub: stopped; pipelines.yaml is as it was\n", BAD),
        ("bub: stopped; pipelines.yaml is written\n", GOOD),
    }
    assert len(set(said)) == 2 and stop > 5


INTERRUPTED = """
import os, signal, sys
from bub.cli.exits import exit_code
from bub.cli.root import command_line

STEPS = ("open", "os.chmod", "os.rename", "os.remove")
done = 0


def step(event, arguments):
    global done
    if event in STEPS and ".bub-" in str(arguments[0]):
        done += 1
        if done == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGINT)


sys.addaudithook(step)
sys.exit(exit_code(lambda: command_line(["validate", "--fix", "pipelines.yaml"])))
"""


def interrupted(file: Path, at: int) -> tuple[str, int]:
    """What `bub validate --fix` says and how it ends when Ctrl-C comes at one step of the writing."""
    child = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(at)],
        cwd=file.parent,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ("" if child.returncode == 0 else child.stderr), child.returncode


def test_of_a_link_the_file_it_leads_to_is_written(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "pipelines.yaml", tmp_path / "pipelines.yaml"
    real.parent.mkdir()
    real.write_text(BAD, encoding="utf-8")
    link.symlink_to(real)
    repair_file(link)
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == GOOD
    assert real.with_name("pipelines.yaml.bak").read_text(encoding="utf-8") == BAD


def test_a_backup_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path, file: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious", encoding="utf-8")
    file.with_name("pipelines.yaml.bak").symlink_to(other)
    repaired(file, BAD)
    assert other.read_text(encoding="utf-8") == "precious"


@contextmanager
def as_somebody() -> Iterator[None]:
    """Do something as a user who is not root, who may write everywhere."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_told_and_the_file_stays() -> None:
    folder = Path(tempfile.mkdtemp())
    file = folder / "pipelines.yaml"
    file.write_text(BAD, encoding="utf-8")
    folder.chmod(0o555)
    try:
        # Not `repair_file`: Bub itself may lie where only root can read it.
        with as_somebody(), pytest.raises(BubError, match=r"pipelines\.yaml cannot be written: ") as caught:
            rewrite(file, BAD.encode(), GOOD.encode())
        assert caught.value.help is not None and "as it was" in caught.value.help
        assert [path.read_text(encoding="utf-8") for path in folder.iterdir()] == [BAD]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def in_a_child(work: Callable[[], None]) -> int:
    """Do something in a process of its own; how that ended, as `os.waitpid` says it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BubError:
            os._exit(7)
        except BaseException:  # noqa: BLE001 (the child must not go on with the tests)
            os._exit(8)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def test_a_full_disk_is_told_and_the_file_stays(file: Path) -> None:
    file.write_text(BAD, encoding="utf-8")

    def without_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        repair_file(file)

    assert os.waitstatus_to_exitcode(in_a_child(without_room)) == 7
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == ["pipelines.yaml"]
    assert file.read_text(encoding="utf-8") == BAD


def test_whenever_the_process_is_killed_there_is_the_old_text_or_the_new_one(file: Path) -> None:
    seen = []
    for moment in range(1, 100):
        file.write_text(BAD, encoding="utf-8")

        def killed(moment: int = moment) -> None:
            left = moment

            def strike(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal left
                # What Python is about to do to the folder: open, rename, change the mode, remove.
                if event == "open" and arguments[0] == str(file) and arguments[1] != "r":
                    os._exit(9)  # whoever writes into the file itself can be killed in the middle of it
                if event in ("open", "os.rename", "os.chmod", "os.remove") and str(file.parent) in str(arguments[0]):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(strike)
            repair_file(file)

        ended = in_a_child(killed)
        seen.append(file.read_text(encoding="utf-8"))
        assert seen[-1] in (BAD, GOOD)
        if ended == 0:
            break
        assert os.WTERMSIG(ended) == signal.SIGKILL
    assert seen[-1] == GOOD and seen[0] == BAD and len(seen) > 6


def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(file: Path) -> None:
    file.write_text(BAD, encoding="utf-8")
    newer = BAD + "# newer\n"

    def raced() -> None:
        opened = 0

        def write(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal opened
            if event == "open" and ".bub-" in str(arguments[0]):
                opened += 1
                if opened == 1:
                    file.write_text(newer, encoding="utf-8")

        sys.addaudithook(write)
        repair_file(file)

    assert os.waitstatus_to_exitcode(in_a_child(raced)) == 7
    assert file.read_text(encoding="utf-8") == newer


# What is probably meant


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("stages: {run_modle: {timeout: 5s}}", "stages: {run_model: {timeout: 5s}}"),
        ("stages: {run_model: {timeout: 90}}  # patience", "stages: {run_model: {timeout: 90s}}  # patience"),
        ("stages: {save_state: {depends_on: [run_model]}}", "stages: {save_state: {needs: [run_model]}}"),
        (
            "stages: {run_model: {on_failure: skipped, default: a}}",
            "stages: {run_model: {on_failure: skip, default: a}}",
        ),
        ("profiles: {night: {}, a: {extends: nigths}}", "profiles: {night: {}, a: {extends: night}}"),
        (
            "stages: {load_state: {when: {channel: telegrm}}}",
            "stages: {load_state: {when: {channel: telegram}}}",
        ),
        (
            "routes: [{match: {channel: Telegram}, profile: default}]",
            "routes: [{match: {channel: telegram}, profile: default}]",
        ),
        ('profiles: {default: {channels: ["!telegrm"]}}', 'profiles: {default: {channels: ["!telegram"]}}'),
        (
            "tests: {a: {message: {content: x, channel: telegrm}, expect: {profile: default}}}",
            "tests: {a: {message: {content: x, channel: telegram}, expect: {profile: default}}}",
        ),
        (
            "tests: {a: {message: {content: x}, mock: {run_model: {raise: ConectionError}}, expect: {prompt: x}}}",
            "tests: {a: {message: {content: x}, mock: {run_model: {raise: ConnectionError}}, expect: {prompt: x}}}",
        ),
    ],
)
def test_fix_all_writes_what_is_probably_meant_and_fix_does_not(write: Write, wrong: str, right: str) -> None:
    file = write("pipelines.yaml", f"version: 1\nextends: bub:default\n{wrong}\n")
    assert repair_file(file).repaired == ()
    assert len(repair_file(file, likely=True).repaired) == 1
    assert file.read_text(encoding="utf-8") == f"version: 1\nextends: bub:default\n{right}\n"


@pytest.mark.parametrize(
    "text",
    [
        "profiles: {default: {plugins: [telegramm_bot]}}",  # to list it would import it
        "stages: {run_modle: {timeout: 5s}, run_model: {timeout: 9s}}",  # the key would stand there twice
    ],
)
def test_fix_all_does_not_write_what_would_do_harm(write: Write, text: str) -> None:
    file = write("pipelines.yaml", f"version: 1\nextends: bub:default\n{text}\n")
    assert repair_file(file, likely=True).repaired == ()
