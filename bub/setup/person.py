"""The part of a set-up that is for a person, in every folder: the model, written to their own file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bub.hooks.facts import BUILTIN
from bub.pipeline.edit.amend import amend
from bub.pipeline.plan.secret_values import redactor_of
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document, load_text
from bub.runtime.bootstrap import collect_onboard_config
from bub.runtime.snapshot import Profile
from bub.secrets.redactor import Redactor
from bub.setup.changes import setting_changes
from bub.setup.prompter import Prompter


class PersonsFile:
    """A person's own file in a set-up: `text` is what it says, and after the questions what it should say.

    `before` and `after` are its settings, references as they are written. References are answered by the `.env`
    beside it, and what the folder's file says is not looked at: no key goes to an address that somebody else wrote.
    """

    def __init__(self, ask: Prompter, *, file: str, base: Path, text: str) -> None:
        self.text = text
        self.before: Mapping[str, Any] = {}
        self.after: Mapping[str, Any] = {}
        self._ask = ask
        self._file = file
        self._base = base

    def read(self) -> Document:
        """The file as it is now."""
        return load_text(self.text, file=self._file, base=self._base)

    @property
    def mask(self) -> Redactor:
        """What covers the secrets in it, and those that were just given."""
        environment, _ = read_environment(self._base, os.environ)
        return redactor_of(self.read(), environment, {}).beside(Redactor.of(self._ask.secrets.values()))

    def ask_for_model(self, profile: Profile) -> None:
        """Ask which model answers; `profile` is the one that knows whether a local one could."""
        document = self.read()
        node = document.root.get("settings")
        settings = node.plain() if node is not None and node.is_mapping else {}
        self.before = settings
        self.after = collect_onboard_config(profile, settings, ask=self._ask, only={BUILTIN})
        changes = {("settings", *keys): value for keys, value in setting_changes(self.before, self.after).items()}
        self.text = amend(self.text, changes, file=self._file)
