"""`bub diff` as a reviewer or a CI job meets it: files, shipped pipelines and real git repositories."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from fakes.command_line import SOURCES
from markdown_it import MarkdownIt

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.pipeline.show.sides import Side, open_sides, read_side, two_sides

OLD = """
    version: 1
    extends: shared/base.yaml
    plugins: {guard: {path: guard.py}, shell: {path: plugins/shell.py}}
    profiles:
      default: {plugins: [guard]}
      ci: {plugins: [guard]}
"""
BASE = """
    version: 1
    extends: bub:default
    stages: {run_model: {timeout: 10s}}
"""
NEW = OLD.replace("default: {plugins: [guard]}", "default: {plugins: [guard, shell]}")

LOADED = """
import runpy, sys
sys.argv = ["bub", *sys.argv[1:]]
try:
    runpy.run_module("bub", run_name="__main__")
except SystemExit:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def diff(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of `bub diff` in a folder, called in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(out), redirect_stderr(err):
        for name, value in environment.items():
            patch.setenv(name, value)
        code = exit_code(lambda: command_line(("diff", *arguments)))
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def files(write: Callable[[str, str], Path]) -> Path:
    """A folder with an old and a new file."""
    write("work/shared/base.yaml", BASE)
    write("work/old.yaml", OLD)
    return write("work/new.yaml", NEW).parent


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def repository(write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository whose pipeline, and its parent, have changed since the last commit."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = write("repo/app/pipelines.yaml", OLD).parent
    write("repo/app/shared/base.yaml", BASE)
    git(folder.parent, "init", "--quiet", "--initial-branch=main")
    git(folder.parent, "add", "--all")
    git(folder.parent, "commit", "--quiet", "--message", "first")
    git(folder.parent, "tag", "v1")
    write("repo/app/pipelines.yaml", NEW)
    write("repo/app/shared/base.yaml", BASE.replace("10s", "20s"))
    return folder


# What is printed


def test_the_dangerous_is_told_first_with_its_place(files: Path) -> None:
    code, told, _ = diff(files, "old.yaml", "new.yaml")
    assert code == 1
    assert told == (
        "old.yaml → new.yaml\n"
        "\n"
        "profile `default`\n"
        "  code that will be imported\n"
        "    + plugin `shell` will be imported from `plugins/shell.py`  new.yaml:5:30\n"
        "\n"
        "profile `ci`: no difference\n"
        "1 change, 1 of them dangerous\n"
    )


def test_profiles_that_change_alike_are_told_together(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/new.yaml", OLD.replace("guard.py", "other.py"))
    _, told, _ = diff(files, "old.yaml", "new.yaml")
    assert "profiles `default`, `ci`\n" in told
    assert told.count("will be imported from `other.py`") == 1


def test_no_difference_is_said_and_ends_with_0(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/new.yaml", f"# a comment\n{OLD}".replace("\n    ", "\n"))
    assert diff(files, "old.yaml", "new.yaml") == (0, "old.yaml → new.yaml: no difference in behaviour\n", "")


def test_json_for_a_program(files: Path) -> None:
    code, told, _ = diff(files, "old.yaml", "new.yaml", "--json")
    assert (code, json.loads(told)) == (
        1,
        {
            "version": 1,
            "errors": 0,
            "differs": True,
            "changes": [
                {
                    "severity": "danger",
                    "kind": "code.added",
                    "profile": "default",
                    "path": "profiles.default.plugins",
                    "message": "plugin `shell` will be imported from `plugins/shell.py`",
                    "old": None,
                    "new": "shell",
                    "place": {"file": "new.yaml", "line": 5, "column": 30},
                }
            ],
        },
    )
    assert json.loads(diff(files, "old.yaml", "old.yaml", "--json")[1]) == {
        "version": 1,
        "errors": 0,
        "differs": False,
        "changes": [],
    }


def test_what_a_file_says_cannot_steer_the_terminal(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/new.yaml", OLD + '    settings: {model: "a:\\e[31mred"}\n')
    _, told, _ = diff(files, "old.yaml", "new.yaml")
    assert "a:\\x1b[31mred" in told
    assert "\x1b" not in told


def test_nothing_is_imported_that_is_not_needed_to_read(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/guard.py", "raise SystemExit('imported')\n")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "diff", "old.yaml", "new.yaml"],
        cwd=files,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "plugin `shell` will be imported" in done.stdout
    heavy = {"trio", "httpx", "loguru", "questionary", "rich", "guard", "bub_plugins"}
    assert heavy.isdisjoint(done.stderr.split())


# Sides


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("a.yaml", Side("a.yaml")),
        ("a.yaml#ci", Side("a.yaml", None, "ci")),
        ("bub:default#ci", Side("bub:default", None, "ci")),
        ("git:HEAD~2", Side(None, "HEAD~2")),
        ("git:feature/x#ci", Side(None, "feature/x", "ci")),
        ("git:v1:app/a.yaml#ci", Side("app/a.yaml", "v1", "ci")),
    ],
)
def test_how_sides_are_named(text: str, side: Side) -> None:
    assert read_side(text) == side


def test_a_file_may_have_a_hash_in_its_name(write: Callable[[str, str], Path]) -> None:
    file = write("one#two.yaml", BASE)
    assert read_side(str(file)) == Side(str(file))
    assert read_side(f"{file}#ci") == Side(str(file), None, "ci")


def test_which_side_is_added_where_one_is_left_out() -> None:
    head, usual = Side(None, "HEAD"), Side()
    assert two_sides(None, None) == (head, usual)
    assert two_sides("git:v1", None) == (Side(None, "v1"), usual)
    assert two_sides("git:v1:a.yaml", None) == (Side("a.yaml", "v1"), Side("a.yaml"))
    assert two_sides("bub:classic", None) == (Side("bub:classic"), usual)
    assert two_sides("a.yaml", None) == (head, Side("a.yaml"))


def test_a_profile_can_be_compared_with_another(files: Path) -> None:
    code, told, _ = diff(files, "new.yaml#ci", "new.yaml#default")
    assert code == 1
    assert "profile `ci` → `default`\n" in told
    assert "plugin `shell` will be imported" in told


def test_a_profile_that_one_side_names_is_meant_on_both(files: Path) -> None:
    assert diff(files, "old.yaml#ci", "new.yaml")[0] == 0
    assert diff(files, "--profile", "ci", "old.yaml", "new.yaml")[0] == 0
    assert diff(files, "old.yaml", "new.yaml#default")[0] == 1


def test_a_folder_stands_for_its_pipeline_file(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/one/pipelines.yaml", "version: 1\nextends: bub:default\n")
    assert diff(files, "one", "bub:default")[0] == 0


def test_the_usual_file_is_meant_where_none_is_named(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/pipelines.yaml", NEW)
    _, told, _ = diff(files, "bub:default")
    assert told.startswith("bub:default → pipelines.yaml\n")
    _, told, _ = diff(files, "bub:default", "--config", "old.yaml")
    assert told.startswith("bub:default → old.yaml\n")


# Git


def test_the_last_commit_is_compared_with_the_file_as_it_is(repository: Path) -> None:
    expected = (
        "git:HEAD:pipelines.yaml → pipelines.yaml\n"
        "\n"
        "profile `default`\n"
        "  code that will be imported\n"
        "    + plugin `shell` will be imported from `plugins/shell.py`  pipelines.yaml:5:30\n"
        "  policies\n"
        "    ~ `timeout` of stage `run_model` is `20s` (was `10s`)  shared/base.yaml:3:22\n"
        "\n"
        "profile `ci`\n"
        "  policies\n"
        "    ~ `timeout` of stage `run_model` is `20s` (was `10s`)  shared/base.yaml:3:22\n"
        "\n"
        "3 changes, 1 of them dangerous\n"
    )
    for arguments in ([], ["pipelines.yaml"], ["git:v1:pipelines.yaml"]):
        code, told, trouble = diff(repository, *arguments)
        assert (code, told.replace("git:v1:", "git:HEAD:"), trouble) == (1, expected, "")


def take_retry_away(repository: Path, write: Callable[[str, str], Path]) -> None:
    """Commit a base whose model stage tries again, and write one whose does not."""
    base = "version: 1\nextends: bub:default\n"
    write("repo/app/shared/base.yaml", f"{base}stages: {{run_model: {{retry: {{times: 2}}}}}}\n")
    git(repository, "commit", "--quiet", "--all", "--message", "second")
    write("repo/app/shared/base.yaml", base)


def test_what_is_gone_has_its_place_in_the_commit(repository: Path, write: Callable[[str, str], Path]) -> None:
    take_retry_away(repository, write)
    _, told, _ = diff(repository, "git:HEAD#ci")
    assert '`retry` of stage `run_model` is not set (was `{"times": 2}`)  git:HEAD:shared/base.yaml:3:22' in told


def test_two_commits_can_be_compared_even_of_a_file_that_is_gone(
    repository: Path, write: Callable[[str, str], Path]
) -> None:
    git(repository, "commit", "--quiet", "--all", "--message", "second")
    for path in sorted(repository.rglob("*.yaml")):
        path.unlink()
    (repository / "shared").rmdir()
    code, told, _ = diff(repository, "git:v1:pipelines.yaml", "git:main")
    assert code == 1
    assert told.startswith("git:v1:pipelines.yaml → git:main:pipelines.yaml\n")
    repository.rmdir()
    assert diff(repository.parent, "git:v1:app/pipelines.yaml", "git:main")[1].count("`20s` (was `10s`)") == 2


def test_a_git_hook_that_names_another_repository_does_not_mislead(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "--quiet")
    assert diff(repository, GIT_DIR=str(tmp_path / "other" / ".git"), GIT_INDEX_FILE="nowhere")[0] == 1


def test_nothing_that_a_repository_configures_is_run(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    for key in (
        "core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external", "diff.trap.textconv",
        "filter.trap.smudge", "filter.trap.clean", "filter.trap.process", "pager.cat-file", "alias.cat-file",
        "uploadpack.packObjectsHook", "core.askPass", "credential.helper",
    ):  # fmt: skip
        git(repository, "config", key, f"!{trap}" if key.startswith("alias") else str(trap))
    git(repository, "config", "core.hooksPath", str(tmp_path))
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (tmp_path / hook).symlink_to(trap)
    (repository.parent / ".gitattributes").write_text("* filter=trap diff=trap\n", encoding="utf-8")
    assert diff(repository)[0] == 1
    assert not (tmp_path / "sprung").exists()


def test_a_missing_object_is_not_fetched(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n", encoding="utf-8")
    trap.chmod(0o755)
    git(repository, "config", "remote.origin.url", "ext::" + str(trap))
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "remote.origin.partialCloneFilter", "blob:none")
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "protocol.ext.allow", "always")
    for blob in (repository.parent / ".git" / "objects").glob("??/*"):
        kind = subprocess.run(
            ["git", "cat-file", "-t", blob.parent.name + blob.name], cwd=repository, capture_output=True, text=True
        ).stdout
        if kind == "blob\n":
            blob.unlink()
    code, _, trouble = diff(repository)
    assert (code, trouble.count("\n")) == (2, 1)
    assert not (tmp_path / "sprung").exists()


def test_a_link_in_the_commit_is_not_followed(repository: Path) -> None:
    (repository / "linked.yaml").symlink_to("pipelines.yaml")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "a link")
    code, _, trouble = diff(repository, "git:HEAD:linked.yaml", "pipelines.yaml")
    assert code == 2
    assert "it is a link there: name the file itself" in trouble


def test_a_file_of_the_commit_that_is_too_large_is_not_read(
    repository: Path, write: Callable[[str, str], Path]
) -> None:
    write("repo/app/pipelines.yaml", "#" * 1_100_000)
    git(repository, "commit", "--quiet", "--all", "--message", "large")
    write("repo/app/pipelines.yaml", NEW)
    code, _, trouble = diff(repository)
    assert (code, trouble.count("\n")) == (2, 1)
    assert "git:HEAD:pipelines.yaml cannot be read: it is larger than 1 MB" in trouble


def test_a_parent_outside_of_the_repository_is_not_read(repository: Path, write: Callable[[str, str], Path]) -> None:
    write("outside.yaml", BASE)
    write("repo/app/pipelines.yaml", "version: 1\nextends: ../../outside.yaml\n")
    git(repository, "commit", "--quiet", "--all", "--message", "outside")
    code, _, trouble = diff(repository, "git:HEAD")
    assert code == 2
    assert "`../../outside.yaml` cannot be read: it lies outside the git repository" in trouble


# Trouble


def test_a_side_that_is_not_there_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    for arguments, said in (
        (("git:nowhere", None), "has no revision `nowhere`"),
        (("git:--output=x", None), "`--output=x` is not a git revision"),
        (("git:HEAD:gone.yaml", "pipelines.yaml"), "git:HEAD:gone.yaml does not exist"),
        (("git:HEAD:shared", "pipelines.yaml"), "git:HEAD:shared/pipelines.yaml does not exist"),
        (("gone.yaml", None), "gone.yaml does not exist"),
        (("bub:gone", None), "there is no shipped pipeline `bub:gone`"),
        (("pipelines.yaml#", None), "`pipelines.yaml#` names no pipeline"),
        (("", None), "`` names no pipeline"),
    ):
        with pytest.raises(UsageError) as caught:
            open_sides(*two_sides(*arguments), lambda: Path("pipelines.yaml"))
        assert said in str(caught.value)
        assert caught.value.help


def test_trouble_is_one_line_and_ends_with_2(repository: Path) -> None:
    code, told, trouble = diff(repository, "git:HEAD#defualt")
    assert (code, told) == (2, "")
    assert trouble == "bub: git:HEAD:pipelines.yaml has no profile `defualt` (did you mean `default`?)\n"


def test_no_git_and_no_repository_are_told(files: Path, tmp_path: Path) -> None:
    code, _, trouble = diff(files, "old.yaml", GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert (code, trouble.count("\n")) == (2, 1)
    assert "not a git repository" in trouble
    code, _, trouble = diff(files, "old.yaml", PATH=str(tmp_path))
    assert (code, trouble) == (2, "bub: git was not found (install git, or name two files)\n")


def test_a_side_that_cannot_be_read_is_told_as_validate_does(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/new.yaml", NEW.replace("plugins: {guard", "plugins: [{guard"))
    code, told, trouble = diff(files, "old.yaml", "new.yaml", "--json")
    assert (code, told) == (2, "")
    assert "new.yaml:3:10: error[B001] the `[` opened here is not closed" in trouble
    assert trouble.endswith("bub: 1 error in 1 file\n")


# For CI


HOSTILE = "`x`</code></details>\n# @octocat <img src=x onerror=y> [a](https://evil.example) #1 ::error::"


def test_a_file_with_mistakes_is_compared_and_they_are_counted(files: Path, write: Callable[[str, str], Path]) -> None:
    write("work/broken.yaml", f"{NEW}    oops: 1\n    settings: {{max_tokens: many}}\n")
    code, told, trouble = diff(files, "old.yaml", "broken.yaml")
    assert (code, trouble) == (1, "bub: broken.yaml has 2 errors, so Bub compares only what it can read of it\n")
    assert "plugin `shell` will be imported from `plugins/shell.py`  broken.yaml:5:30\n" in told
    assert diff(files, "broken.yaml", "broken.yaml")[:2] == (
        0,
        "broken.yaml → broken.yaml: no difference in behaviour\n",
    )


def test_json_is_a_format_like_the_others(files: Path) -> None:
    assert diff(files, "old.yaml", "new.yaml", "--format", "json") == diff(files, "old.yaml", "new.yaml", "--json")


def test_github_shows_what_is_dangerous_as_a_warning_at_its_line(repository: Path) -> None:
    code, told, _ = diff(repository, "--format", "github")
    assert code == 1
    assert told == (
        "::warning file=pipelines.yaml,line=5,col=30,endLine=5,endColumn=35,title=bub diff%3A code.added"
        "::plugin `shell` will be imported from `plugins/shell.py` (profile `default`)\n"
        "::notice file=shared/base.yaml,line=3,col=22,endLine=3,endColumn=29,title=bub diff%3A policies.timeout"
        "::`timeout` of stage `run_model` is `20s` (was `10s`) (profiles `default`, `ci`)\n"
        "2 changes, 1 of them dangerous\n"
    )
    assert diff(repository, "bub:default", "bub:default", "--format", "github")[1] == "no difference in behaviour\n"


def test_what_is_gone_is_no_line_of_the_files_as_they_are(repository: Path, write: Callable[[str, str], Path]) -> None:
    take_retry_away(repository, write)
    _, told, _ = diff(repository, "git:HEAD#ci", "--format", "github")
    assert told.startswith(
        "::notice title=bub diff%3A policies.retry::git:HEAD:shared/base.yaml:3:22: `retry` of stage `run_model`"
    )


def test_a_comment_lists_the_dangerous_and_folds_the_rest_away(repository: Path) -> None:
    code, told, _ = diff(repository, "--format", "markdown")
    assert code == 1
    assert told == (
        "<!-- bub diff -->\n"
        "### `bub diff`\n"
        "\n"
        "`git:HEAD:pipelines.yaml → pipelines.yaml`: 2 changes, 1 of them dangerous.\n"
        "\n"
        "**Dangerous:** more may run, pass or be reached than before.\n"
        "\n"
        "- `` plugin `shell` will be imported from `plugins/shell.py` ``, profile `default`, `pipelines.yaml:5:30`\n"
        "\n"
        "<details>\n"
        "<summary>What else changes</summary>\n"
        "\n"
        "- `` `timeout` of stage `run_model` is `20s` (was `10s`) ``, profiles `default`, `ci`,"
        " `shared/base.yaml:3:22`\n"
        "\n"
        "</details>\n"
    )
    _, told, _ = diff(repository, "bub:default", "bub:default", "--format", "markdown")
    assert told == "<!-- bub diff -->\n### `bub diff`\n\n`bub:default → bub:default`: no difference in behaviour.\n"


def test_nothing_that_a_file_says_means_anything_in_a_comment(files: Path, write: Callable[[str, str], Path]) -> None:
    renamed = OLD.replace("      ci:", f"      {json.dumps(HOSTILE)}:").replace("guard.py", "'```` `g.py'")
    write("work/new.yaml", f"{renamed}    settings: {{model: {json.dumps(HOSTILE)}}}\n")
    _, told, _ = diff(files, "old.yaml", "new.yaml", "--format", "markdown")
    inline = MarkdownIt("commonmark", {"html": True}).parse(told)
    tokens = [token for block in inline for token in (block, *(block.children or ()))]
    assert {token.type for token in tokens} <= {
        *("html_block", "heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text"),
        *("code_inline", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
        *("strong_open", "strong_close"),
    }
    said = "".join(token.content for token in tokens if token.type in ("text", "html_block"))
    assert not {"octocat", "evil", "img"} & set(said.replace("<", " ").replace("@", " ").split())
    assert any("octocat" in token.content for token in tokens if token.type == "code_inline")


def test_a_comment_is_not_longer_than_github_takes(files: Path, write: Callable[[str, str], Path]) -> None:
    many = ", ".join(f"plugin_{number}_{'x' * 60}" for number in range(2_000))
    write("work/new.yaml", OLD.replace("default: {plugins: [guard]}", f"default: {{plugins: [guard, {many}]}}"))
    _, told, _ = diff(files, "old.yaml", "new.yaml", "--format", "markdown")
    assert 50_000 < len(told) < 65_536
    assert "which are too long for a comment" in told
