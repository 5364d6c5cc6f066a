"""What holds for every pipeline: order, overlap, gates, endings and clean-ups, on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio
from fakes.graphs import graph_of, turn_on
from fakes.toys import Toy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from bub.pipeline.plan.order import place
from bub.pipeline.run.graph import Graph
from bub.pipeline.run.turn import Turn

many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PLAIN = ("void", "observer", "firstresult", "broadcast", "modifying")
MAKES = ("firstresult", "broadcast")
FOREVER = 1_000.0


@dataclass(frozen=True)
class Stage:
    """One stage of a generated pipeline; `needs` and `takes` name others by number, `delay` is in seconds.

    One with a `timeout`, in seconds too, goes on when it is up.
    """

    number: int
    kind: str
    delay: int
    needs: frozenset[int] | None = None
    takes: frozenset[str] = frozenset()
    into: str | None = None
    cleanup_for: int | None = None
    timeout: float | None = None

    @property
    def id(self) -> str:
        return f"s{self.number}"

    @property
    def is_late(self) -> bool:
        return self.timeout is not None and self.delay > self.timeout

    @property
    def lasts(self) -> float:
        return self.timeout if self.timeout is not None and self.is_late else self.delay

    @property
    def text(self) -> str:
        keys = [f"kind: {self.kind}"]
        if self.needs is not None:
            keys.append(f"needs: [{', '.join(f's{number}' for number in sorted(self.needs))}]")
        if self.into is not None:
            keys.append(f"into: {self.into}")
        if self.cleanup_for is not None:
            keys += [f"cleanup_for: s{self.cleanup_for}", f"timeout: {FOREVER:g}s"]
        elif self.timeout is not None:
            keys += [f"timeout: {self.timeout * 1000:g}ms", "on_failure: skip"]
            keys += ["default: late"] if self.kind == "firstresult" else []
        return f"  {self.id}: {{{', '.join(keys)}}}\n"

    @property
    def hook(self) -> str:
        return f"  {self.id}: {{kind: {self.kind}, takes: [{', '.join(sorted(self.takes))}]}}\n"


@dataclass
class Seen:
    """What a turn did: when each stage began and ended, in virtual seconds, and what it was given."""

    began: dict[str, list[float]] = field(default_factory=dict)
    ended: dict[str, list[float]] = field(default_factory=dict)
    given: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: BaseException | None = None
    over: float = 0.0


@st.composite
def pipelines(draw: st.DrawFn, *, gates: bool = True, cleanups: bool = False, timeouts: bool = False) -> list[Stage]:
    """Up to seven stages, of which the last waits for all, so that every gate has something to guard."""
    stages: list[Stage] = []
    values: list[str] = []
    for number in range(draw(st.integers(2, 7))):
        targets = [stage.number for stage in stages if stage.cleanup_for is None and stage.kind != "gate"]
        cleaning = bool(cleanups and targets and draw(st.integers(0, 2)) == 0)
        kind = draw(st.sampled_from(("broadcast", "observer") if cleaning else (*PLAIN, "gate") if gates else PLAIN))
        some = st.frozensets(st.integers(0, number - 1), max_size=2) if number else st.just(frozenset[int]())
        takes = draw(st.sets(st.sampled_from(values), max_size=2)) if values else set()
        into = None
        if kind in MAKES and not cleaning and draw(st.booleans()):
            into = draw(st.sampled_from([*sorted(takes), f"v{number}"]))
            values.append(into)
        stages.append(
            Stage(
                number,
                kind,
                draw(st.integers(0, 4)),
                draw(st.none() | some),
                frozenset(takes),
                into,
                draw(st.sampled_from(targets)) if cleaning else None,
                draw(st.none() | st.sampled_from((0.5, 1.5, 2.5))) if timeouts and not cleaning else None,
            )
        )
    return [*stages, Stage(len(stages), "void", 1)]


def waits_for(stages: list[Stage], stage: Stage) -> set[int]:
    """What the design says a stage waits for, said once more and independently of the compiler."""
    above = stages[: stage.number]
    if stage.needs is None or stage.kind == "gate":
        return {other.number for other in above}
    made = {other.number for other in above if other.into is not None and other.into in stage.takes}
    gates = {other.number for other in above if other.kind == "gate"}
    target = set() if stage.cleanup_for is None else {stage.cleanup_for}
    return set(stage.needs) | made | gates | target


def schedule(stages: list[Stage]) -> dict[int, float]:
    """When each stage begins in a turn in which all goes well."""
    begins: dict[int, float] = {}
    for stage in stages:
        ends = [begins[number] + stages[number].lasts for number in waits_for(stages, stage)]
        begins[stage.number] = max(ends, default=0)
    return begins


def compiled(stages: list[Stage], seen: Seen, answers: dict[int, Callable[[], Any]]) -> Graph:
    """The pipeline with a plugin whose functions take as long as their stage says and note when they run."""
    functions: dict[str, Any] = {}
    for stage in stages:
        functions[stage.id] = _function(stage, seen, answers.get(stage.number, _usual(stage)))
    hooks = "".join(stage.hook for stage in stages)
    return graph_of(f"hooks:\n{hooks}stages:\n{''.join(stage.text for stage in stages)}", toy=Toy(**functions))


def _usual(stage: Stage) -> Callable[[], Any]:
    return lambda: stage.id if stage.kind in MAKES else None


def _function(stage: Stage, seen: Seen, answer: Callable[[], Any]) -> Any:
    def begin(given: dict[str, Any]) -> None:
        seen.began.setdefault(stage.id, []).append(trio.current_time())
        seen.given[stage.id] = given

    def end() -> Any:
        seen.ended.setdefault(stage.id, []).append(trio.current_time())
        return answer()

    async def slow(**given: Any) -> Any:
        begin(given)
        await trio.sleep(stage.delay)
        return end()

    def quick(**given: Any) -> Any:
        begin(given)
        return end()

    return slow if stage.delay else quick


def played(
    stages: list[Stage], answers: dict[int, Callable[[], Any]] | None = None, *, patience: float = FOREVER
) -> tuple[Seen, Turn]:
    """What a turn on the pipeline did; it is cancelled from outside after `patience` seconds."""
    seen = Seen()
    turn = turn_on(compiled(stages, seen, answers or {}))

    async def main() -> None:
        zero = trio.current_time()
        with trio.move_on_after(patience):
            try:
                await turn.run()
            except Exception as error:  # noqa: BLE001 (what leaves the turn is what is looked at)
                seen.left = error
        seen.over = trio.current_time() - zero
        for times in (*seen.began.values(), *seen.ended.values()):
            times[:] = [time - zero for time in times]

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return seen, turn


def raising(error: Exception) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


# Order and overlap.


@many
@given(pipelines(cleanups=True))
def test_every_stage_begins_once_and_just_when_all_it_waits_for_is_over(stages: list[Stage]) -> None:
    seen, turn = played(stages)
    assert seen.left is None
    assert seen.began == {stage.id: [begin] for stage, begin in zip(stages, schedule(stages).values(), strict=True)}
    assert seen.ended.keys() == seen.began.keys()
    assert sorted(record.stage for record in turn.trace) == sorted(stage.id for stage in stages)
    assert {record.outcome for record in turn.trace} == {"ok"}


@many
@given(pipelines())
def test_a_stage_reads_the_last_version_made_above_it_in_writing(stages: list[Stage]) -> None:
    seen, turn = played(stages)
    for stage in stages:
        for name in stage.takes:
            maker = [other for other in stages[: stage.number] if other.into == name][-1]
            expected = [maker.id] if maker.kind == "broadcast" else maker.id
            assert seen.given[stage.id][name] == expected
    for name in {stage.into for stage in stages} - {None}:
        maker = [stage for stage in stages if stage.into == name][-1]
        assert turn.value(str(name)) == ([maker.id] if maker.kind == "broadcast" else maker.id)


# Time-outs.


@many
@given(pipelines(gates=False, cleanups=True, timeouts=True))
def test_every_stage_ends_when_it_is_done_or_when_its_own_time_is_up(stages: list[Stage]) -> None:
    seen, turn = played(stages)
    assert seen.left is None
    begins = schedule(stages)
    assert seen.began == {stage.id: [begins[stage.number]] for stage in stages}
    assert seen.ended == {stage.id: [begins[stage.number] + stage.delay] for stage in stages if not stage.is_late}
    assert seen.over == max(begins[stage.number] + stage.lasts for stage in stages)
    assert {record.stage: record.outcome for record in turn.trace} == {
        stage.id: "timeout" if stage.is_late else "ok" for stage in stages
    }


@many
@given(pipelines(gates=False, timeouts=True), st.integers(0, 8))
def test_a_cancellation_from_outside_ends_a_turn_at_once_whatever_time_its_stages_have(
    stages: list[Stage], after: int
) -> None:
    patience = after + 0.25  # no stage's time is up in the same moment
    seen, turn = played(stages, patience=patience)
    begins = schedule(stages)
    over = max(begins[stage.number] + stage.lasts for stage in stages)
    assert seen.left is None
    assert seen.over == min(patience, over)
    outcomes = {record.stage: record.outcome for record in turn.trace}
    for stage in stages:
        begin, end = begins[stage.number], begins[stage.number] + stage.lasts
        if end < patience:
            assert outcomes[stage.id] == ("timeout" if stage.is_late else "ok")
        elif begin < patience:
            assert outcomes[stage.id] == "cancelled"
        else:
            assert stage.id not in outcomes


# Gates.


@many
@given(pipelines(), st.data())
def test_nothing_behind_a_gate_begins_before_it_has_allowed_and_nothing_after_it_has_denied(
    stages: list[Stage], data: st.DataObject
) -> None:
    gates = [stage for stage in stages if stage.kind == "gate"]
    seen, _ = played(stages)
    for gate in gates:
        (allowed,) = seen.ended[gate.id]
        assert all(seen.began[other.id][0] >= allowed for other in stages[gate.number + 1 :])
        assert all(seen.ended[other.id][0] <= seen.began[gate.id][0] for other in stages[: gate.number])
    if not gates:
        return
    gate = data.draw(st.sampled_from(gates))
    answer = data.draw(st.sampled_from([lambda: {"deny": "no"}, raising(ValueError("broken")), lambda: True]))
    seen, turn = played(stages, {gate.number: answer})
    assert seen.left is None
    assert str(turn.ended_by) == f"denied:{gate.id}"
    assert set(seen.began) == {stage.id for stage in stages[: gate.number + 1]}
    assert seen.over == seen.ended[gate.id][0]


# Failures.


def _failing(stages: list[Stage]) -> list[Stage]:
    return [stage for stage in stages if stage.kind in MAKES and stage.cleanup_for is None]


@many
@given(pipelines(cleanups=True), st.data())
def test_a_failing_stage_ends_the_turn_and_its_own_error_leaves_it(stages: list[Stage], data: st.DataObject) -> None:
    candidates = _failing(stages)
    if not candidates:
        return
    failing = data.draw(st.sampled_from(candidates))
    error = ValueError("broken")
    seen, turn = played(stages, {failing.number: raising(error)})
    assert seen.left is error
    (failed,) = seen.ended[failing.id]
    begins = schedule(stages)
    assert failed == begins[failing.number] + failing.delay
    ordinary = [stage for stage in stages if stage.cleanup_for is None]
    # Whoever would have begun sooner has; whoever waits for the failed one has not.
    assert all(stage.id in seen.began for stage in ordinary if begins[stage.number] < failed)
    assert all(stage.id not in seen.began for stage in ordinary if failing.number in _all_above(stages, stage))
    assert all(times[0] <= failed for id_, times in seen.began.items() if id_ in {stage.id for stage in ordinary})
    outcomes = {record.stage: record.outcome for record in turn.trace}
    assert outcomes[failing.id] == "failed"
    _check_clean_ups(stages, seen)


@many
@given(pipelines(cleanups=True), st.integers(0, 8))
def test_a_cancelled_turn_still_cleans_up(stages: list[Stage], after: int) -> None:
    seen, turn = played(stages, patience=after + 0.5)
    _check_clean_ups(stages, seen)
    ended = max((stage.delay + schedule(stages)[stage.number] for stage in stages), default=0)
    if ended > after + 0.5:
        assert "s" + str(len(stages) - 1) not in seen.ended
        assert {"cancelled"} <= {record.outcome for record in turn.trace} or _only_clean_ups_ran(stages, seen, after)


@many
@given(pipelines(gates=False, cleanups=True), st.data())
def test_a_denied_turn_still_cleans_up(stages: list[Stage], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(stages)))
    gate = Stage(at, "gate", 1)
    moved = [_moved(stage, at) for stage in stages[at:]]
    everything = [*stages[:at], gate, *moved, Stage(len(stages) + 1, "void", 0)]
    seen, turn = played(everything, {at: lambda: {"deny": "no"}})
    assert str(turn.ended_by) == f"denied:{gate.id}"
    _check_clean_ups(everything, seen)


def _moved(stage: Stage, at: int) -> Stage:
    """The stage with what is at `at` or below it counted one further down."""

    def shifted(number: int) -> int:
        return number + 1 if number >= at else number

    return Stage(
        shifted(stage.number),
        stage.kind,
        stage.delay,
        None if stage.needs is None else frozenset(map(shifted, stage.needs)),
        frozenset(stage.takes),
        stage.into,
        None if stage.cleanup_for is None else shifted(stage.cleanup_for),
    )


def _all_above(stages: list[Stage], stage: Stage) -> set[int]:
    """Everything that a stage waits for, by way of others too."""
    direct = waits_for(stages, stage)
    return direct.union(*(_all_above(stages, stages[number]) for number in direct))


def _only_clean_ups_ran(stages: list[Stage], seen: Seen, after: int) -> bool:
    """Whether nothing but clean-ups was under way when the turn was cancelled; nothing cancels those."""
    under_way = {
        id_ for id_, (began, *_) in seen.began.items() if began <= after and seen.ended.get(id_, [99])[0] > after
    }
    return all(stages[int(id_[1:])].cleanup_for is not None for id_ in under_way)


def _check_clean_ups(stages: list[Stage], seen: Seen) -> None:
    for stage in stages:
        if stage.cleanup_for is None:
            continue
        runs = seen.began.get(stage.id, [])
        target = seen.began.get(f"s{stage.cleanup_for}")
        assert len(runs) == (1 if target else 0)
        assert seen.ended.get(stage.id, []) == [began + stage.delay for began in runs]  # nothing cancels it
        if target:
            assert runs[0] >= target[0]


@many
@given(pipelines(cleanups=True), st.data())
def test_clean_ups_that_unwind_run_in_reverse_order(stages: list[Stage], data: st.DataObject) -> None:
    candidates = _failing(stages)
    if not candidates:
        return
    failing = data.draw(st.sampled_from(candidates))
    seen, _ = played(stages, {failing.number: raising(ValueError("broken"))})
    (failed,) = seen.ended[failing.id]
    begins = schedule(stages)
    unwound = [
        stage
        for stage in stages
        if stage.cleanup_for is not None and stage.id in seen.began and failing.number in _all_above(stages, stage)
    ]
    assert all(seen.began[stage.id][0] >= failed for stage in unwound)
    times = [(seen.began[stage.id][0], stage.number) for stage in unwound]
    assert sorted(times, key=lambda time: (time[0], -time[1])) == sorted(times, key=lambda time: -time[1])
    assert begins


# Placing stages.

names = [f"n{number}" for number in range(10)]


@st.composite
def layers(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str | None, str | None]]]:
    """An order, and stages to be laid over it: each beside a stage of the order or another one, in no circle."""
    known = draw(st.permutations(names))
    count = draw(st.integers(1, 6))
    order, new = list(known[:count]), list(known[count:])
    settled = list(order)
    stages: list[tuple[str, str | None, str | None]] = []
    for name in [*new, *draw(st.lists(st.sampled_from(order), unique=True, max_size=2))]:
        others = [other for other in settled if other != name and not _hangs_on(other, name, stages)]
        if others:
            stages.append((name, draw(st.sampled_from(["before", "after"])), draw(st.sampled_from(others))))
            settled.append(name)
    return order, draw(st.permutations(stages))


def _hangs_on(name: str, other: str, stages: list[tuple[str, str | None, str | None]]) -> bool:
    """Whether a stage has its place by way of another one."""
    anchors = {stage: anchor for stage, _, anchor in stages}
    while name in anchors:
        name = str(anchors[name])
        if name == other:
            return True
    return False


@settings(max_examples=500, deadline=None)
@given(layers())
def test_a_placed_stage_stands_directly_beside_its_neighbour(
    layer: tuple[list[str], list[tuple[str, str | None, str | None]]],
) -> None:
    order, stages = layer
    placed = place(order, stages)
    moved = {name for name, _, _ in stages}
    assert sorted(placed) == sorted({*order, *moved})
    assert [name for name in placed if name not in moved] == [name for name in order if name not in moved]
    for name, side, other in stages:
        first, last = sorted((placed.index(name), placed.index(str(other))))
        assert (placed.index(name) < placed.index(str(other))) == (side == "before")
        # Between the two there is nothing but what stands beside the same stage, or hangs on what does.
        for between in placed[first + 1 : last]:
            assert _hangs_on(between, str(other), stages)
    for name, side, other in stages:
        same = [stage for stage, *anchor in stages if anchor == [side, other]]
        assert [stage for stage in placed if stage in same] == same
        assert name in same


@given(st.lists(st.sampled_from(names), unique=True, min_size=1))
def test_a_layer_that_places_nothing_leaves_the_order_and_adds_its_own_at_the_end(order: list[str]) -> None:
    half = len(order) // 2
    stages: list[tuple[str, str | None, str | None]] = [(name, None, None) for name in order]
    assert place(order[:half], stages) == [*order[:half], *order[half:]]


# The generator itself.


def test_pipelines_of_every_interesting_shape_are_generated() -> None:
    found: set[str] = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(pipelines(cleanups=True))
    def look(stages: list[Stage]) -> None:
        begins = schedule(stages)
        spans = [(begins[stage.number], begins[stage.number] + stage.delay) for stage in stages if stage.delay]
        if any(a < d and c < b for at, (a, b) in enumerate(spans) for c, d in spans[:at]):
            found.add("overlap")
        found.update(stage.kind for stage in stages)
        found.update(f"cleanup:{stage.kind}" for stage in stages if stage.cleanup_for is not None)
        if any(stage.into in stage.takes for stage in stages):
            found.add("new version")

    look()
    assert found >= {*PLAIN, "gate", "overlap", "cleanup:broadcast", "cleanup:observer", "new version"}
