"""A plugin that is at every stage, and has nothing to say against anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import trio

from bub import hookimpl
from bub.hookspecs import Fire
from bub.streaming import AsyncStreamEvents, StreamEvent

Message = Mapping[str, Any]


@hookimpl
def claim(message: Message) -> None:
    """Claim nothing."""


@hookimpl
def find_session(message: Message) -> str:
    return f"{message['channel']}:{message['chat_id']}"


@hookimpl
async def heard(message: Message) -> None:
    await trio.sleep(0.1)


@hookimpl
async def facts(session_id: str) -> dict[str, str]:
    await trio.sleep(0.1)
    return {"session": session_id}


@hookimpl
def noted(state: dict[str, str]) -> None:
    """Note nothing."""


@hookimpl
async def admit(message: Message) -> None:
    await trio.sleep(0.1)


@hookimpl
def build_prompt(message: Message) -> str:
    return str(message["content"])


@hookimpl
def amend(prompt: str) -> None:
    """Amend nothing."""


@hookimpl
async def run_model_stream(prompt: str, fire: Fire) -> AsyncStreamEvents:
    if "may_act" in fire and await fire("may_act", act="look") is None:
        await fire("acted", act="look")
    return AsyncStreamEvents(_words())


async def _words() -> AsyncIterator[StreamEvent]:
    for word in ("this ", "is ", "it"):
        await trio.sleep(0.1)
        yield StreamEvent.text(word)


@hookimpl
def may_act(act: str) -> None:
    """Allow everything."""


@hookimpl
def acted(act: str) -> None:
    """Watch."""


@hookimpl
def on_error(stage: str) -> None:
    """Hear of a failure."""


@hookimpl
async def save(model_output: str) -> None:
    await trio.sleep(0.1)


@hookimpl
def put_away(state: dict[str, str]) -> None:
    """Put nothing away."""


@hookimpl
def judge(model_output: str) -> None:
    """Allow everything."""


@hookimpl
def replies(message: Message, model_output: str = "") -> list[dict[str, Any]]:
    address = {"channel": message["channel"], "chat_id": message["chat_id"]}
    return [{**address, "content": model_output or "a reply"}]


@hookimpl
def judge_reply(message: Message) -> None:
    """Allow everything."""


@hookimpl
def claim_reply(message: Message) -> None:
    """Claim nothing."""


@hookimpl
async def deliver(message: Message) -> bool:
    await trio.sleep(0.1)
    return True


@hookimpl
def delivered(message: Message) -> None:
    """Watch."""
