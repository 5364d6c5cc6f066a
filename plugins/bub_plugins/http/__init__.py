"""HTTP: other people's programs ask over webhooks, and over an API that speaks as OpenAI's does.

Nothing is open by default: a client has a token of its own, a webhook a secret that signs its requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bub import hookimpl
from bub.asking import Asking
from bub_plugins.http.channel import HttpApi
from bub_plugins.http.onboarding import ask_for_http
from bub_plugins.http.settings import HttpSettings

__all__ = ["Http", "HttpApi", "HttpSettings"]


class Http:
    """The plugin: one channel, which listens at one address."""

    def __init__(self, framework: Any) -> None:
        self._framework = framework

    @hookimpl
    def provide_channels(self, message_handler: Callable[[Any], Awaitable[bool | None]]) -> list[HttpApi]:
        """Return the channel `http`, which runs if there is a client or a webhook."""
        return [HttpApi(self._framework, message_handler)]

    @hookimpl
    def onboard_config(self, current_config: Mapping[str, Any], ask: Asking | None) -> dict[str, Any] | None:
        """Ask where to listen, and for one program that may ask."""
        return ask_for_http(current_config, self._framework.profile, ask) if ask is not None else None
