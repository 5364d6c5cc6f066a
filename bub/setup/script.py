"""The answers of a set-up that are known beforehand: those of a file, and those of the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bub.asking import Query
from bub.base.diagnostics import Place, did_you_mean, suggest
from bub.base.failures import explain_os_error
from bub.errors import UsageError
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import Environment
from bub.pipeline.source.yaml_reader import parse
from bub.setup.pacing import seldom
from bub.setup.prompter import write_in_capitals

ANSWER_PREFIX = "BUB_ONBOARD_"
"""What the variables begin with that answer a question: `BUB_ONBOARD_MODEL_PROVIDER` answers `model.provider`."""

_NO_MAPPING = "B013"
_EXAMPLE = "write a line such as `model.provider: local`"

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


class _Given(NamedTuple):
    """An answer of a script: its value, and where it was given, in words."""

    value: Any
    where: str


@dataclass(slots=True)
class Script:
    """A voice that knows its answers beforehand: those of a file, then those of the environment, then the defaults.

    `tell` gets what a person would see.
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
        return cls(_read_answers(file) if file is not None else {}, environ, tell)

    def put(self, query: Query) -> Any:
        """The answer as it was given, else the default. Raises `UsageError` for a wrong one and if there is none."""
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
        return _convert_answer(query, given)

    def knows(self, prefix: str) -> bool:
        """Whether there is an answer to a question whose name begins with this."""
        names = [*self.given, *(variable for variable, value in self.environ.items() if value)]
        return any(name.startswith((prefix, _variable(prefix))) for name in names)

    def say(self, text: str) -> None:
        """Tell something that needs no answer."""
        self.tell(text)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Say now and then how far it has come; nobody watches a script wait for what does not say that."""
        return nullcontext(seldom(self.tell))

    def finish(self) -> None:
        """Raise `UsageError` when there is an answer that nobody asked for."""
        for name, given in self.given.items():
            if name not in self.asked:
                self._refuse_unasked(name, given.where, self.asked)
        variables = [_variable(name) for name in self.asked]
        for variable in sorted(self.environ):
            if variable.startswith(ANSWER_PREFIX) and variable not in variables:
                self._refuse_unasked(variable, "the environment", variables)

    def _refuse_unasked(self, name: str, where: str, known: Sequence[str]) -> None:
        asked = f"the questions were {', '.join(known)}" if known else "nothing was asked"
        raise UsageError(f"{where}: no question is called `{name}`", help=did_you_mean(name, known) or asked)

    def _find(self, name: str) -> _Given | None:
        variable = _variable(name)
        if name in self.given:
            return self.given[name]
        value = self.environ.get(variable)
        return _Given(value, f"the variable {variable}") if value else None


def _variable(name: str) -> str:
    return ANSWER_PREFIX + write_in_capitals(name)


def _read_answers(file: Path) -> dict[str, _Given]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {explain_os_error(error)}", help="correct --answers") from None
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


def _convert_answer(query: Query, given: _Given) -> Any:
    """The answer in the form that the question wants. Raises `UsageError`, without a secret in it."""
    value = given.value
    match query.kind:
        case "confirm":
            word = str(value).strip().lower()
            if word not in _YES | _NO:
                raise _refuse_answer(query, given, "is neither yes nor no")
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
        raise _refuse_answer(query, given, "is a list, but one value is asked for")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if query.kind == "select":
        _check_choice(query, given, text)
    problem = query.check(text) if query.check is not None else None
    if problem is not None:
        raise _refuse_answer(query, given, problem)
    return text


def _check_choice(query: Query, given: _Given, text: str) -> None:
    known = [choice.value for choice in query.options()]
    if text not in known:
        meant = suggest(text, known)
        hint = f"did you mean `{meant}`?" if meant else f"choose one of {', '.join(known) or 'nothing'}"
        raise _refuse_answer(query, given, f"is not one of the choices: `{text}`", hint)


def _refuse_answer(query: Query, given: _Given, problem: str, hint: str | None = None) -> UsageError:
    return UsageError(f"{given.where}: the answer to `{query.name}` {problem}", help=hint or query.title)
