"""What the pages of the reference systems list is all shown by tests; `make conformance` runs and prints them."""

from __future__ import annotations

import re
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


SIGNATURES = {
    "resolve_session": ("message",),
    "load_state": ("message", "session_id"),
    "build_prompt": ("message", "session_id", "state"),
    "run_model": ("prompt", "session_id", "state"),
    "run_model_stream": ("prompt", "session_id", "state"),
    "save_state": ("session_id", "state", "message", "model_output"),
    "render_outbound": ("message", "session_id", "state", "model_output"),
    "dispatch_outbound": ("message",),
    "register_cli_commands": ("app",),
    "onboard_config": ("current_config",),
    "on_error": ("stage", "error", "message"),
    "system_prompt": ("prompt", "state"),
    "provide_tape_store": (),
    "provide_channels": ("message_handler",),
    "build_tape_context": (),
}
"""What each hook takes by the table of the page, in its order. Bub passes more to who names it, behind these."""


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


def test_what_bub_means_to_do_differently_says_which_decision_that_is() -> None:
    named = {row.where: row.different for row in rows() if row.different}
    assert [where for where, reason in named.items() if not re.match(r"([A-Z]\d+|[Dd]ecision \d+)[,:]", reason)] == []


def test_every_hook_of_the_table_takes_what_the_page_says() -> None:
    assert {row.name for row in rows() if row.section == "Hook table"} == {*SIGNATURES}
    for hook, names in SIGNATURES.items():
        assert HOOK_POINTS[hook].takes[: len(names)] == names
