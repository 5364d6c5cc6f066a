"""How many findings there are, in one line: all that Bub says of files that are fine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bub.base.diagnostics import SEVERITIES, Diagnostic, sort_diagnostics


def summary(diagnostics: Iterable[Diagnostic], files: int) -> str:
    """Return one line that closes a report: `2 errors and 1 warning in 1 of 5 files`, or `3 files are fine`.

    `files` is how many were checked. What they extend may have findings too, without having been named.
    """
    items = sort_diagnostics(diagnostics)
    found = Counter(item.severity for item in items)
    counts = [_count(found[severity], severity) for severity in SEVERITIES if found[severity]]
    if not counts:
        return f"{_count(files, 'file')} {'is' if files == 1 else 'are'} fine"
    faulty = len({item.file for item in items})
    told = " and ".join(filter(None, (", ".join(counts[:-1]), counts[-1])))
    return f"{told} in {f'{faulty} of ' if faulty < files else ''}{_count(max(faulty, files), 'file')}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
