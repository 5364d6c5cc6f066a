"""What secrets are called: the one place that says which settings, variables and parts of an address hold one."""

from __future__ import annotations

import re

from bub.base.diagnostics import is_slip
from bub.base.quoting import IN_ADDRESS

SECRET_WORDS = "(?:key|token|secret|password|passphrase|credentials?)"
"""How the name of a secret ends, as a pattern for any case."""

SECRET_SETTING = rf"(?i){SECRET_WORDS}$"
"""The name of a setting that is a secret, whatever its schema says; a pattern, compiled once it is needed."""

SECRET_VARIABLE = (
    r"(?i)TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL|COOKIE|API_?KEY|PRIVATE|WEBHOOK|AUTHORIZATION"
    r"|(^|_)(KEY|KEYS|PASS|PAT|JWT)(_|$)|_(PWD|AUTH|DSN)$"
)
"""The name of a variable that may hold a secret. Of those there are more kinds, since every program has its own."""

SECRET_HEADER = r"(?i)auth|key|token|secret|password|cookie|credential|signature"
"""The name of an HTTP header that may hold a secret; the schema of `providers.NAME.headers` says the same."""

SECRET_IN_ADDRESS = f"{IN_ADDRESS}@"
"""An address with a password, or for the web with what is in the place of a user, which is a token."""


_SLIPS_FOR = ("key", "token", "secret", "password", "passphrase", "credential", "apikey")


def may_name_secret(name: str) -> bool:
    """Whether a name that nobody knows may be a slip for that of a secret: `api_kye`, `tokn`, `pass`."""
    if is_secret_variable(f"_{name}"):
        return True
    parts = re.split(r"[\W_]+", name.lower())
    return any(part == word or is_slip(part, word) for part in parts for word in _SLIPS_FOR)


def is_secret_variable(name: str) -> bool:
    """Whether a variable's name is that of a secret."""
    return bool(re.search(SECRET_SETTING, name) or re.search(SECRET_VARIABLE, name))
