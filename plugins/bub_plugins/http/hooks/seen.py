"""What came before: the keys of requests, so that none is taken twice or for another one, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from uuid import uuid4

import msgspec

from bub.channels import ChannelMessage
from bub_plugins.http.refusal import Refusal

_MOST = 5_000
"""How many requests are known: each has two notes of the 10,000 that a channel has."""

_LONGEST_ANSWER = 4_096
"""How many bytes of an answer are kept; a longer one is not given again."""

_KEY, _ANSWER = "k:", "a:"


class Identity(msgspec.Struct, frozen=True):
    """What a request is known by: `once` if it is to be taken once, "" if nothing tells it from another one."""

    once: str
    message_id: str


class _Known(msgspec.Struct, array_like=True, frozen=True):
    once: str
    digest: str
    signature: str


class Seen:
    """The requests that came, by the `notes` of earlier processes; `remember` keeps a note."""

    def __init__(self, notes: Mapping[str, str], remember: Callable[[str, str], None]) -> None:
        self._remember = remember
        self._known: dict[str, _Known] = {}
        self._signatures: dict[str, str] = {}
        self._answers: dict[str, str] = {}
        for name, note in notes.items():
            if name.startswith(_KEY):
                self._learn(msgspec.json.decode(note, type=_Known))
            elif name.startswith(_ANSWER):
                self._answers[name.removeprefix(_ANSWER)] = note

    def identify(self, webhook: str, sender: str, key: str, body: bytes, signature: str) -> Identity:
        """Say which request this is. Raises `Refusal` (409) for one with the key of another one.

        A signature that came before is the same request, whatever its key says: a key is not signed.
        """
        digest = sha256(body).hexdigest()
        signed = f"{webhook}:{signature}" if signature else ""
        once = self._signatures.get(signed, "")
        if not once and (key or signature):
            once = f"{webhook}:{sender}:{key or signature}"
        if not once:
            return Identity("", uuid4().hex)
        known = self._known.get(once)
        if known is not None and known.digest != digest:
            problem = "another request had this key, and another body"
            raise Refusal(409, problem, "give each request a key of its own; the same one only if it is sent again")
        if known is None or signed not in self._signatures:
            self._keep(_Known(once, digest, signed))
        return Identity(once, _id_of(once))

    def note_answer(self, message: ChannelMessage, replies: Sequence[ChannelMessage]) -> None:
        """Keep the answer to a message that is taken once, if it is short."""
        packed = msgspec.json.encode(shown_replies(replies))
        if len(packed) > _LONGEST_ANSWER:
            return
        self._answers[message.message_id] = packed.decode()
        self._forget(self._answers)
        self._remember(f"{_ANSWER}{message.message_id}", packed.decode())

    def answer_to(self, message_id: str) -> list[dict[str, str]] | None:
        """Return the answer to a request that came before; None if there is none yet, or it is not kept."""
        kept = self._answers.get(message_id)
        return msgspec.json.decode(kept, type=list[dict[str, str]]) if kept else None

    def _keep(self, known: _Known) -> None:
        self._learn(known)
        name = f"{_KEY}{sha256(f'{known.once}|{known.signature}'.encode()).hexdigest()[:32]}"
        self._remember(name, msgspec.json.encode(known).decode())

    def _learn(self, known: _Known) -> None:
        self._known[known.once] = known
        self._forget(self._known)
        if known.signature:
            self._signatures[known.signature] = known.once
            self._forget(self._signatures)

    def _forget(self, kept: dict[str, object] | dict[str, str] | dict[str, _Known]) -> None:
        while len(kept) > _MOST:
            del kept[next(iter(kept))]


def shown_replies(replies: Sequence[ChannelMessage]) -> list[dict[str, str]]:
    """Return what of replies whoever asked gets to see."""
    return [{"kind": reply.kind, "content": reply.content} for reply in replies]


def _id_of(once: str) -> str:
    return sha256(once.encode()).hexdigest()[:32]
