"""Findings as people and programs read them: text with the line and a caret below it, a summary, JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from bub.base.diagnostics import NO_FILE, STDIN, Diagnostic, Range, sort_diagnostics
from bub.pipeline.plan.secret_places import secret_places
from bub.pipeline.report.handbook import address_of
from bub.pipeline.source.yaml_reader import parse
from bub.secrets.literals import SECRET_KEY, looks_like_key, looks_secret, secret_starts
from bub.secrets.names import SECRET_WORDS
from bub.secrets.verdict import may_be_secret
from bub.secrets.within import secrets_within

_TAB = 4
"""Columns a tab is shown as; it is replaced by that many blanks, so that the caret cannot slip."""
_WIDEST = 100
"""Cells of a line that are shown; a longer line is cut around the range."""
_NEAR = 3 * _WIDEST
"""Characters before and behind a place that may be shown with it."""
_ELLIPSIS = "…"
_JOINER = "\u200d"

_NO_REFERENCE, _LITERAL_SECRET, _UNKNOWN_KEY, _WRONG_TYPE = "B030", "B040", "B100", "B101"
"""The findings that show the places of secrets."""
_UNPARSED = ("B001", "B003")
"""The findings about a text that cannot be parsed."""
_SETTING = r"(?:profiles\..+\.)?settings\b"
"""The path of a setting: what is in the wrong place there may be a key, whatever the setting's name."""
_SECRET_NAME = rf"(?i){SECRET_WORDS}(?:\[\d+\])*$"
_KEY_ENDS = r"\s*:"
_REFERENCE = r"""["']?\$\{(?:env:\w+(?::-)?|file:(?:(?!:-)[^{}])*)\}["']?\s*(?:[],}\#]|$)"""
_VALUE = rf"""(?x)["']?\s*:\s*+
    (?!{_REFERENCE})   # a reference without a default is no secret
    (?P<value>"(?:[^"\\]|\\.)*"? | '[^']*'? | [\[{{].* | [^\s,{{}}\[\]][^,{{}}\[\]]*)"""

_RED, _YELLOW, _BLUE, _BOLD, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[34m", "\x1b[1m", "\x1b[0m"
_TONES = {"error": _RED, "warning": _YELLOW, "note": _BLUE}


def render_text(
    diagnostics: Iterable[Diagnostic],
    sources: Mapping[str, str],
    *,
    color: bool = False,
    hidden: Iterable[Diagnostic] = (),
) -> str:
    """Return every finding in the order of a reader: its place and message, the line, and carets with the help.

    `sources` is the text of each file by the name its findings bear; a file that is not there (a plugin's `.py`) is
    read from disk, and a finding whose line cannot be had is shown without it. Secrets in the lines are covered: pass
    the findings about literal secrets along with the others, since they say where the secrets are, and those that are
    not to be shown as `hidden`. The text ends with a line break, unless it is empty.
    """
    items = sort_diagnostics(diagnostics)
    lines = _SourceLines(sources, (*items, *hidden))
    return "\n".join(_finding(item, lines, _Ink(color)) for item in items)


def lines_to_show(sources: Mapping[str, str], file: str, first: int, last: int) -> list[str]:
    """Return the lines of a file from one number to another, secrets covered as in `render_text`."""
    lines = _SourceLines(sources, ())
    return [lines.line(file, number) for number in range(first, last + 1)]


def render_json(diagnostics: Iterable[Diagnostic], files: int, pages: str | None = None) -> str:
    """Return the findings as the JSON document of `bub validate --format json`, ending with a line break.

    `ok` says that no finding is an error; `files` is how many files were checked, `pages` where the page of codes is to
    be read, on this machine by default.
    """
    import json  # only for this format

    items = sort_diagnostics(diagnostics)
    document = {
        "version": 1,
        "ok": not any(item.severity == "error" for item in items),
        "files": files,
        "diagnostics": [{**item.as_dict(), "page": address_of(item.code, pages)} for item in items],
    }
    return no_command_in_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def no_command_in_json(document: str) -> str:
    """Return the same JSON without what the runner of a GitHub workflow takes for a command in its log."""
    return document.replace("##[", r"#\u0023[")  # only text has a `#`


def message_of(item: Diagnostic) -> str:
    """Return what a finding says, in one line without control characters; the profile it holds for is named."""
    told = item.profile is None or f"profile `{item.profile}`" in item.message
    return printable_line(item.message if told else f"{item.message} (profile `{item.profile}`)")


def repair_of(item: Diagnostic) -> str | None:
    """Return the command that repairs a finding, without the name of the file; None if a person has to."""
    is_ours = item.file in (STDIN, NO_FILE) or item.file.startswith("bub:") or item.file.endswith(".py")
    if is_ours or (item.fix is None and item.likely is None):
        return None
    return "bub validate --fix" if item.fix is not None else "bub validate --fix-all"


def path_below(root: Path, file: str) -> str | None:
    """Return the file of a finding as a path from the folder `root`, with slashes; None when it is no file below it."""
    if file in (STDIN, NO_FILE) or file.startswith(("bub:", "git:")):
        return None
    path = Path(os.path.abspath(file))  # noqa: PTH100 (`Path` keeps the `..` in it)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else None


def _finding(item: Diagnostic, lines: _SourceLines, ink: _Ink) -> str:
    tone = _TONES[item.severity]
    where = _where(item.file, item.range)
    main = _Excerpt(item.file, item.range, item.help or "")
    others = [_Excerpt(other.file, other.range, other.message) for other in item.related]
    # One gutter for the whole finding, as wide as its widest line number.
    gutter = max(len(str(part.range.start.line)) for part in (main, *others))
    text = [f"{ink(_BOLD, where)}: {ink(tone, f'{item.severity}[{item.code}]')} {message_of(item)}"]
    text += _snippet(main, lines, ink, tone, gutter)
    for part in others:
        if part.file != item.file:
            text.append(f"{' ' * gutter} {ink(_BLUE, '-->')} {_where(part.file, part.range)}")
        text += _snippet(part, lines, ink, _BLUE, gutter)
    repair = repair_of(item)
    ways = f"bub explain {item.code}" + (f"; {repair} repairs this" if repair else "")
    text.append(f"{' ' * gutter} {ink(_BLUE, '=')} {ways}")
    return "\n".join(text) + "\n"


def _where(file: str, span: Range) -> str:
    name = printable_line(file)
    # A line that begins with `::` is a command to the runner of a GitHub workflow.
    name = f"./{name}" if name.lstrip().startswith("::") else name
    return f"{name}:{span.start.line}:{span.start.column}"


class _Excerpt(msgspec.Struct, frozen=True):
    """A range to show, and the comment that is behind its carets."""

    file: str
    range: Range
    remark: str


def _snippet(part: _Excerpt, lines: _SourceLines, ink: _Ink, tone: str, gutter: int) -> list[str]:
    margin, bar = " " * gutter, ink(_BLUE, "|")
    remark = f" {printable_line(part.remark)}" if part.remark else ""
    number = part.range.start.line
    line = lines.line(part.file, number)
    if not line or line.isspace():
        return [f"{margin} {ink(_BLUE, '=')}{remark}"] if remark else []
    text, before, width = _cut_line(line, part.range)
    return [
        f"{margin} {bar}",
        f"{ink(_BLUE, str(number).rjust(gutter))} {bar} {text}",
        f"{margin} {bar} {' ' * before}{ink(tone, '^' * width)}{remark}",
    ]


# Lines and their cells


def _cut_line(line: str, span: Range) -> tuple[str, int, int]:
    """Return the line as it is shown, how many cells stand before the range, and how many it takes (at least one).

    A range over several lines is marked to the end of its first one.
    """
    first = min(span.start.column - 1, len(line))
    # A line may be a megabyte long, with a thousand findings; what is far away is not even looked at.
    far = max(0, first - _NEAR)
    near = line[far : first + _NEAR]
    first -= far
    last = span.end.column - 1 - far if span.end.line == span.start.line else len(near.rstrip())
    last = max(first, min(last, len(near)))
    cells = [_cell(character) for character in near]
    widths = [width for _, width in cells]
    low, high = _window(widths, first, last)
    head = _ELLIPSIS if far or low else ""
    tail = _ELLIPSIS if far + high < len(line) else ""
    text = head + _no_command("".join(shown for shown, _ in cells[low:high])) + tail
    return text, len(head) + sum(widths[low:first]), max(1, sum(widths[first : min(last, high)]))


def _window(widths: list[int], first: int, last: int) -> tuple[int, int]:
    """Choose the characters to show: all if they fit, else the range and its surroundings, a third of them in front."""
    low, high = first, last
    room = _WIDEST - sum(widths[low:high])
    while room < 0:
        high -= 1
        room += widths[high]
    front = room // 3
    while low > 0 and widths[low - 1] <= front:
        low -= 1
        front -= widths[low]
    room = _WIDEST - sum(widths[low:high])
    while high < len(widths) and widths[high] <= room:
        room -= widths[high]
        high += 1
    while low > 0 and widths[low - 1] <= room:
        low -= 1
        room -= widths[low]
    return low, high


def _cell(character: str) -> tuple[str, int]:
    """Return how a character is shown, and how many cells of a terminal it takes."""
    if " " <= character <= "~":
        return character, 1
    if character == "\t":
        return " " * _TAB, _TAB
    import unicodedata  # only for a line with other characters than those of ASCII

    category = unicodedata.category(character)
    if category in ("Mn", "Me") or character == _JOINER:
        return character, 0
    if category == "Cf":
        return "", 0  # marks that would turn the direction of the line
    if category in ("Cc", "Cs", "Zl", "Zp"):
        return "\ufffd", 1  # an escape sequence of the file must not reach the terminal
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


def printable_line(text: str) -> str:
    """Return a message in one line and without control characters, which a file or its name could bring into it."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(" " if character in "\n\r\t" else _cell(character)[0] for character in text)
    return _no_command(text)


def _no_command(text: str) -> str:
    """Return the text without what the runner of a GitHub workflow takes for a command wherever it is in a line."""
    return text.replace("##[", "#\ufffd[")


def _is_about_a_setting(item: Diagnostic) -> bool:
    """Whether it is about a value that may have been put in the place of another setting."""
    return item.code == _WRONG_TYPE and bool(re.match(_SETTING, item.path))


def _is_about_a_secret(item: Diagnostic) -> bool:
    if item.code == _NO_REFERENCE and re.match(_SETTING, item.path):
        return True
    return item.code == _LITERAL_SECRET or (item.code == _WRONG_TYPE and bool(re.search(_SECRET_NAME, item.path)))


def _may_be_secret(value: str, path: str) -> bool:
    """Whether the value of a key that no schema knows has to be covered; `path` is that of the key."""
    return value.startswith(("{", "[")) or may_be_secret(value, path.split("."))


class _SourceLines:
    """The lines of the files that findings are about."""

    def __init__(self, sources: Mapping[str, str], findings: Iterable[Diagnostic]) -> None:
        self._sources = sources
        self._split: dict[str, list[str]] = {}
        self._shown: dict[tuple[str, int], str] = {}
        self._secrets: dict[tuple[str, int], set[Range]] = {}
        self._strange: dict[tuple[str, int], dict[int, str]] = {}
        self._unparsed: set[str] = set()
        self._parsed: set[str] = set()
        self._told: dict[str, set[str]] = {}
        self._secret_starts: dict[str, dict[int, int]] = {}
        self._shown_up_to: dict[tuple[str, int], int] = {}
        for item in findings:
            for file, span in ((item.file, item.range), *((part.file, part.range) for part in item.related)):
                key, far = (file, span.start.line), span.start.column + _NEAR
                self._shown_up_to[key] = max(self._shown_up_to.get(key, 0), far)
            if _is_about_a_secret(item) or (_is_about_a_setting(item) and looks_like_key(self._text_at(item))):
                self._cover(item.file, item.range)
            elif item.code == _UNKNOWN_KEY and "settings" in item.path.split("."):
                line, column = item.range.end
                self._strange.setdefault((item.file, line), {})[column - 1] = item.path
            elif item.code in _UNPARSED:
                self._unparsed.add(item.file)

    def line(self, file: str, number: int) -> str:
        """Return the text of one line without its line break, secrets covered; empty when it cannot be had.

        What is far behind its last finding is left out: a line may be a megabyte long.
        """
        if (file, number) not in self._shown:
            raw = self._raw(file, number)[: self._shown_up_to.get((file, number))]
            characters = list(raw)
            for start, end in self._secret_spans(file, number, raw):
                characters[start:end] = "*" * (end - start)
            self._shown[file, number] = "".join(characters)
        return self._shown[file, number]

    def _cover(self, file: str, span: Range) -> None:
        for number in range(span.start.line, span.end.line + 1):
            self._secrets.setdefault((file, number), set()).add(span)

    def _find_secrets(self, file: str) -> None:
        """Learn where the text of a file holds secrets by its own words; those that look like one are so everywhere."""
        self._parsed.add(file)
        told = self._told[file] = set()
        text = self._sources.get(file)
        root = parse(text.encode(errors="surrogatepass"), file=file, layer=file).root if text is not None else None
        for place, secret in secret_places(root) if root is not None else ():
            self._cover(file, place.range)
            told.update(line for line in secret.splitlines() if looks_secret(line))

    def _secret_spans(self, file: str, number: int, line: str) -> Iterator[tuple[int, int]]:
        if file not in self._parsed:
            self._find_secrets(file)
        for secret in self._told[file]:
            if secret in line:
                yield from (found.span() for found in re.finditer(re.escape(secret), line))
        yield from secrets_within(line)
        for span in self._secrets.get((file, number), ()):
            start = span.start.column - 1 if span.start.line == number else 0
            end = span.end.column - 1 if span.end.line == number else len(line)
            if not re.compile(_KEY_ENDS).match(line, end):  # an empty value is reported at its key, which is no secret
                yield min(start, len(line)), min(end, len(line))
        # A file that cannot be parsed, or a misspelt `api_kye`, has secrets that no schema can find.
        if file in self._unparsed:
            hidden = self._starts(file).get(number - 1, len(line))
            yield min(hidden + len(line[hidden:]) - len(line[hidden:].lstrip()), len(line)), len(line)
        strange = self._strange.get((file, number), {})
        named = {found.end() for found in re.finditer(SECRET_KEY, line)}
        covered = 0
        for key in sorted(named | strange.keys()):
            # A key inside a value is a part of it: looked at again, a long line would cost its square.
            found = re.compile(_VALUE).match(line, key) if key >= covered else None
            if found and (key in named or _may_be_secret(found["value"], strange[key])):
                covered = found.end()
                yield found.span("value")

    def _text_at(self, item: Diagnostic) -> str:
        (first, begin), (last, end) = item.range
        lines = [self._raw(item.file, number) for number in range(first, last + 1)]
        return "\n".join([*lines[:-1], lines[-1][: end - 1]])[begin - 1 :]

    def _starts(self, file: str) -> dict[int, int]:
        if file not in self._secret_starts:
            self._raw(file, 1)
            self._secret_starts[file] = secret_starts(self._split[file])
        return self._secret_starts[file]

    def _raw(self, file: str, number: int) -> str:
        if file not in self._split:
            # Positions count these line ends only; `str.splitlines` knows more.
            self._split[file] = re.split(r"\r\n|\r|\n", self._text(file).removeprefix("\ufeff"))
        lines = self._split[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _text(self, file: str) -> str:
        if file in self._sources:
            return self._sources[file]
        if not file.endswith(".py"):
            return ""  # a `.env`, or what a link leads to, may be full of secrets
        try:
            return Path(file).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            return ""


class _Ink(msgspec.Struct, frozen=True):
    """Puts text into a colour, or leaves it as it is."""

    on: bool

    def __call__(self, color: str, text: str) -> str:
        return f"{color}{text}{_PLAIN}" if self.on else text
