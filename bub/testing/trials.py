"""The `tests:` of a pipeline file, made ready to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic, Place
from bub.base.duration import parse_duration
from bub.pipeline.check.cases import carry_on, turns_of
from bub.pipeline.check.schema import check_layer
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import Environment, resolve
from bub.pipeline.source.merge import Document, without
from bub.testing.mocks import Answer, Mock, Mocks


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message of a test, and what has to come of it; `path` is written before what a failure is about."""

    message: Mapping[str, Any]
    expect: Node
    place: Place
    path: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One test: messages go in, `mocks` stand in for what is not to run, and something has to come of it.

    `profile` is None if a run chooses it. `env` are variables and `settings` settings that only it has. `trouble` says
    why it cannot run: a reference that stands for nothing, or for what cannot be there.
    """

    file: str
    name: str
    place: Place
    profile: str | None
    exchanges: tuple[Exchange, ...]
    mocks: Mocks
    env: Mapping[str, str]
    settings: Node | None
    trouble: tuple[Diagnostic, ...] = ()

    @property
    def id(self) -> str:
        """The name to choose it by: `pipelines.yaml::a greeting gets a reply`."""
        return f"{self.file}::{self.name}"


def trials_of(document: Document, environment: Environment) -> Iterator[Trial]:
    """Yield the tests of a file that holds to the schema, in the order they are written."""
    section = document.root.get("tests")
    for name, written in section.items() if section is not None else ():
        trouble: list[Diagnostic] = []
        # What its settings refer to is looked up with them, in the environment of the test.
        bare = without(written, ["settings"])
        test = _resolve_references(bare, document, environment, f"tests.{name}", trouble)
        if not trouble and test.plain() != bare.plain():
            trouble += _check(name, test, document.root)
        profile, env = test.get("profile"), test.get("env")
        yield Trial(
            file=document.file,
            name=name,
            place=written.where,
            profile=profile.plain() if profile is not None else None,
            exchanges=tuple(_exchanges(test)),
            env={variable: str(node.value) for variable, node in env.items()} if env is not None else {},
            settings=written.get("settings"),
            mocks=Mocks(_mocks(test.get("mock")), _mocks(test.get("mock_tools"))),
            trouble=tuple(trouble),
        )


def _exchanges(test: Node) -> Iterator[Exchange]:
    """Yield the messages of a test, each with what it leaves out of where it comes from."""
    message: Mapping[str, Any] = {}
    for path, turn in turns_of(test):
        written = turn.get("message")
        message = carry_on(message, written.plain() if written is not None else {})
        yield Exchange(message, turn.get("expect") or turn, turn.where, f"{path}." if path else "")


def _check(name: str, test: Node, root: Node) -> list[Diagnostic]:
    """Return what the references of one test gave, checked like a file."""
    tests = replace(test, value={name: test})
    version = {key: node for key, node in root.items() if key == "version"}
    return check_layer(replace(root, value={**version, "tests": tests}))


def _mocks(section: Node | None) -> dict[str, Mock]:
    return {name: _mock(name, node) for name, node in section.items()} if section is not None else {}


def _mock(name: str, node: Node) -> Mock:
    answers = node.get("answers")
    if answers is None:
        return Mock(name, (_answer(node),), node.where)
    return Mock(name, tuple(map(_answer, answers.elements())), answers.where, in_turn=True)


def _answer(node: Node) -> Answer:
    said = node.plain()
    delay = parse_duration(str(said.get("delay"))) or 0.0
    return Answer(said.get("return"), said.get("raise"), delay, said.get("tool_calls") or (), said.get("usage"))


def _resolve_references(
    node: Node, document: Document, environment: Environment, path: str, trouble: list[Diagnostic]
) -> Node:
    """Return the node with its references replaced, each value still at its place."""

    def below(child: Node, name: str) -> Node:
        return _resolve_references(child, document, environment, f"{path}{name}", trouble)

    if node.is_mapping:
        return replace(node, value={name: below(child, f".{name}") for name, child in node.items()})
    if node.is_sequence:
        return replace(node, value=tuple(below(item, f"[{index}]") for index, item in enumerate(node.elements())))
    value, found = resolve(node, environment, base=document.base, folders=document.folders, path=path)
    trouble += found
    return replace(node, value=value)
