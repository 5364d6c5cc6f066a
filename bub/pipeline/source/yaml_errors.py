"""What a YAML syntax error means, in the words of the person who wrote the file."""

from __future__ import annotations

import re
from collections.abc import Callable

from bub.pipeline.source.yaml_faults import (
    SYNTAX,
    TAG,
    Fault,
    indentation_end,
    indentation_tab,
    look_alike_fault,
    look_alike_of_a_space,
    tab_fault,
)
from bub.secrets.literals import secret_starts

_LONGEST_KEY = 1_024
"""How many characters YAML (§7.4.3) gives a key of a single line."""


def explain_error(error: Exception, text: str, innermost: int) -> Fault:
    """Say what the parser's `error` about `text` means, and where the mistake is.

    `innermost` is where the mapping or list begins that the parser was reading.
    libyaml and PyYAML's own parser use different words for one thing; both are known here.
    """
    problem = str(getattr(error, "problem", None) or "")
    context = str(getattr(error, "context", None) or "")
    end = len(text)
    at = min(_index(getattr(error, "problem_mark", None), end), end)
    opened = min(_index(getattr(error, "context_mark", None), at), end)
    if "flow node" in context and not text[at:].strip():
        return _open_bracket(text, at, innermost)
    tab = None if "quoted scalar" in context else _tab_before(text, at)
    if tab is not None:
        return tab_fault(*tab)
    for line in (_line_start(text, at), _line_start(text, opened)):
        alike = look_alike_of_a_space(text, line)
        if alike is not None:
            return look_alike_fault(text, alike)
    for words, explain in _EXPLANATIONS:
        if re.search(words, f"{context}: {problem}"):
            return explain(text, at, opened)
    return Fault(SYNTAX, f"this is not valid YAML: {problem or 'it cannot be read'}", None, *_token(text, at))


def _index(mark: object, otherwise: int) -> int:
    index = getattr(mark, "index", None)
    return index if isinstance(index, int) else otherwise


def _tab_before(text: str, at: int) -> tuple[int, int] | None:
    end = at
    while end < len(text) and text[end] in " \t":
        end += 1
    if "\t" in text[at:end]:
        first = text.index("\t", at)
        return first, first + len(re.match(r"\t+", text[first:]).group())  # type: ignore[union-attr]  # a tab is there
    line = _line_start(text, at)
    return indentation_tab(text, line, at) if at <= indentation_end(text, line) else None


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_end(text: str, at: int) -> int:
    found = re.compile(r"[\r\n]").search(text, at)
    return found.start() if found else len(text)


def _line_number(text: str, at: int) -> int:
    return len(re.findall(r"\r\n|\r|\n", text[:at])) + 1


def _token(text: str, at: int) -> tuple[int, int]:
    """Return the stretch of a word at `at`: at least one character, never past the end of its line."""
    found = re.compile(r"[^\s,\[\]{}:]+").match(text, at)
    return at, found.end() if found else min(at + 1, max(_line_end(text, at), at))


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a stretch without the white space at its two ends."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _quote_token(text: str, at: int) -> str:
    line = _line_start(text, at)
    lines = re.split(r"\r\n|\r|\n", text[: _line_end(text, at)])
    secret = secret_starts(lines).get(len(lines) - 1)
    if secret is not None and at - line >= secret and at < len(text):
        return "this text"
    start, end = _token(text, at)
    shown = text[start : min(end, start + 30)]
    if shown:
        return f"`{shown}`"
    return "the end of the line" if at < len(text) else "the end of the file"


def _second_colon(text: str, at: int, opened: int) -> Fault:
    line = _line_start(text, at)
    before = text[line:at]
    key = re.match(r"[\s\-]*[^\s:][^:]*:\s+", before)
    if key and key.end() < len(before):
        start, end = _strip(text, line + key.end(), _line_end(text, at))
        return Fault(
            SYNTAX,
            "a value that contains `: ` must be in quotes",
            "put quotes around the whole value, or move what follows the first `:` to a line of its own",
            start,
            end,
        )
    above = text[:line].rstrip()
    if not above:
        return Fault(
            SYNTAX,
            "a key cannot be here",
            f"write `key: value` on a line of its own, with a key of at most {_LONGEST_KEY:,} characters",
            *_strip(text, line, at),
        )
    start, end = _strip(text, _line_start(text, len(above)), len(above))
    if ":" not in above[start:]:
        return Fault(SYNTAX, "this line has no `:` behind its key", "write `key: value`", start, end)
    if not re.search(r":(\s|$)", above[start:]):
        return Fault(SYNTAX, "the `:` behind a key needs a space after it", "write `key: value`", start, end)
    return Fault(
        SYNTAX,
        "this key is indented deeper than the line above, which has a value already",
        "give it the indentation of the line above, or remove the value of that line",
        *_strip(text, line, at),
        related=("the value is here", start, end),
    )


def _no_key(text: str, at: int, opened: int) -> Fault:
    line = _line_start(text, at)
    if text[line:at].strip():
        return Fault(
            SYNTAX,
            f"{_quote_token(text, at)} follows a value that has ended already",
            "put the whole value in quotes; inside single quotes write '' for a quote",
            at,
            max(_strip(text, at, _line_end(text, at))[1], at),
        )
    if re.match(r"-(\s|$)", text[at:]):
        return Fault(
            SYNTAX,
            "a key is expected here, not a list item",
            "indent the list below its key, and give that key no other value",
            at,
            at + 1,
        )
    column = opened - _line_start(text, opened) + 1
    return Fault(
        SYNTAX,
        "this line is not indented like the entries it belongs to",
        f"all entries of a mapping begin in the same column: column {column} for the mapping that begins in line "
        f"{_line_number(text, opened)}",
        *_token(text, at),
        related=("the mapping begins here", *_token(text, opened)),
    )


def _no_item(text: str, at: int, opened: int) -> Fault:
    return Fault(
        SYNTAX,
        f"a list item is expected here, not {_quote_token(text, at)}",
        "begin it with `- `, or give it the indentation of what it belongs to",
        *_token(text, at),
        related=("the list begins here", opened, opened + 1),
    )


def _reserved_sign(text: str, at: int, opened: int) -> Fault:
    sign = text[at : at + 1]
    return Fault(
        SYNTAX,
        f"a value cannot begin with {'a backtick' if sign == '`' else f'`{sign}`'}",
        "put the value in quotes",
        *_token(text, at),
    )


def _open_quote(text: str, at: int, opened: int) -> Fault:
    return Fault(
        SYNTAX,
        f"the quote {text[opened : opened + 1]} is opened here and never closed",
        "close it at the end of the value",
        opened,
        opened + 1,
    )


def _open_bracket(text: str, at: int, opened: int) -> Fault:
    bracket = text[opened : opened + 1]
    close = "]" if bracket == "[" else "}"
    if at >= len(text) or _line_start(text, at) != _line_start(text, opened):
        return Fault(
            SYNTAX,
            f"the `{bracket}` opened here is not closed",
            f"close it with `{close}`, and put a comma between its items",
            opened,
            opened + 1,
        )
    return Fault(
        SYNTAX,
        f"`,` or `{close}` is expected here, not {_quote_token(text, at)}",
        "put a comma between items, and quotes around text with `: ` or brackets in it",
        *_token(text, at),
        related=(f"the `{bracket}` is opened here", opened, opened + 1),
    )


def _no_content(text: str, at: int, opened: int) -> Fault:
    return Fault(
        SYNTAX,
        f"a value is expected here, not {_quote_token(text, at)}",
        "write the value, or quotes around it if this is meant as text",
        *_token(text, at),
    )


def _no_colon(text: str, at: int, opened: int) -> Fault:
    start, end = _strip(text, opened, _line_end(text, opened))
    if re.compile(r":(\s|$)").search(text, start + _LONGEST_KEY, end):
        return Fault(SYNTAX, f"a key has at most {_LONGEST_KEY:,} characters", "write a shorter one", start, end)
    return Fault(SYNTAX, "this line has no `:` behind its key", "write `key: value`", start, end)


def _bad_escape(text: str, at: int, opened: int) -> Fault:
    start = text.rfind("\\", opened, at + 1)
    start = at if start < 0 else start
    return Fault(
        SYNTAX,
        f"`{text[start : start + 2]}` is not an escape that YAML knows here",
        "write `\\\\` for a backslash, or use single quotes",
        start,
        min(start + 2, len(text)),
    )


def _bare_star(text: str, at: int, opened: int) -> Fault:
    sign = text[opened : opened + 1]
    return Fault(
        SYNTAX,
        f"text that begins with `{sign}` must be in quotes",
        f'write "{sign}…" in quotes',
        opened,
        max(_token(text, opened)[1], opened + 1),
    )


def _bad_tag(text: str, at: int, opened: int) -> Fault:
    return Fault(TAG, "YAML tags are not allowed", "put text that begins with `!` in quotes", *_token(text, opened))


def _list_beside_key(text: str, at: int, opened: int) -> Fault:
    return Fault(
        SYNTAX,
        "a list cannot begin on the line of its key",
        "begin the list on the next line, or write it as `[a, b]`",
        at,
        at + 1,
    )


def _question_mark(text: str, at: int, opened: int) -> Fault:
    return Fault(SYNTAX, "a value cannot begin with `? `", "put the value in quotes", at, at + 1)


def _block_header(text: str, at: int, opened: int) -> Fault:
    sign = text[opened : opened + 1]
    return Fault(
        SYNTAX,
        f"text cannot follow `{sign}` on the same line",
        "begin the text on the next line, indented; or put the value in quotes",
        *_strip(text, at, _line_end(text, at)),
    )


def _after_the_end(text: str, at: int, opened: int) -> Fault:
    return Fault(
        SYNTAX,
        f"{_quote_token(text, at)} follows the end of the document",
        "the file is one mapping: `key: value` on every line, from the first column",
        *_token(text, at),
    )


def _directive(text: str, at: int, opened: int) -> Fault:
    start = _line_start(text, at)
    return Fault(
        SYNTAX,
        "a line that begins with `%` is a YAML directive, and Bub does not use them",
        "remove the line",
        *_strip(text, start, _line_end(text, start)),
    )


_EXPLANATIONS: tuple[tuple[str, Callable[[str, int, int], Fault]], ...] = (
    ("mapping values are not allowed|unexpected ':'", _second_colon),
    ("directive|incompatible YAML document", _directive),
    ("scanning (an alias|an anchor)", _bare_star),
    ("(scanning|parsing) a tag|undefined tag handle", _bad_tag),
    ("escape|hexd?e?cimal", _bad_escape),
    ("quoted scalar: found unexpected", _open_quote),
    ("block scalar", _block_header),
    (r"expected ',' or", _open_bracket),
    ("could not find expected ':'", _no_colon),
    ("cannot start any token", _reserved_sign),
    ("node content", _no_content),
    ("document start", _after_the_end),
    ("sequence entries are not allowed", _list_beside_key),
    ("mapping keys are not allowed", _question_mark),
    ("block mapping: .*expected", _no_key),
    ("block collection: .*expected", _no_item),
)
"""What the parser says (context and problem), and what is meant; the first that matches counts."""
