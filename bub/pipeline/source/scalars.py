"""Unquoted scalars as the core schema of YAML 1.2 reads them."""

from __future__ import annotations

import re

from bub.pipeline.source.document import Plain

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = r"[-+]?[0-9]+"
_BASED = r"0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_INFINITE = r"([-+]?)\.(inf|Inf|INF)"
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_ENDS = frozenset("0123456789abcdefABCDEF.nN")
"""How a number ends, hexadecimal, `.inf` and `.nan` included; a time-out such as `5s` is found to be text by it."""
_LONGEST_NUMBER = 300
"""Digits beyond this are an identifier, not a quantity (and Python refuses to read 4,300 of them)."""

TRUTH_ELSEWHERE = frozenset(
    spelling for word in ("y", "n", "yes", "no", "on", "off") for spelling in (word, word.upper(), word.capitalize())
)
"""Text in YAML 1.2, true or false in YAML 1.1, which many tools still read."""


def read_scalar(text: str) -> Plain:
    """Read an unquoted scalar as the core schema of YAML 1.2 does (§10.3.2): `1` is a number, `no` is text."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in "+-.0123456789" or text[-1] not in _ENDS or len(text) > _LONGEST_NUMBER:
        return text
    if re.fullmatch(_INTEGER, text):
        return int(text)
    if re.fullmatch(_BASED, text):
        return int(text, 0)
    if re.fullmatch(_FLOAT, text):
        return float(text)
    if found := re.fullmatch(_INFINITE, text):
        return float(f"{found.group(1)}inf")
    return float("nan") if text in _NAN else text
