"""Questions to the person at the terminal; they appear on standard error, so that results can be piped away."""

from __future__ import annotations

import sys

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


def _confirm(question: str) -> bool:
    import questionary
    from prompt_toolkit.output import create_output

    answer = questionary.confirm(question, default=False, output=create_output(stdout=sys.stderr)).unsafe_ask()
    return bool(answer)
