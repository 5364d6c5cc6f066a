"""What the servers of a profile offer, and which of their tools it is to allow: a person is asked in a set-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from bub.agent import late
from bub.asking import Choice
from bub.base.failures import unwrap_group
from bub.pipeline.source.merge import Document
from bub.pipeline.source.profiles import effective
from bub.plugins.lock.drift import compare_server
from bub.plugins.servers import ServerSpec, allows, server_of
from bub.runtime.snapshot import Profile
from bub.setup.prompter import Prompter

_LONGEST_SUMMARY = 60


class ServedTools:
    """Starts each server once, also if the set-up is begun again, and asks which of its tools are to be allowed.

    Only a person at a terminal is asked: starting a server runs a program, and what it offers is to be looked at.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: list[tuple[ServerSpec, late.Seen | None]] = []

    def ask(self, ask: Prompter, profile: Profile, document: Document) -> Sequence[str] | None:
        """Return the profile's list of allowed tools after the answers; None if it stays as it is.

        Ctrl-C while servers are starting goes on without them. Raises what `ask` raises.
        """
        self._look_at([spec for spec in profile.served.specs if not self._knows(spec)], ask)
        before = _find_allowed(document, profile)
        after: Sequence[str] = before
        for spec in profile.served.specs:
            seen = next(seen for known, seen in self._known if known == spec)
            if seen is None:
                ask.say(f"The server `{spec.name}` was not waited for.")
            elif seen.problem:
                ask.say(f"The server `{spec.name}`: {seen.problem}{f' ({seen.help})' if seen.help else ''}.")
            else:
                after = _ask_about(seen, ask, profile, after)
        return after if after != before else None

    def _knows(self, spec: ServerSpec) -> bool:
        return any(known == spec for known, _ in self._known)

    def _look_at(self, specs: Sequence[ServerSpec], ask: Prompter) -> None:
        if not specs:
            return
        found: Sequence[late.Seen | None] = [None] * len(specs)
        names = ", ".join(spec.name for spec in specs)
        try:
            with ask.progress(f"starting {names}; Ctrl-C goes on without"):
                found = trio.run(late.look_at_servers, specs, self._folder)
        except KeyboardInterrupt:
            pass
        except BaseExceptionGroup as group:
            if group.split(KeyboardInterrupt)[1] is not None:
                raise unwrap_group(group) from None
        self._known += zip(specs, found, strict=True)


def _ask_about(seen: late.Seen, ask: Prompter, profile: Profile, allowed: Sequence[str]) -> Sequence[str]:
    """Ask about the tools of one server, and return what is allowed then."""
    name, tools = seen.spec.name, [tool for tool in seen.tools.values() if not tool.for_people]
    problems = list(seen.problems)
    if profile.served.lock is not None:
        drifts = compare_server(name, profile.served.lock.server(name, profile.name), seen.facts)
        problems += [f"differs from the lock: {drift.line}" for drift in drifts]
    ask.say(f"The server `{name}` offers {len(tools)} tool{'' if len(tools) == 1 else 's'}.")
    for problem in problems:
        ask.say(f"The server `{name}`: {problem}.")
    if not tools:
        return allowed
    before = [tool.name for tool in tools if any(allows(entry, tool.name) for entry in allowed)]
    choices = [Choice(tool.name, f"{tool.name}: {tool.summary[:_LONGEST_SUMMARY]}") for tool in tools]
    title = f"Which tools of the server `{name}` may the agent use?"
    chosen = ask.checkbox(f"mcp.{name}.tools", title, choices, default=before)
    if set(before) <= set(chosen):
        return [*allowed, *(tool for tool in chosen if tool not in before)]
    return [*(entry for entry in allowed if server_of(entry) != name), *chosen]


def _find_allowed(document: Document, profile: Profile) -> list[str]:
    """The entries of the profile's `tools.allow`, as they are written; if it says nothing, what it may use so."""
    node = effective(document, profile.name).profile_node
    allowed = node.get("tools", "allow") if node is not None else None
    return [str(item.value) for item in allowed.elements()] if allowed is not None else profile.tools.usable()
