"""`bub completion`: the script that lets bash, zsh or fish complete the words of `bub`, and where to put it."""

from __future__ import annotations

import os
import shlex
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bub.cli.terminal import printable
from bub.setup.installed import program_words


class Shell(StrEnum):
    """The shells that are known."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


_PROGRAM = "@BUB@"
"""What stands for the program in the scripts."""

_LINES = {
    Shell.bash: ("~/.bashrc", 'eval "$({program} completion bash)"'),
    Shell.zsh: ("~/.zshrc", "source <({program} completion zsh)"),
    Shell.fish: ("~/.config/fish/config.fish", "{program} completion fish | source"),
}
"""The file that each reads at its start, and the line to put there."""

STARTS = tuple(file for file, _ in _LINES.values())
"""The files that a person may have put such a line into."""


def completion(
    shell: Annotated[Shell | None, typer.Argument(metavar="[SHELL]", help="bash, zsh or fish.")] = None,
) -> None:
    """Print the script by which a shell completes commands, options, and the names in your pipeline file.

    The shell has to read it at its start: without SHELL, this says which line does that.
    """
    if shell is None:
        print(printable_lines(_advise(Path(os.environ.get("SHELL", "")).name)))
    else:
        script = Path(__file__).with_name(f"bub.{shell}").read_text(encoding="utf-8")
        quote = _quote_for_fish if shell is Shell.fish else shlex.quote
        print(script.replace(_PROGRAM, " ".join(map(quote, program_words()))), end="")


def printable_lines(lines: list[str]) -> str:
    """Return lines as a terminal may show them."""
    return "\n".join(map(printable, lines))


def _advise(shell: str) -> list[str]:
    """Say what to type for the shell that somebody uses; for any, if it is none of those that are known."""
    chosen = [known for known in Shell if known == shell] or list(Shell)
    program = _name_ofprogram_words()
    said = []
    for one in chosen:
        file, line = _LINES[one]
        said += [f"For {one}, put this line at the end of {file}:", "", f"    {line.format(program=program)}", ""]
    return [*said, "Open a new terminal then, type `bub ` and press Tab."]


def _name_ofprogram_words() -> str:
    """Return how a person calls this program: by its name, if the shell finds this one by it."""
    words = program_words()
    found = shutil.which("bub")
    if found is not None and os.path.realpath(found) == os.path.realpath(words[0]):
        return "bub"
    return " ".join(map(shlex.quote, words))


def _quote_for_fish(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
