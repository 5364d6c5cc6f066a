"""Who talks at a terminal, as a surface knows them; and what a surface is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bub.channels.terminal.answer import LiveAnswer, Printout
from bub.channels.terminal.completion import Completions
from bub.channels.terminal.mentions import Typed
from bub.streaming import StreamEvent


class Person(Protocol):
    """Who hears what is typed. All is called in the task that runs the surface."""

    async def submit(self, typed: Typed) -> bool:
        """Take in what was typed; return whether the person wants to leave."""

    def read(self, line: str) -> Typed:
        """Find the files that a line names, unless it is a command. Any thread may ask."""

    def stop(self) -> bool:
        """End what is under way; return whether there was anything."""

    async def wait_until_answered(self) -> None:
        """Wait until nothing is under way."""

    def completions(self) -> Completions:
        """Return the names that can be completed."""


class ChatSurface(Protocol):
    """The surface on which a person sees and types a conversation; `failure` is why it can show nothing any more."""

    failure: OSError | None

    async def run(self, first: str = "") -> None:
        """Let the person talk until they leave; `first` is sent before anything else."""

    def show(self, piece: Printout) -> None:
        """Print something for good."""

    def begin(self, answer: LiveAnswer) -> None:
        """Show an answer from now on."""

    def show_event(self, answer: LiveAnswer, event: StreamEvent) -> None:
        """Let an answer take an event, and show what that finishes."""

    def end(self, answer: LiveAnswer) -> None:
        """Let an answer end, and show what is left of it."""

    async def ask(self, question: str, more: Sequence[str] = ()) -> str:
        """Ask, and return the first letter of the answer: of "yes", "no", or one of `more` that may be answered."""

    async def ask_line(self, question: str) -> str | None:
        """Ask for a line, which is kept nowhere; None if the person declines."""
