"""Reading strings that may have references in them, leniently: None if it is not known what one stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references, resolve
from bub.pipeline.source.merge import Document
from bub.secrets.within import hide_within

ReadText = Callable[[Node | None], str | None]
"""Reads a value as a string; None if it is none, or if it is not known what a reference in it stands for."""


def reader(document: Document, environment: Mapping[str, str]) -> ReadText:
    """Return what reads the strings of a document as a start does that has these variables."""

    def read(node: Node | None) -> str | None:
        if node is None or not isinstance(node.value, str):
            return None
        value, trouble = resolve(node, environment, base=document.base, folders=document.folders)
        return str(value) if value is not None and not trouble else None

    return read


def read_default(node: Node | None) -> str | None:
    """Read a string as a start does that has no variables: with the default of each reference in its place.

    It is None if a reference has no default, or one that nobody may be shown: the default of a variable that is named
    like a secret.
    """
    if node is None or not isinstance(node.value, str) or hide_within(node.value) != node.value:
        return None
    text = node.value
    for reference in reversed(references(text)):
        if not reference.default:
            return None
        text = f"{text[: reference.start]}{reference.default}{text[reference.end :]}"
    return text


def unknown_in(node: Node | None, read: ReadText) -> str | None:
    """Return a text that `read` cannot tell, as it may be shown; None for one that it can, or that is none."""
    if node is None or not isinstance(node.value, str) or read(node) is not None:
        return None
    return hide_within(node.value)
