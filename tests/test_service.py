"""`bub gateway --install` and `--uninstall`: a service of the person's own manager, which a fake of it really runs."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import systemctl
from fakes.command_line import bub
from fakes.gateway import POST

from bub.errors import UsageError
from bub.runtime.trust import trust
from bub.setup.service import MARK, find_services, plan_service

PIPELINE = """\
version: 1
extends: bub:default
settings: {model: "lab:m", providers: {lab: {api_base: "http://127.0.0.1:9/v1", api_key: "${env:LAB_KEY}"}}}
plugins: {post: {path: post.py}}
profiles: {default: {plugins: [post], channels: [post]}}
"""


class Desk:
    """A person's home, a folder with an agent in it, and a service manager."""

    def __init__(self, tmp_path: Path) -> None:
        self.home, self.folder, self.state = tmp_path / "me", tmp_path / "my 100% agent", tmp_path / "state"
        for folder in (self.home, self.folder, self.state, tmp_path / "bin"):
            folder.mkdir()
        program = tmp_path / "bin" / "systemctl"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {systemctl.__file__} "$@"\n')
        program.chmod(0o755)
        (self.folder / "pipelines.yaml").write_text(PIPELINE)
        (self.folder / "post.py").write_text(POST)
        trust(self.folder, tmp_path / "home")
        self.path = f"{tmp_path / 'bin'}:/usr/bin:/bin"

    def gateway(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.home), "PATH": self.path, "SYSTEMCTL_STATE": str(self.state), "LAB_KEY": "sk-lab-1234"}
        return bub(self.folder, "gateway", *words, **{**own, **environ})

    @property
    def units(self) -> list[Path]:
        return sorted(self.home.glob(".config/systemd/user/*"))

    @property
    def calls(self) -> list[str]:
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="units are systemd's")


def test_a_gateway_is_installed_runs_and_is_removed(desk: Desk) -> None:
    done = desk.gateway("--install", "--yes", "--listen", "127.0.0.1:0", BUB_PROFILE="default")
    assert done.returncode == 0, done.stderr
    (unit,) = desk.units
    assert f"{unit.stem} runs" in done.stdout
    assert MARK in unit.read_text()
    assert '"gateway" "--listen" "127.0.0.1:0"' in unit.read_text()
    assert "sk-lab-1234" not in done.stdout + done.stderr + unit.read_text()
    assert f"LAB_KEY: set in this shell only; the service reads them from {desk.folder}/.env" in done.stderr
    assert (desk.folder / "port").exists()  # its channel listens

    other = desk.gateway("--install", "--yes", "--log-format", "json")
    assert other.returncode == 0, other.stderr
    assert '"gateway" "--log-format" "json"' in unit.read_text()
    alone = desk.gateway("--install", "--yes", "--roles", "channels")
    assert alone.returncode == 1
    assert "set `gateway.store` to the address of a Redis, or leave --roles out" in alone.stderr
    assert '"gateway" "--log-format" "json"' in unit.read_text()
    shown = desk.gateway("--install", "--roles", "channels", BUB_GATEWAY_STORE="redis://127.0.0.1:1/0")
    assert '"gateway" "--roles" "channels"' in shown.stdout
    assert "there is no terminal to ask" in shown.stderr

    again = desk.gateway("--install", "--yes")
    assert again.returncode == 0, again.stderr
    assert desk.units == [unit]
    assert "--listen" not in unit.read_text()

    gone = desk.gateway("--uninstall", "--yes")
    assert gone.returncode == 0, gone.stderr
    assert f"{unit.stem} is stopped and removed" in gone.stdout
    assert desk.units == []
    assert not (desk.state / unit.stem).exists()
    assert "gateway.ended" in (desk.state / "journal").read_text()

    nothing = desk.gateway("--uninstall", "--yes")
    assert nothing.returncode == 2
    assert "there is no service for this folder" in nothing.stderr


def test_a_service_that_does_not_start_leaves_nothing(desk: Desk) -> None:
    (desk.folder / "post.py").write_text(POST.replace("task_status.started()", "raise RuntimeError('no port')"))
    done = desk.gateway("--install", "--yes")
    assert done.returncode == 1
    assert "restart" in done.stderr and "failed" in done.stderr
    assert "journalctl --user" in done.stderr
    assert desk.units == []


def test_without_a_manager_nothing_is_written(desk: Desk) -> None:
    done = desk.gateway("--install", "--yes", NO_BUS="1")
    assert done.returncode == 1
    assert "Failed to connect to bus" in done.stderr
    assert desk.units == []


def test_what_could_not_start_is_not_installed(desk: Desk) -> None:
    (desk.folder / "pipelines.yaml").write_text(PIPELINE.replace("extends: bub:default", "extends: bub:defalt"))
    done = desk.gateway("--install", "--yes")
    assert done.returncode == 1
    assert "did you mean `bub:default`?" in done.stderr
    assert desk.calls == []


def test_a_folder_that_only_the_environment_trusts_is_not_run_as_a_service(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "home" / "trusted.json").unlink()
    done = desk.gateway("--install", "--yes", BUB_TRUST_WORKSPACE="1")
    assert done.returncode == 2
    assert "bub trust" in done.stderr
    assert desk.calls == []


def test_nobody_is_asked_without_a_terminal(desk: Desk) -> None:
    done = desk.gateway("--install")
    assert done.returncode == 2
    assert "say --yes" in done.stderr
    assert desk.units == []


def test_nothing_that_bub_started_installs_a_service(desk: Desk) -> None:
    done = desk.gateway("--install", "--yes", BUB_STARTED_BY="1")
    assert done.returncode == 2
    assert "only a person may do it" in done.stderr


def test_a_file_of_somebody_else_is_left_alone(desk: Desk) -> None:
    unit = plan_service((), desk.folder, {"XDG_CONFIG_HOME": str(desk.home / ".config"), "PATH": desk.path}).file
    unit.parent.mkdir(parents=True)
    unit.write_text("[Unit]\n")
    done = desk.gateway("--install", "--yes")
    assert done.returncode == 1
    assert "is not Bub's" in done.stderr
    assert unit.read_text() == "[Unit]\n"


@pytest.mark.parametrize("words", [("--install", "--uninstall"), ("--yes",)])
def test_options_that_contradict_each_other_are_refused(desk: Desk, words: tuple[str, ...]) -> None:
    assert desk.gateway(*words).returncode == 2


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_itself_finds_nothing_wrong_with_a_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / 'an "agent" of $HOME, 100%'
    folder.mkdir()
    monkeypatch.setattr("sys.platform", "linux")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": "/usr/bin:/bin"}
    service = plan_service(["/bin/true", "gateway", "--config", 'a b$c%d"e\\f'], folder, environ)
    file = tmp_path / service.file.name
    file.write_bytes(service.text)
    found = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(file)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_on_macos_launchd_gets_a_property_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    service = plan_service(["/opt/bub", "gateway"], tmp_path, {"PATH": "/bin"})
    said = plistlib.loads(service.text)
    assert said["ProgramArguments"] == ["/opt/bub", "gateway"]
    assert (said["Label"], said["WorkingDirectory"]) == (service.name, str(tmp_path))
    assert said["EnvironmentVariables"] == {"PATH": "/bin"}
    service.file.parent.mkdir(parents=True)
    service.file.write_bytes(service.text)
    assert [(file, service.name in stop) for file, stop in find_services({})] == [(service.file, True)]


def test_a_folder_whose_name_no_unit_can_hold_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a\nExecStart=x"
    folder.mkdir()
    with pytest.raises(UsageError, match="line breaks"):
        plan_service(["/bin/true"], folder, {"PATH": "/bin"})
