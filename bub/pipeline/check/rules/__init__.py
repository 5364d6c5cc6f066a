"""What a schema cannot know: one rule a module, with its code, each a function that adds to the findings it is given.

Those that need the plugins loaded are listed by the compiler, which alone has them, those about `tests:` in
`case_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from bub.pipeline.check.outline import Outline
from bub.pipeline.check.rules import (
    approver_unknown,
    ask_in_vain,
    bash_by_glob,
    changes_nothing,
    cleanup_for_each,
    cleanup_without_timeout,
    condition_met_elsewhere,
    condition_never_met,
    default_never_used,
    for_each_of_no_list,
    gate_guards_nothing,
    gate_replaced,
    hook_entry_in_vain,
    hook_outside_a_turn,
    key_of_another_kind,
    key_of_replaced_stage,
    key_without_effect,
    kind_changed,
    kind_not_permitted,
    labels_in_vain,
    late_change,
    limit_never_reached,
    misspelt_value,
    model_setting_in_vain,
    name_in_default,
    no_kind,
    no_stages,
    nobody_listed,
    nothing_is_sent,
    only_for_nobody,
    plugin_not_allowed,
    policy_of_another_kind,
    prompt_template,
    reach_in_vain,
    reach_of_no_folder,
    replaced_twice,
    reply_without_address,
    route_never_matches,
    schedule_unreadable,
    schedule_without_channel,
    server_in_vain,
    server_way,
    shown_unjudged,
    stage_beside_two,
    stage_instead_of_hook,
    stage_stays_off,
    stage_waits_in_vain,
    stage_without_place,
    stage_without_timeout,
    strangers_leak,
    taken_back,
    unasked_entry,
    unasked_in_vain,
    unchangeable_value,
    unknown_hook,
    unknown_profile,
    unknown_provider,
    unknown_stage,
    unknown_test_profile,
    unknown_tool,
    unreached_profile,
    value_made_twice,
    value_may_be_missing,
    value_nobody_makes,
)
from bub.pipeline.plan.plan import Plan

OUTLINE_RULES: tuple[Callable[[Outline], None], ...] = (
    unknown_profile.check,
    route_never_matches.check,
    unreached_profile.check,
    unknown_test_profile.check,
    condition_never_met.check_routes,
    nobody_listed.check_sections,
    nobody_listed.check_declared,
    nobody_listed.check_channels,
    server_in_vain.check,
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
    gate_replaced.check,
    replaced_twice.check,
    key_of_replaced_stage.check,
    only_for_nobody.check,
    shown_unjudged.check,
    unknown_hook.check,
    hook_outside_a_turn.check,
    hook_entry_in_vain.check,
    stage_instead_of_hook.check,
    condition_never_met.check,
    condition_met_elsewhere.check,
    late_change.check,
    stage_stays_off.check,
    name_in_default.check,
    reply_without_address.check,
    default_never_used.check,
    for_each_of_no_list.check,
    changes_nothing.check,
    key_without_effect.check,
)
"""The rules about stages and hooks: what they find is the same for all profiles that have the same ones.

A profile that says anything of a stage has stages of its own.
"""

PROFILE_RULES: tuple[Callable[[Plan], None], ...] = (
    plugin_not_allowed.check,
    unknown_tool.check,
    server_way.check,
    server_in_vain.check_names,
    ask_in_vain.check,
    taken_back.check,
    unasked_entry.check,
    unasked_in_vain.check,
    approver_unknown.check,
    reach_of_no_folder.check,
    reach_in_vain.check,
    bash_by_glob.check,
    unknown_provider.check,
    model_setting_in_vain.check,
    prompt_template.check,
    labels_in_vain.check,
    strangers_leak.check,
    schedule_unreadable.check,
    schedule_without_channel.check,
    unknown_profile.check_schedules,
    unknown_profile.check_served,
    limit_never_reached.check,
    no_stages.check,
)
"""The other rules about one profile that need no plugin; the last one asks what all others found."""

SOUND_RULES: tuple[Callable[[Plan], None], ...] = (nothing_is_sent.check,)
"""The rules about stages that are applied only if nothing else is wrong: that may be why."""

NOTE_RULES: tuple[Callable[[Plan], None], ...] = (stage_without_timeout.check,)
"""What is only noted of stages, if nothing is wrong, and only if a file is checked: no start has a use for it."""

PROFILE_NOTE_RULES: tuple[Callable[[Plan], None], ...] = (strangers_leak.note,)
"""What is only noted of one profile, and only if a file is checked."""
