"""What is being typed: the words before the cursor, read against the vocabulary of commands and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Takes = str | Sequence[str] | None
"""What an option or argument takes: the name of what to offer, the choices themselves, or None for a flag.

Beside what the vocabulary names, these are the `commands` and `options` of `Asked.command`.
"""

Command = Mapping[str, Any]
"""A command of the vocabulary: its `options`, `arguments` and `commands`; empty for one of a plugin."""

HELP = "help"
"""The command behind which another one is named."""


class Asked(NamedTuple):
    """What is to be completed: `typed` is its beginning, `prefix` what comes before it in the same word (`--profile=`).

    `command` is the one that it belongs to. `said` has the options of every command that have a value so far, by their
    long names.
    """

    takes: Takes
    typed: str
    prefix: str
    command: Command
    said: Mapping[str, str]


def read_line(words: Sequence[str], typed: str, vocabulary: Command) -> Asked:
    """Read the words behind `bub`, and the beginning of the next one."""
    reading = _Reading(vocabulary)
    for word in words:
        reading.take(word)
    return reading.ask(typed)


def options_of(command: Command, vocabulary: Command) -> Mapping[str, Any]:
    """The options of a command, those of every command among them."""
    return {**command.get("options", {}), **vocabulary["options"]}


class _Reading:
    """The command line so far."""

    def __init__(self, vocabulary: Command) -> None:
        self._vocabulary = self._command = vocabulary
        self._arguments = 0
        self._waits: str | None = None
        """The option whose value is the next word."""
        self._only_arguments = False
        self._said: dict[str, str] = {}

    def take(self, word: str) -> None:
        if self._waits is not None:
            self._said[self._waits] = word
            self._waits = None
        elif word == "--" and not self._only_arguments:
            self._only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not self._only_arguments:
            self._take_option(word)
        elif self._command.get("commands"):
            if word != HELP or self._command is not self._vocabulary:
                self._command = self._command["commands"].get(word, {})
        else:
            self._arguments += 1

    def ask(self, typed: str) -> Asked:
        if self._waits is not None:
            return self._ask_for(self._takes(self._waits), typed)
        if typed.startswith("-") and not self._only_arguments:
            name, sign, value = typed.partition("=")
            if sign:
                return self._ask_for(self._takes(name), value, name + sign)
            return self._ask_for("options", typed)
        if self._command.get("commands"):
            return self._ask_for("commands", typed)
        arguments = self._command.get("arguments", ())
        if arguments and (self._arguments < len(arguments) or "many" in arguments[-1]):
            return self._ask_for(arguments[min(self._arguments, len(arguments) - 1)]["takes"], typed)
        return self._ask_for(None if typed or self._only_arguments else "options", typed)

    def _ask_for(self, takes: Takes, typed: str, prefix: str = "") -> Asked:
        return Asked(takes, typed, prefix, self._command, self._said)

    def _take_option(self, word: str) -> None:
        name, sign, value = word.partition("=")
        if not name.startswith("--") and len(name) > 2:
            # Of `-wfolder` the value follows at once; of short flags that are written together, the last may want one.
            first, last = word[:2], f"-{word[-1]}"
            name, sign, value = (first, "=", word[2:]) if self._takes(first) is not None else (last, "", "")
        if sign:
            self._said[self._long(name)] = value
        elif self._takes(name) is not None:
            self._waits = self._long(name)

    def _long(self, option: str) -> str:
        entry = options_of(self._command, self._vocabulary).get(option, {})
        return str(entry.get("is", option))

    def _takes(self, option: str) -> Takes:
        takes: Takes = options_of(self._command, self._vocabulary).get(self._long(option), {}).get("takes")
        return takes
