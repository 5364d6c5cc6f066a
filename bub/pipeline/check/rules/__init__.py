"""What a schema cannot know: one rule a module, with its code, each a function that adds to the findings it is given.

Those that need the plugins loaded are listed by the compiler, which alone has them.
"""

from __future__ import annotations

from collections.abc import Callable

from bub.pipeline.check.rules import (
    cleanup_for_each,
    cleanup_without_timeout,
    gate_guards_nothing,
    hook_entry_in_vain,
    hook_outside_a_turn,
    key_of_another_kind,
    kind_changed,
    kind_not_permitted,
    misspelt_value,
    no_kind,
    no_stages,
    only_for_nobody,
    plugin_not_allowed,
    policy_of_another_kind,
    ran_and_skipped,
    route_never_matches,
    shown_unjudged,
    stage_beside_two,
    stage_instead_of_hook,
    stage_off_in_test,
    stage_waits_in_vain,
    stage_without_place,
    unchangeable_value,
    unknown_exception,
    unknown_expected_stage,
    unknown_hook,
    unknown_mock,
    unknown_profile,
    unknown_stage,
    unknown_test_profile,
    unreached_profile,
    value_made_twice,
    value_may_be_missing,
    value_nobody_makes,
)
from bub.pipeline.plan.cases import Case
from bub.pipeline.plan.outline import Outline
from bub.pipeline.plan.plan import Plan

OUTLINE_RULES: tuple[Callable[[Outline], None], ...] = (
    unknown_profile.check,
    route_never_matches.check,
    unreached_profile.check,
    unknown_test_profile.check,
)
"""The rules about what is the same for every profile of a document."""

STAGE_RULES: tuple[Callable[[Plan], None], ...] = (
    no_kind.check,
    kind_not_permitted.check,
    kind_changed.check,
    key_of_another_kind.check,
    policy_of_another_kind.check,
    unknown_stage.check,
    stage_waits_in_vain.check,
    stage_without_place.check,
    stage_beside_two.check,
    cleanup_without_timeout.check,
    cleanup_for_each.check,
    value_nobody_makes.check,
    value_made_twice.check,
    value_may_be_missing.check,
    misspelt_value.check,
    unchangeable_value.check,
    gate_guards_nothing.check,
    only_for_nobody.check,
    shown_unjudged.check,
    unknown_hook.check,
    hook_outside_a_turn.check,
    hook_entry_in_vain.check,
    stage_instead_of_hook.check,
)
"""The rules about stages and hooks: what they find is the same for all profiles that have the same ones."""

PROFILE_RULES: tuple[Callable[[Plan], None], ...] = (plugin_not_allowed.check, no_stages.check)
"""The other rules about one profile that need no plugin; the last one asks what all others found."""

CASE_RULES: tuple[Callable[[Plan, Case], None], ...] = (
    unknown_mock.check,
    unknown_expected_stage.check,
    stage_off_in_test.check,
    ran_and_skipped.check,
    unknown_exception.check,
)
"""The rules about each of the file's `tests:`, seen from the profile that it runs in."""
