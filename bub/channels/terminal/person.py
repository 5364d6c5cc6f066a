"""Who talks at a terminal, as a surface knows them; and what a surface is."""

from __future__ import annotations

from typing import Protocol

from bub.channels.terminal.answer import Answer, Piece
from bub.channels.terminal.offers import Offers
from bub.streaming import StreamEvent


class Person(Protocol):
    """Who hears what is typed. All is called in the task that runs the surface."""

    async def said(self, line: str) -> bool:
        """Something was sent; whether the person wants to leave."""

    def stop(self) -> bool:
        """What is under way is to end; whether there was anything."""

    async def answered(self) -> None:
        """Wait until nothing is under way."""

    def offers(self) -> Offers:
        """What can be completed."""


class Surface(Protocol):
    """Where a conversation is seen and typed; `failure` is why nothing can be shown on it any more."""

    failure: OSError | None

    async def run(self, first: str = "") -> None:
        """Let the person talk until they leave; `first` is sent before anything else."""

    def show(self, piece: Piece) -> None:
        """Print something for good."""

    def begin(self, answer: Answer) -> None:
        """An answer begins."""

    def heard(self, answer: Answer, event: StreamEvent) -> None:
        """An event of an answer, which the surface lets it take."""

    def end(self, answer: Answer) -> None:
        """An answer is over, which the surface lets it end."""

    async def ask(self, question: str) -> str:
        """The answer to a question: "y", "n" or "a" for always."""
