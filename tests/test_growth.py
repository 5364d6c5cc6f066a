"""What a file has twice as much of costs twice as much; counted in calls, which no other work here changes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import bub
from bub import BubFramework
from bub.pipeline.check.validate import check_files
from bub.pipeline.source.discovery import PipelineFile
from tests.bench.growth import with_plugins, with_profiles, with_routes, with_stages

HOME = str(Path(bub.__file__).parent)
Write = Callable[[Path, int], Path]


def calls_in(work: Callable[[], object]) -> Counter[str]:
    """How often each function of Bub is called, by its file and name."""
    counted: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            counted[f"{frame.f_code.co_filename.removeprefix(HOME)}:{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def load(file: Path) -> None:
    BubFramework(file, workspace=file.parent).load_hooks()


def validate(file: Path) -> None:
    check_files([PipelineFile(file.name, file)], environ={})


@pytest.mark.parametrize("work", [load, validate])
@pytest.mark.parametrize("written", [with_plugins, with_profiles, with_routes, with_stages])
def test_twice_as_much_costs_twice_as_much(tmp_path: Path, written: Write, work: Callable[[Path], None]) -> None:
    calls = []
    work(written(tmp_path, 1))  # what is read once in a process
    for size in (20, 40, 80):
        file = written(tmp_path, size)
        calls.append(calls_in(lambda file=file: work(file)).total())
    first, second = calls[1] - calls[0], calls[2] - calls[1]
    assert second < 2.2 * first, calls


def rules_run(tmp_path: Path, work: Callable[[Path], None], profiles: int) -> dict[str, int]:
    file = with_profiles(tmp_path, profiles)
    counted = calls_in(lambda: work(file))
    return {name: times for name, times in counted.items() if name.startswith("/pipeline/check/rules/")}


@pytest.mark.parametrize("work", [load, validate])
def test_what_holds_for_the_document_is_checked_once_however_many_profiles_it_has(
    tmp_path: Path, work: Callable[[Path], None]
) -> None:
    work(with_profiles(tmp_path, 1))
    few, many = rules_run(tmp_path, work, 2), rules_run(tmp_path, work, 20)
    assert few["/pipeline/check/rules/unknown_profile.py:check"] == 1
    # What is about a profile is asked for each: its plugins, its tools, its settings, its servers and schedules.
    own = ("plugin_not_allowed", "no_stages")
    own += ("ask_in_vain", "bash_by_glob", "unknown_tool", "limit_never_reached", "unknown_provider")
    own += ("model_setting_in_vain", "prompt_template", "approver_unknown", "taken_back", "unasked_entry")
    own += ("unasked_in_vain", "reach_of_no_folder", "reach_in_vain", "labels_in_vain", "strangers_leak")
    own += ("server_way", "server_in_vain", "schedule_unreadable", "schedule_without_channel")
    own += ("unknown_profile.py:check_schedules", "unknown_profile.py:check_served")
    if work is load:  # what needs the plugins is asked for each profile
        own += ("async_where", "both_twins", "empty_plugin", "hook_wrapper", "never_called", "nothing_implements")
        own += ("unknown_argument", "unknown_implementation", "argument_nobody_gives", "denial_in_vain")
        own += ("hook_that_yields", "item_without_field", "misspelt_argument", "never_asked", "only_leaves_out")
        own += ("plain_function_in_time", "point_nobody_fires", "session_never_met", "thread_in_vain", "unmarked_hook")
        own += ("answer_unheeded", "other_loop")
    again = {name for name in many if many[name] != few.get(name)}
    assert [name for name in again if ":check" in name and not Path(name).name.startswith(own)] == []
