"""The parts of a terminal: blocks of Markdown, and letters that nobody sees."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.channels.terminal.answer import label_of
from bub.channels.terminal.blocks import Blocks
from bub.channels.terminal.escaping import encodable, escape_controls, escape_invisible

MARKDOWN = st.lists(
    st.sampled_from(["a", "# a", "", "", "- a", "  b", "1. c", "```", "```py", "~~~", "    d", "| a |", "> q", "\t"]),
    max_size=12,
).map("\n".join)


@given(MARKDOWN, st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_blocks_are_the_text_however_it_was_cut(text: str, cuts: list[int]) -> None:
    assert "".join(blocks_of(text, cuts)) == text
    assert blocks_of(text, cuts) == blocks_of(text, [len(text) or 1])


def blocks_of(text: str, cuts: list[int]) -> list[str]:
    blocks, found, at, turn = Blocks(), [], 0, 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        found += blocks.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return [*found, rest] if (rest := blocks.finish()) else found


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\ntwo\n\nthree", ["one\ntwo\n\n", "three"]),
        ("```\na\n\nb\n```\nc", ["```\na\n\nb\n```\n", "c"]),
        ("````\n```\n\nx\n````\n", ["````\n```\n\nx\n````\n"]),
        ("- a\n\n  b\n\nc", ["- a\n\n  b\n\n", "c"]),
        ("- a\n  ```\n\n  x\n  ```\n- b", ["- a\n  ```\n\n  x\n  ```\n- b"]),
        ("\n\na", ["\n\na"]),
        ("``` is no ``` fence\n\na", ["``` is no ``` fence\n\n", "a"]),
    ],
)
def test_where_a_block_ends(text: str, blocks: list[str]) -> None:
    assert blocks_of(text, [1]) == blocks


ENCODE: dict[str, Callable[[str], str]] = {"safe": escape_controls, "exact": escape_invisible}


@given(st.text())
def test_no_text_acts_on_a_terminal(text: str) -> None:
    for made in (escape_controls(text), escape_invisible(text)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", made)
    encodable(escape_controls(text), "ascii").encode("ascii")


@given(st.text(), st.text())
def test_texts_that_differ_look_different_where_they_are_judged(one: str, other: str) -> None:
    plain = [text for text in (one, other) if "\\" not in text]
    assert len(plain) < 2 or one == other or escape_invisible(one) != escape_invisible(other)


def test_a_call_is_shown_in_short() -> None:
    assert label_of("bash", {"command": "ls\n-la"}) == "bash ls -la"
    assert label_of("x", {"a": 1, "b": "\x1b[2J"}) == r"x a=1 b=\x1b[2J"
    assert len(label_of("x", {"a": "y" * 10_000})) < 80
