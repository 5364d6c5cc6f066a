"""The HTTP channel in a gateway whose model is a toy, and requests of those that it knows."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import Any

import httpx
import trio
from fakes.line import opened
from fakes.toys import Toy, Workshop

from bub import BubFramework
from bub.channels import ChannelManager
from bub.inbox.mailbox import Mailbox

TOKEN, OTHER_TOKEN = "ada-0123456789abcdef", "bob-0123456789abcdef"
SECRET = "secret-0123456789abcdef"

CLIENTS = {
    "ada": {"token": TOKEN, "profiles": ["default", "quiet"]},
    "bob": {"token": OTHER_TOKEN, "profiles": ["quiet"]},
}
WEBHOOKS: Mapping[str, Any] = {
    "alarm": {"secret": SECRET, "text": "{message.text}", "answer_within": "10s"},
    "open": {"clients": ["ada"], "text": "{message.text}", "answer_within": "10s"},
    "github": {
        "secret": SECRET,
        "signature": "github",
        "events": ["issues"],
        "text": "{action}: {issue.title}",
        "session": "{repository.full_name}",
        "profile": "quiet",
        "answer_within": "10s",
    },
}
SETTINGS: Mapping[str, Any] = {"listen": "127.0.0.1:0", "clients": CLIENTS, "webhooks": WEBHOOKS}


PROFILES = "profiles:\n  default: {plugins: [http, office]}\n  quiet: {plugins: [office]}\n"


def pipeline_of(settings: Mapping[str, Any], profiles: str = PROFILES) -> str:
    """The pipeline of a gateway with these settings of the channel."""
    return (
        f"extends: bub:default\nsettings: {{http: {json.dumps(settings)}}}\n"
        f"plugins: {{office: {{path: office.py}}}}\n{profiles}"
    )


class Door:
    """What a test asks of the channel while it runs."""

    def __init__(self, framework: BubFramework, manager: ChannelManager) -> None:
        self.framework = framework
        self.manager = manager
        self.channel: Any = manager.channel("http")

    @property
    def address(self) -> Any:
        return self.channel.address

    async def post(self, path: str, said: Any = None, *, method: str = "POST", **how: Any) -> httpx.Response:
        async with httpx.AsyncClient(timeout=20, verify=False) as client:  # reading certificates takes time
            body = {"json": said} if said is not None else {}
            return await client.request(method, f"http://{self.address}{path}", **body, **how)

    async def ask(self, text: str, *, token: str = TOKEN, **how: Any) -> httpx.Response:
        """Ask the webhook `open` as a client."""
        headers = {"authorization": f"Bearer {token}", **how.pop("headers", {})}
        return await self.post("/hooks/open", {"message": {"text": text}}, headers=headers, **how)

    async def raw(self, request: bytes) -> bytes:
        """All that comes back for these bytes."""
        answer = b""
        async with await trio.open_tcp_stream(*self.address) as stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(request)
            with suppress(trio.BrokenResourceError):
                async for part in stream:
                    answer += part
        return answer


def signed(body: bytes, *, at: int | None = None, secret: str = SECRET) -> dict[str, str]:
    """The headers of the generic signature."""
    when = str(int(time.time()) if at is None else at)
    right = hmac.new(secret.encode(), when.encode() + b"." + body, sha256).hexdigest()
    return {"x-timestamp": when, "x-signature": right}


def from_github(body: bytes, *, delivery: str = "1-2-3", event: str = "issues", secret: str = SECRET) -> dict[str, str]:
    """The headers of a delivery of GitHub."""
    right = hmac.new(secret.encode(), body, sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={right}", "x-github-event": event, "x-github-delivery": delivery}


@asynccontextmanager
async def served(
    workshop: Workshop,
    settings: Mapping[str, Any] = SETTINGS,
    *,
    mailbox: Mailbox | None = None,
    profiles: str = PROFILES,
    **hooks: Any,
) -> AsyncIterator[Door]:
    """The channel while it runs; the model says what it is told, in which profile and session, unless hooks differ."""
    if "run_model_stream" not in hooks:
        hooks.setdefault("run_model", lambda prompt, profile, session_id: f"{profile} {session_id} {prompt}")
    hooks.setdefault("build_prompt", lambda message: message.content)
    brought = {name: hook for name, hook in hooks.items() if hook is not None}
    framework = workshop(pipeline_of(settings, profiles), office=Toy(**brought))
    async with opened(framework, mailbox=mailbox) as manager:
        yield Door(framework, manager)
