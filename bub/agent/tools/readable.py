"""What a web page says, as text that a model can read: no scripts and styles, links and headings kept."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)")
_HREF = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "textarea", "select"})
_BLOCK = (
    "address|article|aside|blockquote|body|dd|details|div|dl|dt|fieldset|figure|footer|form|h[1-6]|header|hr|html|li"
    "|main|nav|ol|p|pre|section|summary|table|tbody|thead|title|tr|ul"
)
_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)} | {"li": "- ", "title": "# "}


def readable(page: str) -> str:
    """Return the text of an HTML page.

    It is read once from left to right, and each search ends or gets further, so that a hostile page takes no longer
    than an honest one of its length; the parser of the standard library can take hours for a megabyte.
    """
    written: list[str] = []
    links: list[str] = []
    preformatted = 0
    at = 0
    while (begin := page.find("<", at)) != -1:
        written.append(_text(page[at:begin], written, preformatted))
        if page.startswith("<!--", begin):
            at = _behind(page, "-->", begin + 4)
            continue
        tag = _TAG.match(page, begin)
        if tag is None and not page.startswith(("<!", "<?", "</"), begin):
            written.append("<")
            at = begin + 1
            continue
        at = _behind(page, ">", begin)
        if tag is None:
            continue
        closes, name = bool(tag[1]), tag[2].lower()
        if name in _UNSEEN and not closes:
            end = re.compile(f"</{name}", re.IGNORECASE).search(page, at)
            at = _behind(page, ">", end.start()) if end is not None else len(page)
        elif name == "a":
            if not closes:
                links.append(_address(page[tag.end() : at]))
            elif links and (address := links.pop()):
                written.append(f" ({address})")
        elif name == "br":
            written.append("\n")
        elif name in ("td", "th"):
            written.append(" " if closes else "")
        elif re.fullmatch(_BLOCK, name):
            if name == "pre":
                preformatted = max(0, preformatted + (-1 if closes else 1))
            if closes or not _begins_item(written):
                written.append("\n\n" if closes else f"\n\n{_HEADINGS.get(name, '')}")
    written.append(_text(page[at:], written, preformatted))
    return _tidy("".join(written))


def _behind(page: str, mark: str, start: int) -> int:
    found = page.find(mark, start)
    return found + len(mark) if found != -1 else len(page)


def _text(piece: str, written: list[str], preformatted: int) -> str:
    try:
        said = _unescape(piece)
    except ValueError:  # a character by a number of thousands of digits
        said = piece
    if preformatted:
        return said
    said = re.sub(r"\s+", " ", said)
    return said.lstrip(" ") if written and written[-1].endswith(("\n", " ")) else said


def _begins_item(written: list[str]) -> bool:
    """Whether a heading or an item has just begun, so that a paragraph in it begins on its line."""
    last = next((piece for piece in reversed(written[-3:]) if piece), "")
    return last.endswith(("- ", "# ")) and last.startswith("\n")


def _address(attributes: str) -> str:
    found = _HREF.search(attributes)
    if found is None:
        return ""
    address = _unescape(found[1] or found[2] or found[3] or "").strip()[:2000]
    return "" if address.startswith(("#", "javascript:", "data:")) else address


def _tidy(text: str) -> str:
    """At most one blank line in a row, and no item of a list apart from the next."""
    lines = [line.rstrip() for line in text.split("\n")]
    kept: list[str] = []
    for line in lines:
        if line.strip() or (kept and kept[-1]):
            kept.append(line if line.strip() else "")
    return re.sub(r"\n\n(?=- )", "\n", "\n".join(kept)).strip()


def _unescape(text: str) -> str:
    import html  # its table of names takes a millisecond that only a page pays

    return html.unescape(text)
