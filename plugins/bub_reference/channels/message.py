"""A message between a channel and the framework."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

MessageKind: TypeAlias = Literal["error", "normal", "command"]
MediaType: TypeAlias = Literal["image", "audio", "video", "document"]


@dataclass
class MediaItem:
    """Something beside the text; it is fetched only if somebody wants it."""

    type: MediaType
    mime_type: str
    filename: str | None = None
    url: str | None = None
    data_fetcher: Callable[[], Awaitable[bytes | None]] | None = None

    async def get_url(self) -> str | None:
        """Return its address, or all of it as a `data:` URL; None if it cannot be had."""
        if self.url or self.data_fetcher is None:
            return self.url or None
        data = await self.data_fetcher()
        return None if data is None else f"data:{self.mime_type};base64,{b64encode(data).decode()}"


@dataclass
class ChannelMessage:
    """A message; its `context` always tells the channel, with a `$` before its name, and the chat."""

    session_id: str
    channel: str
    content: str
    chat_id: str = "default"
    is_active: bool = False
    kind: MessageKind = "normal"
    context: dict[str, Any] = field(default_factory=dict)
    media: list[MediaItem] = field(default_factory=list)
    lifespan: AbstractAsyncContextManager[Any] | None = None
    output_channel: str = ""

    def __post_init__(self) -> None:
        self.context["channel"], self.context["chat_id"] = f"${self.channel}", self.chat_id
        self.output_channel = self.output_channel or self.channel

    @property
    def context_str(self) -> str:
        """The context as a prompt has it; what begins with `_` is no business of the model."""
        return "|".join(f"{name}={value}" for name, value in self.context.items() if name[:1] != "_")

    @classmethod
    def from_batch(cls, batch: Sequence[ChannelMessage]) -> ChannelMessage:
        """Join several messages into one; what cannot be joined is the last one's. Raises `ValueError` for none."""
        if not batch:
            raise ValueError("there is no message to join")
        text = "\n".join(one.content for one in batch)
        return replace(batch[-1], content=text, media=[item for one in batch for item in one.media])
