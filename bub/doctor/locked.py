"""The lock beside the pipeline file: whether there is one, and whether the installed packages are those of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain

from bub.base.locate import lock_of
from bub.doctor.checks import Check, Patient, in_thread
from bub.plugins.lock.reading import LockError, read_lock
from bub.runtime.locked.drift import package_drift

_MOST_TOLD = 3


async def look_at_lock(patient: Patient) -> Sequence[Check]:
    """Check the lock; what plugins bring is compared when they are loaded, and told with them."""
    return await in_thread(lambda: _look(patient))


def _look(patient: Patient) -> list[Check]:
    file = lock_of(patient.found.path) if patient.found is not None and patient.found.path is not None else None
    if file is None or not os.path.lexists(file):
        return [Check("lock", "skipped", "there is no lock, so Bub starts with any plugins and packages")]
    try:
        lock = read_lock(file)
    except LockError as error:
        return [Check("lock", "broken", str(error), error.help or "")]
    if lock is None:
        return []
    drifts = list(chain.from_iterable(package_drift(lock).values()))
    counted = (("plugin", lock.plugins), ("server", lock.servers), ("package", lock.packages))
    held = f"{file.name} holds " + ", ".join(
        f"{len(held)} {name}{'' if len(held) == 1 else 's'}" for name, held in counted
    )
    if not drifts:
        return [Check("lock", "ok", held)]
    told = "; ".join(map(str, drifts[:_MOST_TOLD])) + (f"; and {len(drifts) - _MOST_TOLD} more" if drifts[3:] else "")
    return [Check("lock", "broken", f"{held}, and Bub does not start: {told}", "`bub lock --check` shows all of it")]
