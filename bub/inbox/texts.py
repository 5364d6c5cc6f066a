"""Messages as the strings that they are kept as."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import msgspec

from bub.channels.message import ChannelMessage
from bub.inbox.store import MailboxError
from bub.tape.entry import mend

UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)
"""What comes of a text that is no message."""


class MessageTexts:
    """Writes messages as JSON, and reads them from it."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=_plain).encode
        self._decode = msgspec.json.Decoder(ChannelMessage).decode

    def write(self, message: ChannelMessage) -> tuple[str, ChannelMessage]:
        """The text that a message is kept as, and the message as it will be read from there, with its lifespan.

        Raises MailboxError for what JSON does not know.
        """
        try:
            known = message.as_dict()
            try:
                body = self._encode(known)
            except UnicodeEncodeError:  # one letter that is none must not cost the whole message
                body = self._encode(mend(msgspec.to_builtins(known, enc_hook=_plain)))
            return body.decode(), replace(self._decode(body), lifespan=message.lifespan)
        except (*UNREADABLE, OverflowError) as error:
            raise MailboxError(
                f"a message of the channel `{mend(str(message.channel))}` cannot be kept: {error}",
                help="a message has strings, and JSON in its `context` and `media`",
            ) from error

    def read(self, body: Any) -> ChannelMessage:
        """The message of a text in the file."""
        return replace(self._decode(body), lifespan=None)

    def read_or_none(self, body: Any) -> ChannelMessage | None:
        """The message of a text in the file; None if it cannot be read."""
        try:
            return self.read(body)
        except UNREADABLE:
            return None


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know by itself."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"JSON has no {type(value).__name__}")
