"""Every kind that the engine can run, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bub.hooks.kinds.broadcast import BROADCAST
from bub.hooks.kinds.claiming import CLAIMING
from bub.hooks.kinds.firstresult import FIRSTRESULT
from bub.hooks.kinds.gate import GATE
from bub.hooks.kinds.modifying import MODIFYING
from bub.hooks.kinds.observer import OBSERVER
from bub.hooks.kinds.runnable import RunnableKind
from bub.hooks.kinds.stream import STREAM
from bub.hooks.kinds.void import VOID

RUNNABLE_KINDS: Mapping[str, RunnableKind] = MappingProxyType(
    {kind.name: kind for kind in (FIRSTRESULT, BROADCAST, OBSERVER, VOID, MODIFYING, CLAIMING, GATE, STREAM)}
)
"""The behaviour of each kind of `bub.hooks.facts.KINDS`."""
