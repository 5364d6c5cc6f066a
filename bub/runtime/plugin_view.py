"""What the plugins of one profile are handed: a view that answers more the more there is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bub.runtime.generations import Generation
from bub.runtime.runtime import Runtime, TooEarlyError
from bub.runtime.snapshot import Snapshot
from bub.runtime.view import RuntimeView
from bub.secrets.redactor import Redactor


class PluginView(RuntimeView):
    """What the plugins of one profile are handed; each load makes its own.

    It answers with its settings from the start, with what its snapshot has after `complete`, and with what lives after
    `bind`. Whoever asks sooner gets a `TooEarlyError`.
    """

    def __init__(self, profile: str, workspace: Path, settings: Mapping[str, Any], mask: Redactor) -> None:
        super().__init__(profile, workspace)
        self._settings = settings
        self._mask = mask
        self._complete: Snapshot | None = None
        self._runtime: Runtime | None = None
        self._generation: Generation | None = None

    def complete(self, snapshot: Snapshot) -> None:
        """Let the plugins ask for what was loaded."""
        self._complete = snapshot

    def bind(self, runtime: Runtime, generation: Generation) -> None:
        """Let the plugins ask for what lives, too."""
        self._runtime, self._generation = runtime, generation

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the profile, references replaced and the environment's own laid over them."""
        return self._settings

    @property
    def mask(self) -> Redactor:
        """What covers the secrets of all settings; while the plugins are made, of those that are read by then."""
        return self._runtime.mask if self._runtime is not None else self._mask

    def reload(self) -> None:
        """Reload the pipeline file and its plugins, for the turns that begin from then on."""
        self._living().reload()

    def _snapshot(self) -> Snapshot:
        if self._complete is None:
            raise TooEarlyError
        return self._complete

    def _living(self) -> Runtime:
        if self._runtime is None:
            raise TooEarlyError
        return self._runtime

    def _own_generation(self) -> Generation | None:
        return self._generation
