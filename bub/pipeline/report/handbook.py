"""What each code of a finding means: the sections of `docs/diagnostics.md`, one a code, as a terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bub.base.resources import locate_shipped

_WIDTH = 80

_HEADING = r"(?m)^## (B\d{3}): (.*)$"
_FENCED = r"(?ms)^```\w*\n(.*?)^```$"
_LINK = r"\[([^]]*)\]\([^)]*\)"


def codes() -> Mapping[str, str]:
    """Return every code with its title, which has no full stop, in the order of the codes."""
    return {code: title for code, (title, _) in _sections().items()}


def address_of(code: str, pages: str | None = None) -> str:
    """Return where the page of a code can be read: at `pages`, which is its address in the web, else on this machine.

    What there is no page of leads to the page as a whole.
    """
    page = pages or _page().absolute().as_uri()
    found = _sections().get(code)
    if found is None:
        return page
    # As GitHub makes anchors of headings.
    return f"{page}#{re.sub(r'[^a-z0-9 _-]', '', f'{code} {found[0]}'.lower()).replace(' ', '-')}"


def page_of(code: str) -> str | None:
    """Return what a code means, with a bad and a mended example, for a terminal; None for a code that there is not.

    It is Markdown without fences and links, examples indented and the rest 80 columns wide. It ends with a line break.
    """
    import textwrap  # only where a page is shown

    found = _sections().get(code)
    if found is None:
        return None
    title, text = found
    # Split at its fenced blocks, a text alternates between prose and what stands in a block.
    paragraphs = [f"{code}: {title}"]
    for index, part in enumerate(re.split(_FENCED, text)):
        paragraphs += [textwrap.indent(part.rstrip(), "    ")] if index % 2 else _fill_paragraphs(part)
    return "\n\n".join(paragraphs) + "\n"


def _fill_paragraphs(prose: str) -> list[str]:
    """Return the paragraphs and lists of a text, wrapped, with its links as their words."""
    import textwrap

    def fill(item: str) -> str:
        indent = "  " if item.startswith("- ") else ""
        return textwrap.fill(" ".join(item.split()), _WIDTH, subsequent_indent=indent, break_on_hyphens=False)

    plain = re.sub(_LINK, r"\1", prose).strip()
    return ["\n".join(map(fill, re.split(r"\n(?=- )", part))) for part in plain.split("\n\n") if part]


@cache
def _sections() -> Mapping[str, tuple[str, str]]:
    """Return the title and the text of each code's section."""
    page = _page().read_text(encoding="utf-8")
    _, *parts = re.split(_HEADING, page)
    return {code: (title, text) for code, title, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def _page() -> Path:
    return Path(str(locate_shipped("docs") / "diagnostics.md"))
