"""The same trials with the Bub that the packages were written for, so that a fake is judged before ours is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.compat.trial import Trial
from tests.compat.world import World


class ReferenceWorld(World):
    """A world in which the other Bub is installed."""

    @staticmethod
    def begin_with(trial: Trial) -> Mapping[str, Any]:
        """That Bub has no answers to its questions but a person's, so the section is whole from the start."""
        return trial.settings

    def write(self) -> None:
        (self.bub_home / "config.yml").write_text(json.dumps({**self.basics, **self.settings}, indent=1))

    @property
    def environment(self) -> dict[str, str]:
        own = super().environment
        del own["BUB_CONFIG"]
        return {**own, "BUB_WORKSPACE": str(self.workspace), "OPENAI_API_KEY": "sk-fake"}


def checkout() -> Path | None:
    """Where the other Bub's source is, if the trials are to run with it: the variable BUB_REFERENCE."""
    named = os.environ.get("BUB_REFERENCE")
    return Path(named) if named else None
