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
    """One of the answers to choose from. A person reads `title`, or the value itself if `title` is empty."""

    value: str
    title: str = ""


Choices: TypeAlias = Sequence[Choice | str] | Callable[[], Sequence[Choice | str]]
"""The answers to choose from; a function is called only where somebody is there to choose."""


class Query(msgspec.Struct, frozen=True):
    """One question of a set-up, for a person or a script.

    `name` is dotted and stays the same (`model.provider`): an answers file and the environment answer by it. An empty
    answer takes `default`; if that is None, the question needs an answer. `hint` says what an empty one does.
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
    """A question of somebody else than Bub, in their own words, while a tool runs: of "the server `docs`", for example.

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
        """What a person reads who can only say yes or no."""
        return "\n".join(filter(None, (self.message, self.address, *(query.title for query in self.queries))))

    def fill(self, is_yes: bool) -> Mapping[str, Any] | None:
        """Return the answers that a yes or a no means; None if it declines, since there was nothing to say no to."""
        if not self.queries:
            return {} if is_yes else None
        return {self.queries[0].name: is_yes}


class BackError(KeyboardInterrupt):
    """A person goes back a question. Do not catch it in a hook, nor what Ctrl-C raises."""


class Telling(Protocol):
    """The place a set-up writes what it does to: a terminal, or the output of a script."""

    def say(self, text: str) -> None:
        """Say something that needs no answer."""

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Show what takes time as long as the block runs; call the function that it gives to say how far it is."""


class Voice(Telling, Protocol):
    """Who answers the questions of a set-up: a person at a terminal, or a script that knows the answers."""

    def put(self, query: Query) -> Any:
        """Put a question; return its checked answer: a string, for `confirm` a boolean, for `checkbox` a list."""

    def knows(self, prefix: str) -> bool:
        """Whether there is an answer already to a question whose name begins with this."""


class Asking(Telling, Protocol):
    """What a hook that names `ask` can ask; a terminal, an answers file and the environment answer alike.

    Each question has a dotted `name` that never changes, such as `telegram.token`. A `default` of None means that there
    has to be an answer. If a person leaves the set-up, a question raises `KeyboardInterrupt`; do not catch it.
    """

    def text(self, name: str, title: str, *, default: str | None = None, check: Check | None = None) -> str:
        """Ask for a line of text."""

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
        """Ask for a secret; return a reference to it, such as `${env:NAME}`, for the configuration and for `resolve`.

        An empty answer gives `kept`, what the configuration says so far; with `optional` there may be none. A new
        secret is kept in `.env` beside the file under the name `variable` once all questions are answered.
        """

    def confirm(self, name: str, title: str, *, default: bool = True) -> bool:
        """Ask for a yes or a no."""

    def select(self, name: str, title: str, choices: Choices, *, default: str | None = None) -> str:
        """Ask for one of the choices, and return its value."""

    def checkbox(self, name: str, title: str, choices: Choices, *, default: Sequence[str] = ()) -> list[str]:
        """Ask for any of the choices, and return their values in the order of the choices."""

    def autocomplete(
        self, name: str, title: str, choices: Choices, *, default: str | None = None, check: Check | None = None
    ) -> str:
        """Ask for a line of text, and suggest choices."""

    def resolve(self, text: str) -> str | None:
        """Return a text with its references resolved, new secrets too; None if one is unset."""
