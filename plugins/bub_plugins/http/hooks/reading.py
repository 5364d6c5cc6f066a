"""What a request to a webhook means: who sent it, which one it is, and the message that it brings."""

from __future__ import annotations

import re

from starlette.requests import Request

from bub.channels import ChannelMessage
from bub_plugins.http.asking import DRAFT
from bub_plugins.http.body import read_body
from bub_plugins.http.clients import chat_of_webhook, session_name
from bub_plugins.http.door import CHANNEL, Door, trace_of
from bub_plugins.http.hooks.seen import Seen
from bub_plugins.http.hooks.signing import check
from bub_plugins.http.hooks.templates import fill
from bub_plugins.http.refusal import Refusal
from bub_plugins.http.settings import GITHUB, WebhookSettings

_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_EVENT = re.compile(r"[a-z_]{1,64}")
_PING = "ping"


async def read_message(
    request: Request, door: Door, seen: Seen, name: str, hook: WebhookSettings
) -> ChannelMessage | None:
    """Return the message of a request; None if the webhook is not for such. Raises `Refusal`.

    Only `text`, `session` and who sent it are taken from the request: the settings say where the answer goes,
    its profile and its kind.
    """
    sender = _prove_client(request, door, hook)
    if sender:
        door.count_webhook(name)
    body = await read_body(request, door.settings.most_bytes)
    signature = ""
    if hook.secret is not None and not sender:
        signature = check(request, body, hook.secret, hook.signature)
        door.count_webhook(name)
    context: dict[str, str] = {"webhook": name}
    is_github = hook.signature == GITHUB
    key = _read_key(request, "x-github-delivery" if is_github else "idempotency-key")
    if is_github:
        event = request.headers.get("x-github-event", "")
        if not _EVENT.fullmatch(event) or not key:
            raise Refusal(400, "GitHub says x-github-event and x-github-delivery")
        if event == _PING or (hook.events and event not in hook.events):
            return None
        context |= {"event": event, "delivery": key}
    text = fill(hook.text, body)
    session = session_name(fill(hook.session, body))
    identity = seen.identify(name, sender, key, body, signature)
    return ChannelMessage(
        channel=CHANNEL,
        chat_id=chat_of_webhook(name, session),
        content=text,
        sender_id=sender or f"hook.{name}",
        context=context,
        message_id=identity.message_id,
        once=identity.once,
        draft=DRAFT,
        trace=trace_of(request),
        profile=hook.profile,
    )


def _prove_client(request: Request, door: Door, hook: WebhookSettings) -> str:
    """Return the id of the client that asks, "" if the signature has to tell who does. Raises `Refusal`."""
    if not hook.clients or (hook.secret is not None and "authorization" not in request.headers):
        return ""
    client = door.client_of(request)
    if client.id not in hook.clients:
        raise Refusal(403, "this token is not for this webhook")
    door.count(client)
    return client.id


def _read_key(request: Request, header: str) -> str:
    key = request.headers.get(header, "")
    if key and not _KEY.fullmatch(key):
        raise Refusal(400, f"the header {header} has to be 1 to 128 characters of ASCII without blanks")
    return key
