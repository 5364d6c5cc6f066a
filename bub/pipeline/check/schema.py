"""The JSON Schema of pipeline files: checks one file against it and says each mistake in the user's words."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from bub.base.diagnostics import (
    MOST_GUESSES,
    START,
    Diagnostic,
    Place,
    Related,
    Severity,
    did_you_mean,
    suggest,
    sure_repair,
)
from bub.base.resources import shipped_schema
from bub.hooks.facts import KIND_KEYS, KINDS
from bub.pipeline.plan.origins import setting_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.schemas import (
    pipeline_schema,
    settings_schema,
    settings_schema_with,
    shipped_sections,
    whole_settings_schema,
)
from bub.plugins.schemas import installed_section
from bub.secrets.verdict import is_kept_secret, is_marked, is_named

if TYPE_CHECKING:  # importing jsonschema costs 100 ms, which only the checking functions pay
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]

UNKNOWN_KEY = "B100"
WRONG_TYPE = "B101"
UNKNOWN_VALUE = "B102"
MISSING = "B103"
BAD_DURATION = "B104"
BAD_VALUE = "B105"
BROKEN_SCHEMA = "B106"
LITERAL_SECRET = "B040"

_DURATION = "duration"
_NAME = "name"
_PLUGIN_SECTION = "plugin section"
"""Titles in the schema by which a finding knows what was expected."""


def check_layer(root: Node) -> list[Diagnostic]:
    """Every place where one file breaks the schema of pipeline files.

    A file may be an overlay, so the keys that only some kinds know are not judged here but on the merged document.
    """
    return _check(root, _pipeline_validator(), (), _homes(), _is_kept_secret)


def check_section(plugin: str, section: Node, schema: Schema, *, profile: str | None = None) -> list[Diagnostic]:
    """Every place where a plugin's section under `settings` breaks the plugin's own schema.

    `profile` is given when the section stands in that profile's settings.
    """
    above: Path = ("settings", plugin) if profile is None else ("profiles", profile, "settings", plugin)
    # Where a reference leads back to a `$schema`, the library would go on with a validator of its own.
    bare = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}

    def is_hidden(path: Path) -> bool:
        return is_named(path[len(above) - 1 :]) or is_marked(path[len(above) :], bare)

    return _check(section, _validator_class()(bare), above, {}, is_hidden)


def check_sections(root: Node, sections: Mapping[str, Schema]) -> list[Diagnostic]:
    """Every place where a plugin's section, in `settings` or a profile's, breaks the plugin's schema in `sections`."""
    findings = []
    for profile, settings in _all_settings(root):
        for plugin, section in settings.items():
            if plugin not in sections or not section.is_mapping:
                continue
            try:
                findings += check_section(plugin, section, sections[plugin], profile=profile)
            except RecursionError:  # a circle of references shows only when a value is held against them
                findings.append(_not_checked(plugin, section, "its schema refers to itself in a circle"))
    return findings


def sections_of(root: Node, declared: Node | None = None) -> tuple[dict[str, Schema], list[Diagnostic]]:
    """The schemas for the plugins' sections of one file, and a warning for each that an installed package has broken.

    `declared` is the `plugins` of the whole document: a plugin that comes from a file has nothing to do with an
    installed package of its name. Packages are only asked where a section is neither Bub's own nor of a shipped plugin.
    """
    schemas, findings = dict(shipped_sections()), []
    for _, settings in _all_settings(root):
        for plugin, section in settings.items():
            from_file = declared is not None and declared.get(plugin, "path") is not None
            if plugin in schemas or plugin in _settings() or from_file or not section.is_mapping:
                continue
            found = installed_section(plugin)
            if found is not None and found.schema is not None:
                schemas[plugin] = found.schema
            elif found is not None:
                findings.append(_not_checked(plugin, section, f"{found.source} {found.problem}"))
    return schemas, findings


def _not_checked(plugin: str, section: Node, reason: str) -> Diagnostic:
    message = f"the settings of plugin `{plugin}` are not checked: {reason}"
    hint = "tell the author of the package that brings it"
    return _finding(BROKEN_SCHEMA, message, section.where, ("settings", plugin), help=hint, severity="warning")


def _all_settings(root: Node) -> Iterator[tuple[str | None, Node]]:
    """The file's own settings and those of each profile that has some, with the profile's name."""
    own, profiles = root.get("settings"), root.get("profiles")
    if own is not None:
        yield None, own
    for name, profile in profiles.items() if profiles is not None else ():
        settings = profile.get("settings")
        if settings is not None:
            yield name, settings


def literal_secrets(root: Node, sections: Mapping[str, Schema] | None = None) -> list[Diagnostic]:
    """A warning for each secret that stands in the file itself instead of a reference to it.

    A secret is here what a schema marks as one; `sections` holds the schemas of the plugins' settings by plugin. The
    secret is never part of the finding.
    """
    schema = settings_schema_with(sections or {})
    findings = []
    for profile, settings in _all_settings(root):
        above: Path = ("settings",) if profile is None else ("profiles", profile, "settings")
        for setting, node in _marked(settings, schema):
            if _holds_literal(node):
                findings.append(
                    _finding(
                        LITERAL_SECRET,
                        f"{_say((*above, *setting))} is a secret and stands in the file as plain text",
                        node.place,
                        (*above, *setting),
                        help="write `${env:NAME}` or `${file:PATH}` instead, and keep the secret out of the file",
                        severity="warning",
                    )
                )
    return findings


def editor_schema(plugins: Iterable[str] = ()) -> dict[str, Any]:
    """The schema for editors, made anew, with the sections of the shipped plugins and what is installed for `plugins`.

    Without `plugins` it is the published one.
    """
    settings = whole_settings_schema(plugins, pointer="#/$defs/settings")
    return with_generated_parts(pipeline_schema(), settings)


# What the schema says about kinds is generated, so that editors and the compiler cannot disagree.


def kind_conditions() -> list[dict[str, Any]]:
    """The `if/then` blocks by which editors refuse a stage key that the stage's kind does not know."""
    return [
        {
            "if": _kind_is(kind for kind in KINDS if kind not in knowing),
            "then": {"properties": {key: False}, "errorMessage": f"`{key}` is known only to {_either(knowing, 'and')}"},
        }
        for key, knowing in KIND_KEYS.items()
    ]


def policy_conditions() -> list[dict[str, Any]]:
    """The `if/then` blocks by which editors refuse an `on_failure` that the kind does not know."""
    by_policies: dict[tuple[str, ...], list[str]] = {}
    for kind in KINDS.values():
        by_policies.setdefault(tuple(sorted(kind.policies)), []).append(kind.name)
    return [
        {
            "if": _kind_is(kinds),
            "then": {
                "properties": {
                    "on_failure": {
                        "enum": list(policies),
                        "errorMessage": f"must be {_either(policies)} with {_either(kinds)}",
                    }
                }
            },
        }
        for policies, kinds in by_policies.items()
    ]


def with_generated_parts(schema: Schema, settings: Schema) -> dict[str, Any]:
    """The published schema with what is generated made anew: the rules about kinds, and the settings in its `$defs`."""
    defs = {**schema["$defs"]}
    defs["stage"] = {**defs["stage"], "allOf": [*kind_conditions(), *policy_conditions()]}
    defs["hook"] = {**defs["hook"], "allOf": policy_conditions()}
    defs["settings"] = {keyword: value for keyword, value in settings.items() if keyword != "$schema"}
    return {**schema, "$defs": defs}


def _kind_is(kinds: Iterable[str]) -> dict[str, Any]:
    return {"properties": {"kind": {"enum": list(kinds)}}, "required": ["kind"]}


# Validators


@cache
def _validator_class() -> type[Validator]:
    import jsonschema
    from jsonschema.validators import extend

    # 2.0 is no count and NaN no temperature: stricter than JSON Schema, since the engine needs real integers.
    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: (
                isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            ),
        }
    )

    def pattern(_: Validator, wanted: str, value: Any, __: Schema) -> Iterator[ValidationError]:
        # In Python `$` also matches before a last line break, which it does in no editor.
        at_the_end = wanted[:-1] + r"\Z" if wanted.endswith("$") and not wanted.endswith(r"\$") else wanted
        if isinstance(value, str) and not re.search(at_the_end, value):
            yield jsonschema.ValidationError("does not match its pattern")

    base = jsonschema.Draft202012Validator
    stricter: type[Validator] = extend(base, {"pattern": pattern}, type_checker=types)  # type: ignore[no-untyped-call]
    return stricter


@cache
def _pipeline_validator() -> Validator:
    schema = pipeline_schema()
    # The sections of plugins are checked one by one, each against a schema of its own.
    resolved: dict[str, Any] = _resolved(schema, {**schema["$defs"], "settings": settings_schema()})
    return _validator_class()(resolved)


_OF_PROPERTIES = ("properties", "patternProperties")
_OF_ONE = ("items", "additionalProperties", "propertyNames")
_LEFT_OUT = ("$schema", "$ref", "$defs", "allOf", "description", "markdownDescription", "defaultSnippets", "examples")


def _resolved(schema: Any, defs: Schema) -> Any:
    """The schema without references, annotations and the conditions about kinds: three times as fast to check."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        schema = {**defs[schema["$ref"].removeprefix("#/$defs/")], **schema}
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _OF_PROPERTIES:
            result[keyword] = {name: _resolved(below, defs) for name, below in value.items()}
        elif keyword in _OF_ONE:
            result[keyword] = _resolved(value, defs)
        elif keyword not in _LEFT_OUT:
            result[keyword] = value
    return result


@cache
def _homes() -> Mapping[str, tuple[str, ...]]:
    """Where each key of the file belongs, for the hint that a key stands in the wrong place."""
    schema = pipeline_schema()
    homes: dict[str, tuple[str, ...]] = {}
    for owner in ("stage", "hook", "plugin", "profile", "route", "test"):
        for key in schema["$defs"][owner]["properties"]:
            homes[key] = (*homes.get(key, ()), f"a {owner}")
    for key in schema["properties"]:
        homes[key] = (*homes.get(key, ()), "the top level")
    return homes


# From errors to findings


def _is_kept_secret(path: Path) -> bool:
    """Whether a path of the file is that of a setting that holds a secret."""
    setting = setting_of(path)
    return setting is not None and is_kept_secret(setting, settings_schema())


def _check(
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
            findings.extend(_explain(error, node, around, above + path, homes, is_hidden))
    return findings


def _weight(error: ValidationError) -> int:
    order = ("type", "enum", "pattern", "additionalProperties", "required")
    return order.index(error.validator) if error.validator in order else len(order)


def _is_about_a_name(error: ValidationError) -> bool:
    where = error.schema_path
    return len(where) > 1 and where[-2] == "propertyNames"


def _explain(
    error: ValidationError,
    node: Node,
    around: Node,
    path: Path,
    homes: Mapping[str, tuple[str, ...]],
    is_hidden: Callable[[Path], bool],
) -> Iterator[Diagnostic]:
    """The findings about one error at `node`, which stands in `around`."""
    schema: Schema = error.schema if isinstance(error.schema, Mapping) else {}
    said = schema.get("errorMessage")
    rule = error.validator
    if _is_about_a_name(error):
        yield _bad_name(str(error.instance), said, node, path)
    elif rule == "additionalProperties":
        known = list(schema.get("properties", ()))
        fixes = _sure_keys(node, known)
        for name in _unknown_keys(schema, node):
            yield _unknown_key(name, node.value[name], path, known, homes, fixes.get(name))
    elif rule == "required":
        yield from _missing(schema, node, path)
    elif schema.get("title") == _PLUGIN_SECTION and (node.value is not None or suggest(str(path[-1]), _settings())):
        name = str(path[-1])
        fix = _sure_keys(around, _settings()).get(name)
        yield _unknown_key(name, node, path[:-1], _settings(), {}, fix)
    elif rule == "type" and node.value is None:
        yield _empty(schema, node, path)
    elif schema.get("title") == _DURATION:
        yield _bad_duration(f"{_say(path)} {said}", node, path)
    elif rule == "type" or (rule == "pattern" and isinstance(schema.get("type"), list)):
        # A typed key admits text only as a reference, so text that is none has the wrong type.
        yield _wrong_type(schema, node, path, is_hidden(path))
    elif rule == "enum":
        yield _unknown_value(schema, node, path, is_hidden(path))
    elif rule == "uniqueItems":
        yield from _repeated(node, path)
    elif rule in ("minProperties", "minItems", "minLength") and not node.value:
        keys = list(schema.get("properties", ()))
        hint = f"known keys: {_list(keys)}" if keys else None
        yield _finding(BAD_VALUE, f"{_say(path)} is empty", node.where, path, help=hint)
    else:
        yield _finding(BAD_VALUE, f"{_say(path)} {said or _limit(error)}", node.place, path)


def _finding(
    code: str,
    message: str,
    place: Place,
    path: Path,
    *,
    help: str | None = None,  # noqa: A002 (the reader's word)
    fix: str | None = None,
    severity: Severity = "error",
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    profile = str(path[1]) if len(path) > 1 and path[0] == "profiles" else None
    return Diagnostic(code, severity, message, place.file, place.range, _dotted(path), profile, help, fix, related)


def _unknown_keys(schema: Schema, node: Node) -> list[str]:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        name
        for name, _ in node.items()
        if name not in known and not any(re.search(pattern, name) for pattern in patterns)
    ]


def _sure_keys(node: Node, known: list[str]) -> dict[str, str]:
    """The keys of a mapping that can only be slips for a known one, each with that one, where it is not there already.

    Of two that would become the same key neither is sure.
    """
    if len(node.value) > MOST_GUESSES:
        return {}  # these are no slips, and to look at each would take seconds
    meant = {name: sure for name, _ in node.items() if (sure := sure_repair(name, known)) and node.get(sure) is None}
    times = Counter(meant.values())
    return {name: sure for name, sure in meant.items() if times[sure] == 1}


_ELSEWHERE = {
    "depends_on": "needs",
    "dependsOn": "needs",
    "requires": "needs",
    "if": "when",
    "jobs": "stages",
    "tasks": "stages",
    "include": "extends",
    "continue-on-error": "on_failure",
}
"""Keys that other tools have, of files like ours, and what they are called here; no spelling tells it."""


def _unknown_key(
    name: str,
    node: Node,
    path: Path,
    known: list[str],
    homes: Mapping[str, tuple[str, ...]],
    fix: str | None,
) -> Diagnostic:
    where = f"in {_say(path)}" if path else "at the top level"
    here = _ELSEWHERE.get(name)
    hint = f"did you mean `{here}`?" if here in known else did_you_mean(name, known)
    if hint is None and name in homes:
        hint = f"`{name}` is a key of {_join(homes[name], 'or')}"
    if hint is None and known:
        hint = f"known keys: {_list(known)}"
        if known == _settings():
            hint += "; the settings of a plugin are a mapping under its name"
    message = f"unknown key `{_short(name)}` {where}"
    return _finding(UNKNOWN_KEY, message, node.where, (*path, name), help=hint, fix=fix)


@cache
def _settings() -> list[str]:
    return list(settings_schema()["properties"])


def _missing(schema: Schema, node: Node, path: Path) -> Iterator[Diagnostic]:
    if node.value == {} and node.place.range.start == node.place.range.end:
        return  # nothing is written there, as the reader has said already
    absent = [key for key in schema["required"] if node.get(key) is None]
    misspelt = {suggest(name, absent) for name in _unknown_keys(schema, node)}
    for key in absent:
        if key in misspelt:
            continue  # told once already, as the unknown key
        subject = _say(path) if path else "the file"
        place = node.where if path else Place(node.place.file, START)
        hint = "write `version: 1` at the top of the file" if not path and key == "version" else None
        yield _finding(MISSING, f"{subject} lacks `{key}`", place, path, help=hint)


def _bad_name(name: str, said: str | None, node: Node, path: Path) -> Diagnostic:
    entry = (*path, name)
    bare = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    meant = re.sub(r"\W+", "_", bare.strip().lower(), flags=re.ASCII).strip("_")
    # What has letters of another script has no spelling in ours that we could know.
    spelt = all(one.isascii() or not one.isalnum() for one in bare) and re.match("[a-z]", meant)
    hint = f"did you mean `{meant}`?" if spelt else None
    message = f"the name of {_say(entry)} {said or 'is not allowed'}"
    return _finding(BAD_VALUE, message, node.value[name].where, entry, help=hint)


def _empty(schema: Schema, node: Node, path: Path) -> Diagnostic:
    expected = schema.get("type")
    hint = {
        "object": "write `{}` if that is on purpose, or remove the line",
        "array": "write `[]` if that is on purpose, or remove the line",
    }.get(str(expected), "give it a value, or remove the line")
    return _finding(WRONG_TYPE, f"{_say(path)} is empty", node.where, path, help=hint)


_EXPECTED = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "object": "a mapping",
    "array": "a list",
}
_TRUTHS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}


_VERSION = "write `version: 1`: it is the version of the format, not of the file"


def _wrong_type(schema: Schema, node: Node, path: Path, is_hidden: bool) -> Diagnostic:
    types = schema.get("type")
    expected = str(types[0] if isinstance(types, list) else types)
    if "enum" in schema:
        wanted = f"must be {_either([str(value) for value in schema['enum']])}"
    elif isinstance(types, list) and "errorMessage" in schema:
        wanted = schema["errorMessage"]
    else:
        wanted = f"must be {_EXPECTED.get(expected, 'something else')}"
    hint, fix = _repair(expected, schema, node, path, is_hidden)
    message = f"{_say(path)} {wanted}, not {_actual(node.value, expected)}"
    return _finding(WRONG_TYPE, message, node.place, path, help=hint, fix=fix)


def _unknown_value(schema: Schema, node: Node, path: Path, is_hidden: bool) -> Diagnostic:
    values = [str(value) for value in schema["enum"]]
    message = f"{_say(path)} must be {_either(values)}"
    if is_hidden:
        return _finding(UNKNOWN_VALUE, message, node.place, path)
    written = str(node.value)
    hint = _VERSION if path == ("version",) else did_you_mean(written, values)
    fix = sure_repair(written, values) if isinstance(node.value, str) else None
    return _finding(UNKNOWN_VALUE, f"{message}, not `{_short(written)}`", node.place, path, help=hint, fix=fix)


def _actual(value: Any, expected: str) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float) and not math.isfinite(value):
        return "`.inf` or `.nan`"
    if isinstance(value, float):
        return "a fraction" if expected == "integer" else "a number"
    if isinstance(value, int):
        return "a number"
    if value is None:
        return "nothing"
    return "text" if isinstance(value, str) else "a mapping" if isinstance(value, dict) else "a list"


def _repair(expected: str, schema: Schema, node: Node, path: Path, is_hidden: bool) -> tuple[str | None, str | None]:
    """What to do about a value of the wrong type, and the text to put in its place where that is sure."""
    value = node.value
    if path == ("version",) and value != "1":
        return _VERSION, ("1" if isinstance(value, float) and value == 1 else None)
    if is_hidden:
        return ("put it in quotes" if isinstance(value, int | float) else None), None
    if expected == "boolean" and isinstance(value, str) and value.lower() in _TRUTHS:
        truth = _TRUTHS[value.lower()]
        return f"write `{truth}`", truth
    if expected == "integer" and isinstance(value, str) and re.fullmatch("[1-9][0-9]{0,17}", value):
        return "write it without quotes", value
    if expected == "string" and isinstance(value, int | float) and "enum" not in schema:
        return "put it in quotes", _quoted_as_written(node)
    if expected == "array" and isinstance(value, str):
        return "write it as a list: `[…]`", None
    if expected == "object":
        entry = _entry(path)
        if entry and path[-1] in schema.get("properties", ()):
            return f"`{path[-1]}` is a key of a {entry}: write it below the name of the {entry}", None
        if isinstance(value, tuple) and _pattern_of(path) in _COLLECTIONS:
            return "write each name as a key, `name: {…}`, not as an item with `-`", None
    return None, None


def _quoted_as_written(node: Node) -> str | None:
    """The number in quotes, when it is written as Python writes it; `0x1F` or `1E+20` may have meant anything."""
    value, text, span = node.value, json.dumps(node.value), node.place.range
    as_written = span.start.line == span.end.line and span.end.column - span.start.column == len(text)
    otherwise = isinstance(value, bool) or "e" in text or (isinstance(value, int) and len(text) == len(hex(value)))
    return f'"{text}"' if as_written and not otherwise else None


_UNITS = {
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
}


def _bad_duration(message: str, node: Node, path: Path) -> Diagnostic:
    meant, sure = _meant_duration(node.value)
    hint = f"did you mean `{meant}`?" if meant else _how_to_write(str(node.value))
    return _finding(BAD_DURATION, message, node.place, path, help=hint, fix=meant if sure else None)


def _how_to_write(duration: str) -> str | None:
    """What to write in place of what may have meant several durations, or none."""
    if clock := re.fullmatch(r"([0-9]{1,3}):([0-5][0-9])", duration, re.ASCII):
        count = int(clock[1]) * 60 + int(clock[2])
        return f"write `{count}s` for minutes and seconds, `{count}m` for hours and minutes"
    if re.fullmatch(r"0+(\.0+)?\s*[a-z]*", duration, re.ASCII):
        return "it has to be more than zero: leave it out, or write `1ms`"
    return None


def _meant_duration(value: Any) -> tuple[str | None, bool]:
    """The duration that was probably meant, and whether it can be nothing else: a bare number may be of any unit."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", str(value), re.ASCII | re.IGNORECASE)
    if match is None:
        return _in_one_unit(str(value)), True
    if not float(match[1]):
        return None, False
    for unit, words in _UNITS.items():
        if (match[2].lower() or "s") in words:
            return f"{match[1]}{unit}", match[2] not in ("", "M")  # `M` may as well be months
    return None, False


def _in_one_unit(text: str) -> str | None:
    """A duration of several parts, such as `1h30m`, in the smallest unit that it has; None when it is no such thing."""
    parts = re.fullmatch("(?:([0-9]{1,6})h)? ?(?:([0-9]{1,6})m)? ?(?:([0-9]{1,6})s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0)
    minutes += 60 * hours
    if seconds:
        return f"{60 * minutes + seconds}s"
    return f"{minutes}m" if minutes else None


def _repeated(node: Node, path: Path) -> Iterator[Diagnostic]:
    seen: dict[str, tuple[int, Node]] = {}
    for index, item in enumerate(node.elements()):
        at, first = seen.setdefault(json.dumps(item.plain(), sort_keys=True), (index, item))
        if at != index:
            yield _finding(
                BAD_VALUE,
                f"{_say((*path, index))} repeats item {at + 1}",
                item.place,
                (*path, index),
                help="remove one of them",
                related=(Related("the same item stands here", first.place.file, first.place.range),),
            )


def _limit(error: ValidationError) -> str:
    limit = error.validator_value
    words = {
        "minimum": f"must be at least {limit}",
        "maximum": f"must be at most {limit}",
        "exclusiveMinimum": f"must be more than {limit}",
        "exclusiveMaximum": f"must be less than {limit}",
        "minLength": f"must have at least {limit} characters",
        "maxLength": f"must have at most {limit} characters",
        "minItems": f"must have at least {limit} items",
        "maxItems": f"must have at most {limit} items",
    }
    # The library's own message would print the value, which may be a secret.
    return words.get(str(error.validator), f"does not fit its schema (`{error.validator}`)")


# Secrets


def _marked(node: Node, schema: Schema, setting: Path = ()) -> Iterator[tuple[Path, Node]]:
    """The settings that a schema marks as secrets; of one with parts it is the whole, whose keys may tell as much."""
    if is_marked(setting, schema):
        yield setting, node
        return
    for name, below in node.items():
        yield from _marked(below, schema, (*setting, name))
    for index, below in enumerate(node.elements()):
        yield from _marked(below, schema, (*setting, index))


def _holds_literal(node: Node) -> bool:
    below = [*(child for _, child in node.items()), *node.elements()]
    return any(map(_holds_literal, below)) or _is_literal(node.value)


_REFERENCE = re.compile(r"\$\{(?:env|file):[^{}]+\}")


def _is_literal(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    text = value
    references = _REFERENCE.findall(text.replace("$$", ""))
    # `${env:KEY:-sk-123}` keeps the secret in the file as well.
    with_default = any(re.search(":-[^}]", reference) for reference in references)
    return bool(text) and (not references or with_default)


# Words


_COLLECTIONS = {
    ("stages",): "stage",
    ("hooks",): "hook",
    ("plugins",): "plugin",
    ("profiles",): "profile",
    ("tests",): "test",
    ("profiles", "*", "stages"): "stage",
    ("profiles", "*", "hooks"): "hook",
    ("tests", "*", "mock"): "mock",
}
"""Mappings whose keys are names the user chose, and what one of their entries is called."""


def _pattern_of(path: Path) -> tuple[str | int, ...]:
    return (path[0], "*", *path[2:]) if len(path) > 1 and path[0] in ("profiles", "tests") else path


def _entry(path: Path) -> str | None:
    return _COLLECTIONS.get(_pattern_of(path[:-1])) if path else None  # type: ignore[arg-type]


def _say(path: Path) -> str:
    """A value in the words of the file: stage `x`, `timeout` of stage `x`, route 2, item 1 of `only` of …"""
    if not path:
        return "the file"
    above, last = path[:-1], path[-1]
    if isinstance(last, int):
        return f"route {last + 1}" if above == ("routes",) else f"item {last + 1} of {_say(above)}"
    if path[0] == "settings":
        return f"`{_dotted(path)}`"
    if path[0] == "profiles" and path[2:3] == ("settings",):
        return f"`{_dotted(path[2:])}` of {_say(path[:2])}"
    entry = _entry(path)
    if entry is not None:
        return f"{entry} `{_short(last)}`" + (f" of {_say(above[:-1])}" if len(above) > 1 else "")
    return f"`{_short(last)}`" + (f" of {_say(above)}" if above else "")


def _dotted(path: Path) -> str:
    """The path as findings carry it: `stages.prompt.needs[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _either(names: Iterable[str], word: str = "or") -> str:
    return _join([f"`{name}`" for name in names], word)


def _join(items: Iterable[str], word: str) -> str:
    *first, last = items
    return f"{', '.join(first)} {word} {last}" if first else last


if __name__ == "__main__":
    published = shipped_schema("pipeline.schema.json")
    published.write_text(json.dumps(editor_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
