"""Names that other tools give to what files like ours say; no spelling tells which of our keys they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

_ANYWHERE: Mapping[str, str] = MappingProxyType(
    {
        "depends_on": "needs",
        "requires": "needs",
        "if": "when",
        "jobs": "stages",
        "tasks": "stages",
        "include": "extends",
        "continue-on-error": "on_failure",
        "base_url": "api_base",
        "api_url": "api_base",
    }
)

_OF_PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "base": "api_base",
        "url": "api_base",
        "endpoint": "api_base",
        "address": "api_base",
        "host": "api_base",
        "server": "api_base",
        "key": "api_key",
        "token": "api_key",
        "secret": "api_key",
        "auth_token": "api_key",
        "access_token": "api_key",
        "type": "api",
        "api_type": "api",
        "protocol": "api",
    }
)
"""Keys of a provider alone: elsewhere a `token` is not for a model."""


def name_here(name: str, above: Sequence[object], known: Iterable[str]) -> str | None:
    """Return which of the `known` keys at the path `above` is called `name` elsewhere; None if none is.

    Other tools' `baseURL`, `base-url` and `base_url` are one.
    """
    is_of_provider = tuple(above[-3:-1]) == ("settings", "providers")
    meant = (here for other, here in _names(is_of_provider=is_of_provider) if _plain(other) == _plain(name))
    return next((here for here in meant if here in known), None)


def variables_here(variable: str) -> Iterator[str]:
    """Yield the variables that may be meant by one whose end is called otherwise here, such as `BUB_BASE_URL`."""
    for other, here in _names(is_of_provider="_PROVIDERS_" in variable):
        beginning = variable.removesuffix(other.upper())
        if beginning != variable and beginning.endswith("_"):
            yield beginning + here.upper()


def _names(*, is_of_provider: bool) -> Iterable[tuple[str, str]]:
    return ({**_ANYWHERE, **_OF_PROVIDERS} if is_of_provider else _ANYWHERE).items()


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
