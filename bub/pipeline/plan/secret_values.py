"""The secret values of a document: what must never be shown or kept, wherever it turns up while the document runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from bub.base.json_schema import Schema, Steps
from bub.pipeline.plan.secret_places import is_given_to_server, is_named_secret, leaves_below, setting_of
from bub.pipeline.source.document import Node, walk
from bub.pipeline.source.interpolate import Environment, Reference, references, resolve
from bub.pipeline.source.merge import Document
from bub.pipeline.source.schemas import whole_settings_schema
from bub.secrets.literals import credentials_in, is_prose, looks_secret, secrets_in_addresses
from bub.secrets.names import is_secret_variable
from bub.secrets.redactor import Redactor
from bub.secrets.verdict import is_kept_secret, is_marked

Settings = Mapping[str, Any]


def redactor_of(document: Document, environment: Environment, settings: Mapping[str, Settings]) -> Redactor:
    """What covers the `secret_values` of a document."""
    return Redactor.of(secret_values(document, environment, settings))


def secret_values(document: Document, environment: Environment, settings: Mapping[str, Settings]) -> Iterator[str]:
    """Every value that has to be covered while a document runs; some may be there twice.

    `environment` is what the document's references see, `settings` are those of each profile, resolved. Secret are:

    - what `bub.secrets.verdict` says of the settings, also of those in the file that no profile in force has;
    - what is elsewhere in the file below a name that says so, when it `looks_secret`;
    - what is behind a reference of the settings, whatever it is;
    - what is behind any other reference, and in a variable named like a secret, when it `looks_secret`; a file of
      prose does not, nor does the default of a variable that is not named like one;
    - the passwords of the addresses in the file, its names included, and in variables.
    """
    for name, value in environment.items():
        if is_secret_variable(name) and looks_secret(value):
            yield value
        yield from secrets_in_addresses(value)
    schema = _schema_for(document, settings.values())
    for layer in document.layers:
        for _, node in walk(layer.root):
            for name, _ in node.items():
                yield from secrets_in_addresses(name)
        for steps, node in leaves_below(layer.root):
            yield from _secrets_as_written(node, steps, schema, document, environment)
    for resolved in settings.values():
        yield from secrets_among(resolved, schema)


def _schema_for(document: Document, settings: Iterable[Settings]) -> Schema:
    """The schema of the settings with every section in it that a document or its environment has."""
    sections = {name for resolved in settings for name in resolved}
    for layer in document.layers:
        parts = [layer.root]
        for section in (layer.root.get("profiles"), layer.root.get("tests")):
            parts += [part for _, part in (section.items() if section is not None else ())]
        below = [part.get("settings") for part in parts]
        sections.update(name for node in below if node is not None for name, _ in node.items())
    declared = document.root.get("plugins")
    # A plugin that comes from a file has nothing to do with an installed package of its name.
    from_packages = (name for name in sections if declared is None or declared.get(name, "path") is None)
    return whole_settings_schema(sorted(from_packages))


def _secrets_as_written(
    node: Node, steps: Steps, schema: Schema, document: Document, environment: Environment
) -> Iterator[str]:
    """The secrets of one value as a file has it."""
    setting = setting_of(steps)
    found = references(node.value) if isinstance(node.value, str) and "$" in node.value else []
    if not found:
        if setting is not None:
            yield from _secrets_of(node.value, setting, schema)
        elif isinstance(node.value, str):
            yield from secrets_in_addresses(node.value)
            if is_named_secret(steps) and looks_secret(node.value):
                yield node.value
        return

    def behind(part: Node) -> str:
        value, _ = resolve(part, environment, base=document.base, folders=document.folders)
        return "" if value is None else str(value)

    is_kept = is_given_to_server(steps) or (setting is not None and is_kept_secret(setting, schema))
    if setting is not None:
        yield behind(node)
    for reference in found:
        value = behind(replace(node, value=node.value[reference.start : reference.end]))
        yield from secrets_in_addresses(value)
        if is_kept or (looks_secret(value) and not _is_harmless(reference, value, environment)):
            yield value


def _is_harmless(reference: Reference, value: str, environment: Environment) -> bool:
    """Whether a value that a reference stands for is prose in a file, or in sight as the default of a harmless name."""
    if reference.kind == "file":
        return is_prose(value)
    return not environment.get(reference.name) and not is_secret_variable(reference.name)


def secrets_among(value: Any, schema: Schema, setting: Steps = ()) -> Iterator[str]:
    """The secrets among resolved settings, or in the part of them at `setting`; `schema` is that of all settings."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from secrets_among(below, schema, (*setting, name))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from secrets_among(below, schema, (*setting, index))
    else:
        yield from _secrets_of(value, setting, schema)


def _secrets_of(value: Any, setting: Steps, schema: Schema) -> Iterator[str]:
    """What is secret of the value of one setting."""
    if isinstance(value, str):
        yield from credentials_in(value) if is_kept_secret(setting, schema) else secrets_in_addresses(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and is_kept_secret(setting, schema):
        # `max_token: 1024` is no key, and 1024 is found everywhere.
        yield from (str(value),) if is_marked(setting, schema) or looks_secret(str(value)) else ()
