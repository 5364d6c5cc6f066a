"""What the fuzzer makes: bytes, texts of the signs of YAML, and files of the corpus with something changed."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent.parent
CORPUS = sorted(path for path in (ROOT / "tests" / "testdata").rglob("*.yaml")) + sorted(ROOT.glob("pipelines/*.yaml"))
TEXTS = tuple(path.read_bytes().decode("utf-8", errors="surrogateescape") for path in CORPUS)

_TOKEN = r"\s+|[\w.${}-]+|."
_WORDS = tuple(sorted({word for text in TEXTS for word in re.findall(r"[\w.-]{2,30}", text)}))
_LINE_ENDS = ("\n", "\r", "\r\n", "\x85", "\u2028")
_ODD = (
    *("", " ", "\t", "  ", "\n", "\r", "\u00a0", "\u200b", "\ufeff", "\u2028", "\x00", "\x1b[31m", "\x85", "\udcff"),
    *("-", "- ", "?", "? ", ":", ": ", ",", "[", "]", "{", "}", "#", " #", "&", "&a ", "*", "*a", "!", "!!str ", "|"),
    *(">", "'", '"', "%", "@", "`", "<<", "<<: *a", "---", "...", "--- ", "~", "null", "\\", '"\\x', '"\\uD800"'),
    *('"\\U00110000"', "yes", "on", "true", "1", "0", "-1", "1.0", "1e999", ".inf", ".nan", "0x", "0o8", "9" * 400),
    *("1_0", "2026-01-01", "30s", "5", "-5s", "1h30m", "é", "e\u0301", "日本", "\U0001f469\u200d\U0001f467", "\u202e"),
    *("\u017f", "\u0130", "\u212a", "x-", "$", "$$", "${", "${env:", "${env:FUZZ_SECRET}", "${env:A:-b}"),
    *("${file:/etc/passwd}", "${{ env.A }}", "{content}", "bub:default"),
)
_PIECES = st.sampled_from((*_ODD, *_LINE_ENDS, "\n  ", "\n    ", "\n- ", ": ", ": ", ", ")) | st.sampled_from(_WORDS)

soup = st.lists(_PIECES, max_size=60).map("".join)
"""Signs and words in any order."""


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A file of the corpus with one to five changes: of a token, a line, an indentation, or a block of another file."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 5))):
        text = draw(st.sampled_from((_change_token, _change_line, _shift, _transplant, _cut)))(draw, text)
    return text


def _change_token(draw: st.DrawFn, text: str) -> str:
    tokens = re.findall(_TOKEN, text, re.DOTALL) or [""]
    at, other = (draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
    match draw(st.sampled_from(("swap", "replace", "insert", "delete", "copy"))):
        case "swap":
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case "replace":
            tokens[at] = draw(_PIECES)
        case "insert":
            tokens.insert(at, draw(_PIECES))
        case "delete":
            del tokens[at]
        case _:
            tokens[at] = tokens[other]
    return "".join(tokens)


def _change_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(("swap", "delete", "repeat", "join", "end"))):
        case "swap":
            lines[at], lines[other] = lines[other], lines[at]
        case "delete":
            del lines[at]
        case "repeat":
            lines[at:at] = [lines[at]] * draw(st.sampled_from((1, 2, 40)))
        case "join":
            lines[at] = lines[at].rstrip()
        case _:
            lines[at] = lines[at].rstrip() + draw(st.sampled_from(_LINE_ENDS))
    return "".join(lines)


def _shift(draw: st.DrawFn, text: str) -> str:
    """Move a few lines to the right, or to the left as far as they go."""
    lines = text.splitlines(keepends=True) or [""]
    start = draw(st.integers(0, len(lines) - 1))
    by = draw(st.sampled_from((" ", "  ", "    ", "\t", "-", -1, -2)))
    for at in range(start, min(len(lines), start + draw(st.integers(1, 4)))):
        line = lines[at]
        lines[at] = by + line if isinstance(by, str) else line[min(-by, len(line) - len(line.lstrip(" "))) :]
    return "".join(lines)


def _transplant(draw: st.DrawFn, text: str) -> str:
    """Put a block of another file in the place of a line, indented as that line is."""
    lines, others = text.splitlines(keepends=True) or [""], draw(st.sampled_from(TEXTS)).splitlines() or [""]
    at, start = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(others) - 1))
    depth = _indent(others[start])
    end = start + 1
    while end < len(others) and (_indent(others[end]) > depth or not others[end].strip()):
        end += 1
    block = [" " * _indent(lines[at]) + line[depth:] + "\n" for line in others[start:end]]
    return "".join([*lines[:at], *block, *lines[at + draw(st.integers(0, 1)) :]])


def _cut(draw: st.DrawFn, text: str) -> str:
    start, end = sorted(draw(st.integers(0, len(text))) for _ in range(2))
    return text[:start] if draw(st.booleans()) else text[:start] + text[min(end, start + 20) :]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _encoded(text: str) -> bytes:
    """The bytes of a text; what stands for a byte that was no UTF-8 becomes that byte again."""
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text).encode("utf-8", errors="surrogateescape")


inputs: st.SearchStrategy[bytes] = (
    changed().map(_encoded) | changed().map(_encoded) | soup.map(_encoded) | st.binary(max_size=300)
)
"""Any file at all, mostly such as begin as a pipeline file."""
