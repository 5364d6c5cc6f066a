"""The names and versions in what packages say they need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*\(?(?P<said>[^;@)]*)\)?\s*"
    r"(?P<address>@[^;]*)?(?:;(?P<marker>.*))?$",
    re.DOTALL,
)
_CLAUSE = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([0-9][0-9A-Za-z.]*?)(\.\*)?\s*$")


def canonical(name: str) -> str:
    """Return a distribution's name in the one form that installers compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_in(requirement: str) -> str:
    """Return the canonical name of what a requirement asks for; "" if it cannot be read."""
    found = _REQUIREMENT.match(requirement)
    return canonical(found["name"]) if found else ""


def as_constraints(requirements: Iterable[str]) -> Iterator[str]:
    """Yield, of what an installed package needs, the bounds that nothing new may break; extras bound nothing."""
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is None or found["address"] or not found["said"].strip():
            continue
        marker = found["marker"] or ""
        if "extra" not in marker:
            yield f"{found['name']} {found['said'].strip()}{f' ;{marker}' if marker else ''}"


def versions_in(requirements: Iterable[str], name: str) -> list[str]:
    """Return the versions that requirements on a distribution name."""
    said = [
        found["said"] for one in requirements if (found := _REQUIREMENT.match(one)) and canonical(found["name"]) == name
    ]
    return [clause[2] for one in said for part in one.split(",") if (clause := _CLAUSE.match(part))]


def allows(specifier: str, version: tuple[int, ...]) -> bool:
    """Return whether a version of Python is one that `Requires-Python` means; what cannot be read allows all."""
    return all(_allows(clause, version) for part in specifier.split(",") if (clause := _CLAUSE.match(part)))


def _allows(clause: re.Match[str], version: tuple[int, ...]) -> bool:
    sign, said, is_prefix = clause[1], clause[2], clause[3] is not None
    wanted = tuple(int(number) for number in re.findall(r"\d+", re.split(r"[a-z]", said)[0]))
    here = (*version, *(0,) * (len(wanted) - len(version)))
    if is_prefix or sign == "~=":
        prefix = wanted if is_prefix else wanted[:-1]
        is_same = here[: len(prefix)] == prefix
        return not is_same if sign == "!=" else is_same and (is_prefix or here >= wanted)
    padded = (*wanted, *(0,) * (len(here) - len(wanted)))
    comparisons = {
        "==": here == padded,
        "===": here == padded,
        "!=": here != padded,
        "<=": here <= padded,
        ">=": here >= padded,
        "<": here < padded,
        ">": here > padded,
    }
    return comparisons[sign]
