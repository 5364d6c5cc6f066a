"""What every route needs: who asks, how often they may, and the settings of now."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from starlette.requests import Request

from bub.errors import BubError
from bub_plugins.http.asking import Askers
from bub_plugins.http.clients import Client, Clients, check_secret, is_id
from bub_plugins.http.rates import Buckets
from bub_plugins.http.refusal import Refusal
from bub_plugins.http.settings import GITHUB, TIMESTAMP, HttpSettings, RateSettings, WebhookSettings

CHANNEL = "http"

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MOST_TRACESTATE = 512


class Rules:
    """The settings as they are asked for each request. Raises `BubError` if they cannot be followed."""

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self.clients = Clients(settings.clients)
        for name, hook in settings.webhooks.items():
            _check_webhook(name, hook, settings)
        own = [client.rate for client in settings.clients.values()] + [hook.rate for hook in settings.webhooks.values()]
        for rate in (settings.rate, *own):
            if rate is not None and min(rate.per_minute, rate.burst) < 1:
                raise BubError("a `rate` of the settings `http` lets nobody ask", help="let it be 1 at least")

    def check_profiles(self, profiles: Collection[str]) -> None:
        """Raise `BubError` if a client or a webhook names a profile that is not loaded."""
        for client, said in self.settings.clients.items():
            for name in said.profiles:
                _check_profile(name, f"http.clients.{client}.profiles", profiles)
        for webhook, hook in self.settings.webhooks.items():
            if hook.profile:
                _check_profile(hook.profile, f"http.webhooks.{webhook}.profile", profiles)


class Door:
    """What routes ask: `rules` are those of now, `askers` wait for answers, `framework` is what turns run on."""

    def __init__(self, framework: Any, rules: Rules, hand_over: Callable[[Any], Awaitable[bool | None]]) -> None:
        self.framework = framework
        self.rules = rules
        self.askers = Askers(CHANNEL, hand_over, lambda: self.settings.waiting)
        self._buckets = Buckets()

    @property
    def settings(self) -> HttpSettings:
        """The settings of now."""
        return self.rules.settings

    def client_of(self, request: Request) -> Client:
        """Return the client whose token a request has. Raises `Refusal` (401) if it has none that is known."""
        client = self.rules.clients.find(request.headers.get("authorization", ""))
        if client is None:
            raise Refusal.unknown()
        return client

    def count(self, client: Client) -> None:
        """Count a request of a client. Raises `Refusal` (429) if it asks too often."""
        self._take(f"client.{client.id}", self.settings.clients[client.id].rate)

    def count_webhook(self, name: str) -> None:
        """Count a request to a webhook.

        Raises `Refusal`: 429 if it is asked too often, 404 if a reload took it away while the body came.
        """
        hook = self.settings.webhooks.get(name)
        if hook is None:
            raise Refusal(404, "there is nothing here")
        self._take(f"hook.{name}", hook.rate)

    def _take(self, name: str, rate: RateSettings | None) -> None:
        wait = self._buckets.take(name, rate or self.settings.rate)
        if wait:
            raise Refusal.later(429, "too many requests", wait)


def trace_of(request: Request) -> str:
    """Return what `ChannelMessage.trace` keeps of a request: its W3C trace context, "" if it has none that is one."""
    parent = request.headers.get("traceparent", "")
    if not _TRACEPARENT.fullmatch(parent):
        return ""
    state = request.headers.get("tracestate", "")
    is_sound = 0 < len(state) <= _MOST_TRACESTATE and state.isascii() and state.isprintable()
    return f"{parent} {state}" if is_sound else parent


def _check_webhook(name: str, hook: WebhookSettings, settings: HttpSettings) -> None:
    where = f"http.webhooks.{name}"
    if not is_id(name):
        raise BubError(f"`{name}` is not a name that a webhook can have", help="use a-z, 0-9, `_` and `-`")
    if hook.secret is None and not hook.clients:
        problem = f"anybody could ask the webhook `{name}`: nothing proves who sends"
        raise BubError(problem, help=f"set `{where}.secret`, or list who may ask in `{where}.clients`")
    if hook.secret is not None:
        check_secret(hook.secret, f"{where}.secret")
    if hook.callback is not None:
        check_secret(hook.callback.secret, f"{where}.callback.secret")
    if hook.signature not in (GITHUB, TIMESTAMP):
        problem = f"the setting `{where}.signature` is `{hook.signature}`"
        raise BubError(problem, help=f"there are {GITHUB} and {TIMESTAMP}")
    for client in hook.clients:
        if client not in settings.clients:
            problem = f"the setting `{where}.clients` names `{client}`, which is no client"
            raise BubError(problem, help="list it in `http.clients`, with a token of its own")


def _check_profile(name: str, where: str, profiles: Collection[str]) -> None:
    if name not in profiles:
        problem = f"the setting `{where}` names the profile `{name}`, which is not loaded"
        raise BubError(problem, help=f"name one of {', '.join(sorted(profiles))}")
