"""The section `http` of the settings."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bub import Settings

GITHUB, TIMESTAMP = "github", "timestamp"
"""How the sender of a webhook signs: as GitHub does, or the time and the body."""

Secret = Annotated[str, msgspec.Meta(extra_json_schema={"writeOnly": True})]


class RateSettings(Settings):
    """How often somebody may ask: `per_minute` in the long run, and `burst` at once."""

    per_minute: int = 60
    burst: int = 20


class TlsSettings(Settings):
    """The files of a certificate and of its key; a relative path begins at the workspace."""

    certificate: str
    key: str


class ClientSettings(Settings):
    """Somebody who proves with `token` who they are."""

    token: Secret
    profiles: list[str] = msgspec.field(default_factory=list)
    client_tools: bool = False
    rate: RateSettings | None = None


class CallbackSettings(Settings):
    """The address for replies that no request waits for, and what signs them."""

    url: str
    secret: Secret


class WebhookSettings(Settings):
    """A webhook at `/hooks/NAME`; `signature` says how its sender signs with `secret`."""

    secret: Secret | None = None
    signature: str = TIMESTAMP
    clients: list[str] = msgspec.field(default_factory=list)
    events: list[str] = msgspec.field(default_factory=list)
    text: str = "{body}"
    session: str = "main"
    profile: str = ""
    answer_within: str = "30s"
    callback: CallbackSettings | None = None
    rate: RateSettings | None = None


class HttpSettings(Settings, section="http"):
    """What `schemas/settings/http.schema.json` describes."""

    listen: str = "127.0.0.1:8750"
    public_url: str | None = None
    tls: TlsSettings | None = None
    clients: dict[str, ClientSettings] = msgspec.field(default_factory=dict)
    webhooks: dict[str, WebhookSettings] = msgspec.field(default_factory=dict)
    rate: RateSettings = RateSettings()
    most_bytes: int = 1_048_576
    connections: int = 256
    waiting: int = 100


_HOOK = "hook."


def webhook_of(chat_id: str) -> str | None:
    """Return the webhook whose session a chat is; None if it is that of a client."""
    owner, _, _ = chat_id.partition(":")
    return owner.removeprefix(_HOOK) if owner.startswith(_HOOK) else None


def may_ask(settings: HttpSettings, chat_id: str, profile: str) -> bool:
    """Tell whether who owns a chat is still listed, and may ask the profile, "" for the one that routes choose."""
    webhook = webhook_of(chat_id)
    if webhook is not None:
        hook = settings.webhooks.get(webhook)
        return hook is not None and hook.profile == profile
    client = settings.clients.get(chat_id.partition(":")[0])
    return client is not None and profile in client.profiles
