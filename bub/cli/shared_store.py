"""The store in which several gateways share what `bub inbox` and `bub schedules` show."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bub.base.locate import find_pipeline
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import VARIABLE, store_address
from bub.cli.opening import open_framework
from bub.cli.options import Options, workspace_of
from bub.pipeline.plan.settings import all_settings
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import load_document

_TAPES = "BUB_TAPES_STORE"


def find_shared_store(options: Options) -> StoreAddress | None:
    """Return the address of the store that gateways share; None if there is none.

    Only if a file names one, it has to be trusted and its plugins are loaded: an address may hold a person's password.
    """
    if said := os.environ.get(VARIABLE):
        return StoreAddress.parse(said)
    return store_address(open_framework(options).settings) if _is_named(options, "gateway", VARIABLE) else None


def find_tape_setting(options: Options) -> str | None:
    """Return what `tapes.store` says; the file that names it has to be trusted, as above."""
    if said := os.environ.get(_TAPES):
        return said
    if not _is_named(options, "tapes", _TAPES):
        return None
    section = open_framework(options).settings.get("tapes")
    return section.get("store") if isinstance(section, Mapping) else None


def _is_named(options: Options, section: str, variable: str) -> bool:
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    if found.path is None:
        return False
    document = load_document(found.path)
    beside, _ = read_environment(document.base, {})
    said = (settings.get(section, "store") for _, settings in all_settings(document.root))
    return variable in beside or any(one is not None for one in said)
