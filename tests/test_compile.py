"""Compiling proves a pipeline and lays it out: what waits for what, which version of a value a stage reads."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import trio
from fakes.graphs import graph_of, plugin_set, turn_on
from fakes.toys import Toy

from bub.base.diagnostics import PipelineError, Position, Range, without_notes
from bub.pipeline.run.compiler import compile as compile_graph
from bub.pipeline.run.compiler import plan_for
from bub.pipeline.run.graph import Graph
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import load_text
from bub.pipeline.source.schemas import pipeline_schema

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def nothing(*names: str) -> Toy:
    """A plugin that implements hooks and answers none of them."""
    return Toy(**{name: lambda: None for name in names})


def own_stages(stages: str, kind: str = "void", **kinds: str) -> tuple[str, Toy]:
    """A pipeline of own hooks, one for each line of `stages`, and a plugin that has them all."""
    names = [line.split(":")[0].strip() for line in stages.strip().splitlines()]
    hooks = "".join(f"  {name}: {{kind: {kinds.get(name, kind)}}}\n" for name in names)
    return f"hooks:\n{hooks}stages:\n{stages}", nothing(*names)


def waits_of(graph: Graph) -> dict[str, set[str]]:
    """Which stages each stage waits for by itself."""
    return {
        step.id: {other.id for index in graph.waits[position] for other in graph.nodes[index].steps}
        for position, node in enumerate(graph.nodes)
        for step in node.steps
    }


def fields_of(value: Any) -> tuple[str, ...]:
    """The names of a record's fields; none for what is no record."""
    return () if isinstance(value, type) else getattr(type(value), "__match_args__", ())


def everything_in(value: Any, seen: set[int]) -> Iterator[Any]:
    """What a graph is made of, all the way down."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if names := fields_of(value):
        yield value
        for name in names:
            if not name.startswith("_"):
                yield from everything_in(getattr(value, name), seen)
    elif isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from everything_in(item, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        yield value
        for item in value:
            yield from everything_in(item, seen)


# A frozen graph.


@pytest.mark.parametrize("name", ["default", "classic", "ethos"])
def test_nothing_in_a_graph_can_be_assigned(name: str) -> None:
    points = nothing("before_llm_call", "load_state", "dispatch_outbound")
    graph = graph_of(f"extends: bub:{name}\nhooks: {{before_llm_call: {{timeout: 5s}}}}", toy=points)
    found = list(everything_in(graph, set()))
    assert len(found) > 50
    for thing in found:
        assert not isinstance(thing, list | set)
        if isinstance(thing, Mapping):
            assert not hasattr(thing, "__setitem__")
        elif names := fields_of(thing):
            with pytest.raises(AttributeError):
                setattr(thing, names[0], None)


@pytest.mark.parametrize("name", ["default", "classic", "ethos"])
def test_two_compiles_of_one_document_are_alike(name: str) -> None:
    document = load_text(f"version: 1\nextends: bub:{name}\n")
    toy = nothing("load_state", "build_prompt", "on_error")
    one, two = (compile_graph(plan_for(document, "default", {}), plugin_set(toy=toy)) for _ in range(2))
    assert [step.id for step in one.steps] == [step.id for step in two.steps]
    assert (one.waits, one.slots, one.start, one.values) == (two.waits, two.slots, two.start, two.values)
    for first, second in zip(one.steps, two.steps, strict=True):
        assert dict(first.sources) == dict(second.sources)
        assert [call.plugin for call in first.calls.items] == [call.plugin for call in second.calls.items]


def test_a_compile_leaves_its_document_as_it_was() -> None:
    document = load_text('version: 1\nextends: bub:default\nstages: {run_model: {timeout: "${env:T}"}}')
    before = document.root.plain()
    slow = compile_graph(plan_for(document, "default", {"T": "9s"}), plugin_set())
    fast = compile_graph(plan_for(document, "default", {"T": "1s"}), plugin_set())
    assert document.root.plain() == before
    assert [step.timeout for graph in (slow, fast) for step in graph.steps if step.id == "run_model"] == [9, 1]


def test_a_compile_changes_nothing_it_was_given() -> None:
    document = load_text('version: 1\nextends: bub:default\nstages: {run_model: {timeout: "${env:T}"}}')
    plan = plan_for(document, "default", {})
    plugins = plugin_set(empty=Toy())
    before = list(plan.findings.items), plugins.findings
    found: list[list[str]] = []
    for _ in range(2):
        with pytest.raises(PipelineError) as caught:
            compile_graph(plan, plugins)
        found.append([finding.code for finding in caught.value.diagnostics])
    assert found[0] == found[1] != []
    assert (plan.findings.items, plugins.findings) == before


def test_a_graph_keeps_no_node_of_its_document_alive() -> None:
    """What a pipeline was read from can go once it is compiled: nodes hold the text of whole files."""
    mark = "only-in-this-test"
    graph = graph_of(
        f"""
extends: bub:default
x-note: {mark}
hooks: {{watch: {{kind: observer, description: {mark}}}, tool_gate: {{kind: gate, description: {mark}}}}}
stages:
  watch: {{kind: observer, after: run_model, when: {{content: {mark}}}}}
  run_model: {{default: {mark}, timeout: 5s}}
""",
        toy=nothing("watch", "tool_gate"),
    )
    gc.collect()
    assert graph.steps
    assert [one for one in gc.get_objects() if isinstance(one, Node) and one.value == mark] == []


def test_every_finding_of_the_file_and_of_its_plugins_is_raised_together() -> None:
    with pytest.raises(PipelineError) as caught:
        graph_of(
            "extends: bub:default\nstages: {save_state: {needs: [gone]}, run_model: {timeout: 5}}",
            toy=nothing("load_sate", "run_model", "run_model_stream"),
        )
    found = without_notes(caught.value.diagnostics)
    assert sorted(finding.code for finding in found) == ["B104", "B120", "B201", "B205"]
    assert "and 3 more" in str(caught.value)


def test_warnings_do_not_keep_a_pipeline_from_compiling() -> None:
    graph = graph_of('extends: bub:default\nstages: {load_state: {enabled: false, timeout: "${env:T}"}}')
    assert [(finding.code, finding.severity) for finding in graph.warnings] == [("B031", "warning")]
    assert next(step for step in graph.steps if step.id == "load_state").timeout is None


# Order.


def test_stages_stand_in_the_order_written_and_each_waits_for_all_above() -> None:
    text, toy = own_stages("  c: {}\n  a: {}\n  b: {}\n")
    graph = graph_of(text, toy=toy)
    assert [step.id for step in graph.steps] == ["c", "a", "b"]
    assert waits_of(graph) == {"c": set(), "a": {"c"}, "b": {"c", "a"}}


def test_a_file_lays_its_stages_into_the_order_of_its_parent_and_a_profile_into_that() -> None:
    text = """extends: bub:default
hooks: {one: {kind: void}, two: {kind: void}, three: {kind: void}}
stages:
  one: {before: run_model}
  two: {before: run_model}
  load_state: {after: resolve_session}
profiles: {default: {stages: {three: {before: two}, save_state: {after: dispatch_outbound}}}}
"""
    graph = graph_of(text, toy=nothing("one", "two", "three"))
    assert [step.id for step in graph.steps if step.id != "save_state"] == [
        "resolve_session",
        "load_state",
        "build_prompt",
        "one",
        "three",
        "two",
        "run_model",
        "render_outbound",
        "dispatch_outbound",
    ]
    assert graph.steps[-1].id == "save_state"


def test_needs_waits_for_these_only() -> None:
    text, toy = own_stages("  a: {}\n  b: {}\n  c: {needs: [a]}\n  d: {needs: []}\n  e: {}\n")
    assert waits_of(graph_of(text, toy=toy)) == {
        "a": set(),
        "b": {"a"},
        "c": {"a"},
        "d": set(),
        "e": {"a", "b", "c", "d"},
    }


def test_needs_waits_for_the_makers_of_what_is_taken_too() -> None:
    text = """hooks:
  make: {kind: firstresult}
  other: {kind: void}
  take: {kind: void, takes: [thing]}
  fill: {kind: firstresult}
  when: {kind: void}
stages:
  make: {into: thing, default: 1}
  resolve_session: {kind: firstresult, into: session_id, default: one}
  other: {}
  take: {needs: []}
  fill: {into: copy, default: "{thing}", needs: []}
  when: {when: {session: new}, needs: []}
"""
    waits = waits_of(graph_of(text, toy=nothing("make", "other", "take", "fill", "when")))
    # Finding the session makes a new version of the message, which every stage may take.
    assert waits["take"] == {"make", "resolve_session"}
    assert waits["fill"] == {"make", "resolve_session"}
    # Below the stage that finds the session the turn waits for it, and for all that stands above.
    assert waits["when"] == {"make", "resolve_session"}


@pytest.mark.parametrize("kind", ["gate", "claiming"])
def test_nothing_passes_a_gate_or_a_claim_or_runs_beside_it(kind: str) -> None:
    text, toy = own_stages(
        "  a: {}\n  b: {needs: []}\n  stop: {needs: []}\n  c: {needs: []}\n  d: {needs: [a]}\n", stop=kind
    )
    assert waits_of(graph_of(text, toy=toy)) == {
        "a": set(),
        "b": set(),
        "stop": {"a", "b"},
        "c": {"stop"},
        "d": {"stop", "a"},
    }


def test_a_clean_up_does_not_run_beside_its_target() -> None:
    text, toy = own_stages("  a: {}\n  b: {}\n  tidy: {needs: [], cleanup_for: b, timeout: 1s}\n")
    assert waits_of(graph_of(text, toy=toy))["tidy"] == {"b"}


def test_neighbours_for_each_of_one_list_are_one_node() -> None:
    text = """hooks: {first: {kind: broadcast}, check: {kind: gate}, send: {kind: void}, pause: {kind: void}}
stages:
  first: {into: parts}
  check: {for_each: parts}
  send: {for_each: parts}
  pause: {}
  again: {hook: send, for_each: parts}
"""
    graph = graph_of(text, toy=nothing("first", "check", "send", "pause"))
    assert [[step.id for step in node.steps] for node in graph.nodes] == [
        ["first"],
        ["check", "send"],
        ["pause"],
        ["again"],
    ]


# Versions.


async def test_a_stage_reads_the_version_made_above_it_whatever_runs_beside() -> None:
    text = """hooks:
  make: {kind: firstresult}
  redact: {kind: modifying}
  early: {kind: observer, takes: [thing]}
  late: {kind: observer, takes: [thing]}
stages:
  make: {into: thing}
  early: {needs: [make]}
  redact: {changes: [thing], needs: [make]}
  late: {needs: [redact]}
"""
    read: list[tuple[str, str]] = []

    async def early(thing: str) -> None:
        await trio.sleep(5)
        read.append(("early", thing))

    def late(thing: str) -> None:
        read.append(("late", thing))

    graph = graph_of(text, toy=Toy(make=lambda: "raw", redact=lambda: {"thing": "black"}, early=early, late=late))
    turn = turn_on(graph)
    await turn.run()
    assert read == [("late", "black"), ("early", "raw")]
    assert turn.value("thing") == "black"


def test_each_version_of_a_value_has_a_slot_of_its_own() -> None:
    text = """hooks: {make: {kind: firstresult}, again: {kind: firstresult, takes: [thing]}}
stages:
  make: {into: thing, default: 1}
  again: {into: thing, default: 2}
"""
    make, again = graph_of(text, toy=nothing("make", "again")).steps
    assert make.into == again.sources["thing"]
    assert again.into != make.into


async def test_the_session_is_on_the_message_from_the_stage_on_that_makes_it() -> None:
    text = """hooks: {before: {kind: observer}, after: {kind: observer}}
stages:
  before: {}
  resolve_session: {kind: firstresult, into: session_id, default: "{channel}:{chat_id}"}
  after: {}
"""
    seen: list[Any] = []
    toy = Toy(before=lambda message: seen.append(dict(message)), after=lambda message: seen.append(dict(message)))
    await turn_on(graph_of(text, toy=toy)).run()
    assert [message.get("session_id") for message in seen] == [None, "cli:local"]


async def test_branches_without_an_edge_run_side_by_side() -> None:
    text, _ = own_stages("  a: {}\n  b: {}\n  c: {needs: [a]}\n  d: {needs: []}\n  e: {}\n")

    def taking(seconds: float) -> Any:
        async def sleep() -> None:
            await trio.sleep(seconds)

        return sleep

    began = trio.current_time()
    await turn_on(graph_of(text, toy=Toy(a=taking(1), b=taking(2), c=taking(3), d=taking(4), e=taking(1)))).run()
    assert trio.current_time() - began == 5  # a, then c beside b, d beside all of them; then e


# References.


def test_references_in_stage_keys_take_the_type_of_their_key() -> None:
    text = """extends: bub:default
stages:
  run_model: {timeout: "${env:PATIENCE}", retry: {times: "${env:TIMES}", backoff: "${env:BACKOFF:-2s}"}}
  load_state: {enabled: "${env:ON}"}
  build_prompt: {thread: "${env:THREAD}", default: "${env:GREETING}"}
"""
    environment = {
        "PATIENCE": "1m",
        "TIMES": "3",
        "ON": "false",
        "THREAD": "true",
        "GREETING": "5",
    }
    steps = {step.id: step for step in graph_of(text, environment=environment).steps}
    assert (steps["run_model"].timeout, steps["run_model"].manner.retries, steps["run_model"].manner.backoff) == (
        60,
        3,
        2,
    )
    assert steps["load_state"].enabled is False
    assert steps["build_prompt"].manner.thread is True


TRUTHS = [
    key
    for key, schema in pipeline_schema()["$defs"]["stage"]["properties"].items()
    if schema.get("$ref") == "#/$defs/truth"
]


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [("timeout", "soon", "B104"), ("enabled", "perhaps", "B101"), ("thread", "7", "B101")],
)
def test_what_a_reference_gives_is_checked_like_the_file(key: str, value: str, code: str) -> None:
    text = f'extends: bub:default\nstages: {{run_model: {{{key}: "${{env:X}}"}}}}'
    with pytest.raises(PipelineError) as caught:
        graph_of(text, environment={"X": value})
    (finding,) = caught.value.diagnostics
    column = 24 + len(key)
    assert finding.code == code
    assert finding.range == Range(Position(3, column), Position(3, column + len('"${env:X}"')))


@pytest.mark.parametrize("key", TRUTHS)
def test_a_reference_can_stand_for_true_wherever_a_stage_says_it(key: str) -> None:
    text = f'version: 1\nextends: bub:default\nstages: {{build_prompt: {{{key}: "${{env:X}}"}}}}'
    plan = plan_for(load_text(text), "default", {"X": "true"})
    assert [str(finding) for finding in plan.findings.items if finding.code == "B101"] == []


def test_what_a_reference_says_of_a_stage_is_known_to_the_rules() -> None:
    text = 'extends: bub:default\nstages: {run_model: {enabled: "${env:ON}"}}'
    assert graph_of(text, environment={"ON": "true"})
    with pytest.raises(PipelineError) as caught:
        graph_of(text, environment={"ON": "false"})
    assert [finding.code for finding in caught.value.diagnostics] == ["B132"]


# Policies and implementations.


def test_a_policy_is_the_stages_else_the_hooks_else_the_pipelines_else_the_kinds() -> None:
    text = """on_failure: skip
hooks:
  plain: {kind: broadcast}
  hooked: {kind: broadcast, on_failure: propagate}
  staged: {kind: broadcast, on_failure: propagate}
  told: {kind: void}
  guard: {kind: gate}
stages:
  plain: {}
  hooked: {}
  staged: {on_failure: skip}
  told: {}
  guard: {}
  last: {hook: plain, kind: broadcast}
"""
    steps = graph_of(text, toy=nothing("plain", "hooked", "staged", "told", "guard")).steps
    assert {step.id: step.on_failure for step in steps} == {
        "plain": "skip",
        "hooked": "propagate",
        "staged": "skip",
        "told": "skip",
        "guard": "deny",
        "last": "skip",
    }


def test_implementations_are_in_call_order_and_only_those_named() -> None:
    toys = {name: nothing("load_state") for name in ("low", "middle", "high")}
    text = """extends: bub:default
profiles: {default: {plugins: [low, middle, high]}}
plugins: {low: {optional: true}, middle: {optional: true}, high: {optional: true}}
"""
    (every,) = (step for step in graph_of(text, **toys).steps if step.id == "load_state")
    assert [call.plugin for call in every.calls.items] == ["high", "middle", "low"]
    narrowed = f"{text}stages: {{load_state: {{only: [low, high]}}}}"
    (some,) = (step for step in graph_of(narrowed, **toys).steps if step.id == "load_state")
    assert [call.plugin for call in some.calls.items] == ["high", "low"]
