"""Putting the questions of a set-up to a voice, a person's or a script's, and keeping the secrets that are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bub.asking import Check, Choices, Query, Voice
from bub.base.diagnostics import Place
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import Environment, lone_reference, read_environment, resolve

_NOWHERE = Place("")


class Prompter:
    """What hooks are given as `ask` (see `bub.asking.Asking`): it puts questions to a voice and keeps secrets apart.

    `environ` is the environment of the process, `base` the folder of the file. `secrets` are the new ones by the name
    of the variable that refers to each; nothing is written here.
    """

    def __init__(self, voice: Voice, environ: Environment, base: Path | None) -> None:
        self.secrets: dict[str, str] = {}
        self._voice = voice
        self._environ = environ
        self._base = base
        self._beside, _ = read_environment(base, {})

    def text(self, name: str, title: str, *, default: str | None = None, check: Check | None = None) -> str:
        """A line of text."""
        return str(self._voice.put(Query(name, "text", title, default, check=check)))

    def secret(
        self,
        name: str,
        title: str,
        *,
        kept: str | None = None,
        variable: str | None = None,
        optional: bool = False,
        check: Check | None = None,
        hint: str = "",
    ) -> str | None:
        """A reference to a secret; a new one is kept in `secrets` under the name `variable`."""

        def find_problem(text: str) -> str | None:
            if lone_reference(text) is not None:
                return None if self.resolve(text) else "refers to what is not set"
            return check(text) if check is not None else None

        default = kept or ("" if optional else None)
        if not hint and kept:
            hint = "Enter keeps the old one"
        elif not hint and optional:
            hint = "Enter for none"
        given = str(self._voice.put(Query(name, "secret", title, default, check=find_problem, hint=hint))).strip()
        if given == (kept or "") or lone_reference(given) is not None:
            return given or None
        # Not that of the setting itself (`BUB_…`), which would count before every profile.
        variable = self._free(variable or write_in_capitals(name), given)
        self.secrets[variable] = given
        return f"${{env:{variable}}}"

    def confirm(self, name: str, title: str, *, default: bool = True) -> bool:
        """Yes or no."""
        return bool(self._voice.put(Query(name, "confirm", title, default)))

    def select(self, name: str, title: str, choices: Choices, *, default: str | None = None) -> str:
        """One of the choices."""
        return str(self._voice.put(Query(name, "select", title, default, choices)))

    def checkbox(self, name: str, title: str, choices: Choices, *, default: Sequence[str] = ()) -> list[str]:
        """Any of the choices, in their order."""
        query = Query(name, "checkbox", title, list(default), choices)
        given = set(self._voice.put(query))
        return [choice.value for choice in query.options() if choice.value in given]

    def autocomplete(
        self, name: str, title: str, choices: Choices, *, default: str | None = None, check: Check | None = None
    ) -> str:
        """A line of text, with choices that it may be."""
        return str(self._voice.put(Query(name, "autocomplete", title, default, choices, check)))

    def resolve(self, text: str) -> str | None:
        """What a text with references stands for; the environment counts before what is kept in `.env`."""
        environment = {**self._beside, **self.secrets, **{key: value for key, value in self._environ.items() if value}}
        value, _ = resolve(Node(text, _NOWHERE), environment, base=self._base)
        return value if isinstance(value, str) else None

    def knows(self, prefix: str) -> bool:
        """Whether an answer is there already to a question whose name begins with this, as those of a script are."""
        return self._voice.knows(prefix)

    def say(self, text: str) -> None:
        """Tell something that needs no answer."""
        self._voice.say(text)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Tell that something is being waited for, as long as the block lasts."""
        return self._voice.progress(text)

    def _free(self, variable: str, secret: str) -> str:
        """The variable, or another one where the environment holds another value, which would count before `.env`."""
        return variable if self._environ.get(variable) in (None, "", secret) else f"{variable}_KEPT"


def write_in_capitals(name: str) -> str:
    """Return a name as variables are written: `MODEL_PROVIDER` for `model.provider`."""
    return re.sub("[^A-Z0-9]", "_", name.upper())
