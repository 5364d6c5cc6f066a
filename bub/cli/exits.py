"""How a command ends: the one place that turns errors into exit codes and words on standard error (DESIGN §8)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

import typer
from typer._click.exceptions import ClickException  # Typer's copy of click; its base error has no public name

from bub.cli.table import FINDINGS, load
from bub.cli.terminal import printable
from bub.errors import BubError
from bub.log import covered, log_exception, open_log

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class StoppedError(BubError):
    """A Ctrl-C about which there is something to say: what it left behind."""

    exit_code = INTERRUPTED


def exit_code(work: Callable[[], int]) -> int:
    """Do the work of the command line and return its exit code, whatever happens; failures are told on stderr."""
    try:
        code = work()
        sys.stdout.flush()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BrokenPipeError:
        return _reader_left()
    except BaseException as error:  # noqa: BLE001 (this is the end of the process: everything is told, nothing goes on)
        return _told(error)
    return code


def _told(error: BaseException) -> int:
    causes = tuple(leaves(error))
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        return INTERRUPTED
    if any(isinstance(cause, BrokenPipeError) for cause in causes):
        return _reader_left()
    return max(_tell(cause) for cause in causes)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that happened: those of a group one by one, else the one itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def _tell(error: BaseException) -> int:
    match error:
        case BubError() if hasattr(error, "diagnostics"):  # a `PipelineError`, which few commands come to import
            _say(load(FINDINGS)(error, color=in_color(sys.stderr)))
            return error.exit_code
        case BubError():
            _say(one_line(error))
            return error.exit_code
        case ClickException():
            command = getattr(getattr(error, "ctx", None), "command_path", "bub")
            _say(f"bub: {_sentence(error.format_message())} (see `{command} --help`)")
            return error.exit_code
        case typer.Abort():
            return INTERRUPTED
        case _:
            _say_crash(error)
            return FAILED


def in_color(stream: TextIO) -> bool:
    """Whether what is written to `stream` may be coloured: a terminal that shows colours, and no `NO_COLOR`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def one_line(error: BubError) -> str:
    """`bub: what is wrong (what to do)`, in one line; a second way out, where the help has one, in a second."""
    text = _in_one_line(str(error))
    if not error.help:
        return f"bub: {text}"
    ways = "\n     ".join(_in_one_line(way) for way in error.help.splitlines())
    return f"bub: {text} ({ways})"


def _say_crash(error: BaseException) -> None:
    number = os.urandom(4).hex()
    file = open_log()
    where = f"the details are in {file} under {number}" if file else f"number {number}; BUB_DEBUG=1 shows the details"
    log_exception("command.failed", error, id=number)
    _say(f"bub: {covered(_in_short(error))[:400]} ({_in_one_line(where)})")


def _in_short(error: BaseException) -> str:
    """What an exception says of itself; the name of its type, too, unless that is a private matter."""
    name = type(error).__name__
    text = _in_one_line(" ".join([str(error), *getattr(error, "__notes__", ())]))
    if text and name.startswith("_"):
        return text
    return f"{name}: {text}" if text else name


def _say(text: str) -> None:
    print(covered(text), file=sys.stderr)


def _sentence(text: str) -> str:
    text = _in_one_line(text).removesuffix(".")
    return text[:1].lower() + text[1:]


def _in_one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _reader_left() -> int:
    # Whoever read our output (`| head`) has gone. Python would complain once more when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
