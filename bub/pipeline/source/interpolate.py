"""References inside string values: `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}`, and `$$` for a dollar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, Findings, Place, Position, Range, Severity
from bub.base.failures import explain_os_error
from bub.base.locate import DOTENV, IS_PRIVATE, leads_home
from bub.pipeline.source.document import Node, Plain, walk
from bub.pipeline.source.scalars import read_scalar
from bub.pipeline.source.yaml_reader import MAX_BYTES

MALFORMED, UNSET = "B030", "B031"

Environment = Mapping[str, str]
"""Variables by name; one whose value is empty counts as unset."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = r"[A-Z_][A-Z0-9_]*"
"""A variable as nearly all are written, which a secret is not."""
_SHELL_VARIABLE = rf"\${_VARIABLE}"
"""One as a shell writes it; it means nothing here."""
_ENV_BODY = rf"env:(?P<name>{_NAME})(?::-(?P<default>.*))?"
_LINE_END = r"\r\n|\r|\n"
DOTENV_LINE = r"""
    \s* (?:export\s+)? (?P<name>[A-Za-z_][A-Za-z0-9_]*) \s*=\s*+
    (?: '(?P<single>[^']*)' \s*(?:\#.*)?
      | "(?P<double>(?:[^"\\]|\\.)*)" \s*(?:\#.*)?
      | (?P<bare>(?!['"]).*)
    )"""
"""One line of `.env`, to be matched with `re.VERBOSE`; a comment may be behind a bare value, too."""
_RELATIVE = "the path is relative to the file that names it"
_COMMENT = r"(?:^|\s)#"
_ESCAPES: Mapping[str, str] = MappingProxyType({"n": "\n", "r": "\r", "t": "\t"})
_NO_FOLDERS: Mapping[str, Path] = MappingProxyType({})
_ABSENT: Final = object()


class Reference(msgspec.Struct, frozen=True):
    """One reference in a text, between the offsets `start` and `end`; `name` is the variable's or the path."""

    kind: Literal["env", "file"]
    name: str
    default: str | None
    start: int
    end: int


class Malformed(msgspec.Struct, frozen=True):
    """Something that begins like a reference but is none."""

    message: str
    help: str
    start: int
    end: int


def read_environment(base: Path | None, environ: Environment) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Return the variables that a file in the folder `base` sees: `environ` over the `.env` beside the file.

    A line of `.env` that cannot be read is a warning, which never shows what the line holds.
    """
    below, findings = _dotenv_beside(base) if base is not None else ({}, ())
    return {**below, **{name: value for name, value in environ.items() if value}}, findings


def parse_dotenv(text: str, *, file: str) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Read the lines `NAME=value` of a `.env` file: `export` before them, quotes and comments are understood.

    In single quotes everything stands for itself, in double quotes a backslash escapes; nothing is expanded.
    """
    findings = Findings()
    values: dict[str, str] = {}
    for number, line in enumerate(re.split(_LINE_END, text.removeprefix("\ufeff")), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = re.fullmatch(DOTENV_LINE, line, re.VERBOSE)
        if found is None:
            findings.warn(
                "B033",
                "this line is not `NAME=value`, so Bub ignores it",
                Place(file, Range(Position(number, 1), Position(number, len(line) + 1))),
                help="quotes around a value must be closed on the same line",
            )
            continue
        single, double, bare = found.group("single", "double", "bare")
        if double is not None:
            values[found["name"]] = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), double)
        else:
            values[found["name"]] = single if single is not None else re.split(_COMMENT, bare, maxsplit=1)[0].strip()
    return values, tuple(findings.items)


def dotenv_place(variable: str, value: str, base: Path | None) -> Place | None:
    """Return the line of the `.env` in the folder `base` that sets a variable to this value; None if none does.

    Of several lines it is the last one.
    """
    if base is None or _dotenv_beside(base)[0].get(variable) != value:
        return None
    file = _display_path(base / DOTENV)
    lines = re.split(_LINE_END, _read_text(DOTENV, base).removeprefix("\ufeff"))
    number = max(number for number, line in enumerate(lines, 1) if variable in parse_dotenv(line, file=file)[0])
    return Place(file, Range(Position(number, 1), Position(number, 1)))


def references(text: str) -> list[Reference]:
    """Return the well-formed references in a text, in order."""
    return [piece for piece in _split_pieces(text) if isinstance(piece, Reference)]


def lone_reference(text: str) -> Reference | None:
    """Return the reference that a text consists of, or None when it holds anything else."""
    found = references(text)
    return found[0] if len(found) == 1 and (found[0].start, found[0].end) == (0, len(text)) else None


def check(node: Node, environment: Environment | None = None, *, path: str = "") -> tuple[Diagnostic, ...]:
    """Report malformed references at or below `node`, and, given an `environment`, unset variables as notes.

    Whoever checks a file need not have the variables of the machine that it will run on. `path` is the dotted path of
    `node`. No value of a variable is ever part of a finding.
    """
    findings = Findings()
    for where, value in walk(node, path):
        if not isinstance(value.value, str) or "$" not in value.value:
            continue
        if re.fullmatch(_SHELL_VARIABLE, value.value):
            advice = f"write `${{env:{value.value[1:]}}}`, or `$${value.value[1:]}` for the text itself"
            message = f"`{value.value}` is a string, not a reference"
            findings.add(MALFORMED, message, value.place, severity="note", path=where, help=advice)
        for piece in _split_pieces(value.value):
            if isinstance(piece, Malformed):
                _add_malformed(findings, piece, value, where)
            elif isinstance(piece, Reference) and environment is not None:
                _look_up(piece, environment, findings, value, where, "note")
    return tuple(findings.items)


def resolve(
    node: Node,
    environment: Environment,
    *,
    base: Path | None,
    folders: Mapping[str, Path] = _NO_FOLDERS,
    typed: bool = False,
    path: str = "",
) -> tuple[Plain, tuple[Diagnostic, ...]]:
    """Return the plain value of `node` with every reference replaced, once, and what is wrong with the references.

    A value that is only a reference to an unset variable, or to a file that cannot be read, is absent: left out of
    its mapping or list, None at the top. Inside a longer text it is "". With `typed`, the text behind a lone reference
    is read as a YAML scalar, so that it can be a number or true. `${file:…}` is relative to the folder of the file
    that wrote it: `folders` by the file's name, else `base`.
    """
    resolver = _Resolver(environment, base, folders, typed)
    plain = resolver.value(node, path)
    return (None if plain is _ABSENT else plain), tuple(resolver.findings.items)


class _Resolver:
    def __init__(self, environment: Environment, base: Path | None, folders: Mapping[str, Path], typed: bool) -> None:
        self._environment = environment
        self._base = base
        self._folders = folders
        self._typed = typed
        self.findings = Findings()

    def value(self, node: Node, path: str) -> Any:
        value = node.value
        if isinstance(value, dict):
            below = {name: self.value(child, f"{path}.{name}" if path else name) for name, child in value.items()}
            return {name: plain for name, plain in below.items() if plain is not _ABSENT}
        if isinstance(value, tuple):
            items = [self.value(child, f"{path}[{index}]") for index, child in enumerate(value)]
            return [plain for plain in items if plain is not _ABSENT]
        return self._text(value, node, path) if isinstance(value, str) and "$" in value else value

    def _text(self, text: str, node: Node, path: str) -> Any:
        lone = lone_reference(text)
        if lone is not None:
            found = self._replacement(lone, node, path)
            if found is None:
                return _ABSENT
            return read_scalar(found) if self._typed else found
        parts: list[str] = []
        for piece in _split_pieces(text):
            if isinstance(piece, str):
                parts.append(piece)
            elif isinstance(piece, Reference):
                parts.append(self._replacement(piece, node, path) or "")
            else:
                _add_malformed(self.findings, piece, node, path)
        return "".join(parts)

    def _replacement(self, reference: Reference, node: Node, path: str) -> str | None:
        if reference.kind == "env":
            return _look_up(reference, self._environment, self.findings, node, path)
        try:
            return _read_text(reference.name, self._folders.get(node.place.file, self._base))
        except (OSError, ValueError, RuntimeError) as error:
            place = place_in(node, reference.start, reference.end)
            message = f"the file `{reference.name}` cannot be read: {_reason(error)}"
            self.findings.add("B032", message, place, path=path, help="the path is relative to the file that names it")
            return None


def _split_pieces(text: str) -> Iterator[str | Reference | Malformed]:
    """Yield a text cut into literal parts (with `$$` read as `$`), references and what fails to be one."""
    at = 0
    while at < len(text):
        dollar = text.find("$", at)
        if dollar < 0:
            yield text[at:]
            return
        if dollar > at:
            yield text[at:dollar]
        following = text[dollar + 1 : dollar + 2]
        if following == "{":
            piece = _reference(text, dollar)
            yield piece
            at = piece.end
        else:
            yield "$"
            at = dollar + (2 if following == "$" else 1)


def _reference(text: str, start: int) -> Reference | Malformed:
    close = text.find("}", start)
    if text.startswith("${{", start) and text.startswith("}}", close):
        close += 1  # an expression of another tool
    nested = text.find("${", start + 2)
    if close < 0:
        return Malformed("`${` is not closed", "close it with `}`, or write `$$` for a dollar", start, len(text))
    if 0 <= nested < close:
        return Malformed("references do not nest", "write one reference after another", start, close + 1)
    body = text[start + 2 : close]
    found = re.fullmatch(_ENV_BODY, body, re.DOTALL)
    if found:
        return Reference("env", found["name"], found["default"], start, close + 1)
    scheme, _, name = body.partition(":")
    if scheme == "file" and name.strip():
        return Reference("file", name, None, start, close + 1)
    return Malformed("this `${…}` is not a reference", _suggest_reference(body), start, close + 1)


def _suggest_reference(body: str) -> str:
    """Return what to write instead; of `body`, which may be a secret, it names no more than a variable in capitals."""
    dollar = "or `$${` for a literal `${`"
    scheme, _, name = body.partition(":")
    bare = re.fullmatch(rf"(?P<name>{_VARIABLE})(?P<default>:?-.*)?", body, re.DOTALL) or re.fullmatch(
        rf"\{{\s*(?:env|secrets|vars)\.(?P<name>{_VARIABLE})(?P<default>)\s*\}}", body
    )
    if scheme == "env":
        word = re.match(rf"{_VARIABLE}(?!\w)", name)
        return f"write `${{env:{word.group() if word else 'NAME'}}}` or `${{env:NAME:-default}}`, {dollar}"
    if scheme == "file":
        return f"write `${{file:PATH}}`, {dollar}"
    if bare:
        default = ":-…" if bare["default"] else ""
        return f"write `${{env:{bare['name']}{default}}}`, {dollar}"
    return f"write `${{env:NAME}}` or `${{file:PATH}}`, {dollar}"


def _look_up(
    reference: Reference,
    environment: Environment,
    findings: Findings,
    node: Node,
    path: str,
    severity: Severity = "warning",
) -> str | None:
    """Return what an `env` reference stands for; None, and a finding, when it stands for nothing."""
    if reference.kind != "env":
        return None
    found = environment.get(reference.name) or reference.default
    if found is None:
        findings.add(
            UNSET,
            f"the environment variable `{reference.name}` is not set",
            place_in(node, reference.start, reference.end),
            severity=severity,
            path=path,
            help=f"set it in the environment or in `.env`, or write `${{env:{reference.name}:-default}}`",
        )
    return found


def _add_malformed(findings: Findings, piece: Malformed, node: Node, path: str) -> None:
    findings.add(MALFORMED, piece.message, place_in(node, piece.start, piece.end), path=path, help=piece.help)


def place_in(node: Node, start: int, end: int) -> Place:
    """Return the place of a part of a string value, or of the whole one where escapes or line breaks shift it."""
    span = node.place.range
    width = span.end.column - span.start.column
    shift = 1 if node.quoted else 0
    if span.start.line != span.end.line or width != len(node.value) + 2 * shift:
        return node.place
    line, column = span.start.line, span.start.column + shift
    return replace(node.place, span=Range(Position(line, column + start), Position(line, column + end)))


def _read_text(name: str, folder: Path | None) -> str:
    path = Path(name).expanduser()
    if not path.is_absolute():
        if folder is None:
            raise OSError(None, "there is no folder that it could be relative to")
        path = folder / path
    if leads_home(path, folder):
        raise OSError(None, IS_PRIVATE)
    if path.exists() and not path.is_file():
        raise OSError(None, "it is not a regular file")
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(None, "it is larger than 1 MB")
    return data.decode("utf-8").removesuffix("\n").removesuffix("\r")


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, in words that show nothing of what it holds."""
    if isinstance(error, FileNotFoundError):
        return "it does not exist"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError):
        return explain_os_error(error)
    return "the path is not valid"


def _dotenv_beside(base: Path) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    path = base / DOTENV
    if not path.exists():
        return {}, ()
    file = _display_path(path)
    try:
        return parse_dotenv(_read_text(DOTENV, base), file=file)
    except (OSError, ValueError) as error:
        findings = Findings()
        findings.warn("B033", f"`.env` cannot be read: {_reason(error)}", Place(file))
        return {}, tuple(findings.items)


def _display_path(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
