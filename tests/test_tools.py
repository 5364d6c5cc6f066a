"""Tools: made of functions, given checked arguments, and used only where they may be."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta

from bub.labels import Labels
from bub.tools import Tool, ToolBox, ToolContext, ToolError, ToolPolicy, tool

CONTEXT = ToolContext("s", Path())


@dataclass
class Point:
    """A place on a map."""

    x: int
    y: float = 0.5


@tool(name="map.everything")
def everything(
    text: Annotated[str, "What to write."],
    number: Annotated[int, "How many.", Meta(ge=1, le=1000)] = 1,
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5,
    flag: bool = False,
    names: list[str] = [],  # noqa: B006 (that calls do not share it is tested)
    mode: Literal["fast", "slow"] = "fast",
    table: dict[str, int] | None = None,
    point: Point | None = None,
    *,
    context: ToolContext,
) -> Any:
    """Show everything that an argument can be.

    And this, too.
    """
    names.append(context.session_id)
    return names


VALIDATOR = jsonschema.Draft202012Validator(dict(everything.parameters))
LAWS = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
CLOSE = st.sampled_from(["fast", "true", "3", "0.5", "", "x", 1, 0, 3.0, {"x": 1}, {"y": 2}, ["a"], [1], {"a": 1}])


def named(*names: str, read_only: Iterable[str] = ()) -> dict[str, Tool]:
    def nothing() -> None:
        """Do nothing."""

    return {name: tool(name=name, read_only=name in set(read_only))(nothing) for name in names}


# Making them


def test_a_function_becomes_a_tool_by_its_hints_and_its_docstring() -> None:
    assert everything.name == "map.everything"
    assert everything.summary == "Show everything that an argument can be."
    assert everything.description.endswith("And this, too.")
    properties = everything.parameters["properties"]
    assert list(properties) == ["text", "number", "ratio", "flag", "names", "mode", "table", "point"]
    assert properties["text"] == {"description": "What to write.", "type": "string"}
    assert properties["number"] == {
        "description": "How many.", "type": "integer", "minimum": 1, "maximum": 1000, "default": 1
    }  # fmt: skip
    assert everything.parameters["required"] == ["text"]
    assert everything.parameters["additionalProperties"] is False
    jsonschema.Draft202012Validator.check_schema(dict(everything.parameters))


def test_a_tool_that_is_declared_to_do_nothing_is_not_one_that_declares_nothing() -> None:
    def look() -> None:
        """Look."""

    assert tool(name="look")(look).labels is None
    assert tool(name="look")(look).assumed_labels == Labels(brings="untrusted", reaches="outside")
    assert tool(name="look", reaches=None)(look).assumed_labels == Labels()
    assert tool(name="look", reads="private")(look).assumed_labels == Labels(reads="private")
    with pytest.raises(ValueError, match="reads='private'"):
        tool(name="look", reads="secret")(look)  # type: ignore[call-overload]


def test_a_plain_decorator_takes_the_functions_own_name() -> None:
    @tool
    def help_() -> None:
        """Show the commands."""

    assert (help_.name, help_.usage, help_.read_only) == ("help", "help", False)


def no_docstring() -> None:
    pass


def many(*paths: str) -> None:
    """Take many."""


def anything(**more: str) -> None:
    """Take anything."""


def by_place(path: str, /) -> None:
    """Take one."""


@pytest.mark.parametrize(
    ("function", "keys", "said"),
    [
        (no_docstring, {}, "has no docstring"),
        (many, {}, r"has an argument `\*paths"),
        (anything, {}, r"has an argument `\*\*more"),
        (by_place, {}, "which a model cannot give by name"),
        (everything.function, {"name": "Notes.Add"}, "cannot be the name of a tool"),
        (everything.function, {"name": "notes add"}, "cannot be the name of a tool"),
        (everything.function, {"path": "file"}, "has no argument `file`"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(function: Any, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tool(**keys)(function)


# Arguments


FITTING = st.fixed_dictionaries(
    {"text": st.text()},
    optional={
        "number": st.integers(1, 1000),
        "ratio": st.floats(0, 1),
        "flag": st.booleans(),
        "names": st.lists(st.text() | st.sampled_from(["null", "true", "1"])),
        "mode": st.sampled_from(["fast", "slow"]),
        "table": st.none() | st.dictionaries(st.text(), st.integers()),
        "point": st.none() | st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.floats(-1, 1)}),
    },
)


@LAWS
@given(FITTING)
def test_what_fits_the_schema_is_taken_as_it_is(arguments: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(arguments)
    taken = everything.check(arguments)
    for name, value in arguments.items():
        assert taken[name] == (Point(**value) if name == "point" and value is not None else value)


@LAWS
@given(
    st.dictionaries(st.sampled_from([*everything.parameters["properties"], "nmber"]), JSON | CLOSE)
    | st.fixed_dictionaries({"text": st.just("x")}, optional={"number": CLOSE, "flag": CLOSE, "point": CLOSE})
)
def test_A17_what_a_function_is_given_fits_the_schema(arguments: dict[str, Any]) -> None:
    try:
        taken = everything.check(arguments)
    except ToolError as told:
        assert told.kind == "invalid_input"
        assert not VALIDATOR.is_valid(arguments)
    else:
        assert VALIDATOR.is_valid(msgspec.to_builtins(taken))
        assert set(taken) == set(everything.parameters["properties"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "it needs `text`"),
        ({"text": 3}, "Expected `str`, got `int` for `text`"),
        ({"text": "x", "nmber": 3}, "has no argument `nmber` (did you mean `number`?)"),
        ({"text": "x", "number": 0}, "Expected `int` >= 1 for `number`"),
        ({"text": "x", "names": ["a", 1]}, "Expected `str`, got `int` for `names[1]`"),
        ({"text": "x", "mode": "slo"}, "Invalid enum value 'slo' for `mode`"),
    ],
)
def test_A17_bad_arguments_are_told_with_the_place(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolError) as caught:
        everything.check(arguments)
    assert said in str(caught.value)
    assert caught.value.kind == "invalid_input"


def test_arguments_that_are_left_out_are_shared_by_no_two_calls() -> None:
    for _ in range(2):
        assert trio.run(everything.call, everything.check({"text": "x"}), CONTEXT) == ["s"]


@pytest.mark.parametrize(
    ("positional", "named", "taken"),
    [
        (["x"], {}, {"text": "x", "number": 1}),
        (["x", "3"], {"flag": "true"}, {"text": "x", "number": 3, "flag": True}),
        ([], {"text": "3", "names": "a, b,"}, {"text": "3", "names": ["a", "b"]}),
    ],
)
def test_A4_a_command_line_is_read_as_the_hints_say(
    positional: list[str], named: dict[str, str], taken: dict[str, Any]
) -> None:
    checked = everything.check(everything.from_words(positional, named))
    assert {name: checked[name] for name in taken} == taken


def test_A4_a_command_line_with_too_much_is_an_error() -> None:
    with pytest.raises(ToolError, match="takes 8 arguments, not 9"):
        everything.from_words("123456789", {})
    with pytest.raises(ToolError, match="`text` twice"):
        everything.from_words(["x"], {"text": "y"})


# Calling


def test_a_plain_function_runs_in_a_thread_and_an_async_one_does_not() -> None:
    @tool
    def plain() -> int:
        """Tell the thread."""
        return threading.get_ident()

    @tool
    async def waiting() -> int:
        """Tell the thread."""
        return threading.get_ident()

    assert trio.run(plain.call, {}, CONTEXT) != threading.get_ident()
    assert trio.run(waiting.call, {}, CONTEXT) == threading.get_ident()


def test_a_plain_function_does_not_hold_a_turn_that_is_cancelled() -> None:
    go_on = threading.Event()
    started = threading.Event()

    @tool
    def slow() -> None:
        """Wait."""
        started.set()
        go_on.wait(10)

    async def cancelled() -> bool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.call, {}, CONTEXT)
            await trio.to_thread.run_sync(started.wait)
            nursery.cancel_scope.cancel()
        return go_on.is_set()

    assert trio.run(cancelled) is False
    go_on.set()


# Which of them may be used


def test_A24_a_profile_that_says_nothing_has_the_tools_that_only_read() -> None:
    box = ToolBox(named("fs.read", "fs.write", "bash", read_only=["fs.read"]), ToolPolicy.of(None))
    assert box.usable() == ["fs.read"]
    assert ToolBox(box.tools, ToolPolicy.of({"allow": []})).usable() == []
    assert ToolBox(box.tools, ToolPolicy.of({"allow": ["fs.*"]})).usable() == ["fs.read", "fs.write"]


def test_bash_is_allowed_by_its_name_only() -> None:
    tools = named("bash", "bash.output", "fs.read")
    for glob in ("*", "b*", "bas?", "[b]ash"):
        assert "bash" not in ToolBox(tools, ToolPolicy.of({"allow": [glob]})).usable()
    assert ToolBox(tools, ToolPolicy.of({"allow": ["*", "bash"]})).usable() == ["bash", "bash.output", "fs.read"]
    assert ToolBox(tools, ToolPolicy.of({"allow": ["bash"], "deny": ["b*"]})).usable() == []


def test_a_person_is_asked_for_what_the_profile_says() -> None:
    tools = named("bash", "fs.write", "fs.read")
    policy = ToolPolicy.of({"allow": ["*", "bash"], "ask": ["bash", "fs.w*"]})
    assert [name for name, one in tools.items() if policy.asks(one)] == ["bash", "fs.write"]
    assert policy.permits(tools["bash"])
    assert policy.narrow(["bash"]).asks(tools["bash"])


NAMES = ("bash", "fs.read", "fs.write", "tape.info", "subagent", "notes.add")
TOOLS = named(*NAMES, read_only=["fs.read", "tape.info"])
GLOBS = st.sampled_from([*NAMES, "*", "fs.*", "b*", "*.read", "t*", "no.such"])
POLICIES = st.builds(
    lambda allow, deny, ask: ToolPolicy.of({"allow": allow, "deny": deny, "ask": ask}),
    st.none() | st.lists(GLOBS, max_size=4),
    st.lists(GLOBS, max_size=2),
    st.lists(GLOBS, max_size=2),
)


@LAWS
@given(POLICIES, st.lists(st.none() | st.lists(st.sampled_from(NAMES), max_size=4), max_size=4), st.data())
def test_A25_a_sub_agent_never_may_more_than_who_called_it(policy: ToolPolicy, steps: Any, data: st.DataObject) -> None:
    box = ToolBox(TOOLS, policy)
    for names in steps:
        usable = box.usable()
        wanted = [name for name in names if name in usable] if names is not None else None
        without = data.draw(st.lists(st.sampled_from(NAMES), max_size=2))
        inner = box.narrow(wanted, without=without)
        assert set(inner.usable()) == set(usable if wanted is None else wanted) - set(without)
        assert all(inner.policy.asks(TOOLS[name]) for name in inner.usable() if box.policy.asks(TOOLS[name]))
        box = inner


@LAWS
@given(POLICIES, GLOBS)
def test_what_is_denied_is_denied_whatever_is_allowed(policy: ToolPolicy, glob: str) -> None:
    stricter = ToolPolicy(policy.allow, (*policy.deny, glob), policy.ask)
    denied = {
        name for name in NAMES if not ToolPolicy.of({"allow": ["*", "bash"], "deny": [glob]}).permits(TOOLS[name])
    }
    assert set(ToolBox(TOOLS, stricter).usable()) == set(ToolBox(TOOLS, policy).usable()) - denied


def test_A24_a_sub_agent_is_given_tools_by_any_spelling_of_their_names() -> None:
    box = ToolBox(TOOLS, ToolPolicy.of({"allow": ["fs.*", "bash"]}))
    assert box.narrow(["FS_READ", "bash"]).usable() == ["bash", "fs.read"]
    assert box.narrow([]).usable() == []
    for name, kind in (("fs_raed", "unknown"), ("notes.add", "denied")):
        with pytest.raises(ToolError) as caught:
            box.narrow([name])
        assert caught.value.kind == kind


def test_A18_a_tool_that_there_is_not_is_told_with_those_that_are_close() -> None:
    box = ToolBox(TOOLS, ToolPolicy.of({"allow": ["fs.*", "bash"]}))
    told = {}
    for name in ("fs_read", "fs.raed", "shell.execute", "notes.add", "FS.READ"):
        with pytest.raises(ToolError) as caught:
            box.find(name)
        told[name] = str(caught.value)
    assert told["fs_read"] == "there is no tool `fs_read` (did you mean `fs.read`, `fs.write`?)"
    assert told["fs.raed"].startswith("there is no tool `fs.raed` (did you mean `fs.read`")
    assert told["shell.execute"] == "there is no tool `shell.execute` (there are bash, fs.read, fs.write)"
    assert told["notes.add"] == "the tool `notes.add` is not allowed here"
    assert told["FS.READ"].startswith("there is no tool `FS.READ` (did you mean `fs.read`")
    with pytest.raises(ToolError, match="none may be used here"):
        ToolBox(TOOLS, ToolPolicy.of({"allow": []})).find("x")


def test_a_model_is_not_told_of_commands_for_people() -> None:
    @tool(for_people=True)
    def quit_() -> None:
        """Leave."""

    box = ToolBox({"quit": quit_, **TOOLS}, ToolPolicy.of({"allow": ["quit", "fs.*"]}))
    assert box.for_model().usable() == ["fs.read", "fs.write"]
    assert box.find("quit") is quit_


def test_A24_of_two_tools_that_models_spell_alike_a_sub_agent_is_given_the_one_that_is_named() -> None:
    def made(name: str) -> Tool:
        return tool(name=name, description="It does.")(lambda: None)

    box = ToolBox({name: made(name) for name in ("math.add", "math_add")}, ToolPolicy(("*",)))
    for name in box.tools:
        assert box.narrow([name]).usable() == [name]


def test_a_tool_that_yields_is_refused_where_it_is_made() -> None:
    def one_by_one() -> Iterator[str]:
        """Tell one thing after the other."""
        yield "one"

    async def later() -> AsyncIterator[str]:
        """Tell one thing after the other."""
        yield "one"

    for function in (one_by_one, later):
        with pytest.raises(ValueError, match="it has to return its whole result"):
            tool(function)
