"""The log: what happened, for whoever has to find out later; loguru is imported when the first line is written.

Any module writes through the functions below. Only the command line's `main()` says where the lines go
(`log_to`); a program that embeds Bub sets loguru up as it likes, and reads nothing of Bub before it enables that.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from io import TextIOWrapper
    from logging import Handler, LogRecord
    from typing import TextIO

    from loguru import Logger, Message, Record

Form = Literal["text", "json"]
"""How a line is written: for people, or as one JSON object for programs."""

FILE_NAME = "bub.log"

_LARGEST, _OLD_ONES = 5_000_000, 4
_LARGEST_NUMBER = 2**63

_OURS = ("bub", "bub_plugins")
"""The packages whose lines are Bub's own."""

_LINE = "{time:YYYY-MM-DDTHH:mm:ss.SSSZZ} {level: <7} {name}: {message}"  # loguru adds the traceback


class Redactor(Protocol):
    """What covers secrets; of two that are equal one is enough."""

    def text(self, text: str, /) -> str:
        """The text with its secrets covered."""

    def __hash__(self) -> int: ...


class _Destination(NamedTuple):
    """Where the lines of this process go: a folder, and standard error too, in the form `shown`, if that is said.

    With `debug` it is more lines, on both.
    """

    folder: Path
    debug: bool
    shown: Form | None


@functools.cache
def keep_quiet() -> None:
    """Let Bub write nothing in a program that embeds it, unless that says `logger.enable("bub")` from now on.

    That is loguru's own way for libraries. If this process logs to a file of Bub's (`log_to`), nothing changes.
    """
    if _destination is None:
        from loguru import logger

        for name in _OURS:
            logger.disable(name)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Write no line while the block runs, whatever fails in it: its failures are meant, and nobody looks for them."""
    global _is_silent
    before, _is_silent = _is_silent, True
    try:
        yield
    finally:
        _is_silent = before


def log_info(event: str, /, **fields: Any) -> None:
    """Note that `event` happened: `log_info("turn.ended", session="cli:local")`."""
    if not _is_silent:
        _with(event, fields).opt(depth=1).info(_line(event, fields))


def log_warning(event: str, /, **fields: Any) -> None:
    """Note something that went on, but not as somebody meant it (`hook.async_not_supported hook=… adapter=…`)."""
    if not _is_silent:
        _with(event, fields).opt(depth=1).warning(_line(event, fields))


def log_exception(event: str, error: BaseException, /, **fields: Any) -> None:
    """Note a failure with its traceback; the values of variables are left out, for they may be secrets."""
    if not _is_silent:
        fields["error"] = error
        _with(event, fields).opt(depth=1, exception=error).error(_line(event, fields))


def log_to(folder: Path, *, debug: bool = False, shown: Form | None = None) -> None:
    """Let this process log to `bub.log` in `folder`, from the next line on.

    With `debug` or `shown` the lines go to standard error too, as text or as one JSON object each: `time`, `level`,
    `event`, `logger`, the fields by their names, and `exception`. The file has text, whoever writes to it.

    What is missing of `folder` and of Bub's own folder around it is made for its owner only.

    Nothing is imported, created or opened yet: that happens with the first line, or with `open_log`.
    """
    global _destination
    _destination = _Destination(folder, debug, shown or ("text" if debug else None))
    _logger.cache_clear()


def add_to_log(**fields: str) -> None:
    """Let each line of Bub's own have these fields from now on, such as which of several gateways writes it."""
    global _everywhere
    _everywhere = {**_everywhere, **fields}


def cover(redactor: Redactor) -> None:
    """Let no line of the log hold what `redactor` covers, in what is said as in tracebacks, from now on.

    It is added to those before it: a key that was changed is still a key. A program that embeds Bub and sets
    loguru up itself has Bub's own lines covered; with `log_to`, everybody's are.
    """
    global _redactors
    _redactors |= {redactor}


def redact_text(text: str) -> str:
    """Cover the secrets in a text as the log does, for what is shown elsewhere too."""
    for redactor in _redactors:
        text = redactor.text(text)
    return text


def open_log() -> Path | None:
    """Open the log now, so that whoever uses loguru itself writes to it too.

    Returns its file; None when nobody said where to log or the file cannot be written (told once on standard error).
    """
    return _file_of(_logger())


_EVENT = "bub_event"
"""The attribute in which a record of ours has its event, beside its fields."""

_TRACEBACK = "bub_traceback"
"""The attribute in which a record has the traceback whose secrets are covered."""

_destination: _Destination | None = None
_is_silent = False
_everywhere: Mapping[str, str] = MappingProxyType({})
_redactors: frozenset[Redactor] = frozenset()
_sinks: tuple[int, ...] = (0,)  # loguru's own first one


@functools.cache
def _logger() -> Logger:
    from loguru import logger

    global _sinks
    if _destination is not None:
        for sink in _sinks:
            with contextlib.suppress(ValueError):  # gone if somebody else removed it
                logger.remove(sink)
        for name in _OURS:
            logger.enable(name)
        _sinks = tuple(_open_sinks(logger, _destination))
        logger.configure(patcher=_cover)
        _take_in_others(logger, _destination)
        return logger
    keep_quiet()
    return logger.patch(_cover)


def _cover(record: Record) -> None:
    """Cover the secrets of a line before it goes anywhere.

    The sinks of a program may show the values of variables in a traceback, so they get its text.
    """
    record["message"] = redact_text(record["message"])
    failure = record["exception"]
    if failure is not None and failure.value is not None:
        told = "".join(traceback.format_exception(failure.value)).rstrip("\n")
        shown = redact_text(told)
        if shown != told or _destination is None:  # others hold the exception too, so its text takes its place
            record["message"] += f"\n{shown}"
            record["exception"] = None
            record["extra"][_TRACEBACK] = shown


def _open_sinks(logger: Logger, destination: _Destination) -> Iterator[int]:
    common: dict[str, Any] = {"format": _LINE, "backtrace": False, "diagnose": False, "catch": True}
    level = "DEBUG" if destination.debug else "INFO"
    try:
        for folder in (destination.folder.parent, destination.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield logger.add(_file_in(destination), level=level, **common)
    except OSError as error:
        _tell_of_no_file(destination, error)
    if destination.shown == "json":
        yield logger.add(_show_as_json, level=level, **common)
    elif destination.shown is not None:
        yield logger.add(sys.stderr, level=level, **common)


def _file_in(destination: _Destination) -> Handler:
    """What writes to the file. That it cannot, on a full disk, is told once, in a line."""
    from logging.handlers import RotatingFileHandler  # with the first line, as loguru

    class File(RotatingFileHandler):
        is_told = False

        def _open(self) -> TextIOWrapper:
            return open(self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=_private)

        def format(self, record: LogRecord) -> str:
            return super().format(record).rstrip("\n")

        def close(self) -> None:
            with contextlib.suppress(OSError):  # what was told already
                super().close()

        def handleError(self, record: object) -> None:  # noqa: N802
            if not self.is_told:
                self.is_told = True
                _tell_of_no_file(destination, sys.exception())

    file = destination.folder / FILE_NAME
    return File(file, maxBytes=_LARGEST, backupCount=_OLD_ONES, encoding="utf-8", errors="backslashreplace")


def _tell_of_no_file(destination: _Destination, error: BaseException | None) -> None:
    event, why = "no log is written", _to_text(error)
    line: dict[str, Any] = {"time": datetime.now().astimezone().isoformat(timespec="milliseconds")}
    line |= {"level": "WARNING", "event": event, "logger": __name__, "error": why}
    told = f"bub: {event}: {why} (BUB_HOME names another folder for Bub's own files)"
    text = _to_json(line) if destination.shown == "json" else told
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)  # noqa: T201


def _take_in_others(logger: Logger, destination: _Destination) -> None:
    """Let warnings of libraries be lines of the log, where they would go to standard error as they are."""
    import logging  # loguru has it loaded

    class Rest(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                said = record.getMessage()
            except Exception:  # noqa: BLE001 (whatever a library did wrong in saying it)
                said = str(record.msg)
            known = record.levelname in ("WARNING", "ERROR", "CRITICAL")

            def rename(line: Record) -> None:
                line["name"] = record.name

            named = logger.patch(rename).opt(exception=record.exc_info)
            named.log(record.levelname if known else record.levelno, "{}", said)

    logging.lastResort = Rest(logging.WARNING)
    if destination.shown == "json":

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            log_warning("python.warning", warning=f"{category.__name__}: {message}", place=f"{filename}:{lineno}")

        warnings.showwarning = show


def _show_as_json(message: Message) -> None:
    """Write a line to standard error as one JSON object."""
    record = message.record
    fields = dict(record["extra"])
    told = fields.pop(_TRACEBACK, None)
    event = fields.pop(_EVENT, None)
    failure = record["exception"]
    if failure is not None and failure.value is not None:
        told = "".join(traceback.format_exception(failure.value)).rstrip("\n")
    line: dict[str, Any] = {
        "time": record["time"].isoformat(timespec="milliseconds"),
        "level": record["level"].name,
        "event": event or record["message"],
        "logger": record["name"],
    }
    for name, value in fields.items():
        line[f"{name}_" if name in line else name] = _in_json(value)
    if told is not None:
        line["exception"] = told
    sys.stderr.write(f"{_to_json(line)}\n")


def _to_json(line: dict[str, Any]) -> str:
    """Return a line as one JSON object, in ASCII so that no terminal's encoding can break it."""
    import json  # only for a gateway that writes for programs

    return json.dumps(line)


def _in_json(value: Any) -> Any:
    """A field as JSON knows it, its secrets covered: numbers stay what they are, all else is text."""
    said = _to_text(value)
    is_plain = value is None or (isinstance(value, int | float) and -_LARGEST_NUMBER < value < _LARGEST_NUMBER)
    return value if is_plain and redact_text(said) == said else redact_text(said)


def _file_of(_: Logger) -> Path | None:
    if _destination is None:
        return None
    file = _destination.folder / FILE_NAME
    return file if file.exists() and os.access(file, os.W_OK) else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _with(event: str, fields: dict[str, Any]) -> Logger:
    """The logger, for one line whose event and fields are read by programs as well."""
    bound = {name: _in_json(value) for name, value in {**fields, **_everywhere}.items()}
    return _logger().bind(**{_EVENT: event}, **bound)


def _line(event: str, fields: dict[str, Any]) -> str:
    return " ".join([event, *(f"{name}={_text(value)}" for name, value in {**fields, **_everywhere}.items())])


def _to_text(value: Any) -> str:
    """Return a value as text. One that cannot say what it is must not keep a line from being written."""
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 (it is anybody's code)
        return f"{type(value).__name__} (it cannot be shown)"


def _text(value: Any) -> str:
    text = _to_text(value)
    plain = text.isprintable() and " " not in text and '"' not in text and text
    return text if plain else repr(text)
