"""What one glob says of another, told from their texts alone."""

from __future__ import annotations

from fnmatch import fnmatchcase


def covers(wide: str, narrow: str) -> bool:
    """Whether all that `narrow` matches is matched by `wide`; False where that cannot be told."""
    if wide == narrow or wide == "*":
        return True
    if "?" in narrow or "[" in narrow:
        return False
    # Read as a text, a `*` of the narrow one must meet one of the wide one: nothing else matches texts of any length.
    return ("*" not in narrow or not ("?" in wide or "[" in wide)) and fnmatchcase(narrow, wide)


def may_meet(one: str, other: str) -> bool:
    """Whether something may be matched by both; True where that cannot be told."""
    return covers(one, other) or covers(other, one) or (is_glob(one) and is_glob(other))


def is_glob(text: str) -> bool:
    """Whether a text may match another than itself."""
    return any(sign in text for sign in "*?[")
