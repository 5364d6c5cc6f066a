"""The questions of a set-up as a person at a terminal sees them; they appear on standard error."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from bub.asking import BackError, Query
from bub.cli.terminal import printable
from bub.setup.pacing import seldom

if TYPE_CHECKING:  # importing it costs 130 ms, which only a question pays
    import questionary

_MOST_SHOWN = 6
"""A longer list can be narrowed by typing."""

_ESCAPE_SECONDS = 0.1
"""How long a terminal may take to send the rest of a key whose code begins with Esc."""


class TerminalVoice:
    """The voice of the person at the terminal (see `bub.asking.Voice`).

    Ctrl-C, Ctrl-D and Esc leave the set-up, Shift-Tab goes back a question.
    """

    def put(self, query: Query) -> Any:
        """Ask, and return the answer. Raises KeyboardInterrupt if the person leaves, BackError if they go back."""
        question = _add_ways_out(build_question(query))
        try:
            answer = question.unsafe_ask()
        except EOFError:
            raise KeyboardInterrupt from None
        return query.default if answer == "" and query.default is not None else answer

    def knows(self, prefix: str) -> bool:
        """Return False: nobody knows what a person will say."""
        return False

    def say(self, text: str) -> None:
        """Print a text, line by line."""
        for line in text.splitlines():
            print(printable(line), file=sys.stderr)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Show what the set-up waits for, and how far it has come, on a line that is gone afterwards."""
        return _changing_line(text, sys.stderr)


@contextmanager
def _changing_line(text: str, stream: TextIO) -> Iterator[Callable[[str], None]]:
    """Show a text and give a function that shows another in its place; the line is gone afterwards.

    A pipe gets the text as a line, and some of those that follow as further ones.
    """
    if not stream.isatty():
        show = seldom(lambda text: print(printable(text), file=stream, flush=True))
        show(text)
        yield show
        return

    def rewrite(text: str) -> None:
        line = printable(text)[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be written over
        stream.write(f"\r{line}\x1b[K")
        stream.flush()

    rewrite(f"{text} …")
    try:
        yield rewrite
    finally:
        rewrite("")


def build_question(query: Query) -> questionary.Question:
    """Make the question as it is shown at the terminal."""
    import questionary
    from prompt_toolkit.output import create_output

    title = printable(f"{query.title} ({query.hint})" if query.hint else query.title)
    shared: dict[str, Any] = {"output": create_output(stdout=sys.stderr)}
    match query.kind:
        case "confirm":
            return questionary.confirm(title, default=bool(query.default), **shared)
        case "secret":
            return questionary.password(title, validate=_validator(query), **shared)
        case "select" | "checkbox":
            return _build_choice(query, title, shared)
        case "text" | "autocomplete":
            return _build_text(query, title, shared)


def _build_choice(query: Query, title: str, shared: dict[str, Any]) -> questionary.Question:
    import questionary

    options = query.options()
    ticked = query.default if query.kind == "checkbox" else ()
    choices = [
        questionary.Choice(printable(option.title or option.value) or "-", option.value, checked=option.value in ticked)
        for option in options
    ]
    if query.kind == "checkbox":
        return questionary.checkbox(title, choices, instruction="(space ticks, Enter goes on)", **shared)
    first = query.default if query.default in [option.value for option in options] else None
    narrowed = len(options) > _MOST_SHOWN
    hint = "(type to narrow the list)" if narrowed else None
    return questionary.select(
        title, choices, first, use_search_filter=narrowed, use_jk_keys=False, instruction=hint, **shared
    )


def _build_text(query: Query, title: str, shared: dict[str, Any]) -> questionary.Question:
    import questionary
    from prompt_toolkit.completion import FuzzyWordCompleter

    shared["validate"] = _validator(query)
    if query.default:
        shared["placeholder"] = [("class:instruction", printable(str(query.default)))]
    names = [option.value for option in query.options()]
    if not names:
        return questionary.text(title, **shared)
    return questionary.autocomplete(title, names, completer=FuzzyWordCompleter(names, WORD=True), **shared)


def _validator(query: Query) -> Any:
    """Return the check that tells the person, before a line is taken, that it will not do."""

    def fitting(text: str) -> bool | str:
        if not text.strip():
            return True if query.default is not None else "this needs an answer"
        problem = query.check(text) if query.check is not None else None
        return True if problem is None else printable(f"that {problem}")

    return fitting


def _add_ways_out(question: questionary.Question) -> questionary.Question:
    """Add Esc to a question as another way to leave, and Shift-Tab to go back to the one before."""
    from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings

    keys = KeyBindings()

    @keys.add("escape")
    def _(event: Any) -> None:
        event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    @keys.add("s-tab")
    def _(event: Any) -> None:
        event.app.exit(exception=BackError, style="class:aborting")

    app = question.application
    app.key_bindings = merge_key_bindings([*([app.key_bindings] if app.key_bindings else []), keys])
    app.ttimeoutlen = app.timeoutlen = _ESCAPE_SECONDS
    return question
