"""`--fix`: repairing findings of a pipeline file that have one sure repair, and only if the file is better for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bub.base.diagnostics import Diagnostic, Range
from bub.base.rewrite import rewrite
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.edit.own_file import count_errors, count_findings, refuse_shipped
from bub.pipeline.source.merge import load_document, load_text
from bub.pipeline.source.splice import Edit, splice
from bub.pipeline.source.yaml_reader import parse

_MOST_TRIALS = 40
"""How many repairs are tried for one file: each takes milliseconds, or a second if there are thousands of findings."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of one file: the findings that were repaired, and those whose repair would have done harm.

    `backup` is the file that holds the text as it was, None when nothing was written. `unreadable`: the file is no
    proper YAML, so nobody knows for sure what it says, and it was left alone.
    """

    file: str
    repaired: tuple[Diagnostic, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    backup: Path | None = None
    unreadable: bool = False

    def __str__(self) -> str:
        """In one line for people; empty when there was nothing to repair."""
        if self.unreadable:
            return f"nothing is repaired in {self.file}: mend its YAML first"
        said = []
        if self.backup is not None:
            said.append(f"repaired {_count(self.repaired)} in {self.file} (as it was: {self.backup.name})")
        if self.refused:
            said.append(f"left {_count(self.refused)} in {self.file} alone, whose repair would bring up another error")
        return "; ".join(said)


def repair_file(path: Path, *, profiles: Sequence[str] | None = None, likely: bool = False) -> Repair:
    """Repair what has one sure repair in a pipeline file, as it is checked for `profiles` (None: all it has).

    With `likely`, what has one that is probably meant is repaired, too.

    Only this file is written, never one that it extends, and only with a text that says the same except the repairs,
    in which their findings are gone and no error is new. Raises `UsageError` for a shipped file and for one that
    cannot be read, `BubError` for one that cannot be written; the file is untouched then.
    """
    refuse_shipped(path)
    document = load_document(path)
    data = path.read_bytes()
    if any(finding.severity == "error" for finding in parse(data, file=document.file, layer="").findings):
        return Repair(document.file, unreadable=True)
    bench = _Bench(document.file, document.base, profiles, likely)
    text = bench.try_text(data.decode())
    repaired: list[Diagnostic] = []
    while True:
        taken, text = bench.best(text)
        repaired += [finding for fix in taken for finding in fix.findings]
        if not taken:
            break
    refused = tuple(finding for fix in bench.fixes(text) for finding in fix.findings)
    backup = rewrite(path, data, text.text.encode()) if repaired else None
    return Repair(document.file, tuple(repaired), refused, backup)


class _Fix(NamedTuple):
    """One edit, and the findings that it is to repair."""

    edit: Edit
    findings: tuple[Diagnostic, ...]


class _Trial(NamedTuple):
    """A text that the file could have, what it says, and what is found in it and in all that it extends."""

    text: str
    says: Any
    findings: tuple[Diagnostic, ...]


@dataclass(slots=True)
class _Bench:
    """Where texts for one file are tried out, without writing any; `left` is how many more."""

    file: str
    base: Path | None
    profiles: Sequence[str] | None
    likely: bool
    left: int = _MOST_TRIALS

    def try_text(self, text: str) -> _Trial:
        """Return what the file would be with this text."""
        self.left -= 1
        document = load_text(text, file=self.file, base=self.base)
        own = [layer.root.plain() for layer in document.layers if layer.file == self.file]
        return _Trial(text, own, check_loaded(document, profiles=self.profiles).diagnostics)

    def fixes(self, tried: _Trial) -> list[_Fix]:
        """Return the edits that findings ask for, in order; none if two of them disagree or lie within one another."""
        asked: dict[Range, list[Diagnostic]] = {}
        for finding in tried.findings:
            if self._text_for(finding) is not None and finding.file == self.file:
                asked.setdefault(finding.range, []).append(finding)
        fixes: list[_Fix] = []
        for span in sorted(asked):
            [fix, *others] = {str(self._text_for(finding)) for finding in asked[span]}
            if not others and (not fixes or fixes[-1].edit.range.end <= span.start):
                fixes.append(_Fix(Edit(span, fix, keep_quotes=True), tuple(asked[span])))
        return fixes

    def _text_for(self, finding: Diagnostic) -> str | None:
        return finding.likely if self.likely and finding.fix is None else finding.fix

    def best(self, before: _Trial) -> tuple[list[_Fix], _Trial]:
        """Return the fixes that can be made together, and what comes of it.

        One that does harm takes no others along: what cannot be made together is tried by halves.
        """
        taken: list[_Fix] = []
        best, waiting = before, [self.fixes(before)]
        while waiting and self.left > 0:
            some = waiting.pop()
            after = self._try_fixes(before, [*taken, *some]) if some else None
            if after is not None:
                taken, best = [*taken, *some], after
            elif len(some) > 1:
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
        return taken, best

    def _try_fixes(self, before: _Trial, fixes: list[_Fix]) -> _Trial | None:
        """Return what comes of some fixes; None if the file is not better for them.

        A key that is spelt right at last may bring errors below it to light: they have to be repaired along with it.
        """
        wanted = [finding for fix in fixes for finding in fix.findings]
        after, edits, new = before, 0, count_findings(())
        while fixes:
            after = self.try_text(splice(after.text, [fix.edit for fix in fixes]))
            edits += len(fixes)
            new = count_errors(after.findings) - count_errors(before.findings)
            more = self.fixes(after) if new and self.left > 0 else []
            fixes = [fix for fix in more if new.keys() & count_findings(fix.findings).keys()]
        # An anchor's value stands for others, too: to change more than what was found is no sure repair.
        as_meant = not new and _changes(before.says, after.says) <= edits
        found, had = count_findings(after.findings), count_findings(before.findings)
        gone = all(found[said] <= had[said] - times for said, times in count_findings(wanted).items())
        return after if as_meant and gone else None


def _changes(old: Any, new: Any) -> int:
    """In how many keys and values two trees differ; where their shapes do, more than any edits account for."""
    if isinstance(old, dict) and isinstance(new, dict) and len(old) == len(new):
        pairs = zip(old.items(), new.items(), strict=True)
        return sum((name != other) + _changes(a, b) for (name, a), (other, b) in pairs)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return sum(map(_changes, old, new))
    if isinstance(old, dict | list) or isinstance(new, dict | list):
        return sys.maxsize
    return int(repr(old) != repr(new))  # 1 is not true, and .nan is itself


def _count(findings: Sequence[Diagnostic]) -> str:
    return "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
