"""Files of Bub's own: for their owner only, and for one process at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bub.base.private import lock_file, open_private


def test_who_does_not_wait_is_told_that_another_holds_the_file_until_it_is_closed(tmp_path: Path) -> None:
    first, second = open_private(tmp_path / "x.lock"), open_private(tmp_path / "x.lock")
    try:
        lock_file(first, wait=False)
        with pytest.raises(BlockingIOError, match="another process holds it"):
            lock_file(second, wait=False)
        os.close(first)
        lock_file(second, wait=False)
    finally:
        os.close(second)


def test_what_cannot_be_locked_at_all_is_another_failure(tmp_path: Path) -> None:
    descriptor = open_private(tmp_path / "x.lock")
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        lock_file(descriptor)
    assert not isinstance(caught.value, BlockingIOError)


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    os.close(open_private(tmp_path / "x.lock"))
    assert (tmp_path / "x.lock").stat().st_mode & 0o777 == 0o600
