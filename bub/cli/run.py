"""`bub run`: one message through the pipeline, its replies on standard output."""

# Without `from __future__ import annotations`: of texts, Typer would evaluate each four times, at each start.

import functools
import io
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import trio
import typer

from bub.agent.models.parts import name_part, text_part
from bub.approval import Answer, Question
from bub.base.failures import flatten_error
from bub.base.plain import plain
from bub.base.surfaces import Surface
from bub.base.trace import TurnRecord
from bub.base.tracing.context import join_trace
from bub.channels.attachments import attach as attach_file
from bub.channels.commands import command_line, prefix_of
from bub.channels.plan import LivePlan
from bub.cli.exits import FAILED
from bub.cli.interrupts import let_second_interrupt_end
from bub.cli.opening import open_framework
from bub.cli.options import options_of, workspace_of
from bub.cli.output import show_json
from bub.cli.prompts import ask_person, can_ask
from bub.cli.terminal import printable
from bub.envelope import Envelope, content_of, field_of, normalize_envelope
from bub.errors import BubError, UsageError
from bub.framework import BubFramework, TurnResult
from bub.log import log_exception, open_log
from bub.plugins.shipped import TERMINAL
from bub.streaming import StreamEvent
from bub.tape.plan import steps_as_data

# Python's stand-in for a byte of the command line that is no text; no model and no JSON reader takes it.
_NO_TEXT = "[\ud800-\udfff]"


def run(
    ctx: typer.Context,
    message: Annotated[str, typer.Argument(help="The text to send; `-` reads it from standard input.")],
    channel: Annotated[str, typer.Option(help="The channel the message comes from.")] = TERMINAL,
    chat_id: Annotated[str, typer.Option(help="The chat it comes from.")] = "local",
    sender_id: Annotated[str, typer.Option(help="Who sent it.")] = "human",
    session_id: Annotated[str | None, typer.Option(help="The session to continue.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as one JSON object.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer while it is being made.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print each stage and its time on stderr.")] = False,
    attach: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="An image, a PDF or a text to send; may be given again.")
    ] = None,
) -> int:
    """Send one message through the pipeline and print the replies.

    Each reply is a line `[channel:chat_id]` and its text. A turn that a gate denied, and a command that failed, end
    with exit code 1. If the answer was cut, a line on standard error says so.
    """
    if as_json and stream:
        raise UsageError("--json and --stream cannot be used together", help="JSON is printed when the turn is over")
    text = _standard_input() if message == "-" else message
    if not text.strip() and not attach:
        raise UsageError("the message is empty", help='say something: `bub run "hello"`')
    media = _attach_files(attach or (), text, ctx)
    inbound: dict[str, Any] = {"content": text, "channel": channel, "chat_id": chat_id, "sender_id": sender_id}
    if session_id is not None:
        inbound["session_id"] = session_id
    if led_here := join_trace(os.environ):
        inbound["trace"] = led_here
    inbound = {name: re.sub(_NO_TEXT, "\ufffd", value) for name, value in inbound.items()}
    if media:
        inbound["media"] = media

    framework = open_framework(
        options_of(ctx), routed=False, check=functools.partial(_check_needs, text, has_files=bool(media))
    )
    live = LiveText(f"[{channel}:{chat_id}]") if stream else None
    outcome = _Outcome()
    try:
        # What a plugin prints must not stand before the object.
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            result = _run_turn(framework, inbound, live, outcome)
    finally:
        if live is not None:
            live.end()
        if trace:
            _print_trace(framework.last_trace)
    if as_json:
        show_json(plain({**result_as_dict(result), **outcome.as_dict()}), allow_nan=False)
    else:
        _print_replies(result.outbounds or (), live)
    if outcome.cut is not None:
        print(f"bub: {outcome.cut}", file=sys.stderr)
    return FAILED if str(result.ended_by or "").startswith("denied") or outcome.failed else 0


def _attach_files(files: Sequence[str], text: str, ctx: typer.Context) -> list[dict[str, Any]]:
    if not files:
        return []
    workspace = workspace_of(options_of(ctx))
    return [attach_file(Path(file), file, workspace) for file in files]


def _check_needs(text: str, framework: BubFramework, *, has_files: bool) -> None:
    """Prove that a turn finds what it needs; a command needs no model."""
    if command_line(text, prefix_of(framework.settings)) is None:
        framework.check_needs()
    elif has_files:
        raise UsageError("a command takes no attachments", help="leave out --attach, or say it in words")


def _standard_input() -> str:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # one byte that is no text must not cost the whole message
    return sys.stdin.read()


def _run_turn(
    framework: BubFramework, inbound: dict[str, Any], live: "LiveText | None", outcome: "_Outcome"
) -> TurnResult:
    try:
        return trio.run(functools.partial(_turn, framework, inbound, live, outcome))
    except (SystemExit, BaseExceptionGroup) as error:
        end = next((cause for cause in flatten_error(error) if isinstance(cause, SystemExit)), None)
        if end is None:
            raise
        # No answer was made: were this the end of the program, a script would take `sys.exit(0)` for success.
        file = open_log()
        log_exception("turn.ended_by_exit", end)
        where = f"see {file} for the place" if file else "BUB_DEBUG=1 shows the place"
        problem = "a plugin ended the program in the middle of a turn"
        raise BubError(problem, help=f"a hook has to return or raise, not call `sys.exit`; {where}") from end


async def _turn(
    framework: BubFramework, inbound: dict[str, Any], live: "LiveText | None", outcome: "_Outcome"
) -> TurnResult:
    let_second_interrupt_end()
    ask = ask_person if can_ask() else None
    async with framework.running():
        if live is None:
            return await framework.process_inbound(inbound, on_event=outcome.hear, ask=ask, surface=Surface.RUN)

        def hear(event: StreamEvent, message: Envelope) -> None:
            outcome.hear(event, message)
            live.show(event)

        async def ask_below(question: Question) -> bool | Answer:
            live.end()
            return await ask_person(question)

        ask = ask_below if ask is not None else None

        with live.reading:
            return await framework.process_inbound(
                inbound, stream_output=True, on_event=hear, ask=ask, surface=Surface.RUN
            )
    assert live.failure is not None
    raise live.failure


class _Outcome:
    """What the events of a turn say beside its words: its plan, and how the answer ended."""

    def __init__(self) -> None:
        self._end = StreamEvent("final")
        self._plan = LivePlan()

    def hear(self, event: StreamEvent, message: Envelope) -> None:
        """Listen to the events of the answer; say so if it has to be waited for, and how far its plan has come."""
        if event.kind == "final":
            self._end = event
        elif event.kind in ("compaction", "notice"):
            print(f"bub: {printable(event.data['text'])}", file=sys.stderr)
        elif event.kind == "waiting":
            print(f"bub: waiting {event.data['seconds']:.0f} s: {printable(event.data['reason'])}", file=sys.stderr)
        elif event.kind == "plan":
            for row in self._plan.take(event):
                print(f"bub: {printable(row)}", file=sys.stderr)

    @property
    def failed(self) -> bool:
        """Whether the answer was that something failed: a comma command (BEHAVIOURS A5)."""
        return self._end.data.get("ok") is False

    @property
    def cut(self) -> str | None:
        """Why the answer is not whole, if it is not."""
        return self._end.explain_cut()

    def as_dict(self) -> dict[str, Any]:
        """Return what `bub run --json` says of it; null is what nobody knows, except a `cost`, which is left out."""
        data = self._end.data
        told = {name: data.get(name) for name in ("finish_reason", "usage", "steps")}
        told["plan"] = steps_as_data(self._plan.steps)["steps"]
        return {**told, "cost": data["cost"]} if "cost" in data else told


class LiveText:
    """Shows the text of a stream as it comes, below `heading`, and remembers what was shown.

    When it cannot be shown (`| head` has read enough, the disk is full) the scope `reading` is cancelled: an answer
    that nobody reads is not worth the model's work. `failure` is the reason.
    """

    def __init__(self, heading: str) -> None:
        self._heading = heading
        self._parts: list[str] = []
        self._in_a_line = False
        self.reading = trio.CancelScope()
        self.failure: OSError | None = None

    @property
    def text(self) -> str:
        """What has been shown so far."""
        return "".join(self._parts)

    def show(self, event: StreamEvent, message: Envelope = None) -> None:
        """Show one event, if it carries text."""
        delta = event.data.get("delta") if event.kind == "text" else None
        if not delta:
            return
        heading = "" if self._parts else f"{self._heading}\n"
        self._parts.append(str(delta))
        self._in_a_line = not self._parts[-1].endswith("\n")
        try:
            print(_clean_for_terminal(f"{heading}{delta}"), end="", flush=True)
        except OSError as error:
            self.failure = error
            self.reading.cancel()

    def end(self) -> None:
        """End the last line, unless it has ended."""
        if self._in_a_line and self.failure is None:
            print(flush=True)
        self._in_a_line = False


def _print_replies(outbounds: Sequence[Envelope], live: LiveText | None) -> None:
    shown = live.text.strip() if live is not None else ""
    for outbound in outbounds:
        content = content_of(outbound)
        if shown and content.strip() == shown:
            shown = ""  # the one reply that was read while it came
            continue
        address = f"[{field_of(outbound, 'channel', 'default')}:{field_of(outbound, 'chat_id', 'default')}]"
        print(_clean_for_terminal(f"{address}\n{content}"))


def _clean_for_terminal(text: str) -> str:
    """Return a text without the characters that steer a terminal; unchanged if a program reads it."""
    if not sys.stdout.isatty():
        return text
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter) != "Cc")


def result_as_dict(result: TurnResult) -> dict[str, Any]:
    """Return the result of a turn as the JSON object of `bub run --json`; times are in seconds.

    A prompt that a gate kept from the model is null, and so is an answer that was kept back, or changed below.
    """
    is_kept_from_model = str(result.ended_by or "").startswith("denied") and result.model_output is None
    return {
        "session_id": result.session_id,
        "prompt": None if is_kept_from_model else _without_files(result.prompt),
        "model_output": None if result.is_withheld else result.model_output,
        "outbounds": [normalize_envelope(outbound) for outbound in result.outbounds or ()],
        "profile": result.profile,
        "ended_by": result.ended_by,
        "trace": [record._asdict() for record in result.trace],
    }


def _without_files(prompt: Any) -> Any:
    """Return a prompt with a line for each picture or file, whose bytes nobody wants to read."""
    parts = prompt if isinstance(prompt, list) else ()
    if not all(isinstance(part, dict) for part in parts) or not parts:
        return prompt
    return [part if part.get("type") == "text" else text_part(name_part(part)) for part in parts]


def _print_trace(trace: Sequence[TurnRecord]) -> None:
    width = max((len(record.stage) for record in trace), default=0)
    for record in trace:
        line = f"{record.duration * 1000:10.2f} ms  {record.stage:<{width}}  {record.outcome:<9}"
        print(printable(f"{line}  {record.implementation}".rstrip()), file=sys.stderr)
