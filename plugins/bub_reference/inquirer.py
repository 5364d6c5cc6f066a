"""The questions of a plugin's `onboard_config`: put by the wizard if it asks, else at the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import questionary
import typer

from bub_reference.surroundings import here

Validator = Callable[[list[str]], bool | str]


def ask_text(message: str, default: str = "") -> str:
    """A line of text."""
    ask = here().asking
    if ask is not None:
        return ask.text(_name(message), message, default=default)
    return str(_at_terminal(questionary.text(message, default=default)))


def ask_secret(message: str) -> str:
    """A secret: in the wizard a reference to it, "" if there is none."""
    ask = here().asking
    if ask is not None:
        name = _name(message)
        return ask.secret(name, message, variable=f"BUB_{name.upper().replace('.', '_')}", optional=True) or ""
    return str(_at_terminal(questionary.password(message)))


def ask_confirm(message: str, default: bool = False) -> bool:
    """Yes or no."""
    ask = here().asking
    if ask is not None:
        return ask.confirm(_name(message), message, default=default)
    return bool(_at_terminal(questionary.confirm(message, default=default)))


def ask_select(message: str, choices: Sequence[str], default: str = "") -> str:
    """One of the choices."""
    ask, known = here().asking, default if default in choices else None
    if ask is not None:
        return ask.select(_name(message), message, list(choices), default=known)
    return str(_at_terminal(questionary.select(message, list(choices), default=known)))


def ask_fuzzy(message: str, choices: Sequence[str], default: str | None = None) -> str:
    """A line of text, with choices that it may be."""
    ask = here().asking
    if ask is not None:
        return ask.autocomplete(_name(message), message, list(choices), default=default)
    return str(_at_terminal(questionary.autocomplete(message, list(choices), default=default or "")))


def ask_checkbox(
    message: str, choices: Sequence[str], enabled: Sequence[str] | None = None, validate: Validator | None = None
) -> list[str]:
    """Any of the choices; asked again while `validate` does not say True."""
    ask, chosen = here().asking, [name for name in enabled or () if name in choices]
    while True:
        if ask is not None:
            answer = ask.checkbox(_name(message), message, list(choices), default=chosen)
        else:
            answer = list(_at_terminal(questionary.checkbox(message, _checked(choices, chosen))))
        verdict = True if validate is None else validate(answer)
        if verdict is True:
            return answer
        if ask is not None:
            ask.say(str(verdict))
        else:
            typer.secho(str(verdict), err=True, fg="red")


def _checked(choices: Sequence[str], chosen: Sequence[str]) -> list[questionary.Choice]:
    return [questionary.Choice(name, checked=name in chosen) for name in choices]


def _at_terminal(question: questionary.Question) -> Any:
    try:
        return question.unsafe_ask()
    except KeyboardInterrupt:
        raise typer.Abort from None


def _name(message: str) -> str:
    """The name that answers in a script are known by: the plugin's section and the words of the question."""
    section = here().section
    words = re.sub(r"[^a-z0-9]+", "_", message.lower()).strip("_")
    own = re.sub(r"[^a-z0-9]+", "_", section.lower())
    words = words.removeprefix(f"{own}_") or words
    return f"{section}.{words}" if section else words
