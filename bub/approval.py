"""Whether a tool may be called: the question, what a yes is bound to, who gave it, and which calls have begun."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from bub.asking import Form

OPERATOR = "operator"
"""Who answers at this machine: at Bub's own terminal, or with `bub inbox approve`."""

Approvers: TypeAlias = tuple[tuple[str, str], ...]
"""Who may answer beside the operator: channels, each with an id that the channel vouches for."""


def digest(value: Any) -> str:
    """Name a value that JSON knows, so that two have one name only if they are equal."""
    written = msgspec.json.encode(value, enc_hook=str, order="sorted")
    return hashlib.sha256(written).hexdigest()


class Rules(msgspec.Struct, frozen=True):
    """What a profile says of its tools: the `digest` of its rules and `tool_gate` implementers, and who may answer.

    `loaded` is another with each start and each reload.
    """

    profile: str = ""
    digest: str = ""
    approvers: Approvers = ()
    loaded: str = ""


class Approval(msgspec.Struct, frozen=True):
    """What one yes is for. It counts once, for just this, until the Unix time `until`.

    `schema` and `arguments` are digests of the tool's schema and of the arguments that it would be called with, `rules`
    that of the profile's. `again` is true if the tool was called before the process ended, and nobody knows whether
    that took effect. `why` says why it is asked about whatever the profile says, "" if the profile alone wants that.
    `id` is what people name it by; "" as long as no store keeps it. `asker` is set if it is no yes to a call at all,
    but to what somebody else asks while the tool runs: such a one lets nothing be called.
    """

    session_id: str
    tool: str
    schema: str
    arguments: str
    profile: str
    rules: str
    approvers: Approvers = ()
    again: bool = False
    id: str = ""
    until: float = 0.0
    why: str = ""
    asker: str = ""

    @property
    def bound(self) -> str:
        """Name all that it is bound to, which is neither its id nor its time."""
        told = [self.session_id, self.tool, self.schema, self.arguments, self.profile, self.rules, self.again]
        told += [self.why] if self.why else []
        return digest([*told, {"asker": self.asker}] if self.asker else told)


class Answer(msgspec.Struct, frozen=True):
    """What a person said to a question: `by` names them, `approval` is the id that has to be spent, if it is kept.

    `words` say why it is no yes, for the model; "" if the person just said no. `content` is what they answered to a
    form, by the names of its queries; None if they did not fill it in.
    """

    is_yes: bool
    by: str = ""
    approval: str = ""
    words: str = ""
    content: Mapping[str, Any] | None = None


class Question(msgspec.Struct, frozen=True):
    """A question whether a tool may be called: its name, and the very arguments that it would get.

    `is_typed` is false if somebody else than the person who is asked may have said what the call comes from: another
    channel in the name of theirs, or a turn that a tool has started. What they allow for good, they allow for their own
    words. `call_id` is the `id` of the events of the call. `approval` is what a yes is bound to. `stretch` names the
    time that a yes "for this session" is good for: it is another after a reset, a reload and a restart; "" if there is
    none. With a `form` it is not about a call: somebody else asks what is in it, and only an `Answer` with `content`
    counts. If nobody can be asked, raise `CannotAskError`.
    """

    session_id: str
    tool: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    is_typed: bool = True
    call_id: str = ""
    approval: Approval | None = None
    stretch: str = ""
    form: Form | None = None

    @property
    def why(self) -> str:
        """Why it is asked although the profile may not want that; a yes from before is then none to this."""
        return self.approval.why if self.approval is not None else ""


Ask: TypeAlias = Callable[[Question], Awaitable[bool | Answer]]
"""Puts a question to a person; True is a yes, and so is an `Answer` that says so. Whoever cannot ask answers no.

It may raise `CannotAskError`, if that only turns out when there is a question."""


class CannotAskError(Exception):
    """Nobody can be asked after all; the text says why, as a clause: "the client cannot ask"."""


class NotedCall(msgspec.Struct, frozen=True):
    """A call that changes something, as it is noted before it begins; `arguments` is the digest of those.

    One that was only asked about has not begun.
    """

    call_id: str
    tool: str
    arguments: str
    has_begun: bool = True
    has_ended: bool = False


class NotSpentError(Exception):
    """A yes does not count: it was spent, it is too old, or what it was given for has changed. The text says which."""


class CallNotes(Protocol):
    """Keeps which calls of a turn have begun and ended, so that the next process knows."""

    @property
    def earlier(self) -> Sequence[NotedCall]:
        """The calls that were noted for this turn by a process that has ended since."""

    async def begin(self, call: NotedCall, approval: str) -> None:
        """Note that a call begins and spend its approval ("" for none), in one step.

        Raises `NotSpentError`, and then nothing is noted.
        """

    async def end(self, call: NotedCall) -> None:
        """Note that a call has ended."""
