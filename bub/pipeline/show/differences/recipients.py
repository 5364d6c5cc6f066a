"""Who gets messages and keys: the providers of models, and the addresses they are asked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.providers import LOCAL, PROVIDERS
from bub.pipeline.source.document import Plain
from bub.pipeline.source.interpolate import references

_PROVIDER = re.compile("[a-z][a-z0-9_.-]*")
_UNKNOWN = "custom"
"""The provider of a model that the file does not choose, or without saying whose it is."""


def opens_model(models: Plain, old: Plan, new: Plan) -> str:
    """Return why models, at least one of them chosen newly, are dangerous, if they are."""
    asked = {_address_of(provider, old) or provider for provider in _providers_in(old)}
    for provider in _providers_of(models):
        address = _address_of(provider, new)
        if (address or provider) not in asked and provider != LOCAL and not _is_here(address):
            return f"messages go to `{provider}`, which got none before"
    return ""


def opens_provider_address(name: str | None, old: Plan, new: Plan) -> str:
    """Return why another `api_base` of a provider, or of that of the model, is dangerous, if it is."""
    chosen = (provider for plan in (new, old) for provider in _providers_of(_setting(plan, "model")))
    provider = name or next(chosen, _UNKNOWN)
    was, now = _address_of(provider, old), _address_of(provider, new)
    if now is None or not _leads_elsewhere(was, now) or _is_another_name(provider, now, old):
        return ""
    usual = PROVIDERS.get(provider)
    if usual is not None and usual.usual_url is not None and now == _normalized(usual.usual_url):
        return f"messages and keys go to the usual address of `{provider}`"
    return "messages and keys go there"


def opens_address(was: Plain, now: Plain) -> str:
    """Return why another address in the section of a plugin is dangerous, if it is."""
    before = _normalized(was) if isinstance(was, str) else None
    if not isinstance(now, str) or not _leads_elsewhere(before, _normalized(now)):
        return ""
    return "Bub sends everything there, tokens too"


def _leads_elsewhere(was: str | None, now: str) -> bool:
    """Return whether it is another address, and not the same one with encryption."""
    return was != now and not (was is not None and now == f"https{was.removeprefix('http')}")


def _is_another_name(provider: str, address: str, old: Plan) -> bool:
    """Return whether the provider is new, and somebody at this address was asked before."""
    known = {*PROVIDERS, *_declared(old)}
    return provider not in known and address in {_address_of(each, old) for each in _providers_in(old)}


def _providers_in(plan: Plan) -> set[str]:
    """Return the providers that get messages."""
    return {*_providers_of(_setting(plan, "model")), *_providers_of(_setting(plan, "fallback_models"))}


def _providers_of(models: Plain) -> Iterator[str]:
    """Yield the provider of each model; of one that only a variable knows, nothing can be known."""
    for model in models if isinstance(models, list) else [models]:
        text = _written(model) if isinstance(model, str) else ""
        provider, colon, _ = text.partition(":")
        if text:
            yield provider.lower() if colon and _PROVIDER.fullmatch(provider.lower()) else _UNKNOWN


def _written(text: str) -> str:
    """Return a text with the defaults of its references in their places."""
    for reference in reversed(references(text)):
        text = f"{text[: reference.start]}{reference.default or ''}{text[reference.end :]}"
    return text.strip()


def _address_of(provider: str, plan: Plan) -> str | None:
    """Return where a provider is asked: its own address, that of the model's provider, or the usual one."""
    own, general = _setting(plan, "providers", provider, "api_base"), None
    if provider in (*_providers_of(_setting(plan, "model")), _UNKNOWN):
        general = _setting(plan, "api_base")
    usual = PROVIDERS.get(provider)
    base = own or general or (usual.usual_url if usual is not None else None)
    return _normalized(base) if isinstance(base, str) else None


def _declared(plan: Plan) -> list[str]:
    node = plan.root.get("settings", "providers")
    return [name for name, _ in node.items()] if node is not None else []


def _setting(plan: Plan, *path: str) -> Plain:
    node = plan.root.get("settings", *path)
    return node.plain() if node is not None else None


def _normalized(address: str) -> str:
    """Return an address without what makes no difference: a slash at its end, capitals in its host."""
    beginning, slashes, rest = address.strip().partition("://")
    host, slash, path = rest.partition("/")
    return f"{beginning.lower()}{slashes}{host.lower()}{slash}{path}".rstrip("/")


def _is_here(address: str | None) -> bool:
    """Return whether an address is one of this machine."""
    try:
        host = urlsplit(address or "").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
