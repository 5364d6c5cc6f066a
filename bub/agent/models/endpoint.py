"""Which model answers, at which address and with which key: read from the settings, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from bub.agent.models.given import check_base, check_headers, check_key, config_error
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
    RESPONSES,
    Provider,
    Thinking,
    provider_of,
    quirks_of,
    read_reasoning,
    split_model,
)
from bub.secrets.literals import SHORTEST_UNMARKED, credentials_in
from bub.secrets.names import SECRET_HEADER, is_secret_variable

DEFAULT_TIMEOUT = 120.0
"""Seconds to wait for a server's next word, unless the settings say otherwise."""

_PATHS = {OPENAI: "/chat/completions", ANTHROPIC: "/messages", RESPONSES: "/responses"}
_KEPT_SECRET = ("api_key", "query", "headers", "extra_body")


class Endpoint(msgspec.Struct, frozen=True):
    """A model and where it is asked. `timeout` (seconds) bounds each wait for the server's next word.

    `retries` counts the further attempts before an answer has begun. `api` is one of `APIS`. `query` is sent with each
    address, `headers` with each request, over those that Bub itself sends, and `extra_body` goes over the body of a
    request for an answer. `quirks` is what is particular about the provider. `reasoning` is how much the model is to
    think: a level, a number of tokens, or None if it is left to the provider. `repr` leaves out what may hold a key.
    """

    provider: str
    model: str
    base_url: str
    api_key: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: float = DEFAULT_TIMEOUT
    retries: int = 2
    api: str = OPENAI
    query: str = ""
    headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    quirks: Provider = Provider(CUSTOM, "", None)
    reasoning: str | int | None = None

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in _KEPT_SECRET)
        return f"Endpoint({', '.join(shown)})"

    @property
    def url(self) -> str:
        """The address that requests are posted to."""
        return self.url_of(_PATHS[self.api])

    def url_of(self, path: str) -> str:
        """The address of one of its paths."""
        return f"{self.base_url}{path}{f'?{self.query}' if self.query else ''}"

    @property
    def has_version(self) -> bool:
        """Whether the address names a version of the API, as nearly all do (`/v1`), or is known to need none."""
        known = self.base_url == self.quirks.base_url or bool(self.query)
        return known or re.search(r"/v\d", self.base_url) is not None

    @property
    def host(self) -> str:
        """The host of the address, with its port where one is given."""
        return urlsplit(self.base_url).netloc

    @property
    def address(self) -> tuple[str, int | None]:
        """The host of the address without a port, and the port, the usual one of its scheme if it names none."""
        parts = urlsplit(self.base_url)
        return parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)

    def temperature_of(self, asked: float | None) -> float | None:
        """The temperature of a request that asks for one, or of the settings; None if the model refuses any."""
        temperature = self.temperature if asked is None else asked
        return temperature if self.quirks.takes_temperature(self.model) else None

    @property
    def thinking(self) -> Thinking:
        """What the model understands of how much it is to think."""
        return self.quirks.thinking_of(self.model)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown of what it is asked with."""
        named = [value for name, value in self.headers.items() if re.search(SECRET_HEADER, name)]
        queried = [value for name, value in parse_qsl(self.query) if is_secret_variable(name)]
        words = [
            word for value in (*named, *queried) for word in credentials_in(value) if len(word) >= SHORTEST_UNMARKED
        ]
        return tuple(filter(None, (self.api_key, *sorted(words, key=len, reverse=True))))


class _ProviderSettings(msgspec.Struct, frozen=True):
    api: str | None = None
    api_key: str | None = None
    api_base: str | None = None
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}


class _ModelSettings(msgspec.Struct, frozen=True):
    """The settings that choose a model; sections of other plugins lie beside them and are not looked at."""

    model: str | None = None
    api_key: str | None = None
    api_base: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: str | None = None
    retries: int = 2
    reasoning: str | int | bool | None = None
    providers: dict[str, _ProviderSettings] = {}


def resolve_endpoint(settings: Mapping[str, Any], model: str | None = None, silence: float | None = None) -> Endpoint:
    """The endpoint that the settings choose; `model` asks for another model than theirs.

    `silence` is how long, in seconds, the model may be silent if they do not say so with `timeout`.

    Read are `model`, `api_key`, `api_base`, `max_tokens`, `temperature`, `timeout`, `retries`, `reasoning` and
    `providers: {name: {api, api_key, api_base, headers, extra_body}}`. The general `api_key` and `api_base` belong to
    the provider of the settings' own `model` and are never used for another. Raises `ModelError` (`config`) when no
    model can be asked.
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
    key = check_key(name, own.api_key or general.api_key)
    headers = check_headers(name, own.headers)
    base = own.api_base or general.api_base
    known = PROVIDERS.get(name)
    _require_address(given, wanted)
    if not model_name:
        raise config_error(name, f"`model: {wanted}` names no model", "write it as `provider:name`")
    is_let_in = key is not None or any(re.search(SECRET_HEADER, header) for header in headers)
    if known is not None and known.key_variable is not None and (base is None or known.is_own) and not is_let_in:
        raise config_error(
            name,
            f"there is no API key for {name}",
            f"set BUB_API_KEY; or, if {known.key_variable} has your key, type "
            f"`bub config set --person providers.{name}.api_key --env {known.key_variable}`",
        )
    api = _check_api(name, own.api or (known.api if known is not None else OPENAI))
    provider = quirks_of(name, api)
    address, query = check_base(name, base or provider.base_url, _PATHS.values())
    return Endpoint(
        provider=name,
        model=model_name,
        base_url=address,
        api_key=key,
        max_tokens=given.max_tokens,
        temperature=given.temperature,
        timeout=_seconds(name, given.timeout, DEFAULT_TIMEOUT if silence is None else silence),
        retries=max(0, given.retries),
        api=api,
        query=query,
        headers=headers,
        extra_body=own.extra_body,
        quirks=provider,
        reasoning=_check_reasoning(name, given.reasoning),
    )


def require_address(settings: Mapping[str, Any], model: str) -> None:
    """Raise `ModelError` (`config`) if the settings do not tell where a model is asked, and Bub does not know it."""
    _require_address(_read_settings(settings), model.strip())


def _require_address(given: _ModelSettings, wanted: str) -> None:
    own, general = _said_of(given, wanted)
    name = provider_of(wanted)
    if (own.api_base or general.api_base) is not None:
        return
    known = PROVIDERS.get(name)
    if known is None:
        raise _unknown_provider(wanted, name)
    if known.is_own:
        help = f"set `providers.{name}.api_base` to yours, which is like {known.base_url}"  # noqa: A001
        raise config_error(name, f"everybody has another address of {name}, and yours is not set", help)


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
        raise config_error("", f"the settings of the model are wrong: {str(error).replace('`$.', '`')}", None) from None


def _unknown_provider(wanted: str, name: str) -> ModelError:
    known = [*PROVIDERS, LOCAL]
    if name == LOCAL:
        return config_error(
            name,
            f"no plugin answers for `model: {wanted}`",
            "list the plugin `local_model` in the profile, and run `bub local install`",
        )
    if name == CUSTOM and ":" not in wanted:
        problem = f"`model: {wanted}` does not say which provider to ask"
        example = did_you_mean(wanted.partition("/")[0], known) or f"write `openrouter:{wanted}`"
        return config_error(name, problem, f"{example}, one of {', '.join(known)}, or set `api_base`")
    guess = did_you_mean(name, known) or f"it is one of {', '.join(known)}"
    return config_error(
        name, f"the provider of `model: {wanted}` is not known", f"{guess}; for any other server set `api_base`"
    )


def _check_api(provider: str, api: str) -> str:
    """The name of an API that Bub speaks; any other is refused without being shown."""
    if api not in APIS:
        problem = f"the setting `providers.{provider}.api` names no API"
        raise config_error(provider, problem, f"write {', '.join(APIS[:-1])} or {APIS[-1]}")
    return api


def _check_reasoning(provider: str, said: object) -> str | int | None:
    try:
        return read_reasoning(said)
    except ValueError as error:
        raise config_error(provider, "the setting `reasoning` is no level of thinking", f"write {error}") from None


def _seconds(provider: str, text: str | None, usual: float) -> float:
    if text is None:
        return usual
    seconds = parse_duration(text)
    if seconds is None:
        raise config_error(provider, "the setting `timeout` is not a duration", "write it as `30s` or `2m`")
    return seconds
