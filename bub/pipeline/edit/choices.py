"""Values as people name and write them on a command line: which key is meant, and what value a text means there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from bub.base.diagnostics import Place, ask_for, did_you_mean
from bub.base.json_schema import Schema, Steps, join_steps
from bub.errors import UsageError
from bub.pipeline.edit.paths import Keys
from bub.pipeline.plan.origins import Lookup, schema_at, value_at
from bub.pipeline.plan.secret_places import setting_of
from bub.pipeline.plan.settings import read_text
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import lone_reference, references
from bub.pipeline.source.other_names import name_here
from bub.pipeline.source.scalars import read_scalar
from bub.pipeline.source.schemas import pipeline_schema, whole_settings_schema
from bub.plugins.schemas import installed_section

_OVERLAY = ("settings", "stages", "hooks")
"""What a profile says in the words of the file itself."""

_SECTION = "plugin section"
"""The title of what the schema says of a section that it does not know."""

_MOST_NAMED = 20
_NOWHERE = Place("")


def keys_of(lookup: Lookup, path: str) -> Keys:
    """Return the keys that a path such as `settings.telegram.token` means; `model` alone is `settings.model`.

    Raises `UsageError`, with what was probably meant, for a key that there cannot be.
    """
    top, own = set(pipeline_schema()["properties"]), set(_names_at(lookup, ("settings",)))
    first = _first_of(path, top | own)
    if first in top & own:
        raise UsageError(f"`{first}` is a key of the file and of its settings", help=f"say `settings.{path}`")
    if not all(path.split(".")):
        raise UsageError(f"`{path}` is not a path", help="name a value, such as `settings.model`")
    if "[" in path:
        raise UsageError("a list is read and set as a whole", help=f"say `{path.partition('[')[0]}`")
    keys: Keys = ("settings",) if first in own else ()
    rest = path
    while rest:
        known = _names_at(lookup, keys)
        name = _first_of(rest, known)
        if not _may_be(lookup, (*keys, name)):
            raise _unknown(keys, name, rest[len(name) :], known if keys else sorted(top | own))
        keys = (*keys, name)
        rest = rest[len(name) :].removeprefix(".")
    return keys


def below_profile(keys: Keys, profile: str) -> Keys:
    """Return the keys below a profile for what the file says at `keys`. UsageError for what no profile can say."""
    if keys[0] not in _OVERLAY:
        raise UsageError(
            f"`{'.'.join(keys)}` is the same for every profile", help=f"leave out --profile {profile}, or name a path"
        )
    return ("profiles", profile, *keys)


def value_of(lookup: Lookup, keys: Keys, words: Sequence[str]) -> Any:
    """Return the value that words mean at a path, of the type that the schema has there: `a,b` and `a` `b` are lists.

    Raises `UsageError` for words that mean none, and for a secret, which is not to be in the file as plain text.
    """
    path = ".".join(keys)
    schema = schema_at(lookup, keys) or {}
    types = _types(schema)
    is_list = "array" in types or (not types and len(words) > 1)
    if not is_list and len(words) > 1:
        raise UsageError(f"`{path}` is one value", help="put quotes around it")
    if types == ["object"]:
        raise UsageError(f"`{path}` holds keys of its own", help=f"set one of them, such as `{_example(schema, path)}`")
    if lone_reference(words[0]) is not None and len(words) == 1:
        return words[0]
    try:
        if len(words) > 1:
            items = schema_at(lookup, (*keys, 0)) or {}
            value: Any = [_read_word(word, items, lookup) for word in words]
        else:
            value = _read_word(words[0], schema, lookup)
    except ValueError as error:
        remedy = schema.get("errorMessage")
        problem = f"what was given for `{path}` {error}"
        raise UsageError(problem, help=remedy if remedy != str(error) else None) from None
    _refuse_secret(lookup, keys, value)
    return value


def _read_word(word: str, schema: Schema, lookup: Lookup) -> Any:
    """Return the value of one word; if the schema says nothing of it, the one that YAML would read."""
    if _types(schema) or "enum" in schema:
        return read_text(word, schema, lookup.settings)
    return read_scalar(word) if word else ""


def _refuse_secret(lookup: Lookup, keys: Keys, value: Any) -> None:
    parts: list[tuple[Steps, Any]] = [(keys, value)]
    if isinstance(value, list):
        parts = [((*keys, index), item) for index, item in enumerate(value)]
    for steps, part in parts:
        setting = setting_of(steps)
        is_secret = lookup.is_secret(Node(part, _NOWHERE), steps) if setting is None else lookup.is_kept_secret(setting)
        if is_secret and not (isinstance(part, str) and references(part)):
            path = ".".join(keys)
            raise UsageError(
                f"`{path}` is a secret, and the file would show it as plain text",
                help=f"`bub config set {path} --secret` asks for it and keeps it in .env;\n"
                f"`bub config set {path} --env NAME` refers to a variable",
            )


def variable_for(lookup: Lookup, keys: Keys) -> str:
    """Return the name of the variable that keeps a secret: the one that the file refers to, else one made of its path.

    A name that is made is never that of the setting itself (`BUB_…`), which would count before every profile.
    """
    node = lookup.document.layers[-1].root.get(*keys)  # what a parent refers to is not this secret's alone
    found = lone_reference(node.value) if node is not None and isinstance(node.value, str) else None
    if found is not None and found.kind == "env":
        return found.name
    setting: Keys = tuple(map(str, setting_of(keys) or keys[-1:]))
    profile = keys[1:2] if keys[0] == "profiles" else ()
    if setting == ("api_key",):
        model = value_at(lookup, (*keys[:-1], "model")) or value_at(lookup, ("settings", "model"))
        provider, colon, _ = str(model.value if model is not None else "").partition(":")
        setting = (provider if colon else "model", "api_key")
    elif setting[:1] == ("providers",):
        setting = setting[1:]
    name = re.sub("[^A-Z0-9]+", "_", "_".join((*profile, *setting)).upper()).strip("_")
    return name if name[:1].isalpha() else f"KEY_{name}"


def with_section(lookup: Lookup, keys: Keys) -> Lookup:
    """Return a lookup that knows the settings of the plugin at a path, whether or not the profile lists it."""
    setting = setting_of(keys)
    return replace(lookup, settings=whole_settings_schema(map(str, setting[:1]))) if setting else lookup


def _first_of(path: str, names: Sequence[str] | set[str]) -> str:
    """Return the first key of a path. A key may have dots in it, as the names of plugins do."""
    known = [name for name in names if path == name or path.startswith(f"{name}.")]
    return max(known, key=len, default=path.partition(".")[0])


def _names_at(lookup: Lookup, keys: Keys) -> list[str]:
    """Return the keys that there are at a path, or that the schema has for it."""
    node = value_at(lookup, keys) if keys else lookup.plan.effective.root
    schema = schema_at(lookup, keys) or {}
    written = [name for name, _ in node.items()] if node is not None else []
    return list(dict.fromkeys([*schema.get("properties", ()), *written]))


def _may_be(lookup: Lookup, keys: Keys) -> bool:
    schema = schema_at(lookup, keys)
    if schema is None:
        return False
    if schema.get("title") != _SECTION:
        return True
    # Any key of the settings may be the section of a plugin; it is a slip if there is no such plugin.
    name, declared = keys[-1], lookup.plan.root.get("plugins")
    listed = [plugin for plugin, _ in lookup.plan.allowlist]
    return (
        name in [*listed, *(plugin for plugin, _ in (declared.items() if declared is not None else ()))]
        or value_at(lookup, keys) is not None
        or installed_section(name) is not None
    )


def _types(schema: Schema) -> list[str]:
    stated = schema.get("type", ())
    types = [stated] if isinstance(stated, str) else list(stated)
    return types + [name for inner in schema.get("anyOf", ()) for name in _types(inner)]


def _example(schema: Schema, path: str) -> str:
    return f"{path}.{next(iter(schema.get('properties', ())), 'KEY')}"


def _unknown(above: Keys, name: str, rest: str, known: Sequence[str]) -> UsageError:
    near = ask_for(name_here(name, above, known)) or did_you_mean(name, known)
    if above and near is not None:
        near = near.replace("`", f"`{join_steps(above)}.", 1)
    if near is not None:
        near = near.replace("`?", f"{rest}`?")
    listed = ", ".join(f"`{one}`" for one in known[:_MOST_NAMED])
    where = f"`{join_steps(above)}` has" if above else "a pipeline file and its settings have"
    return UsageError(f"{where} no `{name}`", help=near or (f"known there: {listed}" if known else None))
