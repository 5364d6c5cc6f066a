"""For people who test plugins and pipelines: a virtual clock, and the tests of a pipeline file run from Python."""

from __future__ import annotations

from bub.testing.clock import VirtualClock
from bub.testing.report import Report
from bub.testing.suite import run_tests

__all__ = ["Report", "VirtualClock", "run_tests"]
