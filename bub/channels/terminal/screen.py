"""The screen of `bub chat`: a line to write on that never goes away, and above it the conversation."""

# Long because the screen is one object of two threads: whoever changes what it shows has to see which thread does what,
# how its keys are bound, and how it is drawn.

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import trio

from bub.channels.terminal.answer import LiveAnswer, Look, Printout, RunningCall, duration_in_words
from bub.channels.terminal.borrowing import read_typed_ahead, redirect_prints, restore_terminal, suspend
from bub.channels.terminal.completion import make_completer
from bub.channels.terminal.escaping import encodable, escape_controls
from bub.channels.terminal.history import history_in
from bub.channels.terminal.mentions import Typed, mention_of, names_a_file
from bub.channels.terminal.painting import Painter
from bub.channels.terminal.pasting import Pastes, make_labeller
from bub.channels.terminal.person import Person
from bub.channels.terminal.resizing import NARROWEST, breaks_rows, rows_above, rows_taken
from bub.channels.terminal.rows import greet, last_rows, shorten
from bub.streaming import StreamEvent

if TYPE_CHECKING:  # importing it costs 120 ms, which only a person at a terminal pays
    import asyncio

    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
    from prompt_toolkit.layout.screen import Char

_TICK = 0.1
"""How many seconds lie between two drawings of what moves."""
_FRAME = 0.05
"""How many seconds lie between two drawings at least: text that comes faster is shown in larger pieces."""
_QUIET = 0.4
"""How long, in seconds, no key may have been pressed before a question listens: nobody answers one by typing on."""
_ENDING = 2.0
"""How long, in seconds, the terminal may take to be given back."""
_ESCAPE_SECONDS = 0.1
"""How long a terminal may take to send the rest of a key whose code begins with Esc."""
_ROWS_BESIDE = 8
"""How many rows of a terminal the unfinished answer leaves to everything else."""
_MOST_THOUGHTS = 4
_MOST_STEPS = 8
_SPARE = 1
"""How many rows more the line and what is beside it may take in a narrower window."""
_GROUPS: dict[Look, int] = {"tool": 2, "failed": 2, "note": 3}
"""What is printed below its like without an empty row between."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "-\\|/"


@dataclass(eq=False, slots=True)
class _PendingQuestion:
    """A question that waits for a key, or for a line; it listens once no key was pressed for a moment.

    While it takes a line, `draft` is what the person was typing before.
    """

    text: str
    more: Sequence[str]
    done: Callable[[], Any]
    takes_line: bool = False
    draft: str = ""
    line: str | None = None
    since: float = field(default_factory=time.monotonic)
    listens: bool = False
    answer: str = ""


class Screen:
    """A person's terminal while they talk. Its drawing and its keys have a thread of their own (prompt_toolkit)."""

    def __init__(self, person: Person, *, prefix: str, history: Path, greeting: Sequence[str], workspace: Path) -> None:
        self._person = person
        self._workspace = workspace
        self._prefix = prefix
        self._history = history
        self._greeting = greeting
        self._out: TextIO = sys.stdout
        self._painter = Painter(sys.stdout.encoding)
        self._answers: list[LiveAnswer] = []
        self._busy_since: float | None = None
        self._pastes = Pastes()
        self._breaks_rows = breaks_rows()
        self._rows_above = 0
        self._is_shell = False
        self._is_leaving = False
        self._was_stopped = False
        self._hint = ""
        self._asked: _PendingQuestion | None = None
        self._key_at = 0.0
        self._last_look: Look | None = None
        self._first = ""
        self._early: list[Callable[[], Any]] = []
        self._events: list[tuple[LiveAnswer, StreamEvent]] = []
        self._is_over = False
        self._must_end = False
        self._changing = threading.Lock()
        self._app: Application[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._moving: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self.failure: OSError | None = None
        self._lines: trio.MemorySendChannel[Typed | None] | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    # What the channel does, in its own thread.

    async def run(self, first: str = "") -> None:
        """Let the person talk until they leave; `first` is sent before anything else. The terminal is given back."""
        self._token = trio.lowlevel.current_trio_token()
        self._lines, lines = trio.open_memory_channel[Typed | None](float("inf"))
        self._first = first
        ended = trio.Event()
        with restore_terminal(sys.stdin, self._out), redirect_prints(lambda lines: self.show(Printout("note", lines))):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._draw_in_a_thread, ended)
                try:
                    nursery.start_soon(trio.to_thread.run_sync, self._painter.warm_up)
                    nursery.start_soon(self._hear, lines)
                    await ended.wait()
                finally:
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + _ENDING):
                        self._call(self._exit)
                        await ended.wait()
                nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    def show(self, piece: Printout) -> None:
        """Print a piece above the line, for good."""
        self._call(self._print, piece)

    def begin(self, answer: LiveAnswer) -> None:
        """Show an answer while it is being made."""
        self._call(self._answers.append, answer)
        self.refresh()

    def show_event(self, answer: LiveAnswer, event: StreamEvent) -> None:
        """Print what an event finishes; the rest is shown in the making."""
        with self._changing:
            self._events.append((answer, event))
            if len(self._events) > 1:
                return  # whoever brought the first one has called already
        self._call(self._take_events)

    def end(self, answer: LiveAnswer) -> None:
        """Print what is left of an answer; nothing of it is in the making any more."""
        self._call(self._end, answer)

    def refresh(self) -> None:
        """Draw what has changed."""
        if self._app is not None:
            self._app.invalidate()

    async def ask(self, question: str, more: Sequence[str] = ()) -> str:
        """Ask, and return the key of the answer: "y", "n" or one of `more`; "n" if the question is taken back."""
        answered = trio.Event()
        asked = _PendingQuestion(question, more, partial(self._tell, answered.set))
        self._call(self._show_question, asked)
        try:
            await answered.wait()
        finally:
            self._call(self._hide_question, asked)
        return asked.answer or "n"

    async def ask_line(self, question: str) -> str | None:
        """Ask, and return the line that answers, which no history keeps; None if the person declines (Ctrl-C)."""
        answered = trio.Event()
        asked = _PendingQuestion(question, (), partial(self._tell, answered.set), takes_line=True)
        self._call(self._show_question, asked)
        try:
            await answered.wait()
        finally:
            self._call(self._hide_question, asked)
        return asked.line

    async def _hear(self, lines: trio.MemoryReceiveChannel[Typed | None]) -> None:
        async with trio.open_nursery() as nursery:
            async for typed in lines:
                if typed is None or (typed.text and await self._person.submit(typed)):
                    break
                self._call(self._wait)  # again, where what came before it was answered in this moment
                nursery.start_soon(self._wait_for_answer)
            self._is_leaving = True
            self.refresh()
            await self._person.wait_until_answered()
            nursery.cancel_scope.cancel()
        self._call(self._exit)

    async def _wait_for_answer(self) -> None:
        await self._person.wait_until_answered()
        self._call(self._rest)

    def _rest(self) -> None:
        self._busy_since = None
        if self._was_stopped:
            self._was_stopped = False
            self._print(Printout("note", "stopped"))
        self.refresh()

    async def _draw_in_a_thread(self, ended: trio.Event) -> None:
        with trio.CancelScope(shield=True):
            try:
                await trio.to_thread.run_sync(self._draw, abandon_on_cancel=True)
            finally:
                ended.set()

    def _call(self, function: Callable[..., Any], *args: Any) -> None:
        """Do something in the thread of the screen; before it draws, when it does, and afterwards here."""
        with self._changing:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function, *args)
                return
            if not self._is_over:
                self._early.append(partial(function, *args))
                return
        function(*args)

    def _tell(self, function: Callable[[], Any]) -> None:
        """Do something in the channel's thread."""
        assert self._token is not None
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    # What is done in the thread of the screen.

    def _draw(self) -> None:
        import asyncio

        try:
            asyncio.run(self._run_application())
        except EOFError:
            pass  # the terminal is gone
        except BaseException as error:  # noqa: BLE001 (raised where the channel runs)
            self._failure = error

    async def _run_application(self) -> None:
        import asyncio

        from prompt_toolkit.application import create_app_session
        from prompt_toolkit.input import create_input
        from prompt_toolkit.output.color_depth import ColorDepth
        from prompt_toolkit.output.vt100 import Vt100_Output

        loop = asyncio.get_running_loop()
        moving = self._moving = asyncio.Event()
        # Where the cursor is, is never asked: over a slow line the answer would arrive among the keys.
        output = Vt100_Output.from_pty(self._out, term=os.environ.get("TERM"), enable_bell=False)
        output.enable_cpr = False
        # From the first place of a window on, it would not be erased in tmux but scroll away, and be seen there again.
        output.erase_down = partial(output.write_raw, " \x1b[J\r\x1b[K")  # type: ignore[method-assign]
        keyboard = create_input(sys.stdin)
        with create_app_session(input=keyboard, output=output), keyboard.raw_mode():
            typed_ahead = read_typed_ahead(keyboard, sys.stdin)
            app = self._app = self._application(ColorDepth.from_env())
            loop.set_exception_handler(partial(self._fail, app))
            # In the first column: what was typed meanwhile is echoed there, and comes back on the line.
            greeting = greet(self._greeting, output.get_size().columns)
            self._out.write("\r\x1b[K" + encodable("".join(f"{row}\n" for row in greeting), self._out.encoding))
            self._rows_above += len(greeting)
            self._out.flush()
            with self._changing:
                self._loop = loop
            for function in self._early:
                function()
            if self._first:
                self._print(Printout("said", self._first))
                self._hand_over(self._person.read(self._first))
            spinning = asyncio.ensure_future(self._tick(moving))
            try:
                await app.run_async(partial(self._begin, typed_ahead), handle_sigint=False, set_exception_handler=False)
            finally:
                spinning.cancel()
                with self._changing:
                    self._loop, self._is_over = None, True
                await asyncio.sleep(0)  # what was to be printed meanwhile is

    def _fail(self, app: Application[None], loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(str(context.get("message")))
        if app.is_running and not app.is_done:
            app.exit(exception=error)

    def _exit(self) -> None:
        self._must_end = True  # it may not have begun
        if self._app is not None and self._app.is_running and not self._app.is_done:
            self._app.exit()

    def _begin(self, typed_ahead: list[KeyPress]) -> None:
        if self._must_end:
            self._exit()
        elif self._loop is not None:
            self._loop.call_soon(self._press, typed_ahead)  # once all has been drawn for the first time

    def _press(self, keys: list[KeyPress]) -> None:
        if self._app is not None and not self._app.is_done:
            self._app.key_processor.feed_multiple(keys)
            self._app.key_processor.process_keys()

    def _print(self, piece: Printout) -> None:
        app, out = self._app, self._out
        width = app.output.get_size().columns if app is not None else 80
        is_below_a_like = _GROUPS.get(piece.look, 0) == _GROUPS.get(self._last_look or "said", 1)
        painted = ("" if is_below_a_like else "\n") + self._painter.paint(piece, width)
        self._last_look = piece.look
        self._rows_above += painted.count("\n")
        if app is None or not app.is_running:
            out.write(painted)
            out.flush()
            return
        self._follow_width(app)
        # The terminal stays as it is (raw), so that keys that are pressed meanwhile are not echoed into the text.
        app.renderer.erase()
        app.output.write_raw(painted.replace("\n", "\r\n"))
        app.output.flush()
        app._redraw()

    def _follow_width(self, app: Application[None]) -> None:
        """Go up to where what is drawn begins, if the terminal has broken its rows since the window is narrower.

        Else what stood higher would not be erased, and be seen twice.
        """
        renderer, columns = app.renderer, app.output.get_size().columns
        drawn, size = renderer._last_screen, renderer._last_size
        if drawn is None or size is None or columns >= size.columns or not self._breaks_rows:
            return
        cursor = renderer._cursor_pos
        above = rows_above((_width_of(drawn.data_buffer[y]) for y in range(cursor.y)), cursor.x, columns)
        app.output.cursor_up(above - cursor.y)
        self._rows_above = max(0, self._rows_above - above + cursor.y)  # as many may have left the window
        renderer._last_size = None  # it is followed

    def _take_events(self) -> None:
        with self._changing:
            events, self._events = self._events, []
        for answer, event in events:
            for piece in answer.take(event):
                if piece.look != "step":  # the whole plan is drawn
                    self._print(piece)
        self.refresh()

    def _end(self, answer: LiveAnswer) -> None:
        if answer in self._answers:
            self._answers.remove(answer)
        for piece in answer.end():
            self._print(piece)
        self.refresh()

    async def _tick(self, moving: asyncio.Event) -> None:
        """Draw again and again while something moves."""
        import asyncio

        while True:
            await moving.wait()
            while self._busy_since is not None or self._asked is not None:
                asked, now = self._asked, time.monotonic()
                if asked is not None and not asked.listens and now - max(asked.since, self._key_at) > _QUIET:
                    asked.listens = True
                    self._listen(asked)
                self.refresh()
                await asyncio.sleep(_TICK)
            moving.clear()
            self.refresh()

    def _wait(self) -> None:
        self._busy_since = self._busy_since or time.monotonic()
        self._move()

    def _move(self) -> None:
        if self._moving is not None:
            self._moving.set()

    def _show_question(self, asked: _PendingQuestion) -> None:
        self._asked = asked
        self._move()
        self.refresh()

    def _listen(self, asked: _PendingQuestion) -> None:
        if not asked.takes_line:
            self._focus("question")
            return
        asked.draft = self._buffer.text
        self._buffer.reset()

    @property
    def _takes_answer(self) -> bool:
        """Whether what is typed on the line answers a question."""
        return self._asked is not None and self._asked.takes_line and self._asked.listens

    def _hide_question(self, asked: _PendingQuestion) -> None:
        if self._asked is asked:
            if self._takes_answer:
                self._buffer.reset()
                self._buffer.insert_text(asked.draft)
            self._asked = None
            self._focus("line")
            self.refresh()

    def _answer_with(self, key: str) -> None:
        asked = self._asked
        if asked is not None and key in ("y", "n", *(each[0] for each in asked.more)):
            asked.answer = key
            self._hide_question(asked)
            asked.done()

    def _answer_line(self, buffer: Buffer) -> None:
        asked = self._asked
        assert asked is not None
        asked.line = self._pastes.unfold(buffer.text).strip()
        self._print(Printout("note", f"{asked.text} {asked.line}"))
        self._hide_question(asked)
        asked.done()

    def _focus(self, name: str) -> None:
        if self._app is not None:
            self._app.layout.focus(self._windows[name])

    def _send(self, buffer: Buffer) -> None:
        if self._takes_answer:
            self._answer_line(buffer)
            return
        if self._is_leaving:
            return
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        shown = self._pastes.label(buffer.text).strip()
        text, as_written = self._pastes.unfold(buffer.text), buffer.text.strip()
        line = text.strip()
        if not line:
            buffer.reset()
            return
        if not text.startswith(" "):  # how shells keep a secret out of the history
            with suppress(OSError):  # a full disk must not keep anybody from talking
                buffer.history.append_string(text.rstrip())
        buffer.reset()
        if self._is_shell and not line.startswith(self._prefix):
            line, shown = self._prefix + line, self._prefix + shown
        self._print(Printout("said", shown))
        # What was pasted names no files: only what a person has typed does.
        typed = Typed(line) if line.startswith(self._prefix) else self._person.read(as_written)
        self._hand_over(replace(typed, text=self._pastes.unfold(typed.text)))

    def _hand_over(self, typed: Typed | None) -> None:
        assert self._lines is not None
        if typed is not None:
            self._wait()
        self._tell(partial(self._lines.send_nowait, typed))

    def _paste(self, buffer: Buffer, text: str) -> None:
        """Put what is pasted on the line: the path of a picture as a mention, a text as it is or as one letter."""
        if self._takes_answer:
            buffer.insert_text(text)
            return
        before = buffer.document.text_before_cursor
        is_command = self._is_shell or before.lstrip().startswith(self._prefix)
        mention = None if is_command else mention_of(text, self._workspace)
        if mention is not None:
            text = f"{'' if not before or before[-1].isspace() else ' '}{mention} "
        else:
            text = self._pastes.fold(text, as_one=not is_command and names_a_file(text, self._workspace))
        buffer.insert_text(text)

    def _interrupt(self, buffer: Buffer) -> None:
        if self._asked is not None and self._asked.takes_line:
            asked = self._asked
            self._hide_question(asked)
            asked.done()
        elif self._asked is not None:
            self._answer_with("n")
        elif self._busy_since is not None:
            self._tell(self._stop)
        elif buffer.text:
            buffer.reset()
        else:
            self._hint = "Ctrl-D leaves"

    def _stop(self) -> None:
        self._was_stopped = self._person.stop() or self._was_stopped

    # How it looks.

    def _application(self, depth: Any) -> Application[None]:
        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
        from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
        from prompt_toolkit.layout.menus import CompletionsMenu
        from prompt_toolkit.styles import Style
        from prompt_toolkit.widgets import SearchToolbar

        buffer = Buffer(
            multiline=True,
            history=history_in(self._history),
            completer=make_completer(
                self._person.completions, self._prefix, lambda: self._is_shell, workspace=self._workspace
            ),
            complete_while_typing=Condition(self._completes_while_typing),
        )
        self._buffer = buffer
        search = SearchToolbar(ignore_case=True)
        line = Window(
            BufferControl(buffer, search_buffer_control=search.control, input_processors=[make_labeller(self._pastes)]),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._line_prefix,
        )
        question = Window(
            FormattedTextControl(self._question, focusable=True, show_cursor=False, key_bindings=self._answer_keys()),
            wrap_lines=True,
            dont_extend_height=True,
        )
        self._windows = {"line": line, "question": question}
        rows = HSplit(
            [
                Window(FormattedTextControl(self._live, show_cursor=False), dont_extend_height=True),
                ConditionalContainer(question, Condition(lambda: self._asked is not None)),
                line,
                search,
                CompletionsMenu(max_height=8, scroll_offset=1),
                ConditionalContainer(
                    Window(FormattedTextControl(lambda: [("class:dim", self._hint)]), height=1),
                    Condition(lambda: bool(self._hint)),
                ),
            ]
        )
        app: Application[None] = Application(
            layout=Layout(rows, focused_element=line),
            key_bindings=self._keys(),
            style=Style.from_dict({"dim": "ansibrightblack", "prompt": "bold", "question": "bold"}),
            color_depth=depth,
            min_redraw_interval=_FRAME,
            erase_when_done=True,
            include_default_pygments_style=False,
        )
        app.ttimeoutlen = _ESCAPE_SECONDS
        app.before_render += self._follow_width
        draw_again = app._on_resize

        def on_resize() -> None:
            self._follow_width(app)
            draw_again()

        app._on_resize = on_resize  # type: ignore[method-assign]
        app.key_processor.before_key_press += self._on_key
        return app

    def _on_key(self, _: Any) -> None:
        self._hint = ""
        self._key_at = time.monotonic()

    def _completes_while_typing(self) -> bool:
        if self._takes_answer:
            return False
        text = self._buffer.text
        word = self._buffer.document.get_word_before_cursor(WORD=True)
        return text.startswith(self._prefix) or word.startswith(("$", "@"))

    def _is_in_folder(self) -> bool:
        """Whether what was completed is the only one there was, and a folder: the next Tab goes on in it."""
        state = self._buffer.complete_state
        if state is None or state.current_completion is None:
            return False
        return len(state.completions) == 1 and state.current_completion.text.endswith("/")

    def _line_prefix(self, number: int, wrapped: int) -> Any:
        sign = (
            "answer> "
            if self._takes_answer
            else encodable(f"{self._prefix if self._is_shell else ''}> ", self._out.encoding)
        )
        if number == 0 and wrapped == 0:
            return [("class:prompt", sign)]
        return [("", " " * len(sign))]

    def _question(self) -> Any:
        asked = self._asked
        if asked is None:
            return []
        keys = "Enter answers, Ctrl-C declines" if asked.takes_line and asked.listens else ""
        keys = (
            keys or "  ".join(f"[{each[0]}]{each[1:]}" for each in ("yes", "no", *asked.more)) if asked.listens else "…"
        )
        return [("class:question", f"{encodable(asked.text, self._out.encoding)}  "), ("", keys)]

    def _live(self) -> Any:
        """Return the rows of what is in the making: thoughts, unfinished text, tools that run, the time taken."""
        assert self._app is not None
        size = self._app.output.get_size()
        width, most = size.columns, max(3, size.rows - _ROWS_BESIDE)
        rows: list[tuple[str, str]] = []
        calls: list[RunningCall] = []
        pauses: list[str] = []
        since, now = self._busy_since, time.monotonic()
        for answer in list(self._answers):
            rows += (("class:dim", row) for row in last_rows(answer.thinking, width, _MOST_THOUGHTS))
            rows += (("", row) for row in last_rows(answer.unfinished, width, most))
            rows += (("", shorten(escape_controls(row), width - 1)) for row in answer.plan.rows(min(most, _MOST_STEPS)))
            calls += answer.running()
            pauses += filter(None, [answer.pause(now)])
        rows = _rows_in_any_width(rows[-most:], size.rows // 2 - 2, min(self._rows_above, size.rows // 2) - _SPARE)
        frames = _FRAMES if encodable(_FRAMES, self._out.encoding) == _FRAMES else _PLAIN_FRAMES
        frame = frames[int(now / _TICK) % len(frames)]
        for label, began in calls:
            took = f" {duration_in_words(now - began)}" if began is not None else ""
            rows.append(("class:dim", f"{frame} {shorten(label, width - len(took) - 3)}{took}"))
        if since is not None and self._asked is None:
            doing = ["leaving when this is done" if self._is_leaving else "Ctrl-C stops", *pauses]
            spun = " · ".join([f"{frame} {duration_in_words(now - since)}", *doing])
            rows.append(("class:dim", shorten(spun, width - 1)))
        fragments = [("", "\n")] if rows else []
        for at, (style, row) in enumerate(rows):
            fragments.append((style, encodable(row, self._out.encoding) + ("\n" if at < len(rows) - 1 else "")))
        return fragments

    # Keys.

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.filters import Condition, has_focus
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()
        writing = has_focus(self._buffer)
        is_empty = Condition(lambda: not self._buffer.text)
        is_in_folder = Condition(self._is_in_folder)

        @keys.add("enter", filter=writing)
        def _(event: KeyPressEvent) -> None:
            self._send(self._buffer)

        @keys.add("escape", "enter", filter=writing)
        @keys.add("c-j", filter=writing)
        def _(event: KeyPressEvent) -> None:
            self._buffer.newline(copy_margin=False)

        @keys.add("<bracketed-paste>", filter=writing)
        def _(event: KeyPressEvent) -> None:
            self._paste(self._buffer, event.data.replace("\r\n", "\n").replace("\r", "\n"))

        @keys.add("tab", filter=writing & is_in_folder)
        def _(event: KeyPressEvent) -> None:
            self._buffer.complete_state = None
            self._buffer.start_completion(insert_common_part=True)

        @keys.add("c-c", filter=writing)
        def _(event: KeyPressEvent) -> None:
            self._interrupt(self._buffer)

        @keys.add("c-d", filter=writing & is_empty)
        def _(event: KeyPressEvent) -> None:
            if self._is_leaving:  # for the second time: it is not waited for
                self._tell(self._stop)
            else:
                self._hand_over(None)

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            suspend()

        @keys.add("c-x", filter=writing, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._is_shell = not self._is_shell

        return keys

    def _answer_keys(self) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        def answers(key: str, answer: str) -> None:
            @keys.add(key)
            def _(event: KeyPressEvent) -> None:
                self._answer_with(answer)

        for key, answer in (
            ("y", "y"),
            ("n", "n"),
            ("a", "a"),
            ("s", "s"),
            ("d", "d"),
            ("enter", "n"),
            ("c-c", "n"),
            ("c-d", "n"),
        ):
            answers(key, answer)
            if len(key) == 1:
                answers(key.upper(), answer)
        return keys


def _width_of(row: Mapping[int, Char]) -> int:
    """Return how many cells of a row are written on."""
    return max((at + char.width for at, char in row.items() if char.char != " "), default=0)


def _rows_in_any_width(rows: list[tuple[str, str]], most: int, most_more: int) -> list[tuple[str, str]]:
    """Return the last rows, at least one: those that can still be erased if the window becomes narrow.

    There they take at most `most` rows, which is at most `most_more` rows more than now: so much room is above them,
    and what leaves the window at its top cannot be reached any more.
    """
    from prompt_toolkit.utils import get_cwidth

    taken = 0
    for shown in range(1, len(rows) + 1):
        taken += rows_taken(get_cwidth(rows[-shown][1]), NARROWEST)
        if shown > 1 and (taken > most or taken - shown > most_more):
            return rows[1 - shown :]
    return rows
