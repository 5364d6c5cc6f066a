"""Questions to the person at the terminal; they appear on standard error, so that results can be piped away."""

from __future__ import annotations

import json
import sys
from typing import Any

import trio

from bub.asking import Question
from bub.cli.terminal import printable


def can_ask() -> bool:
    """Whether a person is there to answer: questions need a terminal to read from and one to appear on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm_trust(folder: str, file: str) -> bool:
    """Ask whether the pipeline file of a folder may be used; no is the default. Ctrl-C raises KeyboardInterrupt."""
    print(
        f"{printable(file)} was found in a folder that is not trusted yet.\n"
        "It decides which plugins run on this machine,\n"
        "and where your messages and keys are sent.",
        file=sys.stderr,
    )
    return _confirm(f"Trust {printable(folder)} from now on?")


async def ask_person(question: Question) -> bool:
    """Ask whether a tool may be called with just these arguments; no is the default, and so is a Ctrl-C."""
    said = "".join(f"  {name}: {_in_lines(value)}\n" for name, value in question.arguments.items())
    print(f"The agent wants to call `{printable(question.tool)}`:\n{said}", end="", file=sys.stderr)
    return await trio.to_thread.run_sync(_confirm_or_no, "Allow it?", abandon_on_cancel=True)


def _in_lines(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return "\n    ".join(printable(line) for line in text.splitlines()) or '""'


def _confirm_or_no(question: str) -> bool:
    try:
        return _confirm(question)
    except (KeyboardInterrupt, EOFError):
        return False


def _confirm(question: str) -> bool:
    import questionary
    from prompt_toolkit.output import create_output

    answer = questionary.confirm(question, default=False, output=create_output(stdout=sys.stderr)).unsafe_ask()
    return bool(answer)
