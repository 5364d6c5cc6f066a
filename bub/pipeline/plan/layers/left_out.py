"""Saying which key or address of a person is left out, and what keeps it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bub.base.diagnostics import Diagnostic, Findings, Place
from bub.pipeline.plan.layers.person import Inherited, Person, entry_of, keys_in
from bub.pipeline.plan.layers.said import GENERAL, PROVIDERS_KEY, Said
from bub.pipeline.plan.providers import provider_of

LEFT_OUT = "B225"

_KEY, _ADDRESS = GENERAL


def tell_left_out(inherited: Inherited, person: Person, said: Sequence[Said]) -> Iterator[Diagnostic]:
    """Yield a finding for each key of a person that is left out, with the place of what keeps it out.

    It is a warning if a model of the settings is then asked without a key, else a note.
    """
    settings = inherited.settings
    fallback = settings.get("fallback_models")
    models = [settings.get("model"), *(fallback if isinstance(fallback, list) else ())]
    asked = {provider_of(model) for model in models}
    for provider in inherited.left_out:
        entry = person.providers[provider]
        has_key = any(True for _ in keys_in(entry))
        lacks_key = has_key and not _has_key(settings, provider)
        lacks_address = bool(entry.get(_ADDRESS)) and not _has_address(settings, provider)
        if not has_key and not lacks_address:
            continue
        place, what = _find_cause(provider, [one for one in said if not (one.is_shipped or one.is_assumed)])
        is_missed = provider.lower() in asked and (lacks_key or lacks_address)
        lost, name = ("address", _ADDRESS) if lacks_address and not lacks_key else ("key", _KEY)
        findings = Findings()
        findings.add(
            LEFT_OUT,
            f"Bub ignores your own {lost} for `{provider}`, because {what} is set here",
            place,
            severity="warning" if is_missed else "note",
            help=f"a key and its address stay together: write the {lost} here as "
            f"`settings.providers.{provider}.{name}`, or write nothing about `{provider}` here, so that Bub uses"
            f" {person.file}",
        )
        yield from findings.items


def _find_cause(provider: str, said: Sequence[Said]) -> tuple[Place, str]:
    """What keeps a person's entry for a provider out: the strongest that says something of it."""
    for one in reversed(said):
        for path in ((PROVIDERS_KEY, provider), *((name,) for name in reversed(GENERAL))):
            found = one.place_of(*path)
            if found is not None:
                return found
    raise AssertionError("something is said of every provider that is left out")


def _has_key(settings: Mapping[str, Any], provider: str) -> bool:
    return any(True for _ in keys_in(entry_of(settings, provider))) or _has_general(settings, provider, _KEY)


def _has_address(settings: Mapping[str, Any], provider: str) -> bool:
    return bool(entry_of(settings, provider).get(_ADDRESS)) or _has_general(settings, provider, _ADDRESS)


def _has_general(settings: Mapping[str, Any], provider: str, name: str) -> bool:
    return bool(settings.get(name)) and provider_of(settings.get("model")) == provider.lower()
