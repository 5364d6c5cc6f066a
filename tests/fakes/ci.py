"""Other people's CI: git repositories with Bub's hooks for pre-commit, and a runner for the steps of its action."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
import yaml
from fakes.release import ADDRESS

from bub import __version__

ROOT = Path(__file__).parent.parent.parent
HOOKS, ACTION = ROOT / ".pre-commit-hooks.yaml", ROOT / "action.yml"
if not (ACTION.exists() and (ROOT / ".git").exists()):
    pytest.skip("the hooks and the action are part of a git checkout only", allow_module_level=True)

VERSION = f"v{__version__}"
"""What the README calls the version whose hooks are used."""

SERVER, OWNER_AND_NAME = ADDRESS.rsplit("/", 2)[0], "/".join(ADDRESS.rsplit("/", 2)[1:])


def run(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without what this process's own environment says about Bub or git.

    What pip installs is compiled when it is imported, since most of it never is.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BUB_", "GIT_"))}
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "NO_COLOR": "1", "PIP_NO_COMPILE": "1", **(environment or {})},
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


def clone_bub(folder: Path) -> Path:
    """Make a git repository of this checkout, uncommitted changes included, as others clone it for the hooks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists() and not name.startswith(("tests/", "docs/testdata/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "the hooks")
    git(folder, "tag", VERSION)
    return folder


class Repository(NamedTuple):
    """A git repository that uses hooks, and where pre-commit keeps what it sets up for them."""

    folder: Path
    cache: Path

    @classmethod
    def begin(cls, folder: Path, cache: Path) -> Repository:
        git(folder, "init", "--quiet")
        return cls(folder, cache)

    def hold(self, files: Mapping[str, str]) -> None:
        """Let these be the files of the repository, and no others."""
        for path in self.folder.iterdir():
            if path.is_dir() and path.name != ".git":
                shutil.rmtree(path)
            elif path.name != ".git":
                path.unlink()
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        git(self.folder, "add", "--all")

    def pre_commit(self, *files: str) -> subprocess.CompletedProcess[str]:
        """What pre-commit says of some files, or of all."""
        chosen = ["--files", *files] if files else ["--all-files"]
        environment = {"PRE_COMMIT_HOME": str(self.cache), "PRE_COMMIT_COLOR": "never"}
        return run([sys.executable, "-m", "pre_commit", "run", *chosen], self.folder, environment)


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What became of each hook: `Passed`, `Failed` or `Skipped`."""
    return dict(re.findall(r"^bub (\w+)\.+(?:\(no files to check\))?(\w+)$", done.stdout, re.MULTILINE))


# The action


def act(
    runner: Path, folder: Path, environment: Mapping[str, str] | None = None, **inputs: str
) -> list[subprocess.CompletedProcess[str]]:
    """Run the steps of the action in `folder` as a runner does, up to the first that fails.

    `runner` is the temporary folder that the steps of a job share; Bub is installed there once.
    """
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    given = {name: inputs.get(name, said["default"]) for name, said in action["inputs"].items()} | {
        "python": sys.executable
    }
    assert set(inputs) <= set(given)

    github = {"server_url": SERVER, "action_repository": OWNER_AND_NAME, "action_ref": VERSION}

    def filled_in(text: str) -> str:
        text = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found[1]], text)
        return re.sub(r"\$\{\{ github\.(\w+) \}\}", lambda found: github[found[1]], text)

    done: list[subprocess.CompletedProcess[str]] = []
    for step in action["runs"]["steps"]:
        wanted = re.fullmatch(r"inputs\.(\w+) == '(\w+)'", step["if"]) if "if" in step else None
        assert ("if" in step) == (wanted is not None), "a condition that this test cannot read"
        if wanted is not None and given[wanted[1]] != wanted[2]:
            continue
        if step["name"] == "Install Bub" and (runner / "bub" / "bin" / "bub").exists() and not given["plugins"]:
            continue  # installed by the job before, in the same place
        script = runner / "step.sh"
        script.write_text(filled_in(step["run"]), encoding="utf-8")
        old_bash = runner / "old_bash.sh"  # that of macOS
        old_bash.write_text("enable -n mapfile readarray\n")
        said = {
            "BASH_ENV": str(old_bash),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_WORKSPACE": str(folder),
            "RUNNER_TEMP": str(runner),
            **{name: filled_in(value) for name, value in step["env"].items()},
            **(environment or {}),
        }
        # This is how a runner calls `shell: bash`.
        done.append(run(["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], folder, said))
        if done[-1].returncode != 0:
            break
    return done


def write_wheel(folder: Path, *, package: str, plugin: str, code: str) -> Path:
    """Write a wheel with one plugin: what other people publish, and `pip` installs."""
    module, wheel = package.replace("-", "_"), folder / f"{package.replace('-', '_')}-1.2-py3-none-any.whl"
    metadata = f"{module}-1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}/__init__.py", dedent(code))
        archive.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        archive.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{metadata}/entry_points.txt", f"[bub]\n{plugin} = {module}\n")
        archive.writestr(f"{metadata}/RECORD", "")
    return wheel
