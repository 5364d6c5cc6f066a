"""The origins of the values of a pipeline: every place that sets one, and which of them may be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import Place
from bub.base.json_schema import Schema, Steps, follow_references, join_steps, part_at
from bub.pipeline.plan.layers.person import LAYER, Person, inherit, with_person
from bub.pipeline.plan.layers.said import Said, for_the_same_provider, said_by_variables, said_in
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.plan.secret_places import is_named_secret, setting_of
from bub.pipeline.plan.settings import environment_settings, resolve_settings
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import dotenv_place, read_environment, references
from bub.pipeline.source.merge import Document, Layer
from bub.pipeline.source.profiles import effective
from bub.pipeline.source.scalars import read_scalar
from bub.pipeline.source.schemas import pipeline_schema, whole_settings_schema
from bub.secrets.verdict import is_kept_secret, is_secret
from bub.secrets.within import hide_within

_OWN = ("extends", "description")
"""What a profile does not take over from the one it extends."""

_USER_IN_URL = r"(?<=://)[^/?#\s]*(?=@)"
_PLAIN_TEXT = r"(?a)(?!-+$)[A-Za-z0-9_./+$-](?:[\w ./*+@:=$-]*[\w./*+@$-])?"
_ENVIRONMENT = "the environment"
_SETTINGS = "#/$defs/settings"
_OPEN = (None, "object", "array")
_ANYTHING: Schema = MappingProxyType({})


class Origin(msgspec.Struct, frozen=True):
    """One place that sets a value: `value` as it may be shown, `path` under which it is set there.

    `place` is None for a `variable` of the environment itself; one of `.env` has both. `layer` is as in `Place`.
    """

    value: Node
    path: str
    place: Place | None
    layer: str = ""
    variable: str = ""
    secret: bool = False

    @property
    def where(self) -> str:
        """The place in words: `pipelines.yaml:12:35`, `BUB_MODEL in .env:3`, `BUB_MODEL in the environment`."""
        if not self.variable:
            return str(self.place)
        place = f"{self.place.file}:{self.place.range.start.line}" if self.place is not None else _ENVIRONMENT
        return f"{self.variable} in {place}"


class Lookup(msgspec.Struct, frozen=True):
    """What values are looked up in: a pipeline for one profile, and the variables of the process.

    `settings` is the schema of the settings, with the sections of the plugins that the profile knows of. `person` is
    what holds in every folder, whose layer is then among those of the plan.
    """

    plan: Plan
    environ: Mapping[str, str]
    settings: Schema
    person: Person | None = None

    @property
    def document(self) -> Document:
        return self.plan.document

    def redact(self, node: Node, steps: Steps) -> Node:
        """Replace every secret in a value by its source: the reference, or "a literal in FILE:LINE:COLUMN"."""
        if node.is_mapping:
            return replace(node, value={name: self.redact(child, (*steps, name)) for name, child in node.items()})
        if node.is_sequence:
            items = enumerate(node.elements())
            return replace(node, value=tuple(self.redact(child, (*steps, index)) for index, child in items))
        if self.is_secret(node, steps):
            return replace(node, value=source_of(node))
        if not isinstance(node.value, str):
            return node
        return replace(node, value=re.sub(_USER_IN_URL, "…", hide_within(node.value)))

    def is_secret(self, node: Node, steps: Steps) -> bool:
        """Whether a value is a secret: of a setting as `bub.secrets.verdict` says, of any other value by its names."""
        if node.value is None or isinstance(node.value, bool | dict | tuple):
            return False
        setting = setting_of(steps)
        if setting is not None:
            return is_secret(node.value, setting, self.settings)
        return is_named_secret(steps)

    def is_kept_secret(self, setting: Steps) -> bool:
        """Whether a setting holds a secret, whatever its value; see `bub.secrets.verdict`."""
        return is_kept_secret(setting, self.settings)


def lookup_of(plan: Plan, environ: Mapping[str, str], person: Person | None = None) -> Lookup:
    """Make the lookup of a plan; `environ` is the real environment, `.env` is read from its own place.

    With a `person`, what their own file sets in every folder has its place among what the files say.
    """
    section, declared = plan.root.get("settings"), plan.root.get("plugins")
    names = [*(name for name, _ in plan.allowlist), *(name for name, _ in (section.items() if section else ()))]
    # A plugin that comes from a file has nothing to do with an installed package of its name.
    packages = [name for name in names if declared is None or declared.get(name, "path") is None]
    lookup = Lookup(plan, environ, whole_settings_schema(dict.fromkeys(packages)))
    if person is None:
        return lookup
    left_out = inherit(_resolve_settings(lookup), person, _collect_said(lookup)).left_out
    return replace(lookup, plan=make_plan(with_person(plan.document, person, left_out), plan.profile), person=person)


# Values


def value_at(lookup: Lookup, steps: Steps) -> Node | None:
    """Find the value that counts at a path of the file, as it is written; None if no file sets one."""
    if steps[:1] == ("profiles",) and len(steps) > 1:
        merged = effective(lookup.document, str(steps[1])).profile_node
        return merged.get(*steps[2:]) if merged is not None else None
    return lookup.plan.effective.root.get(*steps)


def origins_of(lookup: Lookup, steps: Steps) -> tuple[Origin, ...]:
    """Every place that sets the value at a path, weakest first, so that the last one counts."""
    return _origins(lookup, steps, _variables(lookup) if steps[:1] == ("settings",) else {})


def _origins(lookup: Lookup, steps: Steps, variables: Mapping[Steps, list[Origin]]) -> tuple[Origin, ...]:
    listed = next((index for index, step in enumerate(steps) if isinstance(step, int)), None)
    found = []
    for layer, path in _layers_at(lookup, steps):
        node = layer.root.get(*path)
        if node is not None:
            shown, secret = lookup.redact(node, path), lookup.is_secret(node, path)
            found.append(Origin(shown, join_steps(path), node.place, node.place.layer, secret=secret))
    if listed is not None:
        return tuple(found[-1:])  # a list replaces the one below it, so no other place has a say
    return (*found, *variables.get(steps, ()))


def leaves_of(lookup: Lookup, steps: Steps) -> list[tuple[Steps, Origin]]:
    """The values at and below a path, each with the place that counts; lists and empty mappings are values."""
    node = value_at(lookup, steps)
    below = dict.fromkeys(_leaves(node, steps) if node is not None else ())
    variables = _variables(lookup)  # looked up once for all of them
    below.update(dict.fromkeys(inner for inner in variables if inner[: len(steps)] == steps))
    found = ((inner, _origins(lookup, inner, variables)) for inner in below)
    return [(inner, origins[-1]) for inner, origins in found if origins]


def _leaves(node: Node, steps: Steps) -> Iterator[Steps]:
    if not node.is_mapping or not node.value:
        yield steps
    for name, child in node.items():
        yield from _leaves(child, (*steps, name))


def _layers_at(lookup: Lookup, steps: Steps) -> Iterator[tuple[Layer, Steps]]:
    """The layers that can say something about a path, weakest first, each with the path at which it does."""
    document, top = lookup.document, steps[:1]
    if top == ("profiles",) and len(steps) > 1:
        chain = effective(document, str(steps[1])).chain
        for name in chain[-1:] if steps[2:3] and steps[2] in _OWN else chain:
            yield from ((layer, ("profiles", name, *steps[2:])) for layer in document.layers)
    elif top == ("extends",):
        yield from ((layer, steps) for layer in document.layers[-1:])
    else:
        yield from ((layer, steps) for layer in lookup.plan.effective.layers)


# Settings of the environment


def is_variable(lookup: Lookup, steps: Steps, variable: str) -> bool:
    """Whether an environment variable of that name would set the value at a path."""
    return ("settings", *next((path for path, _ in _set_by({variable: "?"}, lookup)), ())) == steps


def _set_by(variables: Mapping[str, str], lookup: Lookup) -> Iterator[tuple[tuple[str, ...], str]]:
    node = lookup.plan.effective.root.get("settings")
    written = node.plain() if node is not None and node.is_mapping else {}
    return environment_settings(variables, lookup.settings, written)


def _variables(lookup: Lookup) -> dict[Steps, list[Origin]]:
    """The settings that variables set, by path: `.env` before the environment itself, which is stronger."""
    base = lookup.document.base
    found: dict[Steps, list[Origin]] = {}
    beside, _ = read_environment(base, {})
    for variables, in_file in ((beside, True), (lookup.environ, False)):
        for path, name in _set_by(variables, lookup):
            steps = ("settings", *path)
            place = dotenv_place(name, variables[name], base) if in_file else None
            value = Node(variables[name], place or Place(_ENVIRONMENT), quoted=True)
            secret = lookup.is_kept_secret(path)
            shown = replace(value, value=f"the variable {name}") if secret else lookup.redact(value, steps)
            origin = Origin(shown, join_steps(steps), place, _ENVIRONMENT, name, secret)
            found.setdefault(steps, []).append(origin)
    return found


def is_for_another_provider(lookup: Lookup, name: str) -> bool:
    """Whether a general key or URL (`api_key`, `api_base`) is left out, since it was given for another provider."""
    settings, said = _resolve_settings(lookup), _collect_said(lookup)
    kept = for_the_same_provider(settings, [one.settings for one in said])
    return name in settings and name not in kept


def _collect_said(lookup: Lookup) -> list[Said]:
    """What each layer and the environment say of the settings, weakest first."""
    document, schema, person = lookup.document, lookup.settings, lookup.person
    beside, both = _environments(lookup)
    said: list[Said] = []
    for layer in lookup.plan.effective.layers:
        if layer.name == LAYER and person is not None:  # its references are answered by its own environment
            said.append(Said(person.settings))
        else:
            said += said_in([layer], document, both)
    in_file = said_by_variables(beside, schema, {}, document.base)
    return [*said, in_file, said_by_variables(lookup.environ, schema, {}, None)]


def _resolve_settings(lookup: Lookup) -> dict[str, Any]:
    root, document = lookup.plan.effective.root, lookup.document
    _, both = _environments(lookup)
    return resolve_settings(root, both, base=document.base, schema=lookup.settings, folders=document.folders)[0]


def _environments(lookup: Lookup) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The variables of `.env`, and those with the real environment over them."""
    beside, _ = read_environment(lookup.document.base, {})
    return beside, {**beside, **{name: value for name, value in lookup.environ.items() if value}}


# The schema


def schema_at(lookup: Lookup, steps: Steps) -> Schema | None:
    """What the schema says of the value at a path, or None when it knows no such value."""
    return _descend(pipeline_schema(), pipeline_schema(), steps, lookup.settings)


def _descend(schema: Schema, whole: Schema, steps: Steps, settings: Schema) -> Schema | None:
    # The published file leaves the sections of plugins open.
    if schema.get("$ref") == _SETTINGS:
        schema = whole = settings
    schema = follow_references(schema, whole)
    if not steps:
        return schema
    said = part_at(schema, steps[0])
    if not isinstance(said, Mapping):
        is_open = said is None and not schema.get("properties") and schema.get("type") in _OPEN
        return _ANYTHING if said is True or is_open else None
    return _descend(said, whole, steps[1:], settings)


# Secrets


def source_of(node: Node) -> str:
    """Return the source of a secret: the references of its text without their defaults, or the place of the literal."""
    found = references(node.value) if isinstance(node.value, str) else []
    if not found:
        return f"a literal in {node.place}"
    names = (f"${{{one.kind}:{one.name}{':-…' if one.default is not None else ''}}}" for one in found)
    rest = len(node.value) - sum(one.end - one.start for one in found)
    return "…".join(names) + ("…" if rest else "")


# As text


def flow(value: Any) -> str:
    """A plain value in one line of YAML."""
    import json  # only where a value is shown

    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(name)}: {flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, str):
        lone = references(value)
        is_reference = len(lone) == 1 and (lone[0].start, lone[0].end) == (0, len(value)) and '"' not in value
        is_plain = re.fullmatch(_PLAIN_TEXT, value) and ": " not in value and isinstance(read_scalar(value), str)
        return value if is_plain or is_reference else json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
