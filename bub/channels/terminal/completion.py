"""What can be completed while a person writes: commands and their arguments, skills, profiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bub.channels.terminal.mentions import complete_mention

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_WORD = re.compile(r"\S*$")
_PROFILE = "profile="


@dataclass(frozen=True, slots=True)
class Completions:
    """The names there are, each with a line about it; `arguments` are the names that a command takes."""

    commands: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    arguments: Mapping[str, Sequence[str]] = field(default_factory=lambda: _NOTHING)
    skills: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    profiles: Sequence[str] = ()


class Suggestion(NamedTuple):
    """One way to go on: `text` takes the place of the last `replaces` letters."""

    text: str
    replaces: int
    about: str = ""


def complete(text: str, completions: Completions, prefix: str, *, as_command: bool = False) -> Iterator[Suggestion]:
    """Yield how the text before the cursor may go on; `as_command` says that it is a command without its prefix."""
    written = _WORD.search(text)
    word = written[0] if written else ""
    line = text.lstrip()
    if line.startswith(prefix):
        as_command, line = True, line.removeprefix(prefix).lstrip()
    elif as_command and not line:
        return
    if not as_command:
        if word.startswith("$"):
            yield from _match_names(word[1:], completions.skills, word, "$")
        return
    command, _, rest = line.partition(" ")
    if not rest and " " not in line:
        yield from _match_names(command, completions.commands, command, "")
    elif word.startswith(_PROFILE):
        yield from _match_names(word.removeprefix(_PROFILE), dict.fromkeys(completions.profiles, ""), word, _PROFILE)
    else:
        given = {f"{name}=": "" for name in completions.arguments.get(command, ()) if f" {name}=" not in line}
        yield from _match_names(word, given, word, "")


def _match_names(begun: str, names: Mapping[str, str], replaced: str, before: str) -> Iterator[Suggestion]:
    for name, about in names.items():
        if name.startswith(begun):
            yield Suggestion(before + name, len(replaced), about)


def make_completer(
    completions: Callable[[], Completions], prefix: str, as_command: Callable[[], bool], *, workspace: Path
) -> Any:
    """Return a completer for prompt_toolkit, also of files; it looks names up in a thread, since skills are files."""
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
    from prompt_toolkit.document import Document

    class Names(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            before = document.text_before_cursor
            if not as_command() and not before.lstrip().startswith(prefix):
                for text, replaced in complete_mention(before, workspace):
                    yield Completion(text, -replaced)
            for one in complete(before, completions(), prefix, as_command=as_command()):
                yield Completion(one.text, -one.replaces, display_meta=one.about)

    return ThreadedCompleter(Names())
