"""`bub onboard http`: where to listen, and a program that may ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Write
from fakes.onboarding import onboard

from bub.pipeline.source.merge import load_text

TOKEN = "laptop-0123456789abcdef"


@pytest.fixture
def file(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = write("pipelines.yaml", "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [http]}}\n")
    monkeypatch.chdir(made.parent)
    return made


def asked(file: Path, monkeypatch: pytest.MonkeyPatch, **answers: str) -> tuple[int, object]:
    with monkeypatch.context() as patched:
        for name, value in answers.items():
            patched.setenv(f"BUB_ONBOARD_HTTP_{name.upper()}", value)
        code = onboard("--config", file, "onboard", "http", "--non-interactive")
    return code, load_text(file.read_text(encoding="utf-8")).root.plain().get("settings")


def test_a_program_gets_a_token_that_is_kept_out_of_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, settings = asked(file, monkeypatch, listen="127.0.0.1:9000", client="laptop", token=TOKEN)
    client = {"token": "${env:HTTP_LAPTOP_TOKEN}", "profiles": ["default"]}
    assert (code, settings) == (0, {"http": {"listen": "127.0.0.1:9000", "clients": {"laptop": client}}})
    assert TOKEN not in file.read_text()
    assert f"HTTP_LAPTOP_TOKEN={TOKEN}" in (file.parent / ".env").read_text()


def test_one_program_more_leaves_the_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(file, monkeypatch, client="laptop", token=TOKEN)
    _, settings = asked(file, monkeypatch, client="phone", token=f"{TOKEN}-2")
    assert set(settings["http"]["clients"]) == {"laptop", "phone"}  # type: ignore[index]


@pytest.mark.parametrize("wrong", [{"client": "a:b", "token": TOKEN}, {"client": "laptop", "token": "short"}])
def test_a_name_or_a_token_that_would_be_refused_is_refused_at_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    before = file.read_text()
    assert asked(file, monkeypatch, **wrong)[0] != 0
    assert file.read_text() == before
