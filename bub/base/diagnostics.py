"""Findings: what is wrong with a pipeline, exactly where, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec.structs import force_setattr, replace

from bub.base.quoting import hide_passwords, quotable
from bub.errors import BubError

Severity = Literal["error", "warning", "note"]
"""How much a finding matters: an error ends a start, a note is for those who ask for it and never fails anything."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""All severities, the worst first."""


class Position(NamedTuple):
    """A point in a text: line and column from 1, columns in code points."""

    line: int
    column: int


class Range(NamedTuple):
    """A stretch of text; `end` is the position just behind its last character."""

    start: Position
    end: Position


START = Range(Position(1, 1), Position(1, 1))
"""The place that a finding about the document as a whole points at."""


NO_FILE = "the environment"
"""The file of a finding about a variable of the environment: it is in none."""

STDIN = "<stdin>"
"""What findings call the file that is piped in."""


class Stretch(Protocol):
    """A stretch of a text whose lines are counted when they are asked for: of most values, nobody asks."""

    @property
    def range(self) -> Range: ...


class Place(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A range in a file. `layer` says which part of the pipeline the text speaks for.

    A layer is `bub:default` (a shipped parent), the file's own path as the user knows it, or `profile ci`.
    """

    file: str
    span: Range | Stretch = START
    layer: str = ""

    @property
    def range(self) -> Range:
        return self.span if isinstance(self.span, Range) else self.span.range

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return NotImplemented
        return (self.file, self.layer) == (other.file, other.layer) and self.range == other.range

    def __hash__(self) -> int:
        return hash((self.file, self.range, self.layer))

    def as_dict(self) -> dict[str, Any]:
        """The place as in the JSON object of a finding."""
        return {"file": self.file, "range": _range_dict(self.range)}

    def __str__(self) -> str:
        return f"{self.file}:{self.range.start.line}:{self.range.start.column}"


class Related(msgspec.Struct, frozen=True):
    """Another place that a finding is about, such as the first of two duplicate keys."""

    message: str
    file: str
    range: Range

    def __post_init__(self) -> None:
        force_setattr(self, "message", quotable(self.message))


class Diagnostic(msgspec.Struct, frozen=True):
    """One finding: `code` is stable (`B120`), `message` names what the user knows, `help` says what would be right.

    `path` is the dotted path of the offending value (`stages.prompt.needs[0]`), `profile` the profile it holds
    for when it holds for one only, `fix` the text that would repair the range when there is one sure repair, `likely`
    one that probably would if there is none.
    What is quoted is `quotable`: without the defaults of references and the passwords of addresses.
    """

    code: str
    severity: Severity
    message: str
    file: str
    range: Range = START
    path: str = ""
    profile: str | None = None
    help: str | None = None
    fix: str | None = None
    related: tuple[Related, ...] = ()
    likely: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "message", quotable(self.message))
        force_setattr(self, "path", quotable(self.path))
        force_setattr(self, "profile", self.profile and quotable(self.profile))
        force_setattr(self, "help", self.help and hide_passwords(self.help))  # it may say how to write a default

    def as_dict(self) -> dict[str, Any]:
        """The finding as the JSON object of DESIGN §8."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "range": _range_dict(self.range),
            "path": self.path,
            "profile": self.profile,
            "help": self.help,
            "fix": self.fix,
            "likely_fix": self.likely,
            "related": [
                {"message": other.message, "file": other.file, "range": _range_dict(other.range)}
                for other in self.related
            ],
        }


def _range_dict(span: Range) -> dict[str, dict[str, int]]:
    return {
        "start": {"line": span.start.line, "column": span.start.column},
        "end": {"line": span.end.line, "column": span.end.column},
    }


class PipelineError(BubError):
    """A pipeline that does not compile; `diagnostics` holds every finding, warnings included."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = sort_diagnostics(diagnostics)
        errors = [finding for finding in self.diagnostics if finding.severity == "error"]
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        where = f"{first.file}:{first.range.start.line}:{first.range.start.column}"
        super().__init__(f"{where}: {first.message}{more}", help=first.help)


class Findings(msgspec.Struct):
    """Collects findings while a document is read, merged and compiled."""

    items: list[Diagnostic] = msgspec.field(default_factory=list)
    guesses: int = 0

    def add(
        self,
        code: str,
        message: str,
        place: Place,
        *,
        severity: Severity = "error",
        path: str = "",
        profile: str | None = None,
        help: str | None = None,  # noqa: A002 (the reader's word)
        fix: str | None = None,
        related: Iterable[Related] = (),
        likely: str | None = None,
    ) -> None:
        """Add one finding at `place`."""
        related = tuple(related)
        self.items.append(
            Diagnostic(code, severity, message, place.file, place.range, path, profile, help, fix, related, likely)
        )

    def warn(self, code: str, message: str, place: Place, **more: Any) -> None:
        """Add one warning at `place`."""
        self.add(code, message, place, severity="warning", **more)

    def add_unknown(
        self,
        code: str,
        message: str,
        place: Place,
        name: str,
        known: Iterable[str],
        *,
        help: str | None = None,  # noqa: A002 (the reader's word)
        **more: Any,
    ) -> None:
        """Add one finding about a `name` that is none of those `known`: what was meant, or else `help`."""
        known = set(known)
        meant = self.suggest(name, known)
        fix = sure_repair(name, known) if meant else None
        likely = meant if fix is None else None
        self.add(code, message, place, help=ask_for(meant) or help, fix=fix, likely=likely, **more)

    def did_you_mean(self, name: str, known: Iterable[str]) -> str | None:
        """As the function `did_you_mean`, for the first names only, as `suggest`."""
        return ask_for(self.suggest(name, known))

    def suggest(self, name: str, known: Iterable[str]) -> str | None:
        """As the function `suggest`, for the first names only: a file with more of them has other mistakes."""
        self.guesses += 1
        return suggest(name, known) if self.guesses <= MOST_GUESSES else None

    def speaks_of(self, place: Place, *codes: str) -> bool:
        """Whether one of these codes was found at this very place."""
        there = (item for item in self.items if item.code in codes and item.file == place.file)
        return any(item.range == place.range for item in there)

    @property
    def has_errors(self) -> bool:
        """Whether anything found so far keeps the pipeline from running."""
        return any(item.severity == "error" for item in self.items)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Findings in the order of a reader: by file, place and code; one said twice is said once.

    A finding that holds for several profiles alike is one finding, and is of none of them.
    """
    alike: dict[tuple[Any, ...], list[Diagnostic]] = {}
    for item in {id(item): item for item in diagnostics}.values():
        general = item.message if item.profile is None else item.message.replace(f"profile `{item.profile}`", "profile")
        alike.setdefault((item.file, item.range, item.code, general), []).append(item)
    merged = [_as_one(items) for items in alike.values()]
    return tuple(sorted(merged, key=lambda item: (item.file, item.range, item.code, item.message)))


def without_notes(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The findings that a person has to see who did not ask for notes."""
    return tuple(item for item in diagnostics if item.severity != "note")


_MOST_NAMED = 3
"""How many profiles one finding names, and points at."""


def _as_one(items: list[Diagnostic]) -> Diagnostic:
    """The first of several findings that differ in their profile only, with the other profiles named too.

    What is an error in one of them is an error, and so is a warning.
    """
    items = sorted(items, key=lambda item: SEVERITIES.index(item.severity))
    first = items[0]
    profiles = list(dict.fromkeys(item.profile for item in items))
    if len(profiles) == 1:
        return first
    message = first.message
    if len({item.message for item in items}) > 1:
        named = ", ".join(f"`{profile}`" for profile in profiles[1:_MOST_NAMED])
        more = f" and {len(profiles) - _MOST_NAMED} more" if len(profiles) > _MOST_NAMED else ""
        message += f" (the same in {named}{more})"
    related = dict.fromkeys(other for item in items[:_MOST_NAMED] for other in item.related)
    return replace(first, message=message, profile=None, related=tuple(related))


MOST_GUESSES = 50
"""How many wrong names of one file get a suggestion of what was probably meant."""

_LONGEST, _MOST_KNOWN, _MOST_COMPARED = 60, 2_000, 50


def suggest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None when none is close."""
    import difflib  # only where a name is wrong

    candidates = sorted(set(known))
    exact = {candidate.casefold(): candidate for candidate in candidates}
    if name.casefold() in exact:
        return exact[name.casefold()]
    if len(name) > _LONGEST or len(candidates) > _MOST_KNOWN:
        return None
    # To compare two names takes the product of their lengths, and a file may hold thousands of long ones.
    candidates = [candidate for candidate in candidates if len(candidate) <= _LONGEST]
    if len(candidates) > _MOST_COMPARED:
        candidates = sorted(candidates, key=lambda other: -_shared_ends(name, other))[:_MOST_COMPARED]
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.65)
    if not close:  # `msg` is farther from `message` than `volumes` from `routes`, and yet meant
        kin = [other for other in candidates if _is_in(name, other) or _is_in(other, name)]
        close = difflib.get_close_matches(name, kin, n=1, cutoff=0.6)
    return close[0] if close else None


def _is_in(short: str, long: str) -> bool:
    """Whether one name has all letters of another, in their order."""
    letters = iter(long)
    return all(letter in letters for letter in short)


def _shared_ends(one: str, other: str) -> int:
    """How many characters two names share at their beginning and at their end."""
    sides = (zip(one, other, strict=False), zip(reversed(one), reversed(other), strict=False))
    return sum(1 for side in sides for _ in takewhile(lambda pair: pair[0] == pair[1], side))


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The question "did you mean …?" for a help line, or None when nothing is close."""
    return ask_for(suggest(name, known))


def ask_for(meant: str | None) -> str | None:
    """The question whether a name was meant, if there is one."""
    return f"did you mean `{meant}`?" if meant else None


_SHORTEST_REPAIRED = 4
"""Shorter names come near each other by accident."""


def sure_repair(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` can only be a slip for, or None: sure enough to be written without being asked.

    The same name with other case, `-` or `_`; or one letter put in, left out, changed or swapped, of a name of four
    letters or more that no other known name comes near. Names with different numbers are different things.
    """
    candidates = set(known)
    if name in candidates or len(name) > _LONGEST or len(candidates) > _MOST_KNOWN:
        return None
    alike = [candidate for candidate in candidates if _plain(candidate) == _plain(name)]
    if alike:
        return alike[0] if len(alike) == 1 else None
    near = [candidate for candidate in candidates if _within(2, name, candidate)]
    if len(near) != 1 or len(near[0]) < _SHORTEST_REPAIRED or _digits(near[0]) != _digits(name):
        return None
    return near[0] if _within(1, name, near[0]) else None


def is_slip(name: str, known: str) -> bool:
    """Whether a name may be a slip for a known one: it differs by case, `-` and `_`, or by one letter.

    Of three letters, both have to be as long as each other. Names with different numbers are different things.
    """
    if name == known or _plain(name) == _plain(known):
        return name != known
    is_long_enough = len(known) >= _SHORTEST_REPAIRED or len(name) == len(known) == _SHORTEST_REPAIRED - 1
    return is_long_enough and _digits(name) == _digits(known) and _within(1, name, known)


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def _digits(name: str) -> list[str]:
    return [letter for letter in name if letter.isdigit()]


def _within(edits: int, one: str, other: str) -> bool:
    """Whether so many edits at most (a letter put in, left out, changed, or two swapped) make one name of another."""
    if one == other:
        return True
    if edits == 0 or abs(len(one) - len(other)) > edits:
        return False
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    one, other = one[same:], other[same:]
    left = edits - 1
    return (
        _within(left, one[1:], other[1:])
        or _within(left, one[1:], other)
        or _within(left, one, other[1:])
        or (one[:2] == other[1::-1] and _within(left, one[2:], other[2:]))
    )
