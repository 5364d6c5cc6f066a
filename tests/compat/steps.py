"""The steps of a trial: Bub adds the package, loads it, sets it up, shows its hooks, and runs a turn with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import yaml

from tests.compat.trial import Trial
from tests.compat.world import World

Step = Callable[[World, Trial], Awaitable[None]]


async def add(world: World, trial: Trial) -> None:
    """`bub plugins add` builds and installs it, lists it with its runtime, and asks what it has to ask."""
    await world.add(*world.folders)
    written = yaml.safe_load(world.file.read_text())
    assert trial.plugin in written["profiles"]["default"]["plugins"], written["profiles"]
    assert written["plugins"][trial.plugin]["runtime"] == "asyncio", written["plugins"]


async def load(world: World, trial: Trial) -> None:
    """The plugin is imported, and what it implements fits the pipeline."""
    await world.bub("validate", "--plugins", str(world.file))


async def onboard(world: World, trial: Trial) -> None:
    """`bub onboard` asks the plugin's questions and writes its section; the turn uses what it wrote."""
    if trial.answers is None:
        return
    answers = world.folder / "answers.json"
    answers.write_text(json.dumps({trial.plugin: trial.answers}))
    await world.bub("onboard", trial.plugin, "--answers", str(answers))
    written = yaml.safe_load(world.file.read_text())["settings"].get(trial.plugin, {})
    missing = set(trial.asked) - set(written)
    assert not missing, f"the section lacks {', '.join(sorted(missing))}: {written}"
    world.settings[trial.plugin] |= written


async def hooks(world: World, trial: Trial) -> None:
    """`bub hooks` shows the plugin at each of its hook points."""
    shown = json.loads(await world.bub("hooks", "--json"))
    missing = [name for name in trial.hooks if trial.plugin not in shown.get(name, {}).get("plugins", ())]
    assert not missing, f"bub hooks does not show it at {', '.join(missing)}"


async def turn(world: World, trial: Trial) -> None:
    """Its main function, in a real turn."""
    await trial.turn(world)


STEPS: dict[str, Step] = {
    "can be added": add,
    "loads": load,
    "`bub onboard` sets it up": onboard,
    "`bub hooks` shows it": hooks,
    "works in a turn": turn,
}
