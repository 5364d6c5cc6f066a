"""`bub chat` without a screen: line by line if a terminal can do no more, one message if it is a pipe."""

from __future__ import annotations

import codecs
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TextIO

import trio

from bub.channels.terminal.answer import LiveAnswer, Printout
from bub.channels.terminal.escaping import encodable, escape_controls
from bub.channels.terminal.mentions import Typed
from bub.channels.terminal.person import Person
from bub.streaming import StreamEvent

_PROMPT = "> "
_YES = ("y", "yes")
_AT_ONCE = 64 * 1024


class _PrintingSurface:
    """What both have in common: nothing is drawn over, so that an answer is printed as it comes.

    The answer goes to standard output, everything else to standard error.
    """

    def __init__(self, person: Person) -> None:
        self._person = person
        self._out = sys.stdout
        self._err = sys.stderr
        self._is_in_a_line = False
        self.failure: OSError | None = None
        """Why nothing can be printed any more, such as a full disk or a reader that has left."""

    def show(self, piece: Printout) -> None:
        self._end_line()
        is_answer = piece.look in ("markdown", "plain")
        stream = self._out if is_answer else self._err
        self._print(piece.text.strip("\n") + "\n", stream)

    def begin(self, answer: LiveAnswer) -> None:
        pass

    def show_event(self, answer: LiveAnswer, event: StreamEvent) -> None:
        text = str(event.data.get("delta") or "") if event.kind == "text" else ""
        if text:
            self._print(text, self._out)
            self._is_in_a_line = not text.endswith("\n")
        self._show_doings(answer.take(event))
        if pause := answer.pause(time.monotonic()):
            self.show(Printout("note", pause))

    def end(self, answer: LiveAnswer) -> None:
        self._show_doings(answer.end())
        self._end_line()

    def _show_doings(self, pieces: Iterator[Printout]) -> None:
        for piece in pieces:
            if piece.look in ("note", "step") or (piece.look in ("tool", "failed") and self._err.isatty()):
                self.show(piece)

    def _end_line(self) -> None:
        if self._is_in_a_line:
            self._is_in_a_line = False
            self._print("\n", self._out)

    def _print(self, text: str, stream: TextIO) -> None:
        shown = encodable(escape_controls(text), stream.encoding) if stream.isatty() else text
        try:
            print(shown, end="", file=stream, flush=True)
        except OSError as error:
            self.failure = self.failure or error


class LineSurface(_PrintingSurface):
    """A terminal on which nothing can be drawn (`TERM=dumb`), or whose output goes elsewhere."""

    def __init__(self, person: Person) -> None:
        super().__init__(person)
        self._answering: trio.MemorySendChannel[str] | None = None

    async def run(self, first: str = "") -> None:
        """Read lines until Ctrl-D; Ctrl-C stops what is under way."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear_signals)
            await self._talk(nursery, first)
            await self._person.wait_until_answered()
            nursery.cancel_scope.cancel()

    async def ask(self, question: str, more: Sequence[str] = ()) -> str:
        """Ask, and return what the next line answers; all except a clear yes is a no, such as words to the agent."""
        self._end_line()
        self._answering, answers = trio.open_memory_channel[str](1)
        try:
            self._print(f"{question} [{'/'.join(('y', 'N', *more))}] ", self._prompting)
            said = (await answers.receive()).strip().lower()
            return said[0] if said in (*_YES, *more, *(each[0] for each in more)) else "n"
        finally:
            self._answering = None

    async def ask_line(self, question: str) -> str | None:
        """Ask, and return the next line."""
        self._end_line()
        self._answering, answers = trio.open_memory_channel[str](1)
        try:
            self._print(f"{question} ", self._prompting)
            return await answers.receive()
        finally:
            self._answering = None

    @property
    def _prompting(self) -> TextIO:
        return self._out if self._out.isatty() else self._err

    async def _talk(self, nursery: trio.Nursery, first: str) -> None:
        if first:
            await self._person.submit(self._person.read(first))
        nursery.start_soon(self._prompt_after_answer)
        async for line in _read_lines(sys.stdin):
            if self._answering is not None:
                self._answering.send_nowait(line)
                self._answering = None
                continue
            typed = Typed(line.strip())  # nobody can tell here what was pasted, which names no files
            if self.failure is not None or (typed.text and await self._person.submit(typed)):
                return
            nursery.start_soon(self._prompt_after_answer)
        self._print("\n", self._prompting)

    async def _prompt_after_answer(self) -> None:
        await self._person.wait_until_answered()
        self._print(_PROMPT, self._prompting)

    async def _hear_signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                if number == signal.SIGTERM:
                    raise KeyboardInterrupt
                said = "stopped" if self._person.stop() else "Ctrl-D leaves"
                self._print(f"\n({said})\n{_PROMPT}", self._prompting)


class PipeSurface(_PrintingSurface):
    """No terminal to type on: there is one message, and its answer is the output."""

    async def run(self, first: str = "") -> None:
        """Send the message, and wait for its answer. What is piped in may be a stranger's: it hands over no file."""
        if first:
            await self._person.submit(Typed(first))
        await self._person.wait_until_answered()

    async def ask(self, question: str, more: Sequence[str] = ()) -> str:
        """Return a no: nobody is there to answer."""
        return "n"

    async def ask_line(self, question: str) -> str | None:
        """Return None: nobody is there to answer."""
        return None


async def _read_lines(stdin: TextIO) -> AsyncIterator[str]:
    """Yield the lines of a terminal. They are read past Python's own buffer, which a reader cannot leave."""
    decoder = codecs.getincrementaldecoder(stdin.encoding or "utf-8")("replace")
    rest = ""
    while True:
        await trio.lowlevel.wait_readable(stdin)
        data = os.read(stdin.fileno(), _AT_ONCE)
        *lines, rest = (rest + decoder.decode(data)).split("\n")
        for line in lines:
            yield line
        if not data:
            if rest:
                yield rest
            return
