"""What Bub itself asks in a set-up: which model answers, with which key, and whether it really does."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from bub.agent.first_words import CallModel, hear, hear_local
from bub.agent.local.install import install
from bub.agent.local.parts import MEGABYTES, status
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import Endpoint, resolve_endpoint
from bub.agent.models.probe import ask_for_models
from bub.asking import Asking, Choice
from bub.base.locate import bub_home
from bub.configure import merge
from bub.errors import BubError, ModelError
from bub.pipeline.plan.layers.said import GENERAL
from bub.pipeline.plan.providers import CUSTOM, LOCAL, PROVIDERS

PATIENCE = 10.0
"""Seconds that a provider has for its list of models."""

LOCAL_MODEL = f"{LOCAL}:smollm2"
_USUAL_MODELS: Mapping[str, str] = {"openrouter": "openrouter/free"}
_NO_MODEL = "-"
"""Stands for a model where only the provider matters."""

_RETRY, _EDIT, _KEEP, _STOP = "retry", "edit", "keep", "stop"

_T = TypeVar("_T")


def ask_for_model(current: Mapping[str, Any], ask: Asking, *, local: CallModel | None) -> dict[str, Any] | None:
    """The settings of the model that a person chooses, None where all stays as it is; a removed one is None.

    `current` are the settings as the file says them, references unresolved; `local` asks the plugin of the profile that
    answers as `local`, if there is one. A provider's key and address are set under `providers`, so a key goes to its
    own provider and to no other.
    """
    chosen = _ask_for_model(current, ask, local is not None)
    while not _answers(chosen, ask, local):
        chosen = _ask_for_model(merge(current, chosen.fragment(current)), ask, local is not None)
    return chosen.fragment(current) or None


class _Chosen(msgspec.Struct, frozen=True):
    """A model and where it is asked; `base`, `key` (a reference) and `api` are None if nothing is said of them."""

    provider: str
    model: str
    base: str | None = None
    key: str | None = None
    api: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> _Chosen:
        """What some settings say; "" where they say nothing."""
        written = str(settings.get("model") or "")
        provider, colon, model = written.partition(":")
        if written and not colon:
            provider, model = CUSTOM, written
        general = {name: settings.get(name) for name in GENERAL}
        return cls.at(provider.strip().lower(), model.strip(), settings, general)

    @classmethod
    def at(
        cls, provider: str, model: str, settings: Mapping[str, Any], general: Mapping[str, Any] = MappingProxyType({})
    ) -> _Chosen:
        """A model of a provider of which some settings know, or not."""
        own = {**general, **_own(settings, provider)}
        return cls(provider, model, own.get("api_base"), own.get("api_key"), own.get("api"))

    @property
    def name(self) -> str:
        """The model as the settings name it."""
        return f"{self.provider}:{self.model}"

    def endpoint(self, ask: Asking) -> Endpoint:
        """The endpoint with the key itself. Raises `ModelError` when the settings make none."""
        base, key = (ask.resolve(text) if text else None for text in (self.base, self.key))
        own = {"api_base": base, "api_key": key, "api": self.api}
        return resolve_endpoint({"model": self.name, "providers": {self.provider: own}})

    def fragment(self, current: Mapping[str, Any]) -> dict[str, Any]:
        """What changes of the settings. A general key or address stays with the provider that it was given for."""
        before = _Chosen.of(current)
        changed: dict[str, Any] = {} if before.name == self.name else {"model": self.name}
        if (before.provider, before.base, before.key) == (self.provider, self.base, self.key):
            return changed
        general = {name: current[name] for name in GENERAL if current.get(name) is not None}
        providers: dict[str, dict[str, Any]] = {before.provider: {}, self.provider: {}}
        if before.provider:
            own = _own(current, before.provider)
            providers[before.provider].update((name, text) for name, text in general.items() if name not in own)
        there = {**_own(current, self.provider), **providers[self.provider]}
        said = {"api_base": self.base, "api_key": self.key}
        providers[self.provider].update((name, text) for name, text in said.items() if text != there.get(name))
        return {**changed, **dict.fromkeys(general), "providers": {name: own for name, own in providers.items() if own}}


def _own(settings: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    own = (settings.get("providers") or {}).get(provider)
    return own if isinstance(own, Mapping) else {}


def _ask_for_model(current: Mapping[str, Any], ask: Asking, has_local: bool) -> _Chosen:
    before = _Chosen.of(current)
    choices = [choice for choice in _providers(current) if has_local or choice.value != LOCAL]
    usual = before.provider or _usual_provider(ask)
    default = usual if has_local or usual != LOCAL else None
    provider = ask.select("model.provider", "Who answers?", choices, default=default)
    if provider == LOCAL:
        return before if before.provider == LOCAL else _Chosen(LOCAL, LOCAL_MODEL.partition(":")[2])
    known = before if before.provider == provider else _Chosen.at(provider, "", current)
    base = _ask_for_base(provider, known, ask)
    key = _ask_for_key(provider, known, base, ask)
    chosen = replace(known, model=_NO_MODEL, base=base, key=key)
    model = ask.autocomplete(
        "model.name",
        "Which model?",
        lambda: _models(chosen, ask),
        default=known.model or _USUAL_MODELS.get(provider),
        check=lambda text: None if text.strip() and text.isprintable() else "is not the name of a model",
    )
    return replace(chosen, model=model.strip())


def _providers(current: Mapping[str, Any]) -> list[Choice]:
    others = [name for name in current.get("providers") or () if name not in PROVIDERS and name not in (LOCAL, CUSTOM)]
    spoken = _Chosen.of(current).provider
    if spoken and spoken not in {*PROVIDERS, LOCAL, CUSTOM, *others}:
        others.append(spoken)
    return [
        Choice(LOCAL, "local: a small model on this machine, without a key"),
        *(Choice(name) for name in PROVIDERS),
        *(Choice(name) for name in others),
        Choice(CUSTOM, "custom: another OpenAI-compatible server"),
    ]


def _usual_provider(ask: Asking) -> str:
    """The one whose key is at hand, else the model that needs none."""
    for name, provider in PROVIDERS.items():
        if provider.key_variable is not None and ask.resolve(f"${{env:{provider.key_variable}}}"):
            return name
    return LOCAL


def _ask_for_base(provider: str, known: _Chosen, ask: Asking) -> str | None:
    """The address, asked for if it is not the same for everybody; None for the usual one."""
    there = PROVIDERS.get(provider)
    if there is not None and there.key_variable is not None and not there.is_own and known.base is None:
        return None
    usual = there.usual_url if there is not None else None

    def find_problem(text: str) -> str | None:
        try:
            _Chosen(provider, _NO_MODEL, text, "-").endpoint(ask)
        except ModelError as error:
            return f"will not do: {error}"
        return None

    base = ask.text(
        "model.base_url", f"The address of {provider}?", default=known.base or usual, check=find_problem
    ).strip()
    return None if base == usual and known.base is None else base


def _ask_for_key(provider: str, known: _Chosen, base: str | None, ask: Asking) -> str | None:
    """A reference to the key. The one for another address is not taken over: a key goes where it belongs."""
    there = PROVIDERS.get(provider)
    needed = there is not None and there.key_variable is not None
    kept = known.key if base == known.base else None
    if there is not None and not needed and kept is None:
        return None
    variable = (there.key_variable if there is not None else None) or f"{_capitals(provider)}_API_KEY"
    hint, at_hand = "", f"${{env:{variable}}}"
    if needed and kept is None and base is None and ask.resolve(at_hand):
        kept, hint = at_hand, f"Enter takes that of {variable}"

    def find_problem(text: str) -> str | None:
        try:
            resolve_endpoint({"model": f"{CUSTOM}:-", "providers": {CUSTOM: {"api_base": "http://-", "api_key": text}}})
        except ModelError as error:
            return str(error).removeprefix(f"the API key for {CUSTOM} ")
        return None

    return ask.secret(
        "model.key",
        f"The API key of {provider}?",
        kept=kept,
        variable=_variable_in(known.key) or variable,
        optional=not needed,
        check=find_problem,
        hint=hint,
    )


def _variable_in(reference: str | None) -> str | None:
    found = re.fullmatch(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", reference or "")
    return found[1] if found else None


def _capitals(name: str) -> str:
    return re.sub("[^A-Z0-9]", "_", name.upper())


def _models(chosen: _Chosen, ask: Asking) -> list[str]:
    """The models to choose from; none, and the reason told, when the provider gives no list."""
    try:
        endpoint = chosen.endpoint(ask)
        with ask.progress(f"asking {endpoint.host} for its models"):
            served = _online(partial(ask_for_models, endpoint=endpoint, patience=PATIENCE))
        if served.fault is not None:
            raise served.fault
    except ModelError as error:
        ask.say(f"There is no list of models to choose from: {_explain(error)}")
        return []
    return sorted({name for name in served.models or () if name and name.isprintable()})


def _answers(chosen: _Chosen, ask: Asking, local: CallModel | None) -> bool:
    """Whether the choice is to be kept: the model answered, or the person wants it all the same."""
    if chosen.provider == LOCAL and not status(bub_home(os.environ)).ready:
        if not ask.confirm("model.install", f"It is not on this machine yet. Install it now ({MEGABYTES} MB)?"):
            ask.say("`bub local install` installs it whenever you like.")
            return True
        if not _is_installed(ask):
            return False
    if not ask.confirm("model.check", "Ask it for a word now, to see that it answers?"):
        return True
    while True:
        try:
            words = _hear(chosen, ask, local)
        except ModelError as error:
            ask.say(f"It does not answer: {_explain(error)}")
        else:
            ask.say(f"{chosen.name} answers: {words}")
            return True
        then = ask.select(
            "model.on_failure",
            "What now?",
            [
                Choice(_RETRY, "try again"),
                Choice(_EDIT, "change the answers"),
                Choice(_KEEP, "keep them anyway"),
            ],
            default=_KEEP,
        )
        if then != _RETRY:
            return then == _KEEP


def _hear(chosen: _Chosen, ask: Asking, local: CallModel | None) -> str:
    """Return the beginning of an answer. Raises `ModelError`."""
    if chosen.provider == LOCAL and local is not None:
        with ask.progress("waiting for the model on this machine"):
            return trio.run(hear_local, local, chosen.name)
    endpoint = chosen.endpoint(ask)
    with ask.progress(f"waiting for {endpoint.host}"):
        return _online(partial(hear, endpoint=endpoint))


def _is_installed(ask: Asking) -> bool:
    """Install the local model, and return whether the choice is to be kept.

    Raises BubError if it could not be installed and the person gives up: a model that cannot answer is not written.
    """
    home = bub_home(os.environ)
    while True:
        try:
            install(home, ask)
        except BubError as error:
            ask.say(_explain(error))
            then = ask.select(
                "model.on_failed_install",
                "What now?",
                [
                    Choice(_RETRY, "try again"),
                    Choice(_EDIT, "choose another model"),
                    Choice(_STOP, "stop, and write nothing"),
                ],
                default=_STOP,
            )
            if then == _EDIT:
                return False
            if then == _STOP:
                raise
        else:
            return True


def _online(work: Callable[[Any], Awaitable[_T]]) -> _T:
    """What `work` gives with an HTTP client that is open for it alone."""

    async def connect() -> _T:
        async with open_client() as client:
            return await work(client)

    return trio.run(connect)


def _explain(error: BubError) -> str:
    return f"{error} ({' / '.join(error.help.splitlines())})" if error.help else str(error)
