"""Comments such as `# bub: ignore[B040] it is a test key`: which warnings they silence, and which of them do nothing.

One behind a line is for that line, one that has a line of its own for the next line that says something. An error is
never silenced: a start refuses the file all the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from bub.base.diagnostics import Diagnostic, Findings, Place, Position, Range, Severity, sort_diagnostics
from bub.pipeline.check import late
from bub.pipeline.source.document import Node, walk
from bub.pipeline.source.merge import Document

UNUSED, NAMELESS = "B041", "B042"

_IGNORE = r"#\s*bub:\s*ignore\b(?:\s*\[(?P<codes>[^\]\n]*)\])?.*"
_HINT = "ignore"
"""What every such comment holds: most files have none, and are not looked through."""

_OF_THE_MACHINE = frozenset({"B014", "B031", "B032", "B033", "B034", "B035", "B106", "B160", "B161"})
"""What is found on one machine and not on another: a comment about it may be needed elsewhere."""


class Named(msgspec.Struct, frozen=True):
    """A code that a comment names, and where."""

    code: str
    range: Range


class Ignore(msgspec.Struct, frozen=True):
    """A comment that silences the warnings with these codes that begin on one `line`; 0 if no line follows it.

    `range` is that of the whole comment; one that has a line of its own is `apart`.
    """

    file: str
    line: int
    codes: tuple[Named, ...]
    range: Range
    apart: bool


def ignores_of(document: Document) -> list[Ignore]:
    """Return the comments in the files of a document that are not Bub's own."""
    return [
        ignore
        for layer in document.layers
        if not layer.shipped and _HINT in document.sources.get(layer.file, "")
        for ignore in _in_yaml(layer.file, document.sources[layer.file], layer.root)
    ]


def check_ignores(document: Document) -> list[Diagnostic]:
    """Each comment that names no code, or one that there is not, as a warning."""
    findings = Findings()
    for ignore in ignores_of(document):
        if not ignore.codes:
            message = "this comment ignores nothing: it names no code"
            findings.warn(
                NAMELESS,
                message,
                Place(ignore.file, ignore.range),
                help="write the code of a finding: `# bub: ignore[B040] why`",
            )
        for named in ignore.codes:
            if named.code not in late.codes():
                place = Place(ignore.file, named.range)
                message = f"Bub has no finding `{named.code}`"
                findings.add_unknown(NAMELESS, message, place, named.code, late.codes(), severity="warning")
    return findings.items


def settle(
    findings: Iterable[Diagnostic], ignores: Iterable[Ignore], *, complete: bool = False, loaded: bool = False
) -> tuple[Diagnostic, ...]:
    """Return findings, sorted, without the warnings and notes that comments silence.

    Comments in plugins' own `.py` files count for what is found there. If the check was `complete`, which means for all
    profiles, each comment that silences nothing is a warning; `loaded` says that the plugins were, too.
    """
    found, remarks = sort_diagnostics(findings), list(dict.fromkeys(ignores))
    python = dict.fromkeys(item.file for item in found if item.file.endswith(".py") and item.severity != "error")
    for file in python:
        remarks += _in_python(file)
    if not remarks:
        return found
    severities: dict[_Spot, set[Severity]] = {}
    for item in found:
        severities.setdefault(_spot_of(item), set()).add(item.severity)
    named = {_Spot(remark.file, remark.line, one.code) for remark in remarks for one in remark.codes}
    kept = [item for item in found if item.severity == "error" or _spot_of(item) not in named]
    idle = Findings()
    for remark in remarks if complete else ():
        _tell_idle(remark, severities, loaded, idle)
    return sort_diagnostics([*kept, *idle.items])


class _Spot(msgspec.Struct, frozen=True):
    """Where a comment and a finding meet."""

    file: str
    line: int
    code: str


def _spot_of(item: Diagnostic) -> _Spot:
    return _Spot(item.file, item.range.start.line, item.code)


def _tell_idle(ignore: Ignore, severities: Mapping[_Spot, set[Severity]], loaded: bool, findings: Findings) -> None:
    """Tell what a comment names and does not silence, unless it may be found elsewhere, or with the plugins loaded."""
    unused = []
    for named in ignore.codes:
        found = severities.get(_Spot(ignore.file, ignore.line, named.code))
        is_lasting = named.code in late.codes() and named.code not in _OF_THE_MACHINE
        can_tell = is_lasting and not (late.is_never_checked if loaded else late.needs_plugins)(named.code)
        if found is None and can_tell:
            unused.append(named)
        elif found == {"error"}:
            message = f"`{named.code}` is an error here: a comment cannot ignore an error"
            findings.warn(
                UNUSED, message, Place(ignore.file, named.range), help="mend the error, and remove this comment"
            )
    if unused and len(unused) == len(ignore.codes):
        message = f"this comment ignores nothing: there is no {_either(unused)} {_where(ignore)}"
        fix = None if ignore.apart else ""
        findings.warn(UNUSED, message, Place(ignore.file, ignore.range), help="remove it", fix=fix)
        return
    for named in unused:
        message = f"there is no `{named.code}` to ignore {_where(ignore)}"
        findings.warn(UNUSED, message, Place(ignore.file, named.range), help=f"remove `{named.code}`")


def _either(named: Sequence[Named]) -> str:
    return " or ".join(f"`{one.code}`" for one in named)


def _where(ignore: Ignore) -> str:
    return f"on line {ignore.line}" if ignore.line else "behind it"


# Finding the remarks


def _in_yaml(file: str, text: str, root: Node) -> Iterator[Ignore]:
    lines = _split(text)
    texts = _Texts(root, file, lines)
    yield from _remarks(file, lines, lambda line, column: not texts.hold(Position(line, column)))


def _in_python(file: str) -> Iterator[Ignore]:
    """Yield the comments of a plugin; none of what cannot be read, or was installed: others have written that."""
    import tokenize  # only if something was found in such a file

    if "site-packages" in re.split(r"[/\\]", file):
        return
    try:
        with tokenize.open(file) as stream:
            text = stream.read()
        if _HINT not in text:
            return
        tokens = tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__)
        starts = {token.start for token in tokens if token.type == tokenize.COMMENT}
    except (OSError, ValueError, SyntaxError, tokenize.TokenError):
        return
    yield from _remarks(file, text.splitlines(), lambda line, column: (line, column - 1) in starts)


def _remarks(file: str, lines: Sequence[str], is_remark: Callable[[int, int], bool]) -> Iterator[Ignore]:
    for number, line in enumerate(lines, 1):
        found = re.search(_IGNORE, line) if _HINT in line else None
        if found is None or not is_remark(number, found.start() + 1):
            continue
        before = line[: found.start()]
        apart = not before.strip()
        start = found.start() if apart else len(before.rstrip())
        target = _next_line(lines, number) if apart else number
        yield Ignore(file, target, tuple(_read_codes(found, number)), _range(number, start, len(line.rstrip())), apart)


def _next_line(lines: Sequence[str], number: int) -> int:
    """Return the number of the next line that says something; 0 if there is none."""
    following = enumerate(lines[number:], number + 1)
    return next((at for at, line in following if line.strip() and not line.lstrip().startswith("#")), 0)


def _read_codes(found: re.Match[str], number: int) -> Iterator[Named]:
    for word in re.finditer(r"[^\s,]+", found["codes"] or ""):
        start = found.start("codes")
        yield Named(word.group(), _range(number, start + word.start(), start + word.end()))


def _range(line: int, start: int, end: int) -> Range:
    return Range(Position(line, start + 1), Position(line, end + 1))


def _split(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))


class _Texts:
    """The texts of a file, in which a `#` begins no comment."""

    def __init__(self, root: Node, file: str, lines: Sequence[str]) -> None:
        spans = [place.range for _, node in walk(root) for place in _places_of(node) if place.file == file]
        self._spans = sorted(_inside(span, lines) for span in spans)

    def hold(self, at: Position) -> bool:
        """Whether something stands in a text."""
        index = bisect_right(self._spans, at, key=lambda span: span.start) - 1
        return index >= 0 and at < self._spans[index].end


def _places_of(node: Node) -> Iterator[Place]:
    if node.key is not None:
        yield node.key
    if not (node.is_mapping or node.is_sequence):
        yield node.place


def _inside(span: Range, lines: Sequence[str]) -> Range:
    """The range of a text without the line that opens a block, on which a comment may be."""
    first = lines[span.start.line - 1][span.start.column - 1 :]
    opens = re.match(r"[|>]", first) and span.end.line > span.start.line
    return Range(Position(span.start.line + 1, 1), span.end) if opens else span
