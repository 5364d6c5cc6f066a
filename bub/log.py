"""The log: what happened, for whoever has to find out later; loguru is imported when the first line is written.

Any module writes through the functions below. Only the command line's `main()` says where the lines go
(`log_to`); a program that embeds Bub sets loguru up as it likes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from loguru import Logger, Record

FILE_NAME = "bub.log"

_LINE = "{time:YYYY-MM-DDTHH:mm:ss.SSSZZ} {level: <7} {name}: {message}"  # loguru adds the traceback


class Mask(Protocol):
    """What covers secrets; of two that are equal one is enough."""

    def text(self, text: str, /) -> str:
        """The text with its secrets covered."""

    def __hash__(self) -> int: ...


class _Destination(NamedTuple):
    """Where the lines of this process go: a folder, and with `debug` standard error too."""

    folder: Path
    debug: bool


def log_info(event: str, /, **fields: Any) -> None:
    """Note that `event` happened: `log_info("turn.ended", session="cli:local")`."""
    _logger().opt(depth=1).info(_line(event, fields))


def log_warning(event: str, /, **fields: Any) -> None:
    """Note something that went on, but not as somebody meant it (`hook.async_not_supported hook=… adapter=…`)."""
    _logger().opt(depth=1).warning(_line(event, fields))


def log_exception(event: str, error: BaseException, /, **fields: Any) -> None:
    """Note a failure with its traceback; the values of variables are left out, for they may be secrets."""
    _logger().opt(depth=1, exception=error).error(_line(event, {**fields, "error": error}))


def log_to(folder: Path, *, debug: bool = False) -> None:
    """Let this process log to `bub.log` in `folder`, and to standard error too with `debug`.

    What is missing of `folder` and of Bub's own folder around it is made for its owner only.

    Nothing is imported, created or opened yet: that happens with the first line, or with `open_log`.
    """
    global _destination
    _destination = _Destination(folder, debug)
    _logger.cache_clear()


def cover(mask: Mask) -> None:
    """Let no line of the log hold what `mask` covers, in what is said as in tracebacks, from now on.

    It is added to the masks before it: a key that was changed is still a key. A program that embeds Bub and sets
    loguru up itself has Bub's own lines covered; with `log_to`, everybody's are.
    """
    global _masks
    _masks |= {mask}


def covered(text: str) -> str:
    """The text as the log may hold it, for what is told elsewhere too."""
    for mask in _masks:
        text = mask.text(text)
    return text


def open_log() -> Path | None:
    """Open the log now, so that whoever uses loguru itself writes to it too.

    Returns its file; None when nobody said where to log or the file cannot be written (told once on standard error).
    """
    return _file_of(_logger())


_destination: _Destination | None = None
_masks: frozenset[Mask] = frozenset()


@functools.cache
def _logger() -> Logger:
    from loguru import logger

    if _destination is not None:
        with contextlib.suppress(ValueError):  # loguru's own first handler; gone if somebody else removed it
            logger.remove(0)
        _open_sinks(logger, _destination)
        logger.configure(patcher=_cover)
        return logger
    return logger.patch(_cover)


def _cover(record: Record) -> None:
    """Cover the secrets of a line before it goes anywhere."""
    record["message"] = covered(record["message"])
    failure = record["exception"]
    if failure is not None and failure.value is not None:
        told = "".join(traceback.format_exception(failure.value)).rstrip("\n")
        shown = covered(told)
        if shown != told:  # an exception cannot be changed for those who hold it, so its text takes its place
            record["message"] += f"\n{shown}"
            record["exception"] = None


def _open_sinks(logger: Logger, destination: _Destination) -> None:
    common: dict[str, Any] = {"format": _LINE, "backtrace": False, "diagnose": False, "catch": True}
    level = "DEBUG" if destination.debug else "INFO"
    try:
        for folder in (destination.folder.parent, destination.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        logger.add(
            destination.folder / FILE_NAME,
            level=level,
            rotation="5 MB",
            retention=4,
            encoding="utf-8",
            errors="backslashreplace",
            opener=_private,
            **common,
        )
    except OSError as error:
        print(f"bub: no log is written: {error}", file=sys.stderr)  # noqa: T201
    if destination.debug:
        logger.add(sys.stderr, level=level, **common)


def _file_of(_: Logger) -> Path | None:
    if _destination is None:
        return None
    file = _destination.folder / FILE_NAME
    return file if file.exists() and os.access(file, os.W_OK) else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _line(event: str, fields: dict[str, Any]) -> str:
    return " ".join([event, *(f"{name}={_text(value)}" for name, value in fields.items())])


def _text(value: Any) -> str:
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    text = str(value)
    plain = text.isprintable() and " " not in text and '"' not in text and text
    return text if plain else repr(text)
