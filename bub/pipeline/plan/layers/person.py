"""What a person's own file sets in every folder: the model and what belongs to it, never a key without its address.

The file is `$BUB_HOME/pipelines.yaml`, with the `.env` beside it. Other folders inherit four of its settings. An entry
of a provider is taken whole or not at all: if anything else says a word about that provider, the person's key for it
is left out, so that no folder can have it sent elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.base.diagnostics import NO_FILE, Diagnostic, Findings, Place
from bub.base.locate import FILE_NAME, bub_home
from bub.errors import UsageError
from bub.pipeline.plan.layers.said import (
    GENERAL,
    PROVIDERS_KEY,
    Said,
    for_the_same_provider,
    said_by_variables,
    said_in,
)
from bub.pipeline.plan.providers import provider_of
from bub.pipeline.plan.settings import resolve_settings
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import Environment, dotenv_place, read_environment
from bub.pipeline.source.merge import Document, Layer, Parents, load_document, merge, without
from bub.pipeline.source.profiles import relabel
from bub.pipeline.source.schemas import settings_schema
from bub.secrets.literals import credentials_in, secrets_in_addresses
from bub.secrets.names import SECRET_HEADER

UNUSABLE = "B226"

INHERITED = ("model", "fallback_models", PROVIDERS_KEY, "reasoning")
"""The settings that hold in every folder; any other is of the folder alone."""

LAYER = "your own file"
"""What the layer is called where people read where a value comes from."""

_KEY, _ADDRESS = GENERAL


class Person(msgspec.Struct, frozen=True):
    """What a person's own file sets in every folder.

    `settings` have the references replaced that the file's own environment answers; `layer` says the same as it is
    written. `findings` are why nothing of the file is used.
    """

    file: str
    layer: Layer
    settings: Mapping[str, Any]
    findings: tuple[Diagnostic, ...] = ()

    @property
    def providers(self) -> Mapping[str, Mapping[str, Any]]:
        """The entries of providers, those of a wrong form left out."""
        entries = self.settings.get(PROVIDERS_KEY)
        listed = entries.items() if isinstance(entries, Mapping) else ()
        return {name: entry for name, entry in listed if isinstance(entry, Mapping)}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys in it, used or not, and what is in headers."""
        return tuple(secret for entry in self.providers.values() for secret in keys_in(entry))


class Inherited(msgspec.Struct, frozen=True):
    """Settings with those of a person among them; `left_out` are the person's providers that are not used."""

    settings: Mapping[str, Any]
    left_out: tuple[str, ...]


def read_person(document: Document, environ: Environment) -> Person | None:
    """Read what a person's own file sets; None if there is none, or if it is the document itself.

    `environ` is the real environment: a folder's `.env` says nothing about whose file it is.
    """
    try:
        own = bub_home(environ) / FILE_NAME
    except UsageError:
        return None
    if not os.path.isfile(own) or _is_the_same(document, own):  # noqa: PTH113 (it never raises)
        return None
    try:
        read = load_document(own, display=str(own), parents=Parents.shipped_of(document))
    except UsageError as error:
        return _unusable(own, str(error), error.help)
    if any(finding.severity == "error" for finding in read.findings):
        return _unusable(own, f"{own} has errors", f"`bub validate {own}` lists them")
    return _read(read, environ)


def is_own_file(document: Document, environ: Environment) -> bool:
    """Return whether a document is the person's own file itself, as in a folder that has none."""
    try:
        return _is_the_same(document, bub_home(environ) / FILE_NAME)
    except UsageError:
        return False


def is_layer_of_own_file(document: Document, layer: Layer, environ: Environment) -> bool:
    """Return whether what a layer says is in the person's own file."""
    try:
        return _is_file(document, layer.file, bub_home(environ) / FILE_NAME)
    except UsageError:
        return False


def _is_the_same(document: Document, own: Path) -> bool:
    return _is_file(document, document.file, own)


def _is_file(document: Document, file: str, own: Path) -> bool:
    folder = document.folders.get(file)
    if folder is None:
        return False
    return os.path.realpath(folder / Path(file).name) == os.path.realpath(own)


def _unusable(own: Path, why: str, remedy: str | None) -> Person:
    findings = Findings()
    findings.warn(UNUSABLE, f"Bub uses nothing of your own file here: {why}", Place(str(own)), help=remedy)
    return Person(str(own), Layer(LAYER, str(own), Node({}, Place(str(own)))), {}, tuple(findings.items))


def _read(document: Document, environ: Environment) -> Person:
    """Read the settings of a person's document: those of shipped parents hold without it, and its profiles do not."""
    schema, base = settings_schema(), document.base
    layers = [layer for layer in document.layers if not layer.shipped]
    nodes = [node for layer in layers if (node := layer.root.get("settings")) is not None and node.is_mapping]
    node = reduce(merge, nodes, Node({}, Place(document.file)))
    environment, _ = read_environment(base, environ)
    beside, _ = read_environment(base, {})
    root = Node({"settings": node}, node.place)
    plain, _ = resolve_settings(root, environment, base=base, schema=schema, folders=document.folders, variables=beside)
    variables = said_by_variables(beside, schema, plain, base)
    said = [*said_in(layers, document, environment), variables]
    kept = for_the_same_provider(plain, [one.settings for one in said])
    provider = provider_of(kept.get("model"))
    general = [name for name in GENERAL if provider and kept.get(name)]
    settings = {name: kept[name] for name in INHERITED if name in kept}
    written = merge(node, _node_of(variables))
    if general:  # the entry of the model's provider, written short
        entries = settings.get(PROVIDERS_KEY)
        entries = dict(entries) if isinstance(entries, Mapping) else {}
        entries[provider] = {**{name: kept[name] for name in general}, **(entries.get(provider) or {})}
        settings[PROVIDERS_KEY] = entries
        short = Node({name: found for name in general if (found := written.get(name)) is not None}, written.place)
        entry = Node({provider: short}, written.place)
        written = merge(Node({PROVIDERS_KEY: entry}, written.place), written)
    inherited = Node({name: child for name, child in written.items() if name in INHERITED}, written.place)
    root = Node({"settings": inherited}, written.place)
    return Person(document.file, Layer(LAYER, document.file, relabel(root, LAYER)), settings)


def _node_of(said: Said) -> Node:
    """What the variables of a `.env` say, with the places of its lines."""
    root = Node({}, Place(NO_FILE))
    for path, variable in said.variables.items():
        value = said.value_at(path)
        place = dotenv_place(variable, value, said.base) or Place(NO_FILE)
        node = Node(value, place, quoted=True)
        for name in reversed(path):
            node = Node({name: node}, place)
        root = merge(root, node)
    return root


def inherit(settings: Mapping[str, Any], person: Person, said: Sequence[Said]) -> Inherited:
    """Lay settings that do without a person over those of the person; `said` is what made them, weakest first."""
    weaker = [one.settings for one in said if one.is_shipped]
    above = [one for one in said if not one.is_shipped]
    spoken = [one for one in above if not one.is_assumed]
    merged = dict(settings)
    for name, value in person.settings.items():
        if name != PROVIDERS_KEY and not any(one.sets(name) for one in spoken):
            merged[name] = value
    kept = for_the_same_provider(merged, [*weaker, person.settings, *(one.settings for one in above)])
    taken = {
        name: _with_key(entry, name, kept)
        for name, entry in person.providers.items()
        if all(_gives_a_key_alone(one, name) for one in spoken if _speaks_of(one, name, kept))
    }
    if taken:
        entries = kept.get(PROVIDERS_KEY)
        kept[PROVIDERS_KEY] = {**(entries if isinstance(entries, Mapping) else {}), **taken}
    return Inherited(kept, tuple(name for name in person.providers if name not in taken))


def with_key_of_environment(settings: Mapping[str, Any], environment: Said) -> Mapping[str, Any]:
    """Return the settings of a person's own file, with the key that the environment gives in their provider's entry."""
    provider = provider_of(settings.get("model"))
    entry = entry_of(settings, provider)
    if not entry or not environment.sets(_KEY) or not _gives_a_key_alone(environment, provider):
        return settings
    name = next(name for name in settings[PROVIDERS_KEY] if name.lower() == provider)
    own = {**entry, _KEY: entry_of(environment.settings, provider).get(_KEY) or settings[_KEY]}
    return {**settings, PROVIDERS_KEY: {**settings[PROVIDERS_KEY], name: own}}


def _speaks_of(one: Said, provider: str, kept: Mapping[str, Any]) -> bool:
    """Whether a layer says something of a provider: in its entry, or in what is kept for the model's."""
    is_asked = provider_of(kept.get("model")) == provider.lower()
    return provider.lower() in one.providers or (
        is_asked and any(kept.get(name) and one.sets(name) for name in GENERAL)
    )


def _gives_a_key_alone(one: Said, provider: str) -> bool:
    """Whether it is the real environment, with a key for a provider and nothing else: that is for the person's address.

    A folder's `.env` is not the environment.
    """
    return one.is_environment and not one.sets(_ADDRESS) and set(entry_of(one.settings, provider)) <= {_KEY}


def _with_key(entry: Mapping[str, Any], provider: str, kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """A person's entry with the key that the environment gives in place of their own."""
    is_asked = provider_of(kept.get("model")) == provider.lower()
    given = entry_of(kept, provider).get(_KEY) or (kept.get(_KEY) if is_asked else None)
    return {**entry, _KEY: given} if given else entry


def entry_of(settings: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    """The entry of a provider in some settings, whatever the letters of its name; an empty one if there is none."""
    entries = settings.get(PROVIDERS_KEY)
    found = [entry for name, entry in (entries or {}).items() if name.lower() == provider.lower()]
    return found[-1] if found and isinstance(found[-1], Mapping) else {}


def with_person(document: Document, person: Person, left_out: Iterable[str]) -> Document:
    """The document with the person's layer in its place among the others, except the providers that are left out.

    It is for readers that show who says what: references in the layer are those of the person's own file.
    """
    root = person.layer.root
    entries = root.get("settings", PROVIDERS_KEY)
    if entries is not None:
        written = [name for name, _ in entries.items()]
        if set(written) <= set(left_out):
            root = replace(root, value={"settings": without(root.value["settings"], [PROVIDERS_KEY])})
        else:
            kept = {**root.value["settings"].value, PROVIDERS_KEY: without(entries, left_out)}
            root = replace(root, value={"settings": replace(root.value["settings"], value=kept)})
    weaker = [layer for layer in document.layers if layer.shipped]
    above = [layer for layer in document.layers if not layer.shipped]
    layers = [*weaker, replace(person.layer, root=root), *above]
    merged = reduce(merge, (layer.root for layer in layers))
    settings = merged.get("settings")
    value = {**document.root.value, "settings": settings} if settings is not None else document.root.value
    return replace(document, layers=tuple(layers), root=replace(document.root, value=value))


def keys_in(entry: Mapping[str, Any]) -> Iterator[str]:
    """What lets somebody in of an entry of a provider: its key, and the headers that may hold one."""
    if entry.get(_KEY):
        yield str(entry[_KEY])
    headers = entry.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if value and re.search(SECRET_HEADER, str(name)):
            yield from credentials_in(str(value))
    yield from secrets_in_addresses(str(entry.get(_ADDRESS) or ""))
