"""For people who test plugins and pipelines: a virtual clock, the tests of a pipeline file, typed settings.

The names in `__all__` are public. How a file is checked without running it lies in `bub/pipeline/check/`."""

from __future__ import annotations

from bub.testing.clock import VirtualClock
from bub.testing.report import Report
from bub.testing.settings import against_schema
from bub.testing.suite import run_tests

__all__ = ["Report", "VirtualClock", "against_schema", "run_tests"]
