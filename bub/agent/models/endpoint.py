"""Which model answers, at which address and with which key: read from the settings, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bub.base.diagnostics import did_you_mean
from bub.base.duration import parse_duration
from bub.errors import ModelError
from bub.pipeline.plan.providers import (
    ANTHROPIC,
    APIS,
    CUSTOM,
    LOCAL,
    OPENAI,
    PROVIDERS,
    Provider,
    provider_of,
    split_model,
)

DEFAULT_TIMEOUT = 120.0
"""Seconds to wait for a server's next word, unless the settings say otherwise."""

_LONGEST_HOST = 254  # with the dot at its end
_PATHS = {OPENAI: "/chat/completions", ANTHROPIC: "/messages"}


class Endpoint(msgspec.Struct, frozen=True):
    """A model and where it is asked. `timeout` (seconds) bounds each wait for the server's next word.

    `retries` counts the further attempts before an answer has begun. `api` is one of `APIS`; for the rest see
    `Provider`. The key is kept out of `repr`.
    """

    provider: str
    model: str
    base_url: str
    api_key: str | None = None
    key_variable: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: float = DEFAULT_TIMEOUT
    retries: int = 2
    limit_field: str = "max_tokens"
    asks_for_usage: bool = True
    api: str = OPENAI
    call_ids: str = ".*"

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "api_key")
        return f"Endpoint({', '.join(shown)})"

    @property
    def url(self) -> str:
        """Where requests are posted to."""
        return f"{self.base_url}{_PATHS[self.api]}"

    @property
    def host(self) -> str:
        """The host of the address, with its port where one is given."""
        return urlsplit(self.base_url).netloc


class _ProviderSettings(msgspec.Struct, frozen=True):
    api: str | None = None
    api_key: str | None = None
    api_base: str | None = None


class _ModelSettings(msgspec.Struct, frozen=True):
    """The settings that choose a model; sections of other plugins lie beside them and are not looked at."""

    model: str | None = None
    api_key: str | None = None
    api_base: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: str | None = None
    retries: int = 2
    providers: dict[str, _ProviderSettings] = {}


def resolve_endpoint(settings: Mapping[str, Any], model: str | None = None, silence: float | None = None) -> Endpoint:
    """The endpoint that the settings choose; `model` asks for another model than theirs.

    `silence` is how long, in seconds, the model may be silent if they do not say so with `timeout`.

    Read are `model`, `api_key`, `api_base`, `max_tokens`, `temperature`, `timeout`, `retries` and
    `providers: {name: {api, api_key, api_base}}`. The general `api_key` and `api_base` belong to the provider of the
    settings' own `model` and are never used for another. Raises `ModelError` (`config`) when no model can be asked.
    """
    given = _read_settings(settings)
    wanted = (model or given.model or "").strip()
    if not wanted:
        raise ModelError(
            "no model is chosen",
            kind="config",
            provider="",
            help="type `bub onboard`, which asks for one and sets it up;\n"
            "or `bub local install`, with `local_model` in the profile; "
            "or `export BUB_MODEL=provider:name BUB_API_KEY=…`",
        )
    name, model_name = split_model(wanted)
    own, general = _said_of(given, wanted)
    key = _check_key(name, own.api_key or general.api_key)
    base = own.api_base or general.api_base
    known = PROVIDERS.get(name)
    _require_address(given, wanted)
    if not model_name:
        raise _config(name, f"`model: {wanted}` names no model", "write it as `provider:name`")
    if base is None and known is not None and known.key_variable is not None and key is None:
        raise _config(
            name,
            f"there is no API key for {name}",
            f'set BUB_API_KEY, or in the settings `providers.{name}.api_key` to "${{env:{known.key_variable}}}"',
        )
    provider = known or Provider(name, "", None)
    return Endpoint(
        provider=name,
        model=model_name,
        base_url=_check_base(name, base or provider.base_url),
        api_key=key,
        key_variable=provider.key_variable,
        max_tokens=given.max_tokens,
        temperature=given.temperature,
        timeout=_seconds(name, given.timeout, DEFAULT_TIMEOUT if silence is None else silence),
        retries=max(0, given.retries),
        limit_field=provider.limit_field,
        asks_for_usage=provider.asks_for_usage,
        api=_check_api(name, own.api or provider.api),
        call_ids=provider.call_ids,
    )


def require_address(settings: Mapping[str, Any], model: str) -> None:
    """Raise `ModelError` (`config`) if the settings do not tell where a model is asked, and Bub does not know it."""
    _require_address(_read_settings(settings), model.strip())


def _require_address(given: _ModelSettings, wanted: str) -> None:
    own, general = _said_of(given, wanted)
    name = provider_of(wanted)
    if (own.api_base or general.api_base) is None and name not in PROVIDERS:
        raise _unknown_provider(wanted, name)


def _said_of(given: _ModelSettings, wanted: str) -> tuple[_ProviderSettings, _ModelSettings]:
    """What the settings say of a model's provider, and what they say in general if that is of this provider, too."""
    name = provider_of(wanted)
    general = given if name == provider_of(given.model or wanted) else _ModelSettings()
    return given.providers.get(name, _ProviderSettings()), general


def _read_settings(settings: Mapping[str, Any]) -> _ModelSettings:
    present = {key: settings[key] for key in _ModelSettings.__struct_fields__ if settings.get(key) is not None}
    try:
        return msgspec.convert(present, _ModelSettings, strict=False)
    except msgspec.ValidationError as error:
        # The message names a type and a path (`$.max_tokens`), never the value, which could be a key.
        raise _config("", f"the settings of the model are wrong: {str(error).replace('`$.', '`')}", None) from None


def _unknown_provider(wanted: str, name: str) -> ModelError:
    known = [*PROVIDERS, LOCAL]
    if name == LOCAL:
        return _config(
            name,
            f"nobody answers for `model: {wanted}`",
            "list the plugin `local_model` in the profile, and run `bub local install`",
        )
    if name == CUSTOM and ":" not in wanted:
        problem = f"`model: {wanted}` does not say which provider to ask"
        example = did_you_mean(wanted.partition("/")[0], known) or f"write `openrouter:{wanted}`"
        return _config(name, problem, f"{example}, one of {', '.join(known)}, or set `api_base`")
    guess = did_you_mean(name, known) or f"known are {', '.join(known)}"
    return _config(
        name, f"the provider of `model: {wanted}` is not known", f"{guess}; for any other server set `api_base`"
    )


def _check_key(provider: str, key: str | None) -> str | None:
    """The key without surrounding blanks; one that no HTTP header can carry is refused without being shown."""
    key = (key or "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise _config(
            provider,
            f"the API key for {provider} has a character in it that no key can have",
            f"set `providers.{provider}.api_key` again, without blanks or quotes",
        )
    return key or None


def _check_api(provider: str, api: str) -> str:
    """The name of an API that Bub speaks; any other is refused without being shown."""
    if api not in APIS:
        raise _config(provider, f"the setting `providers.{provider}.api` names no API", f"write {' or '.join(APIS)}")
    return api


def _check_base(provider: str, base: str) -> str:
    """The base URL without a trailing slash. What is wrong with it is said without showing it: it can hold a secret."""
    where = f"the `api_base` of {provider}"
    base = base.strip()
    try:
        parts = urlsplit(base)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    # `urlsplit` leaves some control characters out without a word.
    if not has_host or not base.isprintable() or parts.scheme not in ("http", "https"):
        raise _config(provider, f"{where} is not an http or https URL", "write it as `https://host/v1`")
    if parts.username is not None or parts.password is not None:
        raise _config(
            provider, f"{where} has a user name or a password in it", f"put the key in `providers.{provider}.api_key`"
        )
    if parts.query or parts.fragment:
        raise _config(provider, f"{where} has a `?` or a `#` part", "write it as `https://host/v1`")
    if not _is_host(parts.hostname or ""):
        raise _config(provider, f"{where} names a host that cannot be", "write it as `https://host/v1`")
    path = parts.path.rstrip("/")
    for end in _PATHS.values():
        path = path.removesuffix(end)
    return f"{parts.scheme}://{parts.netloc}{path}"


def _is_host(name: str) -> bool:
    """Whether the network's name service could be asked for it: no empty or overlong part (RFC 1035 §2.3.4)."""
    try:
        return len(name.encode("idna")) <= _LONGEST_HOST
    except UnicodeError:
        return False


def _seconds(provider: str, text: str | None, usual: float) -> float:
    if text is None:
        return usual
    seconds = parse_duration(text)
    if seconds is None:
        raise _config(provider, "the setting `timeout` is not a duration", "write it as `30s` or `2m`")
    return seconds


def _config(provider: str, message: str, help: str | None) -> ModelError:  # noqa: A002 (the reader's word)
    return ModelError(message, kind="config", provider=provider, help=help)
