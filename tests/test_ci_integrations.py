"""Other people's CI: the pre-commit hooks in a real git repository, the steps of the GitHub action in real shells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
HOOKS, ACTION = ROOT / ".pre-commit-hooks.yaml", ROOT / "action.yml"
if not (ACTION.exists() and (ROOT / ".git").exists()):
    pytest.skip("the hooks and the action are part of a git checkout only", allow_module_level=True)

FINE = "version: 1\nextends: bub:default\n"
WRONG = "version: 1\nextends: bub:default\nstages:\n  run_modle: {timeout: 2m}\n"
TESTED = """\
version: 1
extends: bub:default
tests:
  a greeting gets a reply:
    message: {content: hello}
    mock: {run_model: {return: hi there}}
    expect: {outbounds: [{content: hi there}]}
"""


def run(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without what this process's own environment says about Bub or git."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BUB_", "GIT_"))}
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "NO_COLOR": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def git(folder: Path, *words: str) -> str:
    """Run git as nobody in particular and return what it prints."""
    who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false"]
    done = run(["git", *who, *words], folder, {"GIT_CONFIG_GLOBAL": os.devnull})
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


# pre-commit


@pytest.fixture(scope="module")
def checked_repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A git repository that uses the hooks of this checkout, uncommitted changes included, and its environment."""
    hooks = tmp_path_factory.mktemp("bub")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists() and not name.startswith(("tests/", "docs/testdata/")):
            (hooks / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, hooks / name)
    git(hooks, "init", "--quiet")
    git(hooks, "add", "--all")
    git(hooks, "commit", "--quiet", "--message", "the hooks")

    folder = tmp_path_factory.mktemp("agent")
    git(folder, "init", "--quiet")
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks}\n    rev: {git(hooks, 'rev-parse', 'HEAD')}\n"
        "    hooks: [{id: bub-validate}, {id: bub-test}]\n"
    )
    return folder, {"PRE_COMMIT_HOME": str(tmp_path_factory.mktemp("cache")), "PRE_COMMIT_COLOR": "never"}


def pre_commit(repository: tuple[Path, dict[str, str]], files: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What pre-commit says when these, and only these, are the files of the repository."""
    folder, environment = repository
    for path in folder.rglob("*.y*ml"):
        if path.name != ".pre-commit-config.yaml":
            path.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    return run([sys.executable, "-m", "pre_commit", "run", "--all-files"], folder, environment)


@pytest.mark.timeout(300)  # pre-commit sets up an environment
def test_pre_commit_checks_pipeline_files_and_runs_their_tests(
    checked_repository: tuple[Path, dict[str, str]],
) -> None:
    fine = pre_commit(checked_repository, {"pipelines.yaml": TESTED, "other.yaml": "on: push\n"})
    assert fine.returncode == 0, fine.stdout
    assert re.findall(r"^bub (\w+)\.+(\w+)$", fine.stdout, re.MULTILINE) == [("validate", "Passed"), ("test", "Passed")]

    wrong = pre_commit(checked_repository, {"bots/pipelines.yaml": WRONG, "pipelines.yaml": TESTED})
    assert wrong.returncode == 1
    assert "bots/pipelines.yaml:4:3: error[B" in wrong.stdout
    assert "did you mean `run_model`?" in wrong.stdout
    assert "Traceback" not in wrong.stdout

    failing = pre_commit(
        checked_repository, {"pipelines.yaml": TESTED.replace("outbounds: [{content: hi", "outbounds: [{content: ho")}
    )
    assert failing.returncode == 1
    assert re.findall(r"^bub (\w+)\.+(\w+)$", failing.stdout, re.MULTILINE) == [
        ("validate", "Passed"),
        ("test", "Failed"),
    ]
    assert "a greeting gets a reply" in failing.stdout


# The action


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return read


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that the steps of a job share; Bub is installed there once."""
    return tmp_path_factory.mktemp("runner")


def act(action: dict[str, Any], runner: Path, folder: Path, **inputs: str) -> list[subprocess.CompletedProcess[str]]:
    """Run the steps of the action in `folder` as a runner does, up to the first that fails."""
    given = {name: inputs.get(name, said["default"]) for name, said in action["inputs"].items()} | {
        "python": sys.executable
    }

    def filled_in(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found[1]], text)

    done: list[subprocess.CompletedProcess[str]] = []
    for step in action["runs"]["steps"]:
        wanted = re.fullmatch(r"inputs\.(\w+) == '(\w+)'", step["if"]) if "if" in step else None
        assert ("if" in step) == (wanted is not None), "a condition that this test cannot read"
        if wanted is not None and given[wanted[1]] != wanted[2]:
            continue
        if step["name"] == "Install Bub" and (runner / "bub" / "bin" / "bub").exists():
            continue  # installed by the job before, in the same place
        script = runner / "step.sh"
        script.write_text(filled_in(step["run"]), encoding="utf-8")
        old_bash = runner / "old_bash.sh"  # that of macOS
        old_bash.write_text("enable -n mapfile readarray\n")
        environment = {
            "BASH_ENV": str(old_bash),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_WORKSPACE": str(folder),
            "RUNNER_TEMP": str(runner),
            **{name: filled_in(value) for name, value in step["env"].items()},
        }
        # This is how a runner calls `shell: bash`.
        done.append(run(["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], folder, environment))
        if done[-1].returncode != 0:
            break
    return done


@pytest.mark.timeout(300)  # the action sets up environments
def test_the_action_annotates_the_offending_token(action: dict[str, Any], runner: Path, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(FINE)
    assert act(action, runner, tmp_path)[-1].returncode == 0

    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "pipelines.yaml").write_text(WRONG)
    failed = act(action, runner, tmp_path)[-1]
    assert failed.returncode == 1
    (annotation,) = [line for line in failed.stdout.splitlines() if line.startswith("::error ")]
    assert "file=bots/pipelines.yaml,line=4," in annotation

    (tmp_path / "bots" / "pipelines.yaml").unlink()
    (tmp_path / "pipelines.yaml").write_text(f"{FINE}description: no\n")
    assert act(action, runner, tmp_path)[-1].returncode == 0
    assert act(action, runner, tmp_path, strict="true")[-1].returncode == 1


def test_the_action_runs_tests_only_when_asked_to(action: dict[str, Any], runner: Path, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(TESTED.replace("outbounds: [{content: hi", "outbounds: [{content: ho"))
    assert act(action, runner, tmp_path)[-1].returncode == 0
    failed = act(action, runner, tmp_path, test="true")[-1]
    assert failed.returncode == 1
    assert "a greeting gets a reply" in failed.stdout


def test_the_action_writes_sarif(action: dict[str, Any], runner: Path, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(WRONG)
    assert act(action, runner, tmp_path, sarif="found.sarif")[-1].returncode == 1
    assert '"2.1.0"' in (tmp_path / "found.sarif").read_text(encoding="utf-8")


def test_an_input_of_the_action_is_never_read_as_shell(action: dict[str, Any], runner: Path, tmp_path: Path) -> None:
    (tmp_path / "it's $(touch pwned)").mkdir()
    (tmp_path / "it's $(touch pwned)" / "pipelines.yaml").write_text(FINE)
    done = act(action, runner, tmp_path, paths="\n \nit's $(touch pwned)\n", sarif="$(touch pwned).sarif")[-1]
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "pwned").exists()
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]
