"""What the search of the site reads: each section of each page, with its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes


def words_of(doc: str, tree: nodes.document) -> Iterator[dict[str, Any]]:
    """Yield each section: `at` is its address, `page` the title of its page, `head` its headings, `text` the rest."""
    page = next(iter(tree.findall(nodes.title)), nodes.title()).astext()
    for section in tree.findall(nodes.section):
        heads = [one.next_node(nodes.title) for one in _way_to(section)]
        at = "" if len(heads) == 1 else f"#{_anchor(section)}"
        text = " ".join(
            one.astext() for one in section.children if not isinstance(one, nodes.section | nodes.title | nodes.comment)
        )
        yield {
            "at": f"{doc}.html{at}",
            "page": page,
            "head": ": ".join(head.astext() for head in heads[1:] if head is not None),
            "text": " ".join(text.split()),
        }


def _way_to(section: nodes.section) -> list[nodes.section]:
    """Return the sections that a section is in, and itself."""
    way: list[nodes.section] = []
    node: nodes.Element | None = section
    while node is not None:
        if isinstance(node, nodes.section):
            way.insert(0, node)
        node = node.parent
    return way


def _anchor(section: nodes.section) -> str:
    return str(section.get("slug") or section["ids"][0])
