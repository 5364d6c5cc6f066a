"""A moment of the fuzzer with the same files each time, and every file that it ever found and nobody has mended."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.inputs import inputs
from fuzz.validate import FOUND, Folder
from hypothesis import HealthCheck, given, settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("fuzz"))


@settings(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=inputs)
def test_any_file_ends_in_findings(folder: Folder, data: bytes) -> None:
    folder.check(data)


@pytest.mark.parametrize("file", sorted(FOUND.glob("*.yaml")), ids=lambda file: file.stem)
def test_what_was_found_once_is_not_found_again(folder: Folder, file: Path) -> None:
    folder.check(file.read_bytes())
