"""What can be completed while a person writes: commands and their arguments, skills, profiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_WORD = re.compile(r"\S*$")
_PROFILE = "profile="


@dataclass(frozen=True, slots=True)
class Offers:
    """The names there are, each with a line about it; `arguments` are the names that a command takes."""

    commands: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    arguments: Mapping[str, Sequence[str]] = field(default_factory=lambda: _NOTHING)
    skills: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    profiles: Sequence[str] = ()


class Offer(NamedTuple):
    """One way to go on: `text` takes the place of the last `replaces` letters."""

    text: str
    replaces: int
    about: str = ""


def offers_for(text: str, offers: Offers, prefix: str, *, as_command: bool = False) -> Iterator[Offer]:
    """How the text before the cursor may go on; `as_command` where it is one without its prefix."""
    written = _WORD.search(text)
    word = written[0] if written else ""
    line = text.lstrip()
    if line.startswith(prefix):
        as_command, line = True, line.removeprefix(prefix).lstrip()
    elif as_command and not line:
        return
    if not as_command:
        if word.startswith("$"):
            yield from _beginning_with(word[1:], offers.skills, word, "$")
        return
    command, _, rest = line.partition(" ")
    if not rest and " " not in line:
        yield from _beginning_with(command, offers.commands, command, "")
    elif word.startswith(_PROFILE):
        yield from _beginning_with(word.removeprefix(_PROFILE), dict.fromkeys(offers.profiles, ""), word, _PROFILE)
    else:
        given = {f"{name}=": "" for name in offers.arguments.get(command, ()) if f" {name}=" not in line}
        yield from _beginning_with(word, given, word, "")


def _beginning_with(begun: str, names: Mapping[str, str], replaced: str, before: str) -> Iterator[Offer]:
    for name, about in names.items():
        if name.startswith(begun):
            yield Offer(before + name, len(replaced), about)


def completer(offers: Callable[[], Offers], prefix: str, as_command: Callable[[], bool]) -> Any:
    """What prompt_toolkit asks; names are looked up in a thread, since skills are files."""
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
    from prompt_toolkit.document import Document

    class Names(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            before = document.text_before_cursor
            for offer in offers_for(before, offers(), prefix, as_command=as_command()):
                yield Completion(offer.text, -offer.replaces, display_meta=offer.about)

    return ThreadedCompleter(Names())
