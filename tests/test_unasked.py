"""Commands that nobody is asked about: what matches runs word for word; about anything else a person is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk, results_in
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.agent.tools.git import plain_environment
from bub.agent.tools.shell import bash
from bub.agent.tools.unasked import find_unasked
from bub.base.surfaces import Surface
from bub.plugins.simple_commands import explain_entry, read_command
from bub.tools import ToolContext, ToolPolicy

pytestmark = pytest.mark.anyio

LISTED = ["ls", "cat", "echo", "git log", "git status", "git diff", "git show", "git grep", "git blame", "head -n 2"]

NO_SIMPLE_COMMANDS = [
    "ls; id", "ls && id", "ls & id", "ls | id", "ls > out", "ls < in", "ls 2>out", "echo $HOME", "echo $(id)",
    "echo ${HOME}", "echo `id`", "ls\nid", "ls\rid", "ls *", "ls ?", "ls [a]", "ls ~", "ls ~root", "echo {a,b}",
    "(ls)", "{ ls; }", "A=1 ls", "PATH=. ls", "ls \\; id", "ls 'a", 'ls "a', "ls # x", "ls '' x", "", "   ", "''",
    'echo "$(id)"', "echo '$(id)'", "ls \x00", "ls \u200b", "ls\u00a0x", "ls \u2028id", "! ls; id", "ls\v-R", "ls\f-R",
    "echo " + "x" * 5000,
]  # fmt: skip

ASKED = [
    "rm x", "lsx", "LS", "gitlog", "git", "git push", "git log -p", "git log --output=x", "git -c a=b log", "ls -R",
    "ls '-R'", 'ls "-"R', "ls --", "ls -", "head -n 3 kept.txt", "head -n", "head", "cat +x", "cat @kept.txt", "ls a=b",
    "command ls", "env ls", "sh -c ls", "git commit", "./ls", "bin/ls", "sub/../ls",
    # Paths that fs.read would refuse.
    "cat /etc/passwd", "cat ../other.txt", "cat sub/../../other.txt", "cat .env", "cat sub/.env", "cat ./.env",
    "cat link", "ls linked", "cat linked/other.txt", "cat /proc/self/environ", "ls /", "ls ..", "cat pipe",
    "cat kept.txt .env", "cat x:.env", "cat x:/etc/passwd", "cat home/secret", "ls home", "cat '/etc/passwd'",
]  # fmt: skip

RUN = {
    "ls": "other",
    "cat kept.txt": "kept",
    "  cat\t'kept.txt'  ": "kept",
    'cat "kept.txt"': "kept",
    "cat ke'pt'.txt": "kept",
    "cat sub/below.txt kept.txt": "below",
    "head -n 2 kept.txt": "kept",
    "echo 'two  spaces' \"it's\"": "two  spaces it's",
    "echo nothing/of/that/name": "nothing/of/that/name",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (tmp_path / "other.txt").write_text("outside\n")
    (workspace / "kept.txt").write_text("kept\n")
    (workspace / "other").write_text("other\n")
    (workspace / "sub/below.txt").write_text("below\n")
    for name in (".env", "sub/.env"):
        (workspace / name).write_text("KEY=secret\n")
    (workspace / "link").symlink_to(tmp_path / "other.txt")
    (workspace / "linked").symlink_to(tmp_path)
    os.mkfifo(workspace / "pipe")
    (workspace / "home").mkdir()
    (workspace / "home/secret").write_text("secret\n")
    monkeypatch.setenv("BUB_HOME", str(workspace / "home"))
    return workspace


Decide = Callable[..., Any]


@pytest.fixture
def decide(folder: Path) -> Decide:
    async def decide(command: str, entries: list[str] = LISTED, **arguments: Any) -> tuple[str, ...]:
        policy = ToolPolicy.of({"allow": ["*", "bash"], "ask": ["bash"], "unasked": {"bash": entries}})
        return await find_unasked(bash, {"command": command, **arguments}, policy, ToolContext("s", folder))

    return decide


def printed(folder: Path, *words: str) -> str:
    """What a program prints in the environment that the tool gives it."""
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=plain_environment(os.environ))
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("command", [*NO_SIMPLE_COMMANDS, *ASKED])
async def test_a_person_is_asked_about_whatever_is_not_surely_one_of_them(decide: Decide, command: str) -> None:
    assert await decide(command) == ()


@pytest.mark.parametrize("command", RUN)
async def test_what_is_listed_runs_word_for_word_as_a_shell_would_have_run_it(
    decide: Decide, folder: Path, command: str
) -> None:
    words = await decide(command)
    assert Path(words[0]).is_absolute()
    ran = printed(folder, *words)
    assert ran == printed(folder, "bash", "-c", command)
    assert RUN[command] in ran


@given(st.text(st.sampled_from("ab'\" \t-=/.#:,é%^!]"), max_size=12))
@settings(max_examples=150, deadline=None)
def test_words_are_those_that_bash_reads(text: str) -> None:
    words = read_command("printf " + text)
    if words is not None:
        quoted = subprocess.run(
            ["bash", "-c", f"p() {{ for each; do printf '%s\\0' \"$each\"; done; }}; p {text}"], capture_output=True
        )
        assert tuple(quoted.stdout.decode().split("\0")[:-1]) == words[1:]


async def test_paths_begin_where_the_command_runs(decide: Decide) -> None:
    assert await decide("cat ../kept.txt", cwd="sub")
    assert not await decide("cat ../../other.txt", cwd="sub")
    assert not await decide("cat .env", cwd="sub")
    assert not await decide("cat kept.txt", cwd="..")
    assert not await decide("cat kept.txt", cwd="missing")


async def test_a_program_that_the_agent_could_have_written_is_not_found(
    decide: Decide, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bin").mkdir()
    for name in ("ls", "own"):
        (folder / "bin" / name).write_text("#!/bin/sh\necho trap\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "ls").symlink_to("bin/ls")
    (folder.parent / "there").symlink_to(folder / "bin")
    path = f"{folder}/bin:{folder.parent}/there:.::bin:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(folder)
    assert "workspace" not in (await decide("ls"))[0]
    assert await decide("own", ["own"]) == ()
    assert await decide("bin/own", ["bin/own"]) == (f"{folder}/bin/own",)
    assert await decide("bin/own", ["bin/own"], cwd="sub") == ()


async def test_a_sub_agent_needs_a_yes_wherever_one_above_it_does(folder: Path) -> None:
    asked = ToolPolicy.of({"allow": ["bash"], "ask": ["bash"], "unasked": {"bash": ["ls"]}})
    stricter = ToolPolicy.of({"allow": ["bash"], "ask": ["bash"], "unasked": {"bash": ["cat"]}})
    context = ToolContext("s", folder)
    below = asked.narrow(["bash"])
    assert below.asks(bash)
    assert await find_unasked(bash, {"command": "ls"}, below, context)
    both = ToolPolicy(("bash",), (), ("bash",), (asked,), stricter.unasked)
    assert not await find_unasked(bash, {"command": "ls"}, both, context)
    assert not await find_unasked(bash, {"command": "cat kept.txt"}, both, context)


@pytest.mark.parametrize("entry", ["ls; id", "", "A=1 ls", "git push", "git commit", "bash", "env", "/usr/bin/python3"])
async def test_an_entry_that_is_wrong_lets_nothing_through(decide: Decide, entry: str) -> None:
    assert explain_entry(entry) is not None
    for command in ("ls", "ls; id", entry, f"{entry} ls"):
        assert await decide(command, [entry]) == ()


async def test_an_entry_that_ends_is_one_whole_command_in_the_workspace(decide: Decide) -> None:
    entries = ["cat kept.txt;", "cat /etc/hostname ;", "bash;"]
    for command in ("cat kept.txt", "cat /etc/hostname", "cat  'kept.txt'", "bash"):
        assert await decide(command, entries), command
    for command in (
        "cat",
        "cat kept.txt sub/below.txt",
        "cat kept.txt;",
        "cat /etc/hostname kept.txt",
        "bash kept.txt",
    ):
        assert not await decide(command, entries), command
    assert not await decide("cat kept.txt", entries, cwd="sub")
    assert explain_entry("git;") is not None
    assert explain_entry("ls;;") is not None


# In a turn.


async def test_in_a_turn_nobody_is_asked_about_a_listed_command_and_about_any_other(talk: Talk) -> None:
    asked: list[str] = []

    async def ask(question: Any) -> bool:
        asked.append(question.arguments["command"])
        return False

    calls = [
        Called("bash", json.dumps({"command": command}), f"c{index}")
        for index, command in enumerate(("echo one", "echo one; echo two", "echo $0", "echo 'a  b'"))
    ]
    async with talk.open(tools='{allow: [bash], ask: [bash], unasked: {bash: ["echo"]}}'):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"), ask=ask, surface=Surface.RUN)
    told = results_in((await talk.asked())[1])
    assert asked == ["echo one; echo two", "echo $0"]
    assert (told[0], told[3]) == ("one\n", "a  b\n")
    assert all("said no" in each for each in told[1:3])


async def test_a_rule_of_the_file_does_not_go_before_what_the_conversation_holds(talk: Talk) -> None:
    calls = [Called("bash", json.dumps({"command": "echo one"}), "c1")]
    async with talk.open(tools='{allow: [bash], ask: [bash], unasked: {bash: ["echo"]}}'):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"), surface=Surface.CHANNEL)  # by a stranger
    assert "nobody can be asked" in results_in((await talk.asked())[1])[0]


# Git, in a repository that names programs.

TRAPS = [
    "core.fsmonitor", "core.pager", "pager.log", "pager.status", "core.sshCommand", "core.editor", "core.askPass",
    "core.gitProxy", "core.alternateRefsCommand", "diff.external", "diff.trap.command", "diff.trap.textconv",
    "filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "merge.trap.driver", "gpg.program",
    "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "credential.helper", "sequence.editor", "interactive.diffFilter",
    "uploadpack.packObjectsHook", "remote.origin.uploadpack", "remote.origin.vcs", "alias.log", "alias.status",
    "core.hooksPath", "trailer.x.command", "submodule.x.update", "log.showSignature", "core.worktree", "include.path",
    "includeIf.gitdir:/.path", "core.attributesFile", "core.excludesFile", "extensions.partialClone",
    "extensions.worktreeConfig", "remote.origin.promisor", "protocol.ext.allow", "mailmap.file", "blame.ignoreRevsFile",
]  # fmt: skip

READING = ["git status", "git log", "git diff", "git show", "git blame kept.txt", "git grep kept", "git diff HEAD"]


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "--quiet")
    git(folder, "add", "kept.txt", "sub/below.txt")
    git(folder, "commit", "--quiet", "--message", "first")
    (folder / "kept.txt").write_text("kept\nchanged\n")
    (folder / "sub/below.txt").write_text("BELOW\n")  # as long as it was: git has to read it
    return folder


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    file = tmp_path / "trap"
    file.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    file.chmod(0o755)
    return file


def springs(folder: Path, trap: Path) -> bool:
    """Whether git, run as anybody runs it, falls into the trap in a folder."""
    subprocess.run(["git", "status"], cwd=folder, capture_output=True)
    sprung = trap.with_name("sprung")
    found = sprung.exists()
    sprung.unlink(missing_ok=True)
    return found


async def run_all(decide: Decide, folder: Path, entries: list[str] = LISTED) -> list[str]:
    """Run what nobody is asked about, as the tool would, and return what it prints."""
    decided = [await decide(command, entries) for command in READING]
    return [printed(folder, *words) for words in decided if words]


async def test_git_reads_a_plain_repository_from_any_folder_in_it(decide: Decide, repository: Path) -> None:
    told = "".join(await run_all(decide, repository))
    assert all(words in told for words in ("modified:   kept.txt", "first", "+changed", "kept.txt:kept", "Ada"))
    assert "usage" not in told
    assert await decide("git status", cwd="sub")
    git(repository, "remote", "add", "origin", "https://example.org/x.git")
    git(repository, "config", "branch.main.remote", "origin")
    git(repository, "config", "user.name", "Ada")
    assert await decide("git log")


@pytest.mark.parametrize("key", TRAPS)
async def test_a_repository_that_could_name_a_program_is_asked_about(
    decide: Decide, repository: Path, trap: Path, key: str
) -> None:
    git(repository, "config", key, f"!{trap}" if key.startswith("alias") else str(trap))
    (repository / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
    assert await run_all(decide, repository) == []


async def test_no_hook_of_a_repository_runs(decide: Decide, repository: Path, trap: Path, tmp_path: Path) -> None:
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-commit", "post-checkout"):
        (repository / ".git/hooks" / hook).unlink(missing_ok=True)
        (repository / ".git/hooks" / hook).symlink_to(trap)
    (repository / ".gitattributes").write_text("* filter=trap diff=trap\n")
    os.utime(repository / "kept.txt", (1, 1))
    assert springs(repository, trap)
    os.utime(repository / "kept.txt", (2, 2))
    assert len(await run_all(decide, repository)) == len(READING)
    assert not (tmp_path / "sprung").exists()


async def test_a_program_of_the_persons_own_for_diffs_does_not_run(
    decide: Decide, repository: Path, trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(f'[diff "trap"]\n\ttextconv = {trap}\n\tcommand = {trap}\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    (repository / ".gitattributes").write_text("* diff=trap\n")
    for words in (("blame", "kept.txt"), ("diff",)):
        git(repository, *words)
        (tmp_path / "sprung").unlink()
    assert len(await run_all(decide, repository)) == len(READING)
    assert not (tmp_path / "sprung").exists()


async def test_the_settings_of_a_submodule_run_nothing(
    decide: Decide, repository: Path, trap: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other_repository"
    other.mkdir()
    git(other, "init", "--quiet")
    (other / "inner.txt").write_text("inner\n")
    git(other, "add", "inner.txt")
    git(other, "commit", "--quiet", "--message", "inner")
    git(repository, "submodule", "--quiet", "add", str(other), "module")
    git(repository, "commit", "--quiet", "--message", "module")
    inner = repository / "module"
    for key in ("core.fsmonitor", "filter.trap.clean", "filter.trap.process", "diff.external"):
        git(inner, "config", key, str(trap))
    (inner / ".gitattributes").write_text("* filter=trap diff=trap\n")
    (inner / "inner.txt").write_text("INNER\n")
    git(repository, "config", "--file", ".gitmodules", "submodule.module.ignore", "none")
    assert springs(repository, trap)
    assert len(await run_all(decide, repository)) == len(READING)
    assert not (tmp_path / "sprung").exists()
    assert await decide("git status", cwd="module") == ()  # its own repository is elsewhere


async def test_a_repository_inside_that_is_none_to_people_is_not_taken(
    decide: Decide, repository: Path, trap: Path, tmp_path: Path
) -> None:
    git(repository, "clone", "--quiet", "--bare", ".", "sub/bare")
    for key in ("core.fsmonitor", "filter.trap.clean"):
        git(repository / "sub/bare", "config", key, str(trap))
    (repository / ".gitattributes").write_text("* filter=trap\n")
    git(repository / "sub/bare", "config", "core.bare", "false")
    git(repository / "sub/bare", "config", "core.worktree", str(repository))
    git(repository / "sub/bare", "read-tree", "HEAD")
    assert springs(repository / "sub/bare", trap)
    words = await decide("git status", cwd="sub/bare")
    assert "modified:   ../../kept.txt" in printed(repository / "sub/bare", *words)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("way", ["file", "link", "commondir", "alternates", "objects"])
async def test_another_repository_is_not_read_through_this_one(
    decide: Decide, repository: Path, tmp_path: Path, way: str
) -> None:
    own, away = repository / ".git", tmp_path / "away"
    if way in ("file", "link"):
        own.rename(away)
        own.write_text(f"gitdir: {away}\n") if way == "file" else own.symlink_to(away)
    elif way == "objects":
        (own / "objects").rename(away)
        (own / "objects").symlink_to(away)
    else:
        file = own / ("commondir" if way == "commondir" else "objects/info/alternates")
        file.write_text(f"{away}\n")
    assert await run_all(decide, repository) == []


async def test_words_for_git_name_no_file_of_a_commit_and_no_option(decide: Decide, repository: Path) -> None:
    for command in (
        "git show HEAD:kept.txt", "git show HEAD:.env", "git show :kept.txt", "git diff HEAD:a HEAD:b", "git log -p",
        "git diff --no-index /etc/passwd kept.txt", "git log --output=x", "git diff /etc/passwd kept.txt",
    ):  # fmt: skip
        assert await decide(command, [*LISTED, "git"]) == (), command
    assert await decide("git log", ["git"])
    assert await decide("git config core.pager x", ["git"]) == ()


async def test_git_by_another_name_is_asked_about(
    decide: Decide, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/g").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    assert await decide("g log", ["g"]) == ()
    assert await decide("git log", ["git"])


async def test_no_repository_no_git(decide: Decide) -> None:
    assert await decide("git status") == ()
