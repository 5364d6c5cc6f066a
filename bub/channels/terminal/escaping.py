"""Text of models and tools as a terminal may show it: nothing in it moves a cursor or turns a line."""

from __future__ import annotations

import re

# Control characters, marks that turn the direction of a line, other ends of lines, and halves of a character.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


# Letters and marks that print as nothing, or as the blank that they are not.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

_BLANK_END = re.compile(" $")


def escape_controls(text: str) -> str:
    r"""Return the text with an escape (`\x1b`) in place of what a terminal would act on; lines end with `\n` alone."""
    if _ACTING.search(text) is None:
        return text
    return _ACTING.sub(_escape_match, text.replace("\r", ""))


def escape_invisible(text: str) -> str:
    """Return the text, of one line or more, with an escape in place of everything that is not to be seen.

    For what a person is to judge: two strings that differ look different.
    """
    return "\n".join(_BLANK_END.sub(r"\\x20", "".join(map(_escape_letter, line))) for line in text.split("\n"))


def _escape_match(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _escape_letter(letter: str) -> str:
    if letter.isprintable() and _UNSEEN.match(letter) is None:
        return letter
    return letter.encode("unicode_escape").decode()


_PLAINER = str.maketrans(
    {"…": "...", "•": "*", "●": "*", "✗": "x", "·": "-", "\u2014": "-", "✔": "x", "▶": ">", "○": "-"}
)


def encodable(text: str, encoding: str | None) -> str:
    """Return the text with plainer signs in place of those that the terminal's encoding does not have."""
    if (encoding or "").lower().replace("-", "") in ("utf8", "utf8sig"):
        return text
    known = encoding or "ascii"
    try:
        text.encode(known)
    except UnicodeEncodeError:
        return text.translate(_PLAINER).encode(known, "replace").decode(known)
    return text
