"""The pipeline file is looked for in one order, and a file that was asked for is never replaced by another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bub.base.locate import Found, bub_home, find_pipeline
from bub.errors import UsageError


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write(path: Path) -> Path:
    path.write_text("version: 1\n", encoding="utf-8")
    return path


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"BUB_HOME": str(home), **more}


def test_home_is_what_the_environment_says_else_a_folder_of_the_users(tmp_path: Path) -> None:
    assert bub_home({"BUB_HOME": str(tmp_path)}) == tmp_path
    assert bub_home({"BUB_HOME": "relative"}) == Path.cwd() / "relative"
    assert bub_home({}) == bub_home({"BUB_HOME": ""}) == Path.home() / ".bub"


def test_each_place_goes_before_those_after_it(workspace: Path, home: Path, tmp_path: Path) -> None:
    named, by_variable = write(tmp_path / "named.yaml"), write(tmp_path / "variable.yaml")
    nearby, own = write(workspace / "pipelines.yaml"), write(home / "pipelines.yaml")
    variables = environ(home, BUB_CONFIG=str(by_variable))

    assert find_pipeline(named, workspace, variables) == Found(named, consent=True, workspace_file=False)
    assert find_pipeline(None, workspace, variables) == Found(by_variable, consent=True, workspace_file=False)
    assert find_pipeline(None, workspace, environ(home)) == Found(nearby, consent=False, workspace_file=True)
    nearby.unlink()
    assert find_pipeline(None, workspace, environ(home)) == Found(own, consent=True, workspace_file=False)
    own.unlink()
    assert find_pipeline(None, workspace, environ(home)) == Found(None, consent=True, workspace_file=False)


def test_naming_the_workspaces_own_file_is_consent(workspace: Path, home: Path) -> None:
    nearby = write(workspace / "pipelines.yaml")
    assert find_pipeline(nearby, workspace, environ(home)).consent


def test_the_home_folder_as_a_workspace_is_the_users_own(home: Path, tmp_path: Path) -> None:
    write(home / "pipelines.yaml")
    (tmp_path / "link").symlink_to(home)
    found = find_pipeline(None, tmp_path / "link", environ(home))
    assert (found.consent, found.workspace_file) == (True, False)


def test_a_workspace_that_links_to_the_users_file_is_not_the_users_folder(workspace: Path, home: Path) -> None:
    write(home / "pipelines.yaml")
    (workspace / "pipelines.yaml").symlink_to(home / "pipelines.yaml")
    assert find_pipeline(None, workspace, environ(home)).workspace_file


def test_a_relative_name_in_the_variable_is_no_consent_to_whatever_folder_it_leads_to(
    workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace / "pipelines.yaml")
    monkeypatch.chdir(workspace)
    for named in ("pipelines.yaml", "./pipelines.yaml", "../workspace/pipelines.yaml"):
        found = find_pipeline(None, workspace, environ(home, BUB_CONFIG=named))
        assert found == Found(Path(named), consent=False, workspace_file=True)
    assert find_pipeline(Path("pipelines.yaml"), workspace, environ(home)).consent


def test_a_relative_name_in_the_variable_may_be_the_users_own_file(
    workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "pipelines.yaml")
    monkeypatch.chdir(home)
    found = find_pipeline(None, workspace, environ(home, BUB_CONFIG="pipelines.yaml"))
    assert (found.consent, found.workspace_file) == (True, False)


def test_what_is_no_file_is_refused_without_waiting_for_it(workspace: Path, home: Path) -> None:
    os.mkfifo(workspace / "pipelines.yaml")
    with pytest.raises(UsageError, match="is not a regular file"):
        find_pipeline(None, workspace, environ(home))
    with pytest.raises(UsageError, match="is not a regular file"):
        find_pipeline(workspace / "pipelines.yaml", workspace, environ(home))


def test_an_empty_variable_names_nothing(workspace: Path, home: Path) -> None:
    assert find_pipeline(None, workspace, environ(home, BUB_CONFIG="")).path is None


def test_a_tilde_in_the_variable_is_the_users_home(
    workspace: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    named = write(tmp_path / "mine.yaml")
    assert find_pipeline(None, workspace, environ(home, BUB_CONFIG="~/mine.yaml")).path == named


@pytest.mark.parametrize("by", ["--config", "BUB_CONFIG"])
def test_a_named_file_that_does_not_exist_is_wrong_usage_and_nothing_else_is_taken(
    workspace: Path, home: Path, tmp_path: Path, by: str
) -> None:
    write(workspace / "pipelines.yaml")
    missing = tmp_path / "missing.yaml"
    config = missing if by == "--config" else None
    variables = environ(home) if config else environ(home, BUB_CONFIG=str(missing))
    with pytest.raises(UsageError) as caught:
        find_pipeline(config, workspace, variables)
    assert caught.value.exit_code == 2
    assert str(missing) in str(caught.value)
    assert by in (caught.value.help or "")


def test_a_named_folder_is_wrong_usage(workspace: Path, home: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        find_pipeline(workspace, workspace, environ(home))


def test_a_dangling_link_in_the_workspace_is_not_passed_over(workspace: Path, home: Path) -> None:
    write(home / "pipelines.yaml")
    (workspace / "pipelines.yaml").symlink_to(workspace / "nowhere")
    with pytest.raises(UsageError, match="cannot be read"):
        find_pipeline(None, workspace, environ(home))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_not_passed_over(workspace: Path, home: Path) -> None:
    write(workspace / "pipelines.yaml").chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        find_pipeline(None, workspace, environ(home))


def test_a_workspace_has_to_be_an_existing_folder(tmp_path: Path, home: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find_pipeline(None, tmp_path / "nowhere", environ(home))
    with pytest.raises(UsageError, match="is not a folder"):
        find_pipeline(None, write(tmp_path / "file"), environ(home))


def test_a_name_that_no_file_can_have_is_wrong_usage(workspace: Path, home: Path) -> None:
    with pytest.raises(UsageError):
        find_pipeline(Path("nul\0byte"), workspace, environ(home))
    with pytest.raises(UsageError):
        find_pipeline(Path("x" * 5000), workspace, environ(home))


def test_a_home_of_nobody_is_wrong_usage(workspace: Path, home: Path) -> None:
    with pytest.raises(UsageError, match="home folder"):
        find_pipeline(Path("~nobody_of_this_name/p.yaml"), workspace, environ(home))
    with pytest.raises(UsageError, match="home folder"):
        bub_home({"BUB_HOME": "~nobody_of_this_name"})
