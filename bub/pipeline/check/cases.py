"""The tests that a pipeline file brings along: which profile each is for, and what it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from bub.base.diagnostics import Place
from bub.envelope import Envelope, add_address, field_of
from bub.pipeline.plan.scalars import names_of, text_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document

_MOST_ROUTES = 100
"""In a file with more of them, it is not looked up which one a test's message takes."""

_EXPECTED = {"ran": "to run", "skipped": "to be skipped", "error.stage": "to fail", "ended_by": "to end the turn"}


class Expected(msgspec.Struct, frozen=True):
    """A stage that a test expects something of: the `key` below `expect` that says so, and where it stands.

    `before` is what is written there in front of the stage: `denied:` in an `ended_by`.
    """

    key: str
    stage: str
    place: Place
    before: str = ""

    @property
    def what(self) -> str:
        """What is expected, in words: "to run"."""
        return _EXPECTED[self.key]


class Case(msgspec.Struct, frozen=True):
    """One entry of `tests:`, for the profile that it runs in."""

    name: str
    node: Node
    profile: str

    @property
    def path(self) -> str:
        return f"tests.{self.name}"

    def mocks(self) -> Iterator[tuple[str, Node]]:
        """What stands in for stages and hooks, by their name."""
        section = self.node.get("mock")
        if section is not None:
            yield from section.items()

    def expected_stages(self) -> Iterator[Expected]:
        """Every stage that something is expected of."""
        for key in ("ran", "skipped"):
            for name, place in names_of(self.node.get("expect", key)):
                yield Expected(key, name, place)
        failed = self.node.get("expect", "error", "stage")
        stage = text_of(failed)
        if failed is not None and stage is not None:
            yield Expected("error.stage", stage, failed.place)
        ended = self.node.get("expect", "ended_by")
        how, colon, stage = (text_of(ended) or "").partition(":")
        if ended is not None and stage:
            yield Expected("ended_by", stage, ended.place, how + colon)

    def __str__(self) -> str:
        return f"test `{self.name}`"


def cases_by_profile(document: Document) -> Mapping[str, tuple[Case, ...]]:
    """The tests of a document by the profile that each runs in, as far as that can be told."""
    section = document.root.get("tests")
    cases: dict[str, list[Case]] = {}
    for name, test in section.items() if section is not None else ():
        profile = _profile_of(document, test) if test.is_mapping else None
        if profile is not None:
            cases.setdefault(profile, []).append(Case(name, test, profile))
    return {profile: tuple(found) for profile, found in cases.items()}


def _profile_of(document: Document, test: Node) -> str | None:
    """The profile a test runs in: its own, else that of the first route its message takes, else `default`.

    None where that depends on the environment, or on too many routes.
    """
    said = test.get("profile")
    if said is not None:
        return text_of(said)
    section = document.root.get("routes")
    routes = section.elements() if section is not None else ()
    if len(routes) > _MOST_ROUTES:
        return None
    written = test.get("message")
    message = add_address({name: node.value for name, node in (written.items() if written is not None else ())})
    for route in routes:
        match = route.get("match")
        asked = [(name, text_of(node)) for name, node in (match.items() if match is not None else ())]
        if any(glob is None for _, glob in asked):
            return None
        if all(_has(message, name, glob or "") for name, glob in asked):
            return text_of(route.get("profile"))
    return DEFAULT_PROFILE


def _has(message: Envelope, field: str, glob: str) -> bool:
    value = field_of(message, field)
    return value is not None and fnmatchcase(str(value), glob)
