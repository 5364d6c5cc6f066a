"""If it compiles, it fires: what holds for every pipeline file that is checked, started and given turns.

The files are generated, with toy plugins that are real modules; `make promise` tries many more than the tests do.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from fakes.declared import Check, Declared, Message, matches, messages, route_of
from fakes.pipelines import pipeline_cases
from fakes.promise import JUNK, REDACTED, SECRET, Folder, Seen, take_turns
from fakes.toy_files import PipelineCase
from fakes.toy_words import AIMS
from hypothesis import HealthCheck, given, settings
from loguru import logger

from bub.base.diagnostics import Diagnostic, PipelineError
from bub.envelope import content_of, normalize_envelope

FILES = int(os.environ.get("FILES", "50"))

Fault = tuple[str, str, str]
"""The code, the place and the words of an error."""

chats = itertools.count()


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """Count what was tried; most of the files have to be right, or the law would be about nothing."""
    tried: Counter[str] = Counter()
    yield tried
    if tried["aims"] < len(AIMS):  # somebody asked for some of the tests
        return
    assert tried["started"] >= FILES // 4
    assert tried["asked"] >= FILES // 4
    assert tried["denied"] >= FILES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    logger.disable("bub")  # thousands of failures, with their tracebacks
    yield Folder(tmp_path_factory.mktemp("promise"))
    logger.enable("bub")


@pytest.mark.timeout(60 + 3 * FILES)
@pytest.mark.parametrize("aim", AIMS)
def test_what_validates_and_starts_asks_every_gate_and_obeys_every_denial(
    folder: Folder, tally: Counter[str], aim: str
) -> None:
    tally["aims"] += 1
    files = max(2, FILES // 2 if aim == "anything" else FILES // 2 // (len(AIMS) - 1))

    @settings(
        max_examples=files,
        deadline=None,
        derandomize="FILES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=pipeline_cases(aim))
    def try_files(case: PipelineCase) -> None:
        check_the_promise(folder, tally, case)

    try_files()


def check_the_promise(folder: Folder, tally: Counter[str], case: PipelineCase) -> None:
    folder.write(case)
    found = check_that_check_and_start_agree(folder, case)
    if errors_in(found):
        return
    tally["started"] += 1
    is_sound = not any(finding.severity == "warning" for finding in found)
    if is_sound:
        tally["asked"] += check_that_all_gates_are_asked(folder, case)
    for profile in profiles_of(case):
        tally["denied"] += check_that_denials_are_obeyed(folder, case, profile)
        check_that_what_is_held_back_is_not_told(folder, case, profile, is_sound=is_sound)


# The check and the start say the same.


def check_that_check_and_start_agree(folder: Folder, case: PipelineCase) -> tuple[Diagnostic, ...]:
    """What `bub validate --plugins` finds, once it is sure that the start and the check without plugins agree."""
    alone, proved = folder.check(plugins=False), folder.check(plugins=True)
    assert errors_in(alone) <= errors_in(proved), "an error is found only without --plugins"
    refusals = [refusal_of(folder, profile) for profile in profiles_of(case)]
    assert bool(errors_in(proved)) == any(refusals), "the check and the start disagree"
    assert {code for each in refusals for code, *_ in each} <= {code for code, *_ in errors_in(proved)}
    return proved


def refusal_of(folder: Folder, profile: str) -> set[Fault]:
    """The errors that a start with a profile ends in; none if it starts."""
    folder.begin()
    try:
        folder.start(profile)
    except PipelineError as error:
        return errors_in(error.diagnostics)
    return set()


def errors_in(findings: tuple[Diagnostic, ...]) -> set[Fault]:
    return {(one.code, str(one.range.start), one.message) for one in findings if one.severity == "error"}


def profiles_of(case: PipelineCase) -> list[str]:
    return list(case.files[-1][1]["profiles"])


# Which message is seen by a check.


def fields_at(check: Check, message: Message, session: str) -> dict[str, str]:
    """What a condition may ask where the check stands."""
    address = {name: message[name] for name in ("channel", "chat_id")}
    found = {**address, "session_id": "{channel}:{chat_id}".format(**address), "session": session}
    if check.each is not None:  # the item is the message there
        return {**found, "content": "".join(SECRET)}
    return {**message, **found}


def witness_of(declared: Declared, check: Check) -> tuple[str, Message, str] | None:
    """A profile to start with, a message, and the state of its session, with which a check is asked."""
    for start, message, session in itertools.product(declared.profiles, messages(), ("new", "known")):
        is_met = matches(check.when, fields_at(check, message, session))
        if is_met and route_of(declared.routes, message, start) == declared.profile:
            return start, message, session
    return None


def turns_of(
    folder: Folder, witness: tuple[str, Message, str], scripts: list[Mapping[tuple[str, str], str]]
) -> list[Seen]:
    """What became of the witness with each of the scripts for the toys, each in a session of its own."""
    start, message, session = witness
    turns: list[tuple[Message, Mapping[tuple[str, str], str]]] = []
    for script in scripts:
        own = {**message, "chat_id": f"{message['chat_id']}{next(chats)}"}
        turns += [(own, {}), (own, script)] if session == "known" else [(own, script)]
    seen = take_turns(folder, start, turns)
    return seen[1::2] if session == "known" else seen


# Every gate is asked.


def check_that_all_gates_are_asked(folder: Folder, case: PipelineCase) -> int:
    """How many gates were asked; a gate that several profiles have is asked in one of them at least."""
    reached: set[str] = set()
    unreached: set[str] = set()
    for profile in profiles_of(case):
        declared = Declared(case, profile)
        for gate in declared.checks("gate"):
            assert gate.asked, f"{gate.name} in {profile}: nobody implements it"
            witness = witness_of(declared, gate)
            if witness is None:
                unreached.update([gate.name] if declared.gets_turns() else [])
                continue
            (seen,) = turns_of(folder, witness, [{}])
            asked = {call.plugin for call in seen.calls if call.hook == gate.hook}
            if gate.stage is None and not asked:  # who fires it may be listed, or not be off, in another profile
                unreached.update([gate.name] if declared.is_fired(gate.hook) else [])
                continue
            reached.add(gate.name)
            assert_asked(declared, gate, asked, seen)
    assert unreached <= reached, f"no message reaches {unreached - reached}"
    return len(reached)


def assert_asked(declared: Declared, gate: Check, asked: set[str], seen: Seen) -> None:
    what = f"{gate.name} in {declared.profile}"
    if gate.stage is not None and seen.result is not None:
        outcomes = {record.outcome for record in seen.result.trace if record.stage == gate.name}
        assert outcomes == {"ok"}, f"{what}: {outcomes}"
    assert gate.asked <= asked, f"{what}: {asked}, not {set(gate.asked)} ({seen.error!r})"
    if len(declared.callers(gate.hook)) < 2:  # else another stage may ask more of them
        assert asked == gate.asked, f"{what}: {asked - gate.asked} beside the others"


# Every denial is obeyed.


def check_that_denials_are_obeyed(folder: Folder, case: PipelineCase, profile: str) -> int:
    """How many denials were tried."""
    declared, tried = Declared(case, profile), 0
    for gate in declared.checks("gate"):
        witness = witness_of(declared, gate)
        ways = list(ways_to_deny(declared, gate)) if witness is not None else []
        if witness is None or not ways:
            continue
        all_seen = turns_of(folder, witness, [{(plugin, gate.hook): way} for plugin, way in ways])
        for (plugin, way), seen in zip(ways, all_seen, strict=True):
            assert_obeyed(declared, gate, plugin, way, seen)
        tried += len(ways)
    return tried


def ways_to_deny(declared: Declared, gate: Check) -> Iterator[tuple[str, str]]:
    """Each plugin that is asked, and each way in which it may not allow."""
    junk = itertools.cycle(JUNK[len(declared.stages) % len(JUNK) :] + JUNK)  # of which every file has others
    # Where two stages ask one hook, another one may be late than the one that has a time-out.
    has_time = "timeout" in gate.said and len(declared.callers(gate.hook)) < 2
    for name, function in declared.functions(gate.hook):
        if name not in gate.asked or not function.is_marked:
            continue
        yield from ((name, way) for way in ("deny", "crash", "exit", *(f"junk {next(junk)!r}" for _ in range(3))))
        if has_time and (function.is_async or not gate.said.get("thread")):
            yield from ((name, way) for way in ("late", "busy"))
        if has_time and function.is_async:
            yield name, "hang"


def assert_obeyed(declared: Declared, gate: Check, plugin: str, way: str, seen: Seen) -> None:
    what = f"{gate.name}: {plugin} says {way}"
    at = next((at for at, call in enumerate(seen.calls) if (call.plugin, call.hook) == (plugin, gate.hook)), None)
    if at is None:  # nobody asks it, of which the file is warned
        return
    if gate.stage is None:
        said = [verdict for name, verdict in seen.fired if name == gate.name]
        assert all(isinstance(verdict, dict) and list(verdict) == ["deny"] for verdict in said), f"{what}: {said}"
        return
    if gate.looks_at_output:
        assert seen.told == "", f"{what}, and yet {seen.told!r} is told"
    # Clean-ups run in any case; of a gate whose time is up, the other plugins may still be asked.
    ignored = {"on_error", *declared.cleaning(), *([gate.hook] if way in ("late", "busy") else [])}
    each = declared.run_for_each("outbounds")
    later = [call for call in seen.calls[at + 1 :] if call.hook not in ignored]
    passed = [call.hook for call in later if not (call.hook in each and call.message.get("kind") == "denied")]
    if gate.each is None:
        assert passed == [], f"{what}, and yet {passed} are called"
    if way == "exit":
        assert isinstance(seen.error, SystemExit)
        return
    assert seen.result is not None, f"{what}: {seen.error!r}"
    outbounds = seen.result.outbounds or []
    if gate.each is None:
        assert seen.result.ended_by in [f"denied:{name}" for name in declared.callers(gate.hook)], what
        assert all(one["kind"] == "denied" for one in outbounds), what
    elif gate.each == "outbounds":
        behind = [hook for hook in passed if hook in each and hook != gate.hook]
        assert behind == [], f"{what}, and yet {behind} are called"
        assert outbounds == [], what


def assert_passed_by_nobody(declared: Declared, check: Check, plugin: str, seen: Seen, what: str) -> None:
    """Assert that nothing behind a check is called that ended the turn, but clean-ups and what gets its reply."""
    at = max(at for at, call in enumerate(seen.calls) if (call.plugin, call.hook) == (plugin, check.hook))
    ignored = {"on_error", *declared.cleaning(), *declared.run_for_each("outbounds")}
    passed = [call.hook for call in seen.calls[at + 1 :] if call.hook not in ignored]
    assert check.each is not None or passed == [], f"{what}, and yet {passed} are called"


def check_that_what_is_held_back_is_not_told(
    folder: Folder, case: PipelineCase, profile: str, *, is_sound: bool
) -> None:
    """Nobody hears what the model said, and a claim took over or an amendment covers; a claim ends the turn."""
    declared = Declared(case, profile)
    claims = [("claim", check) for check in declared.checks("claiming")]
    changes = [("redact", check) for check in declared.checks("modifying") if check.changes_output]
    for way, check in (*claims, *changes):
        witness = witness_of(declared, check) if check.stage is not None else None
        plugins = sorted(check.asked) if witness is not None else []
        if witness is None or not plugins:
            continue
        all_seen = turns_of(folder, witness, [{(plugin, check.hook): way} for plugin in plugins])
        for plugin, seen in zip(plugins, all_seen, strict=True):
            if all((call.plugin, call.hook) != (plugin, check.hook) for call in seen.calls):
                continue
            what = f"{check.name}: {plugin} says {way}"
            if way == "claim":
                assert_passed_by_nobody(declared, check, plugin, seen, what)
            if not (check.looks_at_output or check.changes_output):
                continue
            outbounds = (seen.result.outbounds if seen.result is not None else None) or []
            sent = " ".join(content_of(normalize_envelope(one)) for one in outbounds)  # a reply may be a bare text
            # What is changed below the stage that makes the replies of it is sent as it was, and told so: a warning.
            renders = any(declared.functions("render_outbound"))
            is_sent = (renders or not is_sound) and check.each is None and all(piece in sent for piece in SECRET)
            is_told = any(piece in seen.told for piece in SECRET)
            assert is_sent or not is_told, f"{what}, and yet {seen.told!r} is told"
            assert renders or not is_sound or not any(piece in sent for piece in SECRET), (
                f"{what}, and yet {sent!r} goes out"
            )
            if check.each == "outbounds":
                assert all(content_of(normalize_envelope(one)) == REDACTED for one in outbounds), what
