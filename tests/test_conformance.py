"""What the pages of the reference systems list is all shown by tests; `make conformance` runs and prints them."""

from __future__ import annotations

from collections import Counter

from conformance.rows import rows

from bub.hook_registry import ETHOS_POINTS
from bub.hookspecs import HOOK_POINTS

LISTED = {
    ("hooks.md", "Kinds"): 3,
    ("hooks.md", "Hook table"): 15,
    ("hooks.md", "Iteration order"): 2,
    ("hooks.md", "call_first vs call_many"): 3,
    ("hooks.md", "Sync vs async"): 3,
    ("hooks.md", "Signature pruning"): 1,
    ("hooks.md", "Tape-store lifecycle"): 3,
    ("hooks.md", "on_error observer safety"): 1,
    ("architecture.md", "Core Components"): 5,
    ("architecture.md", "Turn Lifecycle"): 11,
    ("architecture.md", "Hook Priority Semantics"): 7,
    ("architecture.md", "Error Behavior"): 4,
    ("architecture.md", "Builtin Runtime Notes"): 6,
    ("architecture.md", "Channel Event Streaming"): 2,
    ("architecture.md", "Boundaries"): 2,
    ("classic-architecture.md", "Core Components"): 4,
    ("classic-architecture.md", "Turn Lifecycle"): 9,
    ("classic-architecture.md", "Precedence And Override Semantics"): 5,
    ("classic-architecture.md", "Fault Isolation And Fallbacks"): 4,
    ("classic-architecture.md", "Builtin Runtime"): 4,
    ("classic-architecture.md", "Boundaries"): 3,
    ("ethos-hooks.md", "Three answers"): 3,
    ("ethos-hooks.md", "The Void model"): 11,
    ("ethos-hooks.md", "The Modifying model"): 8,
    ("ethos-hooks.md", "The Claiming model"): 4,
    ("ethos-hooks.md", "What the registry exposes"): 6,
    ("ethos-hooks.md", "Trade-offs"): 3,
}
"""How many rows each table and list of the pages has."""


def test_no_row_of_the_pages_is_left_out() -> None:
    assert Counter((row.page, row.section) for row in rows()) == LISTED


def test_every_row_has_a_test() -> None:
    assert [row.where for row in rows() if not row.tests or row.missing] == []


def test_the_hooks_that_the_pages_name_are_hook_points_of_bub() -> None:
    names = {row.name for row in rows() if row.section == "Hook table"}
    assert names <= {*HOOK_POINTS}
    for kind, section in (
        ("void", "The Void model"),
        ("modifying", "The Modifying model"),
        ("claiming", "The Claiming model"),
    ):
        named = {row.name for row in rows() if row.section == section and row.name in HOOK_POINTS}
        assert named == {point for point, known in ETHOS_POINTS.items() if known == kind}
