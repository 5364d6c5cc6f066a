"""One finding in the user's words for each mistake that a validator sees, at the place where the user made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bub.base.diagnostics import Diagnostic, suggest
from bub.pipeline.check.durations import explain_bad_duration
from bub.pipeline.check.schema_finding import BAD_VALUE, make_finding
from bub.pipeline.check.unknown_keys import (
    explain_bad_name,
    explain_missing_keys,
    explain_unknown_key,
    find_sure_keys,
    find_unknown_keys,
    homes_of_keys,
)
from bub.pipeline.check.validators import pipeline_validator
from bub.pipeline.check.values import (
    describe_limit,
    explain_empty,
    explain_repeats,
    explain_unknown_value,
    explain_wrong_type,
)
from bub.pipeline.check.words import Path, describe, list_names
from bub.pipeline.plan.secret_places import setting_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.schemas import Schema, names_of_settings, settings_schema
from bub.secrets.verdict import is_kept_secret

if TYPE_CHECKING:  # importing jsonschema costs 100 ms, which only the checking functions pay
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_DURATION = "duration"
_PLUGIN_SECTION = "plugin section"
"""Titles in the schema by which a finding knows what was expected."""


def explain_layer(root: Node) -> list[Diagnostic]:
    """Every place where one file breaks the schema of pipeline files."""
    return explain_errors(root, pipeline_validator(), (), homes_of_keys(), _is_kept_secret)


def _is_kept_secret(path: Path) -> bool:
    """Whether a path of the file is that of a setting that holds a secret."""
    setting = setting_of(path)
    return setting is not None and is_kept_secret(setting, settings_schema())


def explain_errors(
    root: Node,
    validator: Validator,
    above: Path,
    homes: Mapping[str, tuple[str, ...]],
    is_hidden: Callable[[Path], bool],
) -> list[Diagnostic]:
    errors = sorted(validator.iter_errors(root.plain()), key=_weight)
    findings: list[Diagnostic] = []
    told: set[tuple[Any, ...]] = set()
    for error in errors:
        path = tuple(error.absolute_path)
        # One mistake is one finding: of several errors about one value, or one name, the weightiest is told.
        subject = (path, error.instance) if _is_about_a_name(error) else (path, error.validator == "required")
        if subject in told:
            continue
        told.add(subject)
        node, around = root.get(*path), root.get(*path[:-1])
        if node is not None and around is not None:
            findings.extend(_explain_error(error, node, around, above + path, homes, is_hidden))
    return findings


def _weight(error: ValidationError) -> int:
    order = ("type", "enum", "pattern", "additionalProperties", "required")
    return order.index(error.validator) if error.validator in order else len(order)


def _is_about_a_name(error: ValidationError) -> bool:
    where = error.schema_path
    return len(where) > 1 and where[-2] == "propertyNames"


def _explain_error(
    error: ValidationError,
    node: Node,
    around: Node,
    path: Path,
    homes: Mapping[str, tuple[str, ...]],
    is_hidden: Callable[[Path], bool],
) -> Iterator[Diagnostic]:
    """The findings about one error at `node`, which is in `around`."""
    schema: Schema = error.schema if isinstance(error.schema, Mapping) else {}
    said = schema.get("errorMessage")
    rule = error.validator
    if _is_about_a_name(error):
        yield explain_bad_name(str(error.instance), said, node, path)
    elif rule == "additionalProperties":
        known = list(schema.get("properties", ()))
        fixes = find_sure_keys(node, known)
        for name in find_unknown_keys(schema, node):
            yield explain_unknown_key(name, node.value[name], path, known, homes, fixes.get(name))
    elif rule == "required":
        yield from explain_missing_keys(schema, node, path)
    elif schema.get("title") == _PLUGIN_SECTION and (
        node.value is not None or suggest(str(path[-1]), names_of_settings())
    ):
        name = str(path[-1])
        fix = find_sure_keys(around, names_of_settings()).get(name)
        yield explain_unknown_key(name, node, path[:-1], names_of_settings(), {}, fix)
    elif rule == "type" and node.value is None:
        yield explain_empty(schema, node, path)
    elif schema.get("title") == _DURATION:
        yield explain_bad_duration(f"{describe(path)} {said}", node, path, is_told=not is_hidden(path))
    elif rule == "type" or (rule == "pattern" and isinstance(schema.get("type"), list)):
        # A typed key admits text only as a reference, so text that is none has the wrong type.
        yield explain_wrong_type(schema, node, path, is_hidden(path))
    elif rule == "enum":
        yield explain_unknown_value(schema, node, path, is_hidden(path))
    elif rule == "uniqueItems":
        yield from explain_repeats(node, path)
    elif rule in ("minProperties", "minItems", "minLength") and not node.value:
        keys = list(schema.get("properties", ()))
        hint = f"known keys: {list_names(keys)}" if keys else None
        yield make_finding(BAD_VALUE, f"{describe(path)} is empty", node.where, path, help=hint)
    else:
        yield make_finding(BAD_VALUE, f"{describe(path)} {said or describe_limit(error)}", node.place, path)
