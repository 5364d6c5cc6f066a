"""How a plugin that was written for the Bub on PyPI becomes one of Bub's: `bub_reference` does it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Adoption(Protocol):
    """One plugin of the other Bub in one profile."""

    def importing(self) -> AbstractContextManager[Mapping[str, Any]]:
        """Let the plugin's packages see the other Bub's names; gives the builtins of a module made of a file."""

    def adopt(self, plugin: object) -> object:
        """Make a plugin of Bub out of it."""

    @property
    def framework(self) -> object:
        """What the plugin is made with."""
