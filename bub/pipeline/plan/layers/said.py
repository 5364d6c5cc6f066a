"""What each layer says of the settings, weakest first: to whom a key belongs depends on who gave it beside what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bub.base.diagnostics import NO_FILE, Place
from bub.base.json_schema import Schema
from bub.pipeline.plan.providers import provider_of
from bub.pipeline.plan.settings import environment_settings, put_setting
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import Environment, dotenv_place, resolve
from bub.pipeline.source.merge import Document, Layer

GENERAL = ("api_key", "api_base")
"""The settings that belong to the provider of the model they were given for, whoever that was."""

PROVIDERS_KEY = "providers"


class Said(msgspec.Struct, frozen=True):
    """What one layer says: `settings` with references replaced, `node` as a file has it, `variables` by the setting.

    `is_shipped`: it is Bub's own text. `is_assumed`: nobody says it, but keys are given with it in mind. `base` is the
    folder of the `.env` that the variables are from; those of the real environment have none.
    """

    settings: Mapping[str, Any]
    node: Node | None = None
    variables: Mapping[tuple[str, ...], str] = {}
    base: Path | None = None
    is_shipped: bool = False
    is_assumed: bool = False

    def sets(self, name: str) -> bool:
        """Whether it says something of a setting, also a reference that stands for nothing."""
        return name in self.settings or (self.node is not None and self.node.get(name) is not None)

    @property
    def is_environment(self) -> bool:
        """Whether the real environment says it, which is the person's own as their file is."""
        return bool(self.variables) and self.base is None

    @property
    def providers(self) -> frozenset[str]:
        """The providers that it has an entry for, as models name them."""
        node = self.node.get(PROVIDERS_KEY) if self.node is not None else None
        written = [name for name, _ in node.items()] if node is not None else []
        entries = self.settings.get(PROVIDERS_KEY)
        return frozenset(name.lower() for name in (*written, *(entries if isinstance(entries, Mapping) else ())))

    def value_at(self, path: tuple[str, ...]) -> str:
        """The text that a variable sets at a path."""
        value: Any = self.settings
        for name in path:
            value = value[name]
        return str(value)

    def place_of(self, *path: str) -> tuple[Place, str] | None:
        """The place at which it says a setting, or something below it, and what that is; None if it does not."""
        for steps, variable in self.variables.items():
            if _begins_with(steps, path):
                place = dotenv_place(variable, self.value_at(steps), self.base)
                return place or Place(NO_FILE), f"the variable {variable}"
        node = self.node
        for name in path:
            found = [child for key, child in node.items() if key.lower() == name.lower()] if node is not None else []
            node = found[-1] if found else None
        if node is None:
            return None
        inner = next((f".{name}" for name, _ in node.items()), "")
        return node.where, f"`settings.{'.'.join(path)}{inner}`"


def said_in(layers: Iterable[Layer], document: Document, environment: Environment) -> Iterator[Said]:
    """What each of some layers of a document says by itself; layers that say nothing are left out."""
    for layer in layers:
        node = layer.root.get("settings")
        if node is not None and node.is_mapping:
            settings, _ = resolve(node, environment, base=document.base, folders=document.folders)
            yield Said(settings or {}, node, is_shipped=layer.shipped)


def said_by_variables(variables: Environment, schema: Schema, written: Mapping[str, Any], base: Path | None) -> Said:
    """What the variables of an environment say of the general settings, and of providers."""
    settings: dict[str, Any] = {}
    found: dict[tuple[str, ...], str] = {}
    for path, variable in environment_settings(variables, schema, written):
        if len(path) == 1 or path[0] == PROVIDERS_KEY:
            put_setting(settings, path, variables[variable])
            found[path] = variable
    return Said(settings, variables=found, base=base)


def for_the_same_provider(settings: Mapping[str, Any], said: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings without a general key or URL that was given for another provider than the model's (DESIGN §2).

    `said` are the settings of each layer, weakest first. What one layer gives belongs to the model in force there, or
    to the first one above if there is none yet: a profile or `BUB_MODEL` that chooses another provider does not
    send it the first one's key.
    """
    owners: dict[str, str] = {}
    ownerless: list[str] = []
    provider = ""
    for layer in said:
        if layer.get("model"):
            provider = provider_of(layer["model"])
            owners.update(dict.fromkeys(ownerless, provider))
            ownerless = []
        for name in GENERAL:
            if not layer.get(name):
                continue
            if provider:
                owners[name] = provider
            else:
                ownerless.append(name)
    final = provider_of(settings.get("model"))
    return {name: value for name, value in settings.items() if owners.get(name, final) == final}


def _begins_with(steps: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return [step.lower() for step in steps[: len(path)]] == [step.lower() for step in path]
