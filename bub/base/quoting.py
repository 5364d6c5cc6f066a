"""Quoted text of a file: without the defaults of its references and the passwords of its addresses."""

from __future__ import annotations

import re

ELIDED = "…"
"""What stands for what is left out, and at the end of what is cut short."""

ENV_DEFAULT = r"\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*):-(?P<default>[^}]*)"
"""A reference with a default, as a pattern; it may be cut short, since quoted text is."""

_WEB = r"(?P<web>\b[Hh][Tt][Tt][Pp][Ss]?://(?=[^/?#\s:@]+@))"
_USER = r"://[^/?#\s:]*:"
_TOKEN = r"[^/?#\s\"'`<>]+(?=@)|[^/?#\s:@]+(?=@)"
_PASSWORD = r"(?:(?!://)[^\s\"'`<>])+(?=@)|[^/?#\s@]+(?=@)"

IN_ADDRESS = rf"(?:{_WEB}|{_USER})(?P<secret>(?(web)(?:{_TOKEN})|(?:{_PASSWORD})))"
"""A password in an address; in an address of the web, also what is written as the user.

It goes up to the last `@` before a blank or a quote: whoever writes it by hand does not quote an `@`, `/` or `#` in it.
So it may hide too much, such as a port and a path with an `@`, rather than too little.
"""

IN_QUERY = (
    r"(?i)(?<=[?&])[^=&#?\s]*(?:key|token|secret|password|passphrase|credentials?|signature|\bsig)="
    rf"(?!\$\{{)(?P<secret>[^&#\s\"'`<>{ELIDED}]+)"
)
"""What the query of an address calls a secret, except a reference, which only stands for one."""

_CUT = rf"(?!\d+[/?#])(?:(?!://)[^\s\"'`<>{ELIDED}])*{ELIDED}|[^/?#\s@{ELIDED}]*{ELIDED}"
_CUT_ADDRESS = (
    rf"(?:{_WEB}|{_USER})".replace("://", ":/{1,2}") + rf"(?P<secret>(?(web)(?:{_TOKEN})|(?:{_CUT}|{_PASSWORD})))"
)
"""The same in what may be cut short, or was taken for a path; only what looks like a port may be before the cut."""


def quotable(text: str) -> str:
    """The text without the defaults of its references and the passwords of its addresses."""
    if "${env:" in text:
        text = re.sub(ENV_DEFAULT, lambda found: f"${{env:{found['name']}:-{ELIDED}", text)
    return hide_passwords(text)


def hide_passwords(text: str) -> str:
    """The text without the passwords of its addresses, in their queries too, also of one that is cut short."""
    if ":/" not in text:
        return text

    def elide(found: re.Match[str]) -> str:
        return f"{found[0].removesuffix(found['secret'])}{ELIDED}"

    text = re.sub(_CUT_ADDRESS, elide, text)
    return re.sub(IN_QUERY, elide, text) if "?" in text else text
