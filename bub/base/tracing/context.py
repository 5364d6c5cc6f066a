"""The W3C Trace Context: what a request says of the trace that it is a part of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

_TRACEPARENT = r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"


class TraceContext(msgspec.Struct, frozen=True):
    """A trace (32 hexadecimal digits), the span in it that led here ("" if it begins here), its flags and state."""

    trace_id: str
    parent_id: str = ""
    flags: int = 1
    state: str = ""


class TraceHeaders(NamedTuple):
    """What a request says of the trace that it is a part of; `tracestate` is "" if there is none."""

    traceparent: str
    tracestate: str = ""


def join_trace(said: Mapping[str, Any]) -> str:
    """What a request or an environment says of its trace, as a message keeps it; "" for nothing.

    The names are the same whatever they are called by: `traceparent`, or `TRACEPARENT` in an environment.
    """
    words = [str(said.get(name) or said.get(name.upper()) or "") for name in ("traceparent", "tracestate")]
    return " ".join(words).strip() if words[0] else ""


def read_trace(text: str) -> TraceContext | None:
    """Read `traceparent` (W3C Trace Context, section 3.2) and, behind a blank, `tracestate`; None if it is none."""
    parent, _, state = text.strip().partition(" ")
    found = re.fullmatch(_TRACEPARENT, parent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id, span_id, int(flags, 16), state.strip())
