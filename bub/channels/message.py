"""A message on its way between a channel and the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from bub.envelope import Envelope, normalize_envelope

COMMAND = "command"
"""The `kind` of a message that is a comma command (BEHAVIOURS C15)."""

ERROR = "error"
"""The `kind` of a reply that says a turn failed (BEHAVIOURS T30)."""

NOTE = "note"
"""The `kind` of a reply in which Bub says something of the answer above it, such as that it was cut."""

NOWHERE = "null"
"""The `output_channel` of a reply that goes to nobody."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """One message, from a channel or to one.

    `channel` and `chat_id` say where it comes from or goes to; a chat that has topics names them in its `chat_id`.
    `session_id` is "" if the channel leaves it to the pipeline. `kind` is "normal", "command", "error", "denied",
    "note" or a word that the channel chooses. A message that `is_active` asks for an answer; one that is not is only
    overheard (BEHAVIOURS C8). `context` is what the model should know beside the content. Each of `media` is a mapping
    with `kind` ("image", "audio", "video", "document"), `mime_type`, and `url` once it is fetched; what else is in it
    is the channel's own.

    `message_id` is the channel's own name for the message. `once` names what came so that it is taken only once,
    however often the channel hands it over; "" if the channel cannot tell.

    Of a reply, `answers` is the `message_id` of what it answers, and `draft` the channel's name for the message that
    showed it while it was being made, "" if there is none. `also_answers` are those of the messages of its chat that
    its turn has taken while it ran; only Bub says it. `output_channel` sends it elsewhere (C26); that of a message
    which came in is where the answer goes, unless the reply says otherwise. `trace` is what whoever sent it said of the
    trace that it is a part of: the header `traceparent`, and behind a blank `tracestate`.

    `profile` takes the turn, whatever routes and the session choose; "" if these choose. Only a channel that makes a
    message itself says it: in an envelope, which a stranger may have written, it does not count.

    `request` is what a program brings that asks Bub as it would ask a model: `ClientRequest.as_dict()`; it, too, counts
    only if the channel has made the message itself.

    `lifespan` is open while the message's turn runs; it is not kept over a restart. Everything else is JSON.
    """

    channel: str = "default"
    chat_id: str = "default"
    content: str = ""
    session_id: str = ""
    sender_id: str = ""
    kind: str = "normal"
    is_active: bool = True
    context: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    media: Sequence[Mapping[str, Any]] = ()
    message_id: str = ""
    once: str = ""
    answers: str = ""
    draft: str = ""
    output_channel: str = ""
    trace: str = ""
    profile: str = ""
    request: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    also_answers: Sequence[str] = ()
    lifespan: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, envelope: Envelope) -> ChannelMessage:
        """The message that an envelope is: a mapping, a text or any object with such fields; what is None is left out.

        Fields that a message does not have are dropped, and so are the profile, the request and what it also answers.
        """
        if isinstance(envelope, ChannelMessage):
            return envelope
        given = normalize_envelope(envelope)
        known: dict[str, Any] = {name: given[name] for name in cls.__dataclass_fields__ if given.get(name) is not None}
        for name in ("profile", "request", "also_answers"):
            known.pop(name, None)
        for name in _TEXTS:
            if name in known:
                known[name] = str(known[name])
        return cls(**known)

    @property
    def origin(self) -> str:
        """The session that a message belongs to as far as the message itself says (BEHAVIOURS T4)."""
        return self.session_id.strip() or f"{self.channel}:{self.chat_id}"

    @property
    def context_str(self) -> str:
        """Return the context as the prompt has it, one line a fact; "" if there is none (BEHAVIOURS T33)."""
        return "\n".join(f"{name}: {value}" for name, value in self.context.items())

    # A plugin reads messages of `bub run`, which are mappings, and of channels in the same way.

    def __getitem__(self, name: str) -> Any:
        """A field, as a mapping has it; raises KeyError for a name that no message has."""
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or `default` for a name that no message has."""
        return getattr(self, name) if name in self.__dataclass_fields__ else default

    def keys(self) -> list[str]:
        """The names of the fields: `{**message}` is a mapping with all of them."""
        return list(self.__dataclass_fields__)

    def as_dict(self) -> dict[str, Any]:
        """The message as JSON knows it, without what is empty; `ChannelMessage(**…)` makes it again."""
        known = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "lifespan"}
        kept = {name: value for name, value in known.items() if value or name in ("channel", "chat_id")}
        kept.pop("is_active", None)
        if not self.is_active:
            kept["is_active"] = False
        for name, make in (("context", dict), ("request", dict), ("media", lambda media: [dict(one) for one in media])):
            if name in kept:
                kept[name] = make(kept[name])
        return kept


_TEXTS = tuple(one.name for one in fields(ChannelMessage) if one.type == "str")


def joined(batch: Sequence[ChannelMessage]) -> ChannelMessage:
    """Join several messages of a session into one (BEHAVIOURS C16).

    Text is joined by line ends, media one after another, facts of the context laid over each other with the last one
    on top; everything else is the last message's, and it is active when any of them is.
    """
    last = batch[-1]
    if len(batch) == 1:
        return last
    context: dict[str, Any] = {}
    for message in batch:
        context.update(message.context)
    return replace(
        last,
        content="\n".join(message.content for message in batch if message.content),
        media=[one for message in batch for one in message.media],
        context=context,
        is_active=any(message.is_active for message in batch),
        lifespan=next((message.lifespan for message in reversed(batch) if message.lifespan is not None), None),
    )
