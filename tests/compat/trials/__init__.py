"""One module for each package; `TRIAL` says how it is tried."""

from __future__ import annotations

import importlib
import pkgutil

from tests.compat.trial import Trial


def find_trials() -> dict[str, Trial]:
    """Every trial, by its package."""
    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    return {module.TRIAL.package: module.TRIAL for module in modules}
