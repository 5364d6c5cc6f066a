"""The names in the pipeline file that would be used here, read without a plugin; what is wrong in it is not said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bub.base.quoting import quotable
from bub.base.resources import shipped_pipelines
from bub.hooks.facts import BUILTIN
from bub.pipeline.report.handbook import codes
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, SHIPPED, Document, load_document, load_shipped
from bub.pipeline.source.profiles import effective

Names = Mapping[str, str]
"""Names, each with what is said about it."""

_CODE = "B"


def names_of(what: str, file: str, profile: str | None, typed: str) -> Names:
    """Return the `profiles`, `stages` (hook points, too, or codes of findings) or `plugins` of a pipeline file."""
    if what == "stages" and typed.startswith(_CODE):
        return dict(codes())
    document = load_shipped(file.removeprefix(SHIPPED)) if file.startswith(SHIPPED) else load_document(Path(file))
    match what:
        case "profiles":
            return {DEFAULT_PROFILE: "", **_described(document.root.get("profiles"))}
        case "stages":
            root = effective(document, profile or DEFAULT_PROFILE).root
            return {**_described(root.get("stages")), **_described(root.get("hooks"))}
        case _:
            return dict.fromkeys((BUILTIN, *_plugins(document)), "")


def shipped_names() -> Names:
    """Return the shipped pipelines as they are named."""
    return {f"{SHIPPED}{name}": "" for name in shipped_pipelines()}


def _described(section: Node | None) -> Names:
    found = {}
    for name, node in section.items() if section is not None else ():
        said = node.get("description")
        found[name] = quotable(str(said.value)) if said is not None else ""
    return found


def _plugins(document: Document) -> Iterator[str]:
    profiles = document.root.get("profiles")
    for _, profile in profiles.items() if profiles is not None else ():
        listed = profile.get("plugins")
        yield from (str(each.value) for each in (listed.elements() if listed is not None else ()))
    declared = document.root.get("plugins")
    yield from (name for name, _ in (declared.items() if declared is not None else ()))
