"""The questions of a set-up, asked of a person or of a script alike, and the secrets that are given on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bub.asking import Check, Choices, Query, Voice
from bub.diagnostics import Place, did_you_mean, suggest
from bub.errors import UsageError
from bub.pipeline.document import Node
from bub.pipeline.interpolate import Environment, lone_reference, read_environment, resolve
from bub.pipeline.yaml_reader import parse

ANSWER_PREFIX = "BUB_ONBOARD_"
"""What the variables begin with that answer a question: `BUB_ONBOARD_MODEL_PROVIDER` answers `model.provider`."""

_NO_MAPPING = "B013"
_EXAMPLE = "write a line such as `model.provider: local`"

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})
_NOWHERE = Place("")


class Interview:
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

        def wrong(text: str) -> str | None:
            if lone_reference(text) is not None:
                return None if self.resolve(text) else "refers to what is not set"
            return check(text) if check is not None else None

        default = kept or ("" if optional else None)
        hint = hint or ("Enter keeps the old one" if kept else "Enter for none" if optional else "")
        given = str(self._voice.put(Query(name, "secret", title, default, check=wrong, hint=hint))).strip()
        if given == (kept or "") or lone_reference(given) is not None:
            return given or None
        # Not that of the setting itself (`BUB_…`), which would count before every profile.
        variable = self._free(variable or _capitals(name), given)
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

    def progress(self, text: str) -> AbstractContextManager[None]:
        """Tell that something is being waited for, as long as the block lasts."""
        return self._voice.progress(text)

    def _free(self, variable: str, secret: str) -> str:
        """The variable, or another one where the environment holds another value, which would count before `.env`."""
        return variable if self._environ.get(variable) in (None, "", secret) else f"{variable}_KEPT"


class _Given(NamedTuple):
    """An answer of a script: its value, and where it was given, in words."""

    value: Any
    where: str


@dataclass(slots=True)
class Script:
    """A voice that knows its answers beforehand: those of a file, then those of the environment, then the defaults.

    `tell` is told what a person would see.
    """

    given: Mapping[str, _Given]
    environ: Environment
    tell: Callable[[str], None]
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, file: Path | None, environ: Environment, tell: Callable[[str], None]) -> Script:
        """The script of a YAML file with the answers by name, dotted or nested; without a file, of the environment.

        Raises `UsageError` when the file cannot be read, or gives one answer twice.
        """
        return cls(_read(file) if file is not None else {}, environ, tell)

    def put(self, query: Query) -> Any:
        """The answer as it was given, else the default. Raises `UsageError` for a wrong one and where there is none."""
        name = query.name
        if name in self.asked:
            again = f"the answers lead back to `{name}`"
            raise UsageError(again, help="a question that is asked a second time needs a person to answer it")
        self.asked.append(name)
        given = self._find(name)
        if given is None or given.value is None or given.value == "":
            if query.default is None:
                raise UsageError(
                    f"the answers lack `{name}` ({query.title})",
                    help=f"put `{name}: …` into the file of --answers, or set {_variable(name)}",
                )
            return query.default
        return _fitting(query, given)

    def knows(self, prefix: str) -> bool:
        """Whether there is an answer to a question whose name begins with this."""
        names = [*self.given, *(variable for variable, value in self.environ.items() if value)]
        return any(name.startswith((prefix, _variable(prefix))) for name in names)

    def say(self, text: str) -> None:
        """Tell something that needs no answer."""
        self.tell(text)

    def progress(self, text: str) -> AbstractContextManager[None]:
        """Nobody watches a script wait."""
        return nullcontext()

    def finish(self) -> None:
        """Raise `UsageError` when there is an answer that nobody asked for."""
        for name, given in self.given.items():
            if name not in self.asked:
                self._unasked(name, given.where, self.asked)
        variables = [_variable(name) for name in self.asked]
        for variable in sorted(self.environ):
            if variable.startswith(ANSWER_PREFIX) and variable not in variables:
                self._unasked(variable, "the environment", variables)

    def _unasked(self, name: str, where: str, known: Sequence[str]) -> None:
        asked = f"asked was for {', '.join(known)}" if known else "nothing was asked"
        raise UsageError(f"{where}: nobody asked for `{name}`", help=did_you_mean(name, known) or asked)

    def _find(self, name: str) -> _Given | None:
        variable = _variable(name)
        if name in self.given:
            return self.given[name]
        value = self.environ.get(variable)
        return _Given(value, f"the variable {variable}") if value else None


def _variable(name: str) -> str:
    return ANSWER_PREFIX + _capitals(name)


def _capitals(name: str) -> str:
    return re.sub("[^A-Z0-9]", "_", name.upper())


def _read(file: Path) -> dict[str, _Given]:
    try:
        data = file.read_bytes()
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise UsageError(f"{file}: {reason}", help="correct --answers") from None
    parsed = parse(data, file=str(file), layer="")
    for finding in parsed.findings:
        if finding.severity == "error":
            do = _EXAMPLE if finding.code == _NO_MAPPING else finding.help
            raise UsageError(f"{Place(finding.file, finding.range)}: {finding.message}", help=do)
    answers: dict[str, _Given] = {}
    if parsed.root is not None:
        _gather(parsed.root, "", answers)
    return answers


def _gather(node: Node, above: str, answers: dict[str, _Given]) -> None:
    for key, child in node.items():
        name = f"{above}.{key}" if above else key
        if child.is_mapping:
            _gather(child, name, answers)
        elif name in answers:
            raise UsageError(f"{child.where}: `{name}` is answered twice", help=f"see {answers[name].where}")
        else:
            answers[name] = _Given(child.plain(), str(child.where))


def _fitting(query: Query, given: _Given) -> Any:
    """The answer in the form that the question wants. Raises `UsageError`, without a secret in it."""
    value = given.value
    match query.kind:
        case "confirm":
            word = str(value).strip().lower()
            if word not in _YES | _NO:
                raise _wrong(query, given, "is neither yes nor no")
            return word in _YES
        case "checkbox":
            if isinstance(value, list):
                chosen = [str(item) for item in value]
            else:
                chosen = [word.strip() for word in str(value).split(",") if word.strip()]
            for one in chosen:
                _check_choice(query, given, one)
            return chosen
    if isinstance(value, list):
        raise _wrong(query, given, "is a list, but one value is asked for")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if query.kind == "select":
        _check_choice(query, given, text)
    problem = query.check(text) if query.check is not None else None
    if problem is not None:
        raise _wrong(query, given, problem)
    return text


def _check_choice(query: Query, given: _Given, text: str) -> None:
    known = [choice.value for choice in query.options()]
    if text not in known:
        meant = suggest(text, known)
        hint = f"did you mean `{meant}`?" if meant else f"choose of {', '.join(known) or 'nothing'}"
        raise _wrong(query, given, f"is no choice: `{text}`", hint)


def _wrong(query: Query, given: _Given, problem: str, hint: str | None = None) -> UsageError:
    return UsageError(f"{given.where}: the answer to `{query.name}` {problem}", help=hint or query.title)
