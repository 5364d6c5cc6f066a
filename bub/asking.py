"""What it means to ask a person: the questions of a set-up, and the form that somebody else hands them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

Kind: TypeAlias = Literal["text", "secret", "confirm", "select", "checkbox", "autocomplete"]

Check: TypeAlias = Callable[[str], str | None]
"""What is wrong with an answer, as a clause that follows its name ("is no number"); None when nothing is."""


class Choice(msgspec.Struct, frozen=True):
    """One of the answers to choose from, and what a person reads of it: the value itself where `title` is empty."""

    value: str
    title: str = ""


Choices: TypeAlias = Sequence[Choice | str] | Callable[[], Sequence[Choice | str]]
"""The answers to choose from; a function is called only where somebody is there to choose."""


class Query(msgspec.Struct, frozen=True):
    """One question of a set-up, whoever it is put to.

    `name` is dotted and stays the same (`model.provider`): an answers file and the environment answer by it. An empty
    answer takes `default`; where that is None there has to be an answer. `hint` says what an empty one does.
    """

    name: str
    kind: Kind
    title: str
    default: Any = None
    choices: Choices = ()
    check: Check | None = None
    hint: str = ""

    def options(self) -> list[Choice]:
        """The answers to choose from, found out now."""
        given = self.choices() if callable(self.choices) else self.choices
        return [choice if isinstance(choice, Choice) else Choice(choice) for choice in given]


class Form(msgspec.Struct, frozen=True):
    """What somebody else than Bub asks a person while a tool runs, such as "the server `docs`": in words of their own.

    What the person answers is for `asker` alone. Without `queries` it wants a yes or a no. `address` is what they are
    to open, which nobody does for them.
    """

    asker: str
    message: str
    queries: tuple[Query, ...] = ()
    address: str = ""

    @property
    def is_yes_or_no(self) -> bool:
        """Whether a yes or a no is all that it wants."""
        return not self.queries or [query.kind for query in self.queries] == ["confirm"]

    @property
    def text(self) -> str:
        """All that somebody reads who can only say yes or no."""
        return "\n".join(filter(None, (self.message, self.address, *(query.title for query in self.queries))))

    def fill(self, is_yes: bool) -> Mapping[str, Any] | None:
        """The answers that a yes or a no is; None if it declines, since there was nothing to say no to."""
        if not self.queries:
            return {} if is_yes else None
        return {self.queries[0].name: is_yes}


class BackError(KeyboardInterrupt):
    """A person goes back a question. Hooks let it pass, as they do with what Ctrl-C raises."""


class Telling(Protocol):
    """Who hears what is done: a person at a terminal, or whoever reads what a script prints."""

    def say(self, text: str) -> None:
        """Say something that needs no answer."""

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Say what takes its time, as long as the block lasts; the function that it gives says how far it has come."""


class Voice(Telling, Protocol):
    """Who answers the questions of a set-up: a person at a terminal, or a script that knows the answers."""

    def put(self, query: Query) -> Any:
        """The answer, checked: a text, a truth value for `confirm`, a list of texts for `checkbox`."""

    def knows(self, prefix: str) -> bool:
        """Whether an answer is there already to a question whose name begins with this."""


class Asking(Telling, Protocol):
    """What a hook that names `ask` can ask; a terminal, an answers file and the environment answer alike.

    Each question has a dotted `name` that never changes, such as `telegram.token`. A `default` of None means that there
    has to be an answer. Whoever leaves the set-up raises `KeyboardInterrupt`, which hooks let pass.
    """

    def text(self, name: str, title: str, *, default: str | None = None, check: Check | None = None) -> str:
        """A line of text."""

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
        """A reference to a secret, such as `${env:NAME}`: to be put into the configuration, and for `resolve`.

        An empty answer gives `kept`, what the configuration says so far; with `optional` there may be none. A new
        secret is kept in `.env` beside the file under the name `variable` once all questions are answered.
        """

    def confirm(self, name: str, title: str, *, default: bool = True) -> bool:
        """Yes or no."""

    def select(self, name: str, title: str, choices: Choices, *, default: str | None = None) -> str:
        """One of the choices."""

    def checkbox(self, name: str, title: str, choices: Choices, *, default: Sequence[str] = ()) -> list[str]:
        """Any of the choices, in their order."""

    def autocomplete(
        self, name: str, title: str, choices: Choices, *, default: str | None = None, check: Check | None = None
    ) -> str:
        """A line of text, with choices that it may be."""

    def resolve(self, text: str) -> str | None:
        """What a text with references stands for, secrets that were just given included; None for one that is unset."""
