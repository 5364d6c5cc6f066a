"""A workspace's file runs only from a folder that its user trusted, and the list of those folders is never lost."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bub.base.locate import Found
from bub.errors import BubError, NotTrustedError, UsageError
from bub.runtime.trust import is_trusted, require_trust, revoke, store_problem, trust, trusted_folders


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".bub"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def found_in(folder: Path) -> Found:
    return Found(folder / "pipelines.yaml", consent=False, workspace_file=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_trusted_once_it_was_trusted_and_until_it_is_revoked(folder: Path, home: Path) -> None:
    assert not is_trusted(folder, home, {})
    trust(folder, home)
    assert is_trusted(folder, home, {})
    assert trusted_folders(home) == (folder,)
    assert revoke(folder, home) is True
    assert not is_trusted(folder, home, {})
    assert revoke(folder, home) is False


def test_asking_writes_nothing(folder: Path, home: Path) -> None:
    is_trusted(folder, home, {})
    revoke(folder, home)
    assert not home.exists()


def test_trust_is_not_inherited_in_either_direction(folder: Path, home: Path) -> None:
    below = folder / "below"
    below.mkdir()
    trust(folder, home)
    assert not is_trusted(below, home, {})
    assert not is_trusted(folder.parent, home, {})


def test_a_folder_is_the_same_by_whichever_link_it_is_reached(folder: Path, home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    trust(link, home)
    assert is_trusted(folder, home, {})
    assert trusted_folders(home) == (folder,)


def test_a_link_put_where_a_trusted_folder_was_is_not_trusted(folder: Path, home: Path, tmp_path: Path) -> None:
    trust(folder, home)
    folder.rmdir()
    (tmp_path / "evil").mkdir()
    folder.symlink_to(tmp_path / "evil")
    assert not is_trusted(folder, home, {})
    assert revoke(folder, home) is True


def test_a_folder_that_is_gone_can_be_revoked(folder: Path, home: Path) -> None:
    trust(folder, home)
    folder.rmdir()
    assert revoke(folder, home) is True


@pytest.mark.parametrize(("value", "trusted"), [("1", True), ("0", False), ("", False), ("true", False)])
def test_only_the_value_1_of_the_variable_trusts_every_folder(
    folder: Path, home: Path, value: str, trusted: bool
) -> None:
    assert is_trusted(folder, home, {"BUB_TRUST_WORKSPACE": value}) is trusted


def test_only_a_folder_can_be_trusted(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        trust(tmp_path / "nowhere", home)


class TestRequireTrust:
    def test_a_file_that_came_by_itself_needs_a_trusted_folder(self, folder: Path, home: Path) -> None:
        with pytest.raises(NotTrustedError) as caught:
            require_trust(found_in(folder), home, {})
        assert caught.value.exit_code == 2
        assert f"bub trust {folder}" in (caught.value.help or "")
        trust(folder, home)
        require_trust(found_in(folder), home, {})

    def test_the_variable_lets_it_pass(self, folder: Path, home: Path) -> None:
        require_trust(found_in(folder), home, {"BUB_TRUST_WORKSPACE": "1"})

    @pytest.mark.parametrize(
        "found",
        [
            Found(None, consent=True, workspace_file=False),
            Found(Path("named.yaml"), consent=True, workspace_file=False),
            Found(Path("asked.yaml"), consent=True, workspace_file=True),
        ],
        ids=["shipped", "named", "consented"],
    )
    def test_a_file_that_was_named_needs_none(self, found: Found, home: Path) -> None:
        require_trust(found, home, {})

    def test_a_relative_workspace_is_named_in_full(
        self, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(folder)
        with pytest.raises(NotTrustedError) as caught:
            require_trust(found_in(Path()), home, {})
        assert caught.value.folder == str(folder)

    def test_it_says_when_the_store_is_damaged(self, folder: Path, home: Path) -> None:
        trust(folder, home)
        (home / "trusted.json").write_text("{", encoding="utf-8")
        with pytest.raises(NotTrustedError) as caught:
            require_trust(found_in(folder), home, {})
        assert "trusted.json is damaged" in (caught.value.help or "")
        assert "bub trust" in (caught.value.help or "")


class TestStore:
    @pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
    def test_only_its_owner_may_read_it(self, folder: Path, home: Path) -> None:
        trust(folder, home)
        assert mode(home) == 0o700
        assert mode(home / "trusted.json") == 0o600

    def test_a_home_that_was_there_keeps_its_mode(self, folder: Path, home: Path) -> None:
        home.mkdir(parents=True)
        home.chmod(0o755)
        trust(folder, home)
        assert mode(home) == 0o755

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"\xff\xfe",
            b"[" * 100_000,
            b"null",
            b'{"version": 1}',
            b'{"version": 2, "folders": ["@"]}',
            b'{"version": true, "folders": ["@"]}',
            b'{"version": 1.0, "folders": ["@"]}',
            b'{"version": 1, "folders": "@"}',
            b'{"version": 1, "folders": ["@", 7]}',
            b'{"version": 1, "folders": ["@", "."]}',
        ],
        ids=[
            "empty",
            "cut",
            "bytes",
            "deep",
            "null",
            "no list",
            "newer",
            "true",
            "float",
            "text",
            "a number in it",
            "relative",
        ],
    )
    def test_a_damaged_store_trusts_nothing_and_is_set_aside(self, folder: Path, home: Path, content: bytes) -> None:
        home.mkdir(parents=True)
        store = home / "trusted.json"
        damaged = content.replace(b"@", str(folder).encode())
        store.write_bytes(damaged)
        assert not is_trusted(folder, home, {})
        assert trusted_folders(home) == ()
        assert str(store) in (store_problem(home) or "")

        trust(folder, home)
        assert is_trusted(folder, home, {})
        assert store_problem(home) is None
        assert (home / "trusted.json.damaged").read_bytes() == damaged

    def test_an_entry_written_by_hand_counts(self, folder: Path, home: Path) -> None:
        home.mkdir(parents=True)
        store = home / "trusted.json"
        store.write_text(json.dumps({"version": 1, "folders": [f"{folder}/"], "note": "mine"}), encoding="utf-8")
        assert is_trusted(folder, home, {})

    def test_what_cannot_be_written_is_said_without_a_traceback(self, folder: Path, home: Path) -> None:
        home.parent.mkdir()
        home.touch()
        with pytest.raises(BubError, match="cannot be written"):
            trust(folder, home)

    def test_a_write_that_was_cut_short_changes_nothing(
        self, folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trust(folder, home)

        def full_disk(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_disk)
        with pytest.raises(BubError, match="no space left"):
            trust(tmp_path, home)
        assert trusted_folders(home) == (folder,)
        assert sorted(path.name for path in home.iterdir()) == ["trusted.json", "trusted.json.lock"]

    def test_what_a_dead_process_left_half_written_is_no_hindrance(self, folder: Path, home: Path) -> None:
        home.mkdir(parents=True)
        (home / "trusted.json.new").write_text("half", encoding="utf-8")
        (home / "trusted.json.new").chmod(0o644)
        trust(folder, home)
        assert mode(home / "trusted.json") == 0o600

    def test_what_a_dead_process_left_is_swept_away_as_beside_any_other_file(self, folder: Path, home: Path) -> None:
        home.mkdir(parents=True)
        left = home / ".bub-4294967295-0123456789abcdef"
        left.write_text("half", encoding="utf-8")
        trust(folder, home)
        assert not left.exists()

    def test_processes_that_write_at_once_lose_no_entry(self, home: Path, tmp_path: Path) -> None:
        folders = [tmp_path / f"{writer}-{number}" for writer in range(4) for number in range(25)]
        for path in folders:
            path.mkdir()
        program = (
            "import sys\nfrom pathlib import Path\nfrom bub.runtime.trust import trust\n"
            "print('ready', flush=True)\nsys.stdin.readline()\n"
            "for name in sys.argv[2:]: trust(Path(name), Path(sys.argv[1]))\n"
        )
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(home), *map(str, folders[start : start + 25])],
                cwd=Path(__file__).parent.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for start in range(0, len(folders), 25)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate(timeout=60)
            assert writer.returncode == 0
        assert set(trusted_folders(home)) == set(folders)
