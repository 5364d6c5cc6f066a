"""What a text has to match is a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.pipeline.check.cases import Case, is_matcher
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node

CODE = "B153"


def check(plan: Plan, case: Case) -> None:
    """Find what stands under `matches` and cannot be read as a regular expression."""
    for at, turn in case.turns():
        expect = turn.get("expect")
        for path, node in _patterns(expect, f"{at}.expect".lstrip(".")) if expect is not None else ():
            problem = _problem(node.value)
            if problem is not None:
                plan.findings.add(
                    CODE,
                    f"{case} cannot match this: {problem}",
                    node.place,
                    path=f"{case.path}.{path}",
                    help="write a regular expression as Python reads it; for a text as it is, say `contains`",
                )


def _patterns(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """What has to match, by its path; not the arguments or fields that are called so, beside others."""
    if node.is_sequence:
        for index, item in enumerate(node.elements()):
            yield from _patterns(item, f"{path}[{index}]")
    elif node.is_mapping:
        for name, below in node.items():
            if name != "matches" or not is_matcher(node):
                yield from _patterns(below, f"{path}.{name}")
                continue
            for one in below.elements() if below.is_sequence else (below,):
                yield f"{path}.{name}", one


def _problem(pattern: object) -> str | None:
    if not isinstance(pattern, str):
        return "it is no text"
    if "${" in pattern:
        return None
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None
