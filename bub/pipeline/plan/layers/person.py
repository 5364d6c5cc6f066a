"""What a person's own file sets in every folder: the model and what belongs to it, never a key without its address.

The file is `$BUB_HOME/pipelines.yaml`, with the `.env` beside it. Other folders inherit five of its settings. An entry
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
from bub.pipeline.source.merge import Document, Layer, load_document, merge, without
from bub.pipeline.source.profiles import relabel
from bub.pipeline.source.schemas import settings_schema
from bub.secrets.literals import credentials_in, secrets_in_addresses
from bub.secrets.names import SECRET_HEADER

LEFT_OUT, UNUSABLE = "B225", "B226"

INHERITED = ("model", "fallback_models", PROVIDERS_KEY, "reasoning", "language")
"""The settings that hold in every folder, as far as the schema knows them; any other is of the folder alone."""

LAYER = "your own file"
"""What the layer is called where people read where a value comes from."""

_KEY = "api_key"


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
        """The keys in it, used or not, and what stands in headers."""
        return tuple(secret for entry in self.providers.values() for secret in _keys_in(entry))


class Inherited(msgspec.Struct, frozen=True):
    """Settings with those of a person among them; `left_out` are the person's providers of which nothing is used."""

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
        read = load_document(own, display=str(own))
    except UsageError as error:
        return _unusable(own, str(error), error.help)
    if any(finding.severity == "error" for finding in read.findings):
        return _unusable(own, f"{own} has errors", f"`bub validate {own}` lists them")
    return _read(read, environ)


def _is_the_same(document: Document, own: Path) -> bool:
    folder = document.folders.get(document.file)
    if folder is None:
        return False
    return os.path.realpath(folder / Path(document.file).name) == os.path.realpath(own)


def _unusable(own: Path, why: str, remedy: str | None) -> Person:
    findings = Findings()
    findings.warn(UNUSABLE, f"nothing of your own file holds here: {why}", Place(str(own)), help=remedy)
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
    names = [name for name in INHERITED if name in schema["properties"]]
    settings = {name: kept[name] for name in names if name in kept}
    written = merge(node, _node_of(variables))
    if general:  # the entry of the model's provider, written short
        entries = settings.get(PROVIDERS_KEY)
        entries = dict(entries) if isinstance(entries, Mapping) else {}
        entries[provider] = {**{name: kept[name] for name in general}, **(entries.get(provider) or {})}
        settings[PROVIDERS_KEY] = entries
        short = Node({name: found for name in general if (found := written.get(name)) is not None}, written.place)
        entry = Node({provider: short}, written.place)
        written = merge(Node({PROVIDERS_KEY: entry}, written.place), written)
    inherited = Node({name: child for name, child in written.items() if name in names}, written.place)
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
    touched = {name for one in spoken for name in one.providers}
    if any(kept.get(name) for name in GENERAL):
        touched.add(provider_of(kept.get("model")))
    taken = {name: entry for name, entry in person.providers.items() if name.lower() not in touched}
    if taken:
        entries = kept.get(PROVIDERS_KEY)
        kept[PROVIDERS_KEY] = {**(entries if isinstance(entries, Mapping) else {}), **taken}
    return Inherited(kept, tuple(name for name in person.providers if name not in taken))


def with_person(document: Document, person: Person, left_out: Iterable[str]) -> Document:
    """The document with the person's layer in its place among the others, but for the providers that are left out.

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


def tell_left_out(inherited: Inherited, person: Person, said: Sequence[Said]) -> Iterator[Diagnostic]:
    """Yield a finding for each key of a person that is left out, with the place of what keeps it out.

    It is a warning if a model of the settings is then asked without a key, else a note.
    """
    settings = inherited.settings
    fallback = settings.get("fallback_models")
    models = [settings.get("model"), *(fallback if isinstance(fallback, list) else ())]
    asked = {provider_of(model) for model in models}
    for provider in inherited.left_out:
        if not any(True for _ in _keys_in(person.providers[provider])):
            continue
        place, what = _find_cause(provider, [one for one in said if not (one.is_shipped or one.is_assumed)])
        is_missed = provider.lower() in asked and not _has_key(settings, provider)
        findings = Findings()
        findings.add(
            LEFT_OUT,
            f"your own key for `{provider}` is left out, since {what} is set here",
            place,
            severity="warning" if is_missed else "note",
            help=f"a key goes to the address alone that it was given for: give one here as "
            f"`settings.providers.{provider}.api_key`, or leave `{provider}` to {person.file}",
        )
        yield from findings.items


def _keys_in(entry: Mapping[str, Any]) -> Iterator[str]:
    """What lets somebody in of an entry of a provider: its key, and the headers that may hold one."""
    if entry.get(_KEY):
        yield str(entry[_KEY])
    headers = entry.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if value and re.search(SECRET_HEADER, str(name)):
            yield from credentials_in(str(value))
    yield from secrets_in_addresses(str(entry.get("api_base") or ""))


def _find_cause(provider: str, said: Sequence[Said]) -> tuple[Place, str]:
    """What keeps a person's entry for a provider out: the strongest that says something of it."""
    for one in reversed(said):
        for path in ((PROVIDERS_KEY, provider), *((name,) for name in reversed(GENERAL))):
            found = one.place_of(*path)
            if found is not None:
                return found
    raise AssertionError("something is said of every provider that is left out")


def _has_key(settings: Mapping[str, Any], provider: str) -> bool:
    entry = (settings.get(PROVIDERS_KEY) or {}).get(provider.lower())
    own = isinstance(entry, Mapping) and any(True for _ in _keys_in(entry))
    return own or (bool(settings.get(_KEY)) and provider_of(settings.get("model")) == provider.lower())
