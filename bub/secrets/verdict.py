"""Whether a setting is a secret: decided here alone, for all that shows settings, writes them or asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from bub.base.json_schema import Schema, Steps, fits, schemas_along, speakers
from bub.secrets.literals import looks_like_key
from bub.secrets.names import SECRET_SETTING, may_name_secret


def is_secret(value: Any, setting: Steps, schema: Schema) -> bool:
    """Whether the `value` of a setting has to be hidden; `setting` is the way to it, `schema` that of all settings.

    It is if the setting `is_kept_secret`. It also is if it `may_be_secret` and no schema knows the setting, or its
    value has not the type that the schema wants: a key may have been pasted there. Nothing, a boolean and a collection
    are no secrets, though what is in a collection may be.
    """
    if value is None or isinstance(value, bool | dict | list | tuple):
        return False
    if is_kept_secret(setting, schema):
        return True
    *_, said = schemas_along(schema, setting)
    if not said:
        return may_be_secret(str(value), [step for step in setting if isinstance(step, str)])
    return looks_like_key(str(value)) and not all(fits(value, one, schema) for one in said)


def may_be_secret(text: str, unknown: Iterable[str]) -> bool:
    """Whether a value below names that no schema knows may be a secret, as far as it or these names tell."""
    return looks_like_key(text) or any(map(may_name_secret, unknown))


def is_kept_secret(setting: Steps, schema: Schema) -> bool:
    """Whether a setting holds a secret, whatever its value: its schema marks it as one, or its name says so."""
    return is_named(setting) or is_marked(setting, schema)


def is_marked(setting: Steps, schema: Schema) -> bool:
    """Whether the schema says `writeOnly` of a setting, or of what it is a part of."""
    said = (one for schemas in schemas_along(schema, setting) for one in schemas)
    return any(speaker.get("writeOnly") for one in said for speaker in speakers(one, schema))


def is_named(setting: Steps) -> bool:
    """Whether the name of a setting, or of what it is a part of, is that of a secret: `api_key`, `telegram.token`."""
    return any(isinstance(step, str) and re.search(SECRET_SETTING, step) for step in setting)
