"""The program behind a Tab: `bub __complete SHELL …` prints what may come next, for a script of `bub completion`.

The first line says what else the shell is to offer: `files`, `folders` or `words`, which means nothing else. Each
further line is a word, for zsh and fish with a tab and what it is. Nothing that goes wrong is said: a Tab that has no
answer adds nothing to the line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bub.base.locate import bub_home
from bub.cli.completion.known import known_commands, pipeline_file
from bub.cli.completion.line import Asked, options_of, read_line
from bub.cli.completion.shells import Typed, for_bash, split_line
from bub.cli.table import NAMES, SESSIONS, load
from bub.cli.terminal import printable
from bub.errors import BubError

VOCABULARY = Path(__file__).with_name("vocabulary.json")

_MOST = 1000
_LONGEST = 80


def main() -> int:
    """Answer the command line of this process; the exit code is always 0."""
    try:
        shell, *words = sys.argv[2:]
        text = "\n".join(answer(shell, words))
    except Exception:  # noqa: BLE001 (a file half written, a folder that is gone: there is nothing to offer then)
        return 0
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    return 0


def answer(shell: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the lines for a shell: for bash, `words` is its line up to the cursor; else the words behind `bub`."""
    vocabulary = json.loads(VOCABULARY.read_bytes())
    typed = split_line(words[0]) if shell == "bash" else Typed(words[:-1], words[-1], "", "")
    asked = read_line(typed.words, typed.last, vocabulary)
    others, offered = _offer(asked, vocabulary)
    # No name with a letter that cannot be seen is typed for somebody.
    fitting = {name: said for name, said in offered.items() if name.startswith(asked.typed) and name.isprintable()}
    if shell == "bash" and others != "words":  # it can offer names or files
        fitting = fitting if asked.typed else {}
        others = "words" if fitting else others
    yield others
    for name, said in list(fitting.items())[:_MOST]:
        if shell == "bash":
            written = for_bash(asked.prefix + name, typed)
            if written is not None:
                yield written
        else:
            value = name if shell == "zsh" else asked.prefix + name
            yield f"{value}\t{printable(' '.join(said.split()))[:_LONGEST]}"


def _offer(asked: Asked, vocabulary: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    """What may come next: what else the shell offers, and names with what is said about them."""
    match asked.takes:
        case "commands":
            return "words", _commands(asked, vocabulary)
        case "options":
            options = options_of(asked.command, vocabulary)
            return "words", {name: entry["help"] for name, entry in options.items() if "is" not in entry}
        case "files" | "folders" as others:
            return others, {}
        case "pipelines":
            return "files", load(f"{NAMES}shipped_names")()
        case "shipped":
            return "words", load(f"{NAMES}shipped_names")()
        case "profiles" | "stages" | "plugins" as what:
            return "words", load(f"{NAMES}names_of")(what, _file(asked), asked.said.get("--profile"), asked.typed)
        case "settings":
            return "words", {path: entry["help"] for path, entry in vocabulary["settings"].items()}
        case "sessions":
            folder = Path(asked.said.get("--workspace") or ".").expanduser()
            return "words", load(SESSIONS)(bub_home(os.environ), folder)
        case list() as choices:
            return "words", dict.fromkeys(choices, "")
        case _:
            return "words", {}


def _commands(asked: Asked, vocabulary: Mapping[str, Any]) -> Mapping[str, str]:
    commands = {name: command["help"] for name, command in asked.command["commands"].items()}
    if asked.command is not vocabulary:
        return commands
    profile = asked.said.get("--profile") or os.environ.get("BUB_PROFILE") or "default"
    with suppress(BubError):  # a file that is not there
        return {**commands, **known_commands(bub_home(os.environ), _file(asked), profile)}
    return commands


def _file(asked: Asked) -> str:
    return pipeline_file(asked.said.get("--config"), asked.said.get("--workspace"))
