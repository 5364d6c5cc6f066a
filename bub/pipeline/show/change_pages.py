"""What changes from one pipeline to another, for a terminal, as a comment of a pull request, and at its lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType

from bub.base.diagnostics import NO_FILE, START, Place
from bub.base.layout import EMPTY, Line, Span, line
from bub.pipeline.report.annotations import annotate
from bub.pipeline.report.report import printable_line
from bub.pipeline.show.compare import Comparison, ProfileComparison
from bub.pipeline.show.differences.changes import Change

_HEADINGS = MappingProxyType(
    {
        ("danger", "code"): "code that will be imported",
        ("danger", "gates"): "gates that open",
        ("danger", "tools"): "tools that are freed",
        ("danger", "schedules"): "what the agent does by itself",
        ("danger", "routes"): "who gets which profile",
        ("danger", "settings"): "what is reached, and by whom",
        ("danger", "limits"): "limits that go",
        ("danger", "stages"): "what checks or sends replies",
        ("danger", "values"): "where replies go",
        ("notice", "code"): "plugins",
    }
)

MARK = "<!-- bub diff -->"
"""What a comment begins with, so that a workflow finds its own again and replaces it."""

_LONGEST = 60_000
"""How many characters a comment may have: GitHub takes 65,536."""

_LONGEST_ITEM = 2_000

Told = tuple[Change, list[tuple[str, ...]]]
"""A change, and the profiles in which it is shown."""


# For a terminal


def change_page(comparison: Comparison, title: str) -> Iterator[Line]:
    """Yield the changes, the dangerous first, profile by profile; those with the same changes share one heading."""
    changes = comparison.changes
    if not changes:
        yield line(f"{title}: no difference in behaviour")
        return
    yield line(title, "strong")
    same, *differing = _group_alike(comparison.profiles)
    for profiles in differing:
        yield from (EMPTY, line(_name_profiles(profiles), "strong"))
        yield from _list_changes(profiles[0].changes)
    if comparison.routes:
        yield from (EMPTY, line("all profiles", "strong"))
        yield from _list_changes(comparison.routes)
    yield EMPTY
    if same:
        yield line(f"{_name_profiles(same)}: no difference")
    yield line(_count(changes))


def _count(changes: Iterable[Change]) -> str:
    severities = [change.severity for change in changes]
    dangers = severities.count("danger")
    return f"{len(severities)} change{'s' if len(severities) > 1 else ''}, {dangers or 'none'} of them dangerous"


def _group_alike(profiles: Iterable[ProfileComparison]) -> list[list[ProfileComparison]]:
    """Return the profiles without changes, then the others, in groups that have the same changes."""
    sets: dict[tuple[tuple[str, Place | None], ...], list[ProfileComparison]] = {(): []}
    for compared in profiles:
        changes = tuple((change.message, change.place) for change in compared.changes)
        sets.setdefault(changes, []).append(compared)
    return list(sets.values())


def _name_profiles(profiles: Iterable[ProfileComparison]) -> str:
    return _list_profiles([_names_of(compared) for compared in profiles])


def _names_of(compared: ProfileComparison) -> tuple[str, ...]:
    """Return what the profile is called, on both sides if that differs."""
    is_pair = compared.new is not None and compared.old != compared.new
    return (compared.old, str(compared.new)) if is_pair else (compared.name,)


def _list_profiles(profiles: Sequence[tuple[str, ...]], quote: Callable[[str], str] = "`{}`".format) -> str:
    names = [" → ".join(map(quote, names)) for names in profiles]
    return f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _list_changes(changes: Iterable[Change]) -> Iterator[Line]:
    for (severity, area), group in itertools.groupby(changes, key=lambda change: (change.severity, change.area)):
        yield line(f"  {_HEADINGS.get((severity, area), area)}", "warn" if severity == "danger" else "")
        for change in group:
            place = f"  {change.place}" if change.place is not None else ""
            yield Span(f"    {_mark(change)} {change.message}"), Span(place, "faint")


def _mark(change: Change) -> str:
    if change.old is None:
        return "+"
    return "-" if change.new is None else "~"


def group_changes(comparison: Comparison) -> list[tuple[str, bool, list[str]]]:
    """Return the changes below the headings of a page, whether they are dangerous, and these first.

    Each is shown once, with the profiles and the place that it is about.
    """
    grouped: dict[tuple[str, str], list[str]] = {}
    for change, profiles in _each_once(comparison):
        whose = f", {_list_profiles(profiles)}" if profiles else ""
        place = f" ({change.place})" if change.place is not None else ""
        text = printable_line(f"{_mark(change)} {change.message}{whose}{place}")
        grouped.setdefault((change.severity, change.area), []).append(text)
    return [(_HEADINGS.get(key, key[1]), key[0] == "danger", texts) for key, texts in grouped.items()]


# For a pull request


def render_comment(comparison: Comparison, title: str) -> str:
    """Return the changes in Markdown: the dangerous as a list, the others folded away.

    What comes from the files is put between backticks, more of them than are in the text itself: it is neither
    formatted nor linked, and names nobody.
    """
    told = _each_once(comparison)
    dangers, notices = ([item for item in told if item[0].is_danger is danger] for danger in (True, False))
    text = f"{MARK}\n### `bub diff`\n\n{_in_code(title)}: "
    if not told:
        return f"{text}no difference in behaviour.\n"
    text += f"{_count(change for change, _ in told)}.\n"
    if dangers:
        text += f"\n**Dangerous:** more may run, pass or be reached than before.\n\n{_items(dangers, _LONGEST)}"
    if notices:
        summary = f"<summary>{'What else changes' if dangers else 'What changes'}</summary>"
        text += f"\n<details>\n{summary}\n\n{_items(notices, _LONGEST - len(text))}\n</details>\n"
    return text


def _each_once(comparison: Comparison) -> list[Told]:
    """Return each change with the profiles in which it is told, the dangerous first; routes are of none."""
    told: dict[tuple[str, str, Place | None], Told] = {}
    for change in comparison.routes:
        told[change.severity, change.message, change.place] = (change, [])
    for compared in comparison.profiles:
        for change in compared.changes:
            key = change.severity, change.message, change.place
            told.setdefault(key, (change, []))[1].append(_names_of(compared))
    return sorted(told.values(), key=lambda item: item[0].rank)


def _items(told: Sequence[Told], room: int) -> str:
    text = ""
    for number, (change, profiles) in enumerate(told):
        item = f"- {_in_code(change.message)}"
        item += f", {_list_profiles(profiles, _in_code)}" if profiles else ""
        item += f", {_in_code(str(change.place))}\n" if change.place is not None else "\n"
        if len(text) + len(item) > room:
            return f"{text}- and {len(told) - number} more, which are too long for a comment\n"
        text += item
    return text


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_ITEM else f"{text[:_LONGEST_ITEM]}…"


def _in_code(text: str) -> str:
    """Return a text as code in a line of Markdown: nothing in it means anything there."""
    text = printable_line(_short(text))
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def render_change_annotations(comparison: Comparison, root: Path) -> str:
    """Return one workflow command a line for each change, and a line that counts them; `root` is the repository.

    A dangerous one is a warning.
    """
    told = _each_once(comparison)
    count = _count(change for change, _ in told) if told else "no difference in behaviour"
    return "".join(_annotation(change, profiles, root) for change, profiles in told) + f"{count}\n"


def _annotation(change: Change, profiles: Sequence[tuple[str, ...]], root: Path) -> str:
    whose = f" ({_list_profiles(profiles)})" if profiles else ""
    level, text = "warning" if change.is_danger else "notice", printable_line(f"{change.message}{whose}")
    title = f"bub diff: {change.kind}"
    if change.place is None:
        return annotate(level, title, text, NO_FILE, START, root)
    return annotate(level, title, text, change.place.file, change.place.range, root)
