"""What a model writes as Telegram shows it: a text and its entities, in parts that each fit into one message."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from telegramify_markdown import convert
from telegramify_markdown.config import RenderConfig

LONGEST_TEXT = 4096
"""How long the text of one message may be, in UTF-16 units."""

LONGEST_CAPTION = 1024

_CUT = "…\n"
_KINDS = frozenset(
    {
        *("bold", "italic", "underline", "strikethrough", "code", "pre", "text_link"),
        *("blockquote", "expandable_blockquote"),
    }
)
_SCHEMES = ("http://", "https://", "tg://", "mailto:", "tel:")

# The converter drops HTML, takes `$a/$b` for a formula and `a || b || c` for a spoiler, so that what is written there
# is lost. Such characters go through it as ones that no text has: of the same width, so that each entity stays where
# it is. A `<` stays that begins an address or an escape.
_TAG = re.compile(r"<(?<!\\<)(?<!\]\(<)(?![a-z][a-z0-9+.-]{1,31}:[^\s<>]*>)", re.IGNORECASE)
_STAND_INS = {"<": "\ufdd0", "$": "\ufdd1", "|": "\ufdd2", "*": "\ufdd3"}
_NONE_OF_THEM = {ord(one): "\ufffd" for one in _STAND_INS.values()}
_BACK = {ord(stand_in): one for one, stand_in in _STAND_INS.items()}

# `2*3*4` is a product: stars with a letter or a digit on either side begin nothing, unless they end what began before.
_STARS = re.compile(
    r"(?P<styled>(?<![\w*\\)\]])(?P<mark>\*{1,3})(?![\s*])[^*\n]*(?<![\s*])(?P=mark)(?!\*))"
    r"|(?<=[0-9A-Za-z)\]])\*{1,2}(?=[0-9A-Za-z(\[])"
)

# What nobody writes by hand, and what takes long: lists in lists in lists, each a little further to the right.
_DEEP = re.compile(r"^(?:[ \t]*(?:>|(?:[*+-]|\d{1,9}[.)])[ \t])){20}", re.MULTILINE)
_LONGEST_MARKDOWN = 65_536


class Entity(NamedTuple):
    """A part of a text and what is special about it, as Telegram names that; in UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Styled:
    """A text, and what of it is bold, code, a link…"""

    text: str
    entities: tuple[Entity, ...] = ()

    def __len__(self) -> int:
        """Return the length in UTF-16 units, as Telegram counts."""
        return len(self.text.encode("utf-16-le")) // 2


def plain(text: str) -> Styled:
    """Return a text without what cannot be sent: half a character is replaced, and lines end in one way."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Styled(whole.replace("\r\n", "\n").replace("\r", "\n").rstrip())


def render(markdown: str) -> Styled:
    """Markdown as Telegram shows it. Whatever is no Markdown, and an unclosed marker, stays as it was written.

    So does all of a text that is very long or deeply nested.
    """
    source = plain(markdown).text.translate(_NONE_OF_THEM)
    if len(source) > _LONGEST_MARKDOWN or _DEEP.search(source):
        return Styled(source)
    source = _STARS.sub(lambda found: found[0] if found["styled"] else _STAND_INS["*"] * len(found[0]), source)
    hidden = _TAG.sub(_STAND_INS["<"], source).replace("$", _STAND_INS["$"]).replace("||", _STAND_INS["|"] * 2)
    text, found = convert(hidden, latex_escape=False, config=_look())
    text = text.translate(_BACK).rstrip()
    if not text:  # nothing of it can be seen, such as a list of the links of a page
        return Styled(source.translate(_BACK))
    entities = [
        Entity(one.type, one.offset, one.length, _restore(one.url), _restore(one.language))
        for one in found
        if one.type in _KINDS and (one.type != "text_link" or str(one.url).lower().startswith(_SCHEMES))
    ]
    return Styled(text, tuple(_nest(entities, len(Styled(text)))))


def split(styled: Styled, longest: int = LONGEST_TEXT) -> list[Styled]:
    """Cut a text into parts of at most `longest` units: between paragraphs if possible, else lines, else words.

    What is styled across a cut is styled in both parts. Only white space at the cuts is left out.
    """
    units = _units(styled.text)
    parts, start = [], 0
    while start < len(styled.text):
        furthest = bisect_right(units, units[start] + longest) - 1
        end, following = _find_cut(styled.text, start, furthest)
        part = _piece(styled, units, start, end)
        if part.text.strip():
            parts.append(part)
        start = following
    return parts


def end_of(styled: Styled, longest: int = LONGEST_TEXT) -> Styled:
    """Return the text, or its last `longest` units behind a sign that there is more."""
    units = _units(styled.text)
    if units[-1] <= longest:
        return styled
    start = bisect_left(units, units[-1] - longest + len(_CUT))
    line = styled.text.find("\n", start, start + longest // 3)
    return _piece(styled, units, line + 1 if line >= 0 else start, len(styled.text), before=_CUT)


def _units(text: str) -> list[int]:
    """Return where each character begins, and where the last one ends, in UTF-16 units."""
    return list(accumulate((2 if one > "\uffff" else 1 for one in text), initial=0))


def _find_cut(text: str, start: int, furthest: int) -> tuple[int, int]:
    """Return where a part that begins at `start` and goes to `furthest` at most ends, and where the next one begins."""
    if furthest >= len(text):
        return len(text), len(text)
    least = start + (furthest - start) // 3  # a part is never cut so that next to nothing is left of it
    for between in ("\n\n", "\n", " "):
        end = text.rfind(between, least, furthest + len(between))
        if end > start:
            following = end + len(between)
            while between != " " and text.startswith("\n", following):
                following += 1
            return end, following
    return furthest, furthest


def _piece(styled: Styled, units: list[int], start: int, end: int, *, before: str = "") -> Styled:
    text = styled.text[start:end].rstrip()
    first, last, shift = units[start], units[start + len(text)], len(before) - units[start]
    entities = []
    for one in styled.entities:
        if one.offset < last and one.end > first:
            begins, ends = max(one.offset, first), min(one.end, last)
            entities.append(one._replace(offset=begins + shift, length=ends - begins))
    return Styled(before + text, tuple(entities))


def _nest(entities: Iterable[Entity], length: int) -> list[Entity]:
    """Sort the entities: each lies within the text and within those that it begins in, none in one of its kind."""
    nested: list[Entity] = []
    around: list[Entity] = []
    for one in sorted(entities, key=lambda one: (one.offset, -one.length)):
        while around and around[-1].end <= one.offset:
            around.pop()
        end = min(one.end, around[-1].end if around else length)
        if end <= one.offset or any(_is_like(one, outer) for outer in around):
            continue
        around.append(one._replace(length=end - one.offset))
        nested.append(around[-1])
    return nested


def _is_like(one: Entity, other: Entity) -> bool:
    return one.type == other.type or ("blockquote" in one.type and "blockquote" in other.type)


def _restore(value: str | None) -> str | None:
    return value.translate(_BACK) if value else None


@cache
def _look() -> RenderConfig:
    """Return the configuration that marks headings, lists and tasks as soberly as possible."""
    look = RenderConfig.isolated()
    symbols = look.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item = "•"
    symbols.task_completed, symbols.task_uncompleted = "☑", "☐"
    return look
