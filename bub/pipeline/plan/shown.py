"""What is shown of a document: everything but passwords in addresses, and defaults of variables named like secrets.

It is for readers that only show it: to run such a document, or to check it, would be something else.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.source.document import Node, Plain
from bub.pipeline.source.merge import Document
from bub.secrets.redactor import COVER
from bub.secrets.verdict import is_named
from bub.secrets.within import hide_within


def plan_to_show(plan: Plan) -> Plan:
    """The plan of the document as it may be shown; the plan itself if nothing is to hide."""
    document = document_to_show(plan.document)
    return plan if document is plan.document else make_plan(document, plan.profile)


def document_to_show(document: Document) -> Document:
    """The document with an ellipsis for each of them, in names too; itself if there is none."""
    roots = [_hide(layer.root) for layer in document.layers]
    if all(root is layer.root for root, layer in zip(roots, document.layers, strict=True)):
        return document
    layers = tuple(replace(layer, root=root) for root, layer in zip(roots, document.layers, strict=True))
    return replace(document, layers=layers, root=_hide(document.root))


def value_to_show(value: Plain) -> Plain:
    """A plain value without them, and without what is below a key named like a secret."""
    if isinstance(value, str):
        return hide_within(value)
    if isinstance(value, list):
        return [value_to_show(item) for item in value]
    if isinstance(value, dict):
        return {
            hide_within(name): COVER if is_named((name,)) else value_to_show(below) for name, below in value.items()
        }
    return value


def _hide(node: Node) -> Node:
    """The node with what is secret hidden; itself if nothing is."""
    value: Any = node.value
    if isinstance(value, str):
        shown = hide_within(value)
        return node if shown == value else replace(node, value=shown)
    if isinstance(value, dict):
        parts = {hide_within(name): _hide(child) for name, child in value.items()}
        return node if all(parts.get(name) is child for name, child in value.items()) else replace(node, value=parts)
    if isinstance(value, tuple):
        items = tuple(map(_hide, value))
        is_same = all(one is other for one, other in zip(items, value, strict=True))
        return node if is_same else replace(node, value=items)
    return node
