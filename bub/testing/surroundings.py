"""What is around one test: variables of the environment and settings that only it has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document, Layer, merge


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process until the block is left."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def with_settings(document: Document, settings: Node | None) -> Document:
    """Return the document with settings laid over those of each of its profiles."""
    if settings is None:
        return document
    profiles = document.root.get("profiles")
    names = dict.fromkeys((DEFAULT_PROFILE, *(name for name, _ in (profiles.items() if profiles is not None else ()))))
    own = replace(settings, key=None)
    laid = replace(settings, value={name: replace(own, value={"settings": settings}) for name in names})
    version = {name: node for name, node in document.root.items() if name == "version"}  # as every file has it
    root = replace(document.root, value={**version, "profiles": laid})
    layer = Layer(document.layers[-1].name, document.file, root)
    return replace(document, layers=(*document.layers, layer), root=merge(document.root, root))
