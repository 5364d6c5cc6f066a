"""Checking a pipeline file that a test has written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bub.pipeline.check.validate import CheckedFile, check_loaded
from bub.pipeline.source.merge import load_document


def check_file(path: Path, *, environment: Mapping[str, str] | None = None) -> CheckedFile:
    """The findings of one file in all of its profiles, with the variables that it sees as its `environment`."""
    return check_loaded(load_document(path), environment=environment)
