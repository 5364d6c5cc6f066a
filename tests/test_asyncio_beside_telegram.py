"""A channel on asyncio beside Telegram in one gateway, which is killed, reloaded, and whose island is blocked.

Nothing is lost on either side, each message has one turn, and a blocked island holds up no answer on Telegram.
`make beside` does it with 1,000 messages, `make beside PACKAGE=bub-slack` with bub-slack.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.beside import LONGEST_TEST, check, live_beside
from fakes.telegram import serving_bots
from fakes.wire import serving_wire


@pytest.mark.timeout(LONGEST_TEST)
def test_nothing_is_lost_and_telegram_waits_for_no_blocked_island(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as bots, serving_wire() as wire:
        beside = live_beside(bots, wire, folder)
        assert not beside.lost
        check(beside)
