"""What a test asks of a text is written as `contains` or `matches`, and what a text has to match is a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.base.diagnostics import Place, suggest
from bub.pipeline.check.cases import MATCHERS, Case, is_matcher
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node

CODE, NOTHING = "B153", "B194"


def check(plan: Plan, case: Case) -> None:
    """Find what is no regular expression, what is asked in other words, and parts that every text has (warnings)."""
    for at, turn in case.turns():
        expect = turn.get("expect")
        if expect is None:
            continue
        top = f"{at}.expect".lstrip(".")
        for path, node, place in _texts(expect):
            if node.is_mapping and not is_matcher(node):
                unknown = next((name for name, _ in node.items() if name not in MATCHERS), "")
                if path.startswith("outbounds") and suggest(unknown, MATCHERS) is None:
                    continue  # what a reply holds is up to who makes it
                plan.findings.add_unknown(
                    CODE,
                    f"{case} expects a text that is a mapping, with `{unknown}`" if unknown else f"{case} asks nothing",
                    place if not unknown else node.value[unknown].where,
                    unknown,
                    MATCHERS,
                    path=f"{case.path}.{top}.{path}",
                    help="write the text itself, `{contains: TEXT}` or `{matches: PATTERN}`",
                )
        for path, how, node in _parts(expect, top):
            problem = _problem(node.value) if how == "matches" else None
            if problem is not None:
                plan.findings.add(
                    CODE,
                    f"{case} cannot match this: {problem}",
                    node.place,
                    path=f"{case.path}.{path}",
                    help="write a regular expression of Python; to look for the text itself, use `contains`",
                )
            elif node.value == "":
                plan.findings.warn(
                    NOTHING,
                    f'{case} asks for a text that {how} `""`, and every text does',
                    node.place,
                    path=f"{case.path}.{path}",
                    help='write what the text must have, or expect `""`',
                )


def _texts(expect: Node) -> Iterator[tuple[str, Node, Place]]:
    """What is held against a text, by its path."""
    for name in ("session_id", "model_output"):
        node = expect.get(name)
        if node is not None:
            yield name, node, node.where
    for name, key in (("streamed", None), ("outbounds", "content"), ("tool_calls", "name"), ("tool_calls", "result")):
        section = expect.get(name)
        for index, item in enumerate(section.elements() if section is not None else ()):
            node = item.get(key) if key is not None else item
            if node is not None:
                yield f"{name}[{index}]{f'.{key}' if key is not None else ''}", node, node.where


def _parts(node: Node, path: str) -> Iterator[tuple[str, str, Node]]:
    """What a value has to contain or match, by its path; not the fields that are called so, beside others."""
    if node.is_sequence:
        for index, item in enumerate(node.elements()):
            yield from _parts(item, f"{path}[{index}]")
    elif node.is_mapping:
        asks = is_matcher(node)
        for name, below in node.items():
            if not asks:
                yield from _parts(below, f"{path}.{name}")
                continue
            for one in below.elements() if below.is_sequence else (below,):
                yield f"{path}.{name}", name, one
                if name == "contains":
                    yield from _parts(one, f"{path}.{name}")


def _problem(pattern: object) -> str | None:
    if not isinstance(pattern, str):
        return "it is not a string"
    if "${" in pattern:
        return None
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None
