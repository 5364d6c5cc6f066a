"""What a document says whatever the profile is: which profiles there are, and which of its tests each is for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bub.base.diagnostics import Findings
from bub.pipeline.check import late
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document


class Outline(msgspec.Struct, frozen=True):
    """A document as a whole; `cases` are by the profile that they run in."""

    document: Document
    profiles: frozenset[str]
    cases: Mapping[str, tuple[late.Case, ...]]
    findings: Findings = msgspec.field(default_factory=Findings)


def outline_of(document: Document) -> Outline:
    """Read what holds for every profile of a document."""
    profiles = document.root.get("profiles")
    names = frozenset((DEFAULT_PROFILE, *(name for name, _ in (profiles.items() if profiles is not None else ()))))
    cases = late.cases_by_profile(document) if document.root.get("tests") is not None else {}
    return Outline(document, names, cases)
