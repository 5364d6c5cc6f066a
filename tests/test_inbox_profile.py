"""A message whose channel names the profile of its turn, and one that only seems to."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.line import Line, an_office, opened
from fakes.toys import Workshop

from bub.channels import ChannelMessage
from bub.inbox.mailbox import Mailbox
from bub.inbox.sqlite import SqliteInbox

pytestmark = pytest.mark.anyio

PROFILES = """
extends: bub:default
routes:
- {match: {chat_id: quiet}, profile: quiet}
- {match: {}, profile: loud}
profiles:
  default: {plugins: [office]}
  loud: {plugins: [office]}
  quiet: {plugins: [office]}
"""


async def said(workshop: Workshop, message: object) -> list[str]:
    line, taken = Line(), list[str]()

    def run_model(prompt: str, profile: str) -> str:
        taken.append(profile)
        return "yes"

    async with opened(an_office(workshop, line, pipeline=PROFILES, run_model=run_model)) as manager:
        await manager.receive(message)
        await manager.settled()
    return taken


async def test_the_profile_that_a_channel_names_takes_the_turn_whatever_the_routes_say(workshop: Workshop) -> None:
    assert await said(workshop, ChannelMessage("line", "1", "hello", profile="quiet")) == ["quiet"]


async def test_in_an_envelope_it_does_not_count(workshop: Workshop) -> None:
    assert await said(workshop, {"channel": "line", "chat_id": "1", "content": "hi", "profile": "quiet"}) == ["loud"]


async def test_one_that_is_not_there_takes_no_turn_and_no_other_does(workshop: Workshop, tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path / "inbox.db", tmp_path)
    line = Line()
    async with opened(an_office(workshop, line, pipeline=PROFILES), mailbox=mailbox) as manager:
        await manager.receive(ChannelMessage("line", "1", "hello", profile="gone"))
        await manager.settled()
    assert line.said == []
    kept = SqliteInbox(tmp_path / "inbox.db", tmp_path)
    kept.open()
    [entry] = kept.alone(kept.list_entries)
    kept.close()
    assert entry.message is not None and entry.message.profile == "gone"
