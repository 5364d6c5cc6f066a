"""How a command ends: the one place that turns errors into exit codes and words on standard error (DESIGN §8)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

import typer
from typer._click.exceptions import ClickException  # Typer's copy of click; its base error has no public name

from bub.base.failures import flatten_error
from bub.cli.table import FINDINGS, load
from bub.cli.terminal import printable
from bub.errors import BubError
from bub.log import log_exception, open_log, redact_text

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class StoppedError(BubError):
    """A Ctrl-C about which there is something to say: what it left behind."""

    exit_code = INTERRUPTED


def exit_code(work: Callable[[], int]) -> int:
    """Do the work of the command line and return its exit code, whatever happens; stderr says what failed."""
    try:
        code = work()
        sys.stdout.flush()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BrokenPipeError:
        return _end_without_reader()
    except BaseException as error:  # noqa: BLE001 (the process ends here: every error is reported)
        return _report(error)
    return code


def _report(error: BaseException) -> int:
    causes = tuple(flatten_error(error))
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        return INTERRUPTED
    if any(isinstance(cause, BrokenPipeError) for cause in causes):
        return _end_without_reader()
    return max(_report_one(cause) for cause in causes)


def _report_one(error: BaseException) -> int:
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
    """Return whether what is written to `stream` may be coloured: a terminal that shows colours, and no `NO_COLOR`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def one_line(error: BubError) -> str:
    """Return `bub: what is wrong (what to do)` in one line; each further line of the help gets one of its own."""
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
    _say(f"bub: {redact_text(_in_short(error))[:400]} ({_in_one_line(where)})")


def _in_short(error: BaseException) -> str:
    """Return the text of an exception, with the name of its type unless that type is private."""
    name = type(error).__name__
    text = _in_one_line(" ".join([str(error), *getattr(error, "__notes__", ())]))
    if text and name.startswith("_"):
        return text
    return f"{name}: {text}" if text else name


def _say(text: str) -> None:
    print(redact_text(text), file=sys.stderr)


def _sentence(text: str) -> str:
    text = _in_one_line(text).removesuffix(".")
    return text[:1].lower() + text[1:]


def _in_one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _end_without_reader() -> int:
    # Whoever read our output (`| head`) has gone. Python would complain again when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
