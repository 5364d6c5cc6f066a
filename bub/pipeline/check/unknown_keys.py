"""Keys that a schema does not know or lacks, and which ones were meant."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from bub.base.diagnostics import MOST_GUESSES, START, Diagnostic, Place, ask_for, suggest, sure_repair
from bub.pipeline.check.schema_finding import BAD_VALUE, MISSING, UNKNOWN_KEY, make_finding
from bub.pipeline.check.words import Path, describe, join, list_names, shorten
from bub.pipeline.source.document import Node
from bub.pipeline.source.other_names import name_here
from bub.pipeline.source.schemas import Schema, names_of_settings, pipeline_schema


@cache
def homes_of_keys() -> Mapping[str, tuple[str, ...]]:
    """Return the places that each key of the file belongs to, for the hint that a key is in the wrong place."""
    schema = pipeline_schema()
    homes: dict[str, tuple[str, ...]] = {}
    for owner in ("stage", "hook", "plugin", "server", "profile", "route", "test"):
        for key in schema["$defs"][owner]["properties"]:
            homes[key] = (*homes.get(key, ()), f"a {owner}")
    for key in schema["properties"]:
        homes[key] = (*homes.get(key, ()), "the top level")
    return homes


def find_unknown_keys(schema: Schema, node: Node) -> list[str]:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        name
        for name, _ in node.items()
        if name not in known and not any(re.search(pattern, name) for pattern in patterns)
    ]


def find_sure_keys(node: Node, known: list[str]) -> dict[str, str]:
    """The keys of a mapping that can only be slips for a known one, each with that one, if it is not there already.

    Of two that would become the same key neither is sure.
    """
    if len(node.value) > MOST_GUESSES:
        return {}  # these are no slips, and to look at each would take seconds
    meant = {name: sure for name, _ in node.items() if (sure := sure_repair(name, known)) and node.get(sure) is None}
    times = Counter(meant.values())
    return {name: sure for name, sure in meant.items() if times[sure] == 1}


def explain_unknown_key(
    name: str,
    node: Node,
    path: Path,
    known: list[str],
    homes: Mapping[str, tuple[str, ...]],
    fix: str | None,
) -> Diagnostic:
    where = f"in {describe(path)}" if path else "at the top level"
    meant = name_here(name, path, known) or suggest(name, known)
    hint = ask_for(meant)
    if hint is None and name in homes:
        hint = f"`{name}` is a key of {join(homes[name], 'or')}"
    if hint is None and known:
        hint = f"known keys: {list_names(known)}"
        if known == names_of_settings():
            hint += "; the settings of a plugin are a mapping under its name"
    message = f"unknown key `{shorten(name)}` {where}"
    return make_finding(UNKNOWN_KEY, message, node.where, (*path, name), help=hint, fix=fix, likely=meant)


def explain_missing_keys(schema: Schema, node: Node, path: Path) -> Iterator[Diagnostic]:
    if node.value == {} and node.place.range.start == node.place.range.end:
        return  # nothing is written there, as the reader has said already
    absent = [key for key in schema["required"] if node.get(key) is None]
    misspelt = {suggest(name, absent) for name in find_unknown_keys(schema, node)}
    for key in absent:
        if key in misspelt:
            continue  # told once already, as the unknown key
        subject = describe(path) if path else "the file"
        place = node.where if path else Place(node.place.file, START)
        hint = "write `version: 1` at the top of the file" if not path and key == "version" else None
        yield make_finding(MISSING, f"{subject} lacks `{key}`", place, path, help=hint)


def explain_bad_name(name: str, said: str | None, node: Node, path: Path) -> Diagnostic:
    entry = (*path, name)
    bare = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    meant = re.sub(r"\W+", "_", bare.strip().lower(), flags=re.ASCII).strip("_")
    # What has letters of another script has no spelling in ours that we could know.
    spelt = all(one.isascii() or not one.isalnum() for one in bare) and re.match("[a-z]", meant)
    hint = f"did you mean `{meant}`?" if spelt else None
    message = f"the name of {describe(entry)} {said or 'is not allowed'}"
    return make_finding(BAD_VALUE, message, node.value[name].where, entry, help=hint)
