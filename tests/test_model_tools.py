"""Tools as models are told of them, and the calls that come back: names both ways, and calls out of pieces."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.agent.models.calls import PartialCalls, arguments_of, new_id
from bub.agent.models.names import LONGEST_NAME, ToolNames, fit_id
from bub.agent.models.request import ChatRequest, ToolSpec
from bub.agent.models.usage import tokens_of

ACCEPTED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def names_for(*tools: str, history: tuple[str, ...] = ()) -> ToolNames:
    calls = [{"id": f"c{at}", "function": {"name": name, "arguments": "{}"}} for at, name in enumerate(history)]
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    return ToolNames(ChatRequest([said] if calls else [], tools=[ToolSpec(name, "", {}) for name in tools]))


# Names


def test_A23_a_dot_in_a_tools_name_is_an_underscore_for_the_model() -> None:
    names = names_for("fs.read", "web.fetch", "bash")
    assert [names.wire(name) for name in ("fs.read", "web.fetch", "bash")] == ["fs_read", "web_fetch", "bash"]
    assert [names.own(wire) for wire in ("fs_read", "web_fetch", "bash")] == ["fs.read", "web.fetch", "bash"]


def test_A23_a_name_that_needs_no_change_keeps_it_whichever_comes_first() -> None:
    for tools in (("fs.read", "fs_read"), ("fs_read", "fs.read")):
        names = names_for(*tools)
        assert (names.wire("fs_read"), names.wire("fs.read")) == ("fs_read", "fs_read_2")
        assert (names.own("fs_read"), names.own("fs_read_2")) == ("fs_read", "fs.read")


def test_A23_a_name_that_the_model_made_up_comes_back_as_it_said_it() -> None:
    names = names_for("fs.read")
    assert [names.own(said) for said in ("fs_raed", "fs.read", "")] == ["fs_raed", "fs.read", ""]


def test_A23_what_the_history_calls_never_takes_the_name_of_a_tool() -> None:
    names = names_for("fs.read", history=("fs_read", "gone.tool", "fs.read"))
    assert names.wire("fs.read") == "fs_read"
    assert names.wire("fs_read") == "fs_read_2"
    assert names.wire("gone.tool") == "gone_tool"
    assert names.own("gone_tool") == "gone_tool"


@given(st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=12))
def test_A23_every_name_is_accepted_unlike_the_others_and_found_again(tools: list[str]) -> None:
    names = names_for(*tools)
    wires = [names.wire(name) for name in tools]
    assert all(ACCEPTED.fullmatch(wire) for wire in wires)
    assert len(set(wires)) == len(wires)
    assert [names.own(wire) for wire in wires] == tools


@given(st.lists(st.sampled_from(["a." * 40, "a-" * 40, "a_" * 40, "a." * 32, "1", "_1"]), unique=True))
def test_A23_long_names_that_become_alike_are_still_told_apart(tools: list[str]) -> None:
    wires = [names_for(*tools).wire(name) for name in tools]
    assert len(set(wires)) == len(tools)
    assert all(len(wire) <= LONGEST_NAME for wire in wires)


def test_an_id_that_a_provider_refuses_becomes_one_that_it_takes_always_the_same() -> None:
    nine = re.compile("[A-Za-z0-9]{9}")
    assert fit_id("abcDEF123", nine) == "abcDEF123"
    assert fit_id("call_1", nine) == fit_id("call_1", nine) != fit_id("call_2", nine)
    for call_id in ("call_1", "", None, "functions.fs_read:0", "\ud800"):
        assert nine.fullmatch(fit_id(call_id, nine))


def test_an_id_that_is_made_up_is_taken_by_every_provider() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in ids)


# Calls out of pieces


Piece = tuple[Any, ...]


def put_together(*pieces: Piece, offered: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    calls = PartialCalls(offered)
    for piece in pieces:
        calls.add(*piece)
    return [(call.id, call.name, call.raw) for call in calls.list_calls()]


READ, WRITE = ("1", "read", '{"path": "a"}'), ("2", "write", "{}")


@pytest.mark.parametrize(
    "pieces",
    [
        # The usual way, and side by side.
        [(0, "1", "read", ""), (0, None, None, '{"path":'), (0, None, None, ' "a"}'), (1, "2", "write", "{}")],
        [(0, "1", "read", ""), (1, "2", "write", ""), (0, None, None, '{"path": "a"}'), (1, None, None, "{}")],
        # Each whole, with an index of its own, with the same index, without one.
        [(0, *READ), (1, *WRITE)],
        [(0, *READ), (0, *WRITE)],
        [(None, *READ), (None, *WRITE)],
        # Pieces without an index belong to the last call.
        [(None, "1", "read", '{"path'), (None, None, None, '": "a"}'), (None, "2", "write", "{}")],
        [(None, "1", "read", '{"path'), (None, "", "", '": "a"}'), (None, "2", "write", "{}")],
        # The name and the id again with every piece.
        [(0, "1", "read", '{"path'), (0, "1", "read", '": "a"}'), (0, "1", "read", ""), (1, "2", "write", "{}")],
        [(None, "1", "read", '{"path'), (None, "1", "read", '": "a"}'), (None, "2", "write", "{}")],
        # The id after the name; arguments that are a mapping.
        [(0, None, "read", '{"path'), (0, "1", None, '": "a"}'), (1, "2", "write", {})],
        [(0, "1", "read", {"path": "a"}), (1, "2", "write", {})],
        # Indexes that begin anywhere, and pieces that say nothing.
        [(7, *READ), (3, None, None, None), (9, *WRITE), (3, "", "", "")],
    ],
)
def test_calls_are_put_together_however_a_server_cuts_them(pieces: list[Piece]) -> None:
    assert put_together(*pieces) == [READ, WRITE]


def test_calls_without_ids_are_told_apart_by_their_names_and_by_what_is_complete() -> None:
    assert put_together((0, "", "read", "{}"), (0, "", "write", "{}")) == [("", "read", "{}"), ("", "write", "{}")]
    assert put_together((0, "", "read", ""), (0, "", "write", "")) == [("", "read", ""), ("", "write", "")]
    twice = [(None, None, "read", '{"a": 1}'), (None, None, "read", '{"a": 2}')]
    assert [raw for _, _, raw in put_together(*twice)] == ['{"a": 1}', '{"a": 2}']
    again = [(None, None, "read", '{"a": {}'), (None, None, "read", "}")]
    assert [raw for _, _, raw in put_together(*again)] == ['{"a": {}}']


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, "1", "fs_", None), (0, None, "read", None), (0, None, None, "{}")],
        [(0, "1", "f", ""), (0, "1", "s_r", ""), (0, "1", "ead", "{}")],
        [(None, "1", "fs_", None), (None, None, "read", "{}")],
        [(0, "", "fs_", ""), (0, "", "read", ""), (0, "", "", "{}")],
        [(0, "1", "fs_", ""), (0, "1", "fs_read", "{}")],  # the name so far
        [(0, "1", "fs", ""), (0, "1", "_read", "{}")],  # `fs` is a tool as well
    ],
)
def test_a_name_that_is_streamed_in_pieces_is_of_one_call(pieces: list[Piece]) -> None:
    [(_, name, raw)] = put_together(*pieces, offered=("fs", "fs_read", "fs_write"))
    assert (name, raw) == ("fs_read", "{}")


def test_a_name_in_pieces_that_no_tool_has_is_of_one_call_too() -> None:
    pieces = [(0, "1", "fs_", ""), (0, None, "delete", ""), (0, None, None, "{}")]
    assert put_together(*pieces, offered=("fs_read",)) == [("1", "fs_delete", "{}")]


def test_names_of_two_tools_are_two_calls() -> None:
    pieces = [(0, "", "fs", ""), (0, "", "fs_read", ""), (0, "", "bash", "")]
    assert [name for _, name, _ in put_together(*pieces, offered=("bash", "fs", "fs_read"))] == [
        "fs",
        "fs_read",
        "bash",
    ]


JSON_OBJECTS = st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))


@given(
    st.lists(st.tuples(JSON_OBJECTS, st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["plain", "repeated", "no index"]),
    st.data(),
)
def test_arguments_survive_any_cut(objects: list[tuple[dict[str, Any], bool]], way: str, data: st.DataObject) -> None:
    calls = PartialCalls()
    for at, (arguments, is_ascii) in enumerate(objects):
        text = json.dumps(arguments, ensure_ascii=is_ascii)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)) | {0, len(text)})
        index = None if way == "no index" else at
        calls.add(index, f"id{at}", f"tool{at}", "")
        for start, end in itertools.pairwise(cuts):
            said = (f"id{at}", f"tool{at}") if way == "repeated" else (None, None)
            calls.add(index, *said, text[start:end])
    heard = [(call.id, call.name, arguments_of(call.raw)) for call in calls.list_calls()]
    assert heard == [(f"id{at}", f"tool{at}", arguments) for at, (arguments, _) in enumerate(objects)]


def test_half_characters_become_whole_or_are_replaced() -> None:
    [(_, _, raw)] = put_together((0, "1", "t", '{"a": "\ud83d'), (0, None, None, '\ude00"}'))
    assert raw == '{"a": "\N{GRINNING FACE}"}'
    assert arguments_of('{"a": "\\ud83d"}') == {"a": "\N{REPLACEMENT CHARACTER}"}
    assert arguments_of('{"a": "\\ud83d\\ude00"}') == {"a": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(
    "raw", ["{", "[]", "null", '"text"', "{}{}", '{"a": NaN}', "fs_read", '{"a": 1e999}', '{"a":' * 100_000]
)
def test_A17_arguments_that_are_no_object_are_none(raw: str) -> None:
    assert arguments_of(raw) is None


def test_no_arguments_are_an_empty_object_and_numbers_keep_their_digits() -> None:
    assert arguments_of("") == arguments_of(" \n") == {}
    assert arguments_of('{"n": 123456789012345678901234567890}') == {"n": 123456789012345678901234567890}


# What it cost


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, 15),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}, 15),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 8}, 15),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, 40),  # Gemini: it has thought as well
        ({"input_tokens": 10, "output_tokens": 5}, 15),
        (
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 1000,
                "cache_creation": {"ephemeral_5m_input_tokens": 100},
            },
            1115,
        ),
        ({"prompt_tokens": 10, "completion_tokens": None}, 10),
        ({"prompt_tokens": "10", "completion_tokens": True, "total_tokens": -1}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_tokens_are_counted_once_whoever_counts_them(usage: dict[str, Any] | None, tokens: int) -> None:
    assert tokens_of(usage) == tokens
