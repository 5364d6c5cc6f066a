"""The rules about each of a file's `tests:`; only a file that has some needs them."""

from __future__ import annotations

from collections.abc import Callable

from bub.pipeline.check.cases import Case
from bub.pipeline.check.rules import (
    agent_not_asked,
    bad_pattern,
    calls_of_no_mock,
    nothing_streams,
    ran_and_skipped,
    stage_off_in_test,
    test_says_nothing,
    unknown_exception,
    unknown_expected_stage,
    unknown_mock,
    unknown_mocked_tool,
    variable_of_nobody,
)
from bub.pipeline.plan.plan import Plan

CASE_RULES: tuple[Callable[[Plan, Case], None], ...] = (
    unknown_mock.check,
    unknown_expected_stage.check,
    stage_off_in_test.check,
    ran_and_skipped.check,
    unknown_exception.check,
    calls_of_no_mock.check,
    bad_pattern.check,
    nothing_streams.check,
    agent_not_asked.check,
    unknown_mocked_tool.check,
    variable_of_nobody.check,
    test_says_nothing.check,
)
"""The rules about each of the file's `tests:`, seen from the profile that it runs in."""
