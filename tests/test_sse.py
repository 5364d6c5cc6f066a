"""Server-sent events out of bytes, however a server writes them and however the network cuts them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.agent.models.sse import EventDecoder

PIECES = [b"data: a", b"data:b", b"data", b"data:", b": ping", b"event: x", b"id: 1", b"", b"", "data: ä€𝄞".encode()]


def read(*pieces: bytes) -> list[str]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: one\n\ndata: two\n\n", ["one", "two"]),
        (b"data:one\n\n", ["one"]),
        (b"data:  one\n\n", [" one"]),
        (b"data: one\ndata: two\n\n", ["one\ntwo"]),
        (b"data: one\r\n\r\ndata: two\r\r", ["one", "two"]),
        (b": ping\n\nevent: message\nid: 7\nretry: 10\ndata: one\n\n", ["one"]),
        (b"\xef\xbb\xbfdata: one\n\n", ["one"]),
        (b"data\n\n", [""]),
        (b"data: one\n\ndata: not complete\n", ["one"]),
        (b"database: no\nDATA: no\n data: no\n\n", []),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"", []),
    ],
)
def test_a_body_is_read_as_the_standard_says(body: bytes, events: list[str]) -> None:
    assert read(body) == events


@given(
    st.lists(st.sampled_from(PIECES), max_size=12),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 120), max_size=6),
)
def test_it_does_not_matter_where_the_network_cuts(lines: Sequence[bytes], end: bytes, cuts: Sequence[int]) -> None:
    body = b"".join(line + end for line in lines)
    places = [0, *sorted({min(cut, len(body)) for cut in cuts}), len(body)]
    pieces = [body[start:stop] for start, stop in itertools.pairwise(places)]
    whole = [line + b"\n" for line in lines]
    assert read(*pieces, end) == read(b"".join(whole), b"\n")


def test_an_event_in_two_reads_is_one() -> None:
    assert read(b"da", b"ta: o", b"ne\r", b"\n\r", b"\ndata: two\n", b"\n") == ["one", "two"]
