"""The published schema and the loader's schema step accept and refuse the same files.

The published schema is read by a validator that shares no code with the loader's (jsonschema-rs). Files come from the
schema itself (hypothesis-jsonschema), from the corpus in `testdata`, and from the corpus with something changed at
random. There are four differences, each wanted:

- What only some kinds know (`if`/`then` in the schema) the rules report, since an overlay has no kind to judge by; so
  the schema is compared without these conditions, and the conditions by themselves with the rules.
- A whole number written as a fraction (`2.0`) is an integer to JSON Schema and none to the loader: it is counted with.
- A section with nothing behind it (`stages:`) is refused by the reader already, which reads on as if it were `{}`.
- The settings of a test are laid over those of its profile, so that nothing is missing in them to the loader.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from bub.base.diagnostics import Place, Position, Range
from bub.base.resources import locate_shipped, shipped_schema
from bub.hooks.facts import KIND_KEYS, KINDS
from bub.pipeline.check.quick import quick_check
from bub.pipeline.check.schema import check_layer
from bub.pipeline.check.sections import check_sections
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.check.validators import pipeline_check
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import load_text
from bub.pipeline.source.schemas import shipped_sections
from bub.pipeline.source.yaml_reader import parse

PUBLISHED = json.loads(shipped_schema("pipeline.schema.json").read_text(encoding="utf-8"))
CORPUS = sorted(Path(__file__).parent.glob("testdata/*/**/*.yaml")) + sorted(locate_shipped("pipelines").glob("*.yaml"))
EMPTY = "B011"

OF_KINDS = ("B113", "B114")
"""What the rules say of the keys and policies that a kind does not know."""

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "30"))
"""How many files are made; `make fuzz` makes more, and others each time."""

some = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="SCHEMA_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)

MADE_OF_OTHERS = ("test", "next_turn")
"""Definitions whose parts are made by themselves too; each file of them takes half a second."""


def without_conditions(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without what it says of kinds."""
    defs = schema["$defs"].items()
    return {**schema, "$defs": {name: {word: one[word] for word in one if word != "allOf"} for name, one in defs}}


PLAIN = without_conditions(PUBLISHED)
plain_validator = jsonschema_rs.Draft202012Validator(PLAIN)
whole_validator = jsonschema_rs.Draft202012Validator(PUBLISHED)


def node_of(value: Any, line: int = 1) -> Node:
    """A value as the reader gives it, each at a place of its own kind: what it is counts here, not where it stands."""
    place = Place("generated.yaml", Range(Position(line, 1), Position(line, 2)))
    if isinstance(value, dict):
        return Node({name: node_of(child, line + 1) for name, child in value.items()}, place, place, (place,))
    if isinstance(value, list):
        return Node(tuple(node_of(child, line + 1) for child in value), place, place, (place,))
    return Node(value, place, place, (place,), quoted=isinstance(value, str))


def values_in(value: Any) -> Iterator[Any]:
    yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from values_in(child)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value below `value`; what is below siblings that are the same, as stages are, counts once."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    walked: list[Any] = []
    for step, child in children:
        yield (*path, step)
        if child not in walked:
            walked.append(child)
            yield from places_in(child, (*path, step))


def is_comparable(value: Any) -> bool:
    """Whether it holds nothing that the two see differently on purpose, nor anything that JSON cannot say."""
    return not any(isinstance(each, float) and (each.is_integer() or each - each != 0) for each in values_in(value))


AMBIGUOUS = re.compile("[\r\x1c-\x1f\x85\u2028\u2029\ufeff]")
"""What `.` and `\\s` mean either in Python's patterns, by which values are made, or in those of JSON Schema."""


def is_ambiguous(value: Any) -> bool:
    return any(isinstance(each, str) and AMBIGUOUS.search(each) for each in values_in(value))


def refused_by_the_loader(value: Any) -> bool:
    root = node_of(value)
    found = [*check_layer(root), *check_sections(root, shipped_sections())]
    return any(finding.severity == "error" for finding in found)


def is_only_missing_in_tests(value: Any) -> bool:
    """Whether the schema only wants keys in the settings of tests that those of a profile may have."""
    errors = list(plain_validator.iter_errors(value))
    return bool(errors) and all(
        error.instance_path[:1] == ["tests"]
        and "settings" in error.instance_path
        and error.message.endswith("is a required property")
        for error in errors
    )


def assert_same(value: Any) -> None:
    refused = refused_by_the_loader(value)
    if not refused and is_only_missing_in_tests(value):
        return
    assert refused is not plain_validator.is_valid(value), f"{'only' if refused else 'not'} the loader refuses {value}"


def test_the_published_schema_is_valid_for_the_second_validator() -> None:
    assert jsonschema_rs.meta.is_valid(PUBLISHED)
    assert plain_validator.is_valid({"version": 1})
    assert not plain_validator.is_valid({"version": 2})


# From the schema


FREE = {"enum": [None, False, 1, 2.5, "", "text", [], [1, "a"], {}, {"a": {"b": []}}]}
"""Made where a schema admits anything: to make up values of every shape would take nearly all the time."""


def bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `FREE` where anything goes."""
    bound: dict[str, Any] = {}
    for word, said in schema.items():
        if word in ("properties", "$defs"):
            bound[word] = {name: bounded(below) for name, below in said.items()}
        elif word in ("items", "additionalProperties", "propertyNames") and isinstance(said, dict):
            bound[word] = bounded(said)
        elif word not in ANNOTATIONS:
            bound[word] = said
    return {**FREE, **bound} if bound in ({}, {"type": "object"}) else bound


ANNOTATIONS = ("title", "description", "markdownDescription", "errorMessage", "examples", "defaultSnippets")

TEST = {"message": {}, "expect": {"ended_by": None}}

WHERE: dict[str, Callable[[Any], Any]] = {
    "name": lambda name: {"stages": {name: {}}, "hooks": {name: {}}, "profiles": {"x": {"hooks": {name: {}}}}},
    "plugin_name": lambda name: {"plugins": {name: {}}, "profiles": {name: {"plugins": [name]}}},
    "stage": lambda stage: {"stages": {"x": stage}, "profiles": {"x": {"stages": {"y": stage}}}},
    "hook": lambda hook: {"hooks": {"x": hook}, "profiles": {"x": {"hooks": {"y": hook}}}},
    "plugin": lambda plugin: {"plugins": {"x": plugin}},
    "server": lambda server: {"mcp": {"x": server}},
    "schedule": lambda said: {"schedules": {"x": said}, "profiles": {"x": {"schedules": {"y": said}}}},
    "labels": lambda labels: {"plugins": {"x": {"labels": {"tools": {"a.b": labels}, "channels": {"c": labels}}}}},
    "profile": lambda profile: {"profiles": {"x": profile}},
    "route": lambda route: {"routes": [route, route]},
    "settings": lambda settings: {"settings": settings, "profiles": {"x": {"settings": settings}}},
    "test": lambda test: {"tests": {"any name, 1!": test}},
    "next_turn": lambda turn: {"tests": {"x": {**TEST, "then": [turn]}}},
    "expectations": lambda expect: {"tests": {"x": {**TEST, "expect": expect}}},
    "expected": lambda expected: {"tests": {"x": {**TEST, "expect": {"state": {"x": expected}}}}},
    "mock": lambda mock: {"tests": {"x": {**TEST, "mock": {"x": mock}}}},
    "answer": lambda answer: {"tests": {"x": {**TEST, "mock": {"x": {"answers": [answer]}}}}},
}
"""Where each definition of the schema belongs in a file."""


def test_a_file_without_a_mistake_needs_no_validator() -> None:
    roots = [parse(file.read_bytes(), file=file.name, layer="").root for file in CORPUS]
    values = [root.plain() for root in roots if root is not None]
    fine = [value for value in values if whole_validator.is_valid(value) and is_comparable(value)]
    assert len(fine) > 50
    assert [value for value in fine if not pipeline_check()(value)] == []


def test_a_schema_with_a_keyword_that_is_not_known_is_sure_of_nothing() -> None:
    assert not quick_check({"type": "string", "contentEncoding": "base64"})("aGk=")


@pytest.mark.parametrize("blank", ["\ufeff", "\x85", "\x1c", "\x1f", "\xa0", "\u2028", "\u3000", " "])
def test_what_one_language_takes_for_a_blank_is_one_for_both(blank: str) -> None:
    value = {"version": 1, "extends": "bub:default", "settings": {"command_prefix": f"a{blank}b"}}
    assert (plain_validator.is_valid(value), refused_by_the_loader(value)) == (False, True)


@pytest.mark.parametrize("definition", WHERE)
def test_the_loader_accepts_what_the_schema_makes(definition: str) -> None:
    whole = bounded(PLAIN)
    schema = {**whole["$defs"][definition], "$defs": whole["$defs"]}
    if definition == "profile":  # its larger parts are definitions of their own
        small = {
            key: said for key, said in schema["properties"].items() if key not in ("stages", "hooks", "settings", "mcp")
        }
        schema["properties"] = small

    @settings(some, max_examples=EXAMPLES // 4 if definition in MADE_OF_OTHERS else EXAMPLES)
    @given(from_schema(schema))
    def check(made: Any) -> None:
        value = {"version": 1, **WHERE[definition](made)}
        assume(not is_ambiguous(value))
        assert plain_validator.is_valid(value)
        if is_comparable(value):
            assert not refused_by_the_loader(value), check_layer(node_of(value))

    check()


def test_every_definition_with_keys_is_among_them() -> None:
    with_keys = {name for name, said in PLAIN["$defs"].items() if "properties" in said}
    assert with_keys - WHERE.keys() == {"message_fields"}  # a part of stages and routes


# From a file with every key


def sample(schema: dict[str, Any]) -> Any:
    """A value that a schema accepts, with every key it names."""
    if "$ref" in schema:
        schema = {**PLAIN["$defs"][schema["$ref"].removeprefix("#/$defs/")], **schema}
    if "enum" in schema:
        return schema["enum"][0]
    if "items" in schema:
        return [sample(schema["items"])]
    if schema.get("title") == "duration":
        return "30s"
    least = schema.get("minimum", 1)
    kinds = {"boolean": True, "integer": least, "number": least, "string": "x", "object": {}, "array": []}
    types = schema.get("type", "string")
    made = kinds[types[0] if isinstance(types, list) else types]
    if made == "x" and not re.search(schema.get("pattern", ""), made):
        return "${env:A}"  # a text of a certain form can always be a reference
    if made == {}:
        others = schema.get("additionalProperties")
        made = {"x": sample(others)} if isinstance(others, dict) else {}
        made |= {name: sample(below) for name, below in schema.get("properties", {}).items()}
    return made


REQUIRED = {"version", "match", "profile", "message", "expect"}
ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 11, 10**30, -0.5, 0.5, 2.5, "", "x", "X", "x y", "x\n", "9", "é", "1", "true"),
    *(
        "30s",
        "30s\n",
        " 30s",
        "0s",
        "0.0s",
        "1.5h",
        "5",
        "5S",
        "${env:A}",
        "${env:A}\n",
        "${env:}",
        "${file:b}",
        "$${env:A}",
    ),
    *([], {}, ["x"], ["x", "x"], ["x", "y"], [""], ["x\n"], [1], [None], [[]], [{}], {"x": 1}, {"x": {}}, {"x": None}),
    *({"x\n": {}}, {"x": "x"}, {"X": {}}, {"é": {}}, {"": {}}, {"x-y": {}}, {"x": "${env:A}"}),
    *("gate", "void", "skip", "deny", "falsy", "merge", "python", "serial"),
)
"""What is put in the place of every value in turn: right somewhere, and wrong nearly everywhere else."""


def alone(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """`other` at `path`, with nothing of `value` around it but what has to be there."""
    if not path:
        return other
    step, *rest = path
    if isinstance(value, list):
        return [alone(value[step], tuple(rest), other)]
    kept = {name: child for name, child in value.items() if name in REQUIRED}
    return {**kept, step: alone(value[step], tuple(rest), other)}


def test_the_two_say_the_same_of_every_value_in_the_place_of_every_other() -> None:
    whole = sample(PLAIN)
    assert plain_validator.is_valid(whole)
    assert not refused_by_the_loader(whole)
    places = list(places_in(whole))
    assert len(places) > 150
    for path in places:
        for other in ODD:
            assert_same(alone(whole, path, other))


# From the corpus


def read(path: Path) -> Any:
    """What a file of the corpus says, as plain values; None where it cannot be read, or the reader refused a part."""
    parsed = parse(path.read_bytes(), file=path.name, layer=path.name)
    told = {finding.code for finding in parsed.findings if finding.severity == "error"}
    return parsed.root.plain() if parsed.root is not None and EMPTY not in told else None


@cache
def corpus() -> tuple[Any, ...]:
    return tuple(value for value in map(read, CORPUS) if value is not None and is_comparable(value))


def test_the_two_say_the_same_of_the_corpus() -> None:
    verdicts = set()
    for value in corpus():
        assert_same(value)
        verdicts.add(plain_validator.is_valid(value))
    assert verdicts == {True, False}
    assert len(corpus()) >= 100


def names_in(schema: Any) -> Iterator[str]:
    """Every key that a schema names."""
    if isinstance(schema, dict):
        for word, said in schema.items():
            if word == "properties":
                yield from said
            yield from names_in(said)
    elif isinstance(schema, list):
        for said in schema:
            yield from names_in(said)


words = st.sampled_from(sorted({*names_in(PLAIN), *KINDS, "x-mine", "on", "", "é", "a b", "A", "9"}))
odd_texts = st.sampled_from(
    ("", "30s", "0s", "00ms", "1.5h", "5", " 5s", "5s\n", "${env:A}", "${env:A:-{}}", "$${env:A}", "${file:}", "é" * 9)
)
odd_values = (
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from((0.5, 2.5, -0.1, 10**30))
    | odd_texts
    | words
    | st.lists(odd_texts | st.integers(0, 2), max_size=3)
    | st.dictionaries(words, odd_texts | st.booleans() | st.just({}), max_size=2)
)


def changed(draw: Callable[[Any], Any], value: Any, path: tuple[Any, ...]) -> Any:
    """A copy of `value` in which what stands at `path` is another, is gone, or has another name or a neighbour."""
    step, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[step] = changed(draw, value[step], tuple(rest))
        return copy
    change = draw(st.sampled_from(("replace", "remove", "rename", "add", "repeat")))
    if change == "replace":
        copy[step] = draw(odd_values)
    elif change == "remove":
        del copy[step]
    elif isinstance(copy, list):
        copy.insert(step, copy[step] if change == "repeat" else draw(odd_values))
    else:
        copy[draw(words)] = copy.pop(step) if change == "rename" else draw(odd_values)
    return copy


@settings(some, max_examples=10 * EXAMPLES)
@given(st.data())
def test_the_two_say_the_same_of_a_corpus_in_which_something_is_changed(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(corpus()))
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(places_in(value))
        if places:
            value = changed(data.draw, value, data.draw(st.sampled_from(places)))
    if is_comparable(value):
        assert_same(value)


# The conditions


@pytest.mark.parametrize("kind", KINDS)
def test_the_conditions_refuse_what_the_rules_report(kind: str) -> None:
    samples: dict[str, Any] = {
        "into": "made",
        "default": "x",
        "default_if": "falsy",
        "combine": "list",
        "changes": ["message"],
        "for_each": "message",
        "cleanup_for": "first",
        "retry": {"times": 2},
        "show": "checked",
        "idle_timeout": "1m",
    }
    assert samples.keys() == KIND_KEYS.keys()
    extras = [*samples.items(), *(("on_failure", policy) for policy in ("propagate", "skip", "deny"))]
    for key, said in extras:
        value = {
            "version": 1,
            "hooks": {"first": {"kind": "void"}, "mine": {"kind": kind}, "last": {"kind": "void"}},
            "stages": {"first": {"kind": "void"}, "mine": {"kind": kind, key: said}, "last": {"kind": "void"}},
        }
        assert plain_validator.is_valid(value)
        findings = check_loaded(load_text(json.dumps(value))).diagnostics
        told = any(finding.code in OF_KINDS and f"{key}" in finding.path for finding in findings)
        assert told is not whole_validator.is_valid(value), f"{kind} with {key}: {said}"
