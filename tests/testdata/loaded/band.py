"""A plugin that brings a tool of another plugin's name, for `tools_of_one_name.yaml`."""

from typing import Any

import bub


@bub.tool(name="drum.roll")
def drum_roll(beats: int) -> str:
    """Roll the drum."""
    return "trr" * beats


@bub.hookimpl
def provide_tools() -> list[Any]:
    return [drum_roll]
