"""Facts about the kinds of hook: which keys each knows, its order, its defaults. Calling them is the engine's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

Policy = Literal["propagate", "skip", "deny"]

BUILTIN = "builtin"
"""The name of the plugin that is in every profile, below all others (BEHAVIOURS H2)."""


class Kind(msgspec.Struct, frozen=True):
    """How the implementations of a hook point are called, in the words of DESIGN §3.

    `keys` are the stage keys that only some kinds know; `policies` what `on_failure` may be, its default first.
    `barrier`: nothing of the turn passes the stage or runs beside it. `frozen`: the implementations get read-only
    values. `handled_as` is the kind that `HookRegistry` registers handlers as which are called in front of it.
    """

    name: str
    runs: str
    combines: str
    policies: tuple[Policy, ...]
    keys: frozenset[str]
    barrier: bool = False
    tunable: bool = False
    """Whether the pipeline's own `on_failure` is this kind's default."""
    frozen: bool = False
    handled_as: str | None = None

    @property
    def can_object(self) -> bool:
        """Whether it can keep back or change what the stages above have made."""
        return self.barrier or "changes" in self.keys

    def knows(self, key: str) -> bool:
        """Whether a stage of this kind may have a key."""
        return key in COMMON_KEYS or key in self.keys


def _kind(
    name: str, runs: str, combines: str, policies: tuple[Policy, ...], keys: str, **more: Any
) -> tuple[str, Kind]:
    return name, Kind(name, runs, combines, policies, frozenset(keys.split()), **more)


_OPEN: tuple[Policy, ...] = ("skip", "propagate")
_STRICT: tuple[Policy, ...] = ("propagate", "skip")

KINDS: Mapping[str, Kind] = MappingProxyType(
    dict(
        (
            _kind(
                "firstresult",
                "one after another, stops at the first answer",
                "the first value that is not None",
                _STRICT,
                "into default default_if cleanup_for retry",
                tunable=True,
            ),
            _kind(
                "broadcast",
                "one after another, all",
                "what `combine` says",
                _STRICT,
                "into default default_if combine for_each cleanup_for retry",
                tunable=True,
            ),
            _kind("observer", "one after another, all", "nothing", _OPEN, "for_each cleanup_for", handled_as="void"),
            _kind("void", "all at once, all awaited", "nothing", _OPEN, "for_each cleanup_for", handled_as="void"),
            _kind(
                "modifying",
                "one after another, all, each on the frozen original",
                "the first value per key that is not None, applied as `changes` says",
                _OPEN,
                "changes for_each",
                frozen=True,
                handled_as="modifying",
            ),
            _kind(
                "claiming",
                "one after another, stops at the first claim",
                'the first {"handled": True, …}; a claimed turn ends there',
                _OPEN,
                "for_each",
                barrier=True,
                handled_as="claiming",
            ),
            _kind(
                "gate",
                "one after another, stops at the first denial",
                'allow when all return None; {"deny": "reason"} denies',
                ("deny",),
                "for_each",
                barrier=True,
                frozen=True,
            ),
            _kind(
                "stream",
                "picks as firstresult, then pulled event by event",
                "the text of the `text` events",
                _STRICT,
                "into default default_if retry show idle_timeout",
                tunable=True,
            ),
        )
    )
)
"""Every kind by name, in the order of DESIGN §3."""

KIND_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        key: tuple(kind.name for kind in KINDS.values() if key in kind.keys)
        for key in (
            "into",
            "default",
            "default_if",
            "combine",
            "changes",
            "for_each",
            "cleanup_for",
            "retry",
            "show",
            "idle_timeout",
        )
    }
)
"""The one table of what only some kinds know: stage key → the kinds that know it."""

COMMON_KEYS = (
    "kind",
    "hook",
    "needs",
    "before",
    "after",
    "replace",
    "when",
    "enabled",
    "timeout",
    "on_failure",
    "only",
    "thread",
)
"""The stage keys that every kind knows."""

STAGE_KEYS = (*COMMON_KEYS[:6], *KIND_KEYS, *COMMON_KEYS[6:])
"""Every key of a stage."""

HANDED_ON_KEYS = ("needs", "into", "for_each", "cleanup_for")
"""What a stage takes over from the one that it replaces if it says nothing itself, and its kind knows the key."""

HOOK_KEYS = ("kind", "takes", "timeout", "on_failure", "only", "thread", "description")
"""Every key of an entry under `hooks:`."""

INHERITED_KEYS = tuple(key for key in STAGE_KEYS if key in HOOK_KEYS)
"""What a stage takes from its hook point if it says nothing itself."""

START_VALUES = ("message", "inbound", "profile", "workspace", "fire")
"""The values that exist before the first stage."""

RESERVED_STATE = "_runtime_"
"""Keys of the state that begin like this belong to the runtime: no plugin overwrites them (BEHAVIOURS T8)."""

OUTBOUNDS = "outbounds"
"""The value that holds the replies of a turn; what a denied or claimed turn still sends goes through it."""

SESSION = "session_id"
"""The value whose making puts a turn into its session; the message carries it from then on (BEHAVIOURS T6)."""

ANSWER = "model_output"
"""The value that holds what the model said."""

RESULTS = (SESSION, "prompt", ANSWER, OUTBOUNDS, "state")
"""The values of a pipeline that whoever started a turn is given."""


REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "provide_environment": "bring tools of your own that work there, and list these instead of `bash` and `fs.*`",
        "provide_lifespan": "open it with `await framework.shared(…)` when it is needed; Bub closes it in the end",
        "provide_steering_inbox": "say `steer` in `admit_message`; what steers a turn is kept until it is answered",
        "provide_tape_sidecar": "write to `tape.sidecar(NAME)`: each tape has as many as are written to",
    }
)
"""Hook points of the other Bub that this one will not have, each with what to do instead (docs/two-bubs.md)."""
