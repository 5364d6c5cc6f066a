"""The tests that a pipeline file brings along: which profile each is for, and what it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from bub.base.diagnostics import Place
from bub.envelope import ADDRESS, Envelope, add_address, field_of
from bub.pipeline.plan.scalars import names_of, text_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document

_MOST_ROUTES = 100
"""In a file with more of them, it is not looked up which one a test's message takes."""

MATCHERS = ("contains", "matches")
"""What asks for a part of a text, in place of the whole."""

_CARRIED = (*ADDRESS, "sender_id", "session_id")
"""The keys that say where a message comes from: the next message of a test takes them over."""

_EXPECTED = {"ran": "to run", "skipped": "to be skipped", "error.stage": "to fail", "ended_by": "to end the turn"}


class Expected(msgspec.Struct, frozen=True):
    """A stage that a test expects something of: the `key` below `expect` that says so, and where it is.

    `turn` is the path of that `expect` below the test. `before` is what is written in front of the stage: `denied:` in
    an `ended_by`.
    """

    key: str
    stage: str
    place: Place
    turn: str
    before: str = ""

    @property
    def path(self) -> str:
        """Its place below the test."""
        return f"{self.turn}.{self.key}"

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

    def mocked_tools(self) -> Iterator[tuple[str, Node]]:
        """The mocks of tools, by their name."""
        section = self.node.get("mock_tools")
        if section is not None:
            yield from section.items()

    def turns(self) -> Iterator[tuple[str, Node]]:
        """Its messages and what is expected of each, by their path below the test, which is "" for the first."""
        return turns_of(self.node)

    def messages(self) -> Iterator[Mapping[str, Any]]:
        """The messages, each from where the one before came from, except what it says itself."""
        message: Mapping[str, Any] = {}
        for _, turn in self.turns():
            written = turn.get("message")
            said = written.plain() if written is not None and written.is_mapping else {}
            message = carry_on(message, said)
            yield message

    def expected_stages(self) -> Iterator[Expected]:
        """Every stage that something is expected of."""
        for at, turn in self.turns():
            path = f"{at}.expect" if at else "expect"
            for key in ("ran", "skipped"):
                for name, place in names_of(turn.get("expect", key)):
                    yield Expected(key, name, place, path)
            failed = turn.get("expect", "error", "stage")
            stage = text_of(failed)
            if failed is not None and stage is not None:
                yield Expected("error.stage", stage, failed.place, path)
            ended = turn.get("expect", "ended_by")
            how, colon, stage = (text_of(ended) or "").partition(":")
            if ended is not None and stage:
                yield Expected("ended_by", stage, ended.place, path, how + colon)

    def __str__(self) -> str:
        return f"test `{self.name}`"


def turns_of(test: Node) -> Iterator[tuple[str, Node]]:
    """The turns of a test, each with its `message` and what to `expect`, by their path below it: "", `then[0]`, …"""
    yield "", test
    further = test.get("then")
    if further is not None and further.is_sequence:
        yield from ((f"then[{index}]", turn) for index, turn in enumerate(further.elements()))


def is_matcher(expected: Node) -> bool:
    """Whether an expectation asks for a part of a value, as far as that can be known without the value."""
    return expected.is_mapping and bool(expected.value) and all(name in MATCHERS for name, _ in expected.items())


def answers_of(mock: Node) -> Iterator[tuple[str, Node]]:
    """What a mock answers, each by its path below the mock, which is "" for its only answer."""
    answers = mock.get("answers")
    if answers is not None and answers.is_sequence:
        yield from ((f".answers[{index}]", answer) for index, answer in enumerate(answers.elements()))
    else:
        yield "", mock


def carry_on(before: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """A message that comes from where the one before came from, except what it says itself."""
    return {**{name: before[name] for name in _CARRIED if name in before}, **message}


def cases_by_profile(document: Document) -> Mapping[str, tuple[Case, ...]]:
    """The tests of a document by the profile that each runs in, as far as that can be known."""
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
