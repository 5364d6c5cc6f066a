"""Print every tape of an agent as JSON, by its session: `python tapes.py PIPELINE`, in its folder and environment."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import trio

from bub import BubFramework
from bub.tape.shelf import summaries
from bub.tape.tape import Tape


async def read(file: Path) -> dict[str, list[dict[str, Any]]]:
    framework = BubFramework(file, workspace=Path.cwd())
    async with framework.running():
        store: Any = framework.get_tape_store()
        found = {}
        for summary in await summaries(store):
            tape = Tape(summary.name, store)
            found[summary.session or summary.name] = [dataclasses.asdict(one) for one in await tape.fetch(tape.query())]
        return found


if __name__ == "__main__":
    print(json.dumps(trio.run(read, Path(sys.argv[1])), default=str))
