"""Replies that are called back: each is sent, signed, to the address that the settings of its webhook name."""

from __future__ import annotations

import httpx
import msgspec

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.errors import BubError
from bub_plugins.http.hooks.signing import sign
from bub_plugins.http.settings import CallbackSettings

_PATIENCE = 30.0
_LONGEST_WAIT = 3_600.0
_TRY_AGAIN = frozenset({408, 425, 429})
"""Refusals that may be over soon; any other one of 4xx is for good, and a redirection is not followed."""


async def call_back(client: httpx.AsyncClient, webhook: str, callback: CallbackSettings, reply: ChannelMessage) -> None:
    """Send a reply. Raises what `Channel.send` raises: for good, later, or again."""
    said = {"message_id": reply.answers, "webhook": webhook, "kind": reply.kind, "content": reply.content}
    body = msgspec.json.encode(said)
    headers = {"content-type": "application/json", **sign(body, callback.secret)}
    try:
        answer = await client.post(callback.url, content=body, headers=headers, timeout=_PATIENCE)
    except httpx.HTTPError as error:
        raise BubError(f"the callback of the webhook `{webhook}` cannot be reached: {type(error).__name__}") from None
    status = answer.status_code
    if answer.is_success:
        return
    problem = f"the callback of the webhook `{webhook}` answers with {status}"
    if status < 500 and status not in _TRY_AGAIN:
        raise UndeliverableError(problem)
    wait = _seconds(answer.headers.get("retry-after", ""))
    if wait is not None:
        raise TryLaterError(problem, seconds=wait)
    raise BubError(problem)


def _seconds(text: str) -> float | None:
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < 8 else None
