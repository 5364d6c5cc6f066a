"""Whether a setting is a secret: decided here alone, for all that shows settings, writes them or asks for them."""

from __future__ import annotations

import re
from typing import Any

from bub.base.json_schema import Schema, Steps, fits, schemas_along, speakers
from bub.secrets.names import SECRET_SETTING


def is_secret(value: Any, setting: Steps, schema: Schema) -> bool:
    """Whether the `value` of a setting has to be hidden; `setting` is the way to it, `schema` that of all settings.

    It is when the setting `is_kept_secret`. It is as well when no schema knows the setting, or when the value has not
    the type that the schema wants: a misspelt `api_kye`, and a text where a number belongs, may well be a key.
    Nothing, a truth value and a collection are no secrets, though what is in a collection may be.
    """
    if value is None or isinstance(value, bool | dict | list | tuple):
        return False
    if is_kept_secret(setting, schema):
        return True
    *_, said = schemas_along(schema, setting)
    return not said or not all(fits(value, one, schema) for one in said)


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
