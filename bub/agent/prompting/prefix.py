"""Whether each request of a session begins with the one before it, as a provider's cache wants it; if not, who did it.

Bub's own requests only grow at their end until an anchor. Plugins can change what was said before: then the provider
reads everything again, at the full price. The first time a plugin does so, a line of the log names it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bub.hooks.implementations import Implementation
from bub.log import log_exception, log_warning
from bub.plugins.view import ProfileView

_OWN = "builtin"
_HOOKS = ("system_prompt", "before_llm_call", "build_tape_context")
_MOST_SESSIONS = 256
_LONGEST_SHOWN = 80

Message = Mapping[str, Any]


class _Sent(msgspec.Struct, frozen=True):
    """The request before: its system prompt, and its messages as hashes before and after plugins amended them."""

    system: str
    own: Sequence[int]
    amended: Sequence[int]


class Prefixes:
    """The last request of each session, of those of late."""

    def __init__(self, framework: ProfileView) -> None:
        self._framework = framework
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        self._told: set[tuple[str, str]] = set()
        self._others: Mapping[str, tuple[Implementation, ...]] | None = None

    def watch(self, session_id: str, system: str, own: Sequence[Message], amended: Sequence[Message]) -> None:
        """Compare a request with the one before it; `amended` are the messages as plugins made them of Bub's `own`.

        Nothing is done if no plugin may change requests.
        """
        others = self._find_others()
        if not others:
            return
        hashes = [_hash(message) for message in own]
        now = _Sent(system, hashes, hashes if amended is own else [_hash(message) for message in amended])
        before = self._sent.pop(session_id, None)
        self._sent[session_id] = now
        if len(self._sent) > _MOST_SESSIONS:
            self._sent.popitem(last=False)
        if before is not None:
            self._compare(session_id, before, now, amended)

    def _find_others(self) -> Mapping[str, tuple[Implementation, ...]]:
        if self._others is None:
            found = {hook: self._framework.implementations(hook) for hook in _HOOKS}
            others = {hook: tuple(one for one in each if one.plugin != _OWN) for hook, each in found.items()}
            self._others = {hook: each for hook, each in others.items() if each}
        return self._others

    def _compare(self, session_id: str, before: _Sent, now: _Sent, amended: Sequence[Message]) -> None:
        others = self._find_others()
        at = _parting(before.own[1:], now.own[1:])  # the system prompt is compared as a text
        if at is not None:
            # The conversation began again, as it does at an anchor; if it has the same beginning, somebody chose.
            if at > 0 and "build_tape_context" in others:
                self._tell("build_tape_context", others["build_tape_context"], f"message {at + 2}", session_id)
            return
        if before.system != now.system and "system_prompt" in others:
            line = _changed_line(before.system, now.system)
            changed = [one for one in others["system_prompt"] if _says_otherwise(one, before.system)]
            if changed:
                self._tell("system_prompt", changed, f"the system prompt: {line}", session_id)
            return
        at = _parting(before.amended, now.amended)
        if at is not None and before.system == now.system and "before_llm_call" in others:
            shown = " ".join(str(amended[at].get("content")).split()) if at < len(amended) else "it is left out"
            where = f"message {at + 1} of {len(amended)}: {shown:.{_LONGEST_SHOWN}}"
            self._tell("before_llm_call", others["before_llm_call"], where, session_id)

    def _tell(self, hook: str, who: Sequence[Implementation], where: str, session_id: str) -> None:
        plugins = " or ".join(dict.fromkeys(one.plugin for one in who))
        if (hook, plugins) in self._told:
            return
        self._told.add((hook, plugins))
        log_warning(
            "prompt.prefix_changed",
            plugin=plugins,
            hook=hook,
            at=where,
            session=session_id,
            help="a plugin changed text that the provider had in its cache; put text that changes at the end",
        )


def _parting(before: Sequence[int], now: Sequence[int]) -> int | None:
    """The first place at which a list does not go on as the one before; None if it does."""
    for at, each in enumerate(before):
        if at >= len(now) or now[at] != each:
            return at
    return None


def _hash(message: Message) -> int:
    return hash(msgspec.json.encode(message, enc_hook=str))


def _changed_line(before: str, now: str) -> str:
    old = set(before.splitlines())
    changed = next((line for line in now.splitlines() if line not in old), "a line is gone")
    return f"{changed.strip():.{_LONGEST_SHOWN}}"


def _says_otherwise(implementation: Implementation, before: str) -> bool:
    """Whether what a plugin says now was not part of the system prompt before."""
    try:
        given = dict.fromkeys(implementation.required) | {"state": {}, "prompt": ""}
        said = implementation.function(**{name: given[name] for name in implementation.required})
    except Exception as error:  # noqa: BLE001 (it is anybody's code, and only looked at)
        log_exception("prompt.fragment_failed", error, plugin=implementation.plugin)
        return True
    return bool(said) and str(said).strip() not in before
