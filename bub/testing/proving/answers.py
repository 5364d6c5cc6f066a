"""Made-up answers: what stands in for an implementation that is not to be called, by the kind of its stage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping
from typing import Any

from bub.envelope import field_of
from bub.hooks.facts import OUTBOUNDS, SESSION
from bub.hookspecs import HOOK_POINTS
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.testing.proving.sites import Site

ANSWER = ("this is ", "the answer")
"""What the model says, in two pieces."""

REPLIES = ("the first reply", "the second reply")
"""What is sent if two replies are to be."""


def answer_of(site: Site, message: Any, lists: Container[str], text: str | None = None) -> Any:
    """Return an answer that a site could give; with `text`, one that tells itself by that text.

    `lists` are the values over which stages run item by item.
    """
    into = site.stage.into if site.stage is not None else None
    match site.kind:
        case "gate" | "observer" | "void":
            return None
        case "claiming":
            return None if text is None else {"handled": True, "reply": text}
        case "modifying":
            return None if text is None else _change(site, message, text)
        case "stream":
            pieces = ANSWER if text is None else (text,)
            return stream_of(pieces) if site.streams else "".join(pieces)
    if into is not None and into in lists:
        return _replies(message, REPLIES if text is None else (text,))
    if into == OUTBOUNDS:
        return _replies(message, ("".join(ANSWER) if text is None else text,))
    if into == "message":
        return dict(message) if isinstance(message, Mapping) and text is None else {"content": text or ""}
    if into == SESSION and text is None:
        return None if site.stage is not None and site.stage.node.get("default") else _address(message)
    if site.point.returns == (dict,) or site.combine == "merge":
        return {site.plugin: text or "known"}
    if into is None and text is None:
        return True if site.combine is not None else None
    return text or "".join(ANSWER)


def stream_of(
    pieces: tuple[str, ...], then: BaseException | Callable[[], Awaitable[None]] | None = None
) -> AsyncStreamEvents:
    """Return a stream of strings that ends with an exception after them, or goes on with `then`."""
    return AsyncStreamEvents(_events(pieces, then))


async def _events(
    pieces: tuple[str, ...], then: BaseException | Callable[[], Awaitable[None]] | None
) -> AsyncIterator[StreamEvent]:
    for piece in pieces:
        yield StreamEvent.text(piece)
    if isinstance(then, BaseException):
        raise then
    if then is not None:
        await then()


def payload_for(name: str, takes: tuple[str, ...]) -> dict[str, Any]:
    """Return what a point could be fired with."""
    known = HOOK_POINTS.get(name)
    fixed: dict[str, Callable[[], Any]] = {
        "request": lambda: {"model": "", "messages": [], "tools": [], "max_tokens": 100, "temperature": 0.0},
        "response": lambda: {"content": "", "tool_calls": [], "usage": None, "finish_reason": "stop", "error": None},
        "result": lambda: {"content": "", "is_error": False, "took": 0.0},
        "args": dict,
        "tool": lambda: "fs.list",
        "step": lambda: 1,
    }
    given = {one: fixed[one]() if one in fixed else f"a {one}" for one in takes if one not in _NOT_FIRED}
    return given if known is None or known.fired else {}


_NOT_FIRED = ("message", "inbound", "profile", "workspace", "fire", SESSION, "state", "system")


def _replies(message: Any, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    address = {name: field_of(message, name) for name in (SESSION, "channel", "chat_id")}
    return [{"content": text, **{name: value for name, value in address.items() if value}} for text in texts]


def _address(message: Any) -> str:
    return f"{field_of(message, 'channel')}:{field_of(message, 'chat_id')}"


def _change(site: Site, message: Any, text: str) -> dict[str, Any]:
    named = site.stage.node.get("changes") if site.stage is not None else None
    names = [str(item.value) for item in named.elements()] if named is not None else ["request"]
    plain = dict(message) if isinstance(message, Mapping) else {}
    return {name: {**plain, "content": text} if name == "message" else text for name in names}
