"""Try packages of bub-contrib: `python -m tests.compat [--page FILE] [--keep] [PACKAGE…]`; all if none is named.

`CONTRIB` names a folder with bub-contrib, `BUB_REFERENCE` one with the other Bub's source, to try the fakes with it.
The worlds of trials that fail are kept, and named.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.compat import reference
from tests.compat.checkout import check_out
from tests.compat.environments import install
from tests.compat.page import write_page
from tests.compat.steps import STEPS, add, turn
from tests.compat.trial import Outcome, Trial
from tests.compat.trials import find_trials
from tests.compat.world import World

CACHE = Path(sys.prefix) / "compat"
"""Environments are kept with the one that the driver runs in: `make clean` removes them together."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the table to this page")
    parser.add_argument("--keep", action="store_true", help="use the environments of the last time")
    parser.add_argument("--jobs", type=int, default=2, help="how many trials run at a time")
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    trials = find_trials()
    chosen = [trials[name] for name in options.packages] or sorted(trials.values(), key=lambda trial: trial.package)
    packages = check_out(CACHE / "bub-contrib")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda trial: asyncio.run(try_package(trial, packages, options.keep)), chosen))
    if options.page:
        write_page(options.page, outcomes)
    print(f"{sum(each.works for each in outcomes)} of {len(outcomes)} work")
    return not all(each.works for each in outcomes)


async def try_package(trial: Trial, packages: Path, keep: bool) -> Outcome:
    """Install a package, and take it through every step; a step that fails ends it, but for what needs no turn."""
    began = time.monotonic()
    other = reference.checkout()
    folder = Path(tempfile.mkdtemp(prefix=f"compat-{trial.package}-"))
    steps = {"has an environment": ""}
    try:
        own = [str(packages / name) for name in (trial.package, *trial.beside)]
        environment = CACHE / ("reference" if other else "bub") / trial.package
        kept = keep and environment.exists()
        wanted = [*trial.needs, *own] if other else [*trial.needs]
        commands = environment / "bin" if kept else install(environment, wanted, other)
        steps["has an environment"] = "ok"
        kind = reference.ReferenceWorld if other else World
        left_out = {name for name, step in STEPS.items() if (other and step is not turn) or (kept and step is add)}
        async with kind(folder, commands, trial) as world:
            world.folders = own
            for name, step in STEPS.items():
                if name in left_out:
                    continue
                steps[name] = ""
                await step(world, trial)
                steps[name] = "ok"
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a trial is its outcome
        steps[list(steps)[-1]] = f"{type(error).__name__}: {error}"
    outcome = Outcome(trial, steps, time.monotonic() - began)
    words = ", ".join(f"{step} {said}" for step, said in steps.items())
    print(f"{trial.package}: {words} ({outcome.seconds:.0f} s){'' if outcome.works else f'  see {folder}'}", flush=True)
    if outcome.works:
        shutil.rmtree(folder)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
