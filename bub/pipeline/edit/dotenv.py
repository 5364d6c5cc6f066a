"""Keeping secrets in `.env` beside a pipeline file, where its references find them."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path

from bub.base.failures import explain_os_error
from bub.base.rewrite import write_private
from bub.errors import BubError, UsageError
from bub.pipeline.source.interpolate import DOTENV_LINE, parse_dotenv

FILE_NAME = ".env"

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BARE = re.compile(r"[\w./:+=@,~%-]+", re.ASCII)
_LINE_END = re.compile(r"\r\n|\r|\n")
_PRIVATE = 0o600


def keep_secrets(folder: Path, secrets: Mapping[str, str]) -> Path:
    """Set variables in the `.env` of a folder, which nobody else can read then (mode 0600); return its path.

    Every other line stays as it is. Raises `UsageError` for a name that no variable can have, `BubError`, with the file
    untouched, if it cannot be read or written, and for what `.env` cannot hold. No value is ever part of a message.
    """
    path = folder / FILE_NAME
    try:
        old = path.read_bytes() if path.exists() else None
        text = (old or b"").decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise BubError(f"{path} cannot be read: {reason}", help="mend it, or move it away") from None
    for name, value in secrets.items():
        text = with_variable(text, name, value)
    is_private = old is not None and stat.S_IMODE(path.stat().st_mode) == _PRIVATE
    if not is_private or text.encode() != old:
        write_private(path, old, text.encode())
    return path


def with_variable(text: str, name: str, value: str) -> str:
    """Return the text of a `.env` file in which a variable has a value: on the line that sets it, else on a new one."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"`{name}` is not the name of a variable", help="use letters, digits and `_`, as in MY_KEY")
    if parse_dotenv(text, file=FILE_NAME)[0].get(name) == value:
        return text
    changed = _replace_in_line(text, name, _quote_value(value))
    if changed is None:
        ending = _LINE_END.search(text)
        line_end = ending.group() if ending else "\n"
        begin = "" if not text or text.endswith(("\r", "\n")) else line_end
        changed = f"{text}{begin}{name}={_quote_value(value)}{line_end}"
    if parse_dotenv(changed, file=FILE_NAME)[0].get(name) != value:
        raise BubError(f"what was given for {name} cannot be kept in {FILE_NAME}", help="keep it in a file: ${file:…}")
    return changed


def _replace_in_line(text: str, name: str, written: str) -> str | None:
    """Return the text with another value on the last line that sets the variable; None if there is no such line."""
    start, found = 0, None
    for line in _LINE_END.split(text):
        match = re.fullmatch(DOTENV_LINE, line.removeprefix("\ufeff"), re.VERBOSE)
        if match is not None and match["name"] == name:
            begin = line.index("=") + 1
            found = start + begin, start + len(line)
        start += len(line)
        ending = _LINE_END.match(text, start)
        start = ending.end() if ending else start
    return text[: found[0]] + written + text[found[1] :] if found is not None else None


def _quote_value(value: str) -> str:
    if _BARE.fullmatch(value):
        return value
    if "'" not in value and value.isprintable():
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
