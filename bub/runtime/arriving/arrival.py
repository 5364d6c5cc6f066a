"""What a turn has made when it finds its session, written down so that another process can go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bub.channels.message import ChannelMessage
from bub.errors import BubError
from bub.hooks.facts import SESSION
from bub.inbox.texts import UNREADABLE, MessageTexts
from bub.log import log_info
from bub.pipeline.run.handover import plugins_asked, values_kept
from bub.pipeline.run.turn import Turn

_MESSAGE = "message"


class WrittenArrival(msgspec.Struct, frozen=True):
    """The values that the stages have made, by name, and the plugins that they have asked, in the profile of a name.

    `messages` are values that are messages, as strings.
    """

    profile: str
    values: dict[str, Any]
    messages: dict[str, str]
    asked: dict[str, list[str]]

    def read_values(self) -> dict[str, Any]:
        """Return the values as a turn has them."""
        texts = MessageTexts()
        return {**self.values, **{name: texts.read(body) for name, body in self.messages.items()}}

    def read_asked(self) -> Mapping[str, frozenset[str]]:
        """Return the plugins that each stage has asked."""
        return {stage: frozenset(plugins) for stage, plugins in self.asked.items()}


def write_arrival(turn: Turn, profile: str) -> bytes:
    """Write down what a turn that has arrived has made; b"" if all of it has to run again elsewhere.

    What is no JSON is left out, and the stage that made it runs again.
    """
    texts = MessageTexts()
    values: dict[str, Any] = {}
    messages: dict[str, str] = {}
    lost: set[str] = set()
    for name, value in values_kept(turn).items():
        if name == SESSION:
            continue
        try:
            if isinstance(value, ChannelMessage):
                messages[name] = texts.write(value)[0]
            elif msgspec.json.decode(msgspec.json.encode(value)) == value and _is_plain(value):
                values[name] = value
            else:
                lost.add(name)
        except (BubError, *UNREADABLE, UnicodeEncodeError, OverflowError):
            lost.add(name)
    if _MESSAGE in lost:
        return b""
    asked = {stage: sorted(plugins) for stage, plugins in plugins_asked(turn).items()}
    for node in turn.graph.arrival:
        for step in node.steps:
            if lost & {name for name, _ in step.makes} and asked.pop(step.id, None) is not None:
                log_info("turn.stage_runs_again", stage=step.id, values=", ".join(sorted(lost)))
    return msgspec.json.encode(WrittenArrival(profile, values, messages, asked))


def read_arrival(written: bytes) -> WrittenArrival | None:
    """Read what another process has written; None if nothing of it can be used."""
    try:
        return msgspec.json.decode(written, type=WrittenArrival)
    except msgspec.MsgspecError:
        return None


def _is_plain(value: Any) -> bool:
    """Whether a value comes out of JSON as what it was: a tuple becomes a list, and a key that is a number a text."""
    if isinstance(value, list):
        return type(value) is list and all(map(_is_plain, value))
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and _is_plain(one) for key, one in value.items())
    return value is None or type(value) in (str, int, float, bool)
