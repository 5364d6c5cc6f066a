"""Questions to the person at the terminal; they appear on standard error, so that results can be piped away."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import trio

from bub.approval import OPERATOR, Answer, Question
from bub.asking import Form
from bub.cli.questions import build_question
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.inbox.started import is_started_by_bub

_TAKING_BACK = 5.0
"""How long, in seconds, a question may take to leave the terminal as it was."""


def can_ask() -> bool:
    """Return whether a person can answer: questions need a terminal to read from and one to appear on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_person() -> None:
    """Raise `UsageError` in a process that Bub started: what an agent runs cannot say yes for a person."""
    if is_started_by_bub(os.environ):
        raise UsageError(
            "Bub started this command, and only a person may do it",
            help="run it in a terminal that you opened yourself",
        )


def confirm_trust(folder: str, file: str) -> bool:
    """Ask whether the pipeline file of a folder may be used; no is the default. Ctrl-C raises KeyboardInterrupt."""
    print(
        f"{printable(file)} was found in a folder that is not trusted yet.\n"
        "It decides which plugins run on this machine,\n"
        "and where your messages and keys are sent.",
        file=sys.stderr,
    )
    return _confirm(f"Trust {printable(folder)} from now on?")


def confirm(question: str) -> bool:
    """Ask whether to go on; no is the default. Ctrl-C raises KeyboardInterrupt."""
    return _confirm(question)


async def ask_person(question: Question) -> bool | Answer:
    """Ask whether a tool may be called with just these arguments; no is the default, and so is a Ctrl-C.

    A form is filled in query by query; a Ctrl-C declines it.

    When it is cancelled, the question is taken back, so that the terminal is left as it was.
    """
    if question.form is not None:
        return await _fill(question.form)
    said = "".join(f"  {name}: {_in_lines(value)}\n" for name, value in question.arguments.items())
    why = f"Why you are asked: {printable(question.why)}.\n" if question.why else ""
    print(f"The agent wants to call `{printable(question.tool)}`:\n{said}{why}", end="", file=sys.stderr)
    return bool(await _put(_question("Allow it?")))


async def _fill(form: Form) -> Answer:
    """Show whose questions they are, and ask them one by one."""
    lines = "".join(f"  {printable(line)}\n" for text in (form.message, form.address) for line in text.splitlines())
    print(f"{printable(form.asker)} asks:\n{lines}", end="", file=sys.stderr)
    if not form.queries:
        opened = "Have you opened this address yourself?" if form.address else "Say yes?"
        content = form.fill(bool(await _put(_question(opened))))
        return Answer(content is not None, OPERATOR, content=content)
    answers: dict[str, Any] = {}
    for query in form.queries:
        said = await _put(build_question(query))
        if said is None:
            return Answer(False, OPERATOR)
        answers[query.name] = query.default if said == "" and query.default is not None else said
    if form.is_yes_or_no or await _put(_question(f"Send this to {printable(form.asker)}?")):
        return Answer(True, OPERATOR, content=answers)
    return Answer(False, OPERATOR)


async def _put(asked: Any) -> Any:
    """Put a question, and return the answer; None after a Ctrl-C."""
    answered, answer = trio.Event(), None

    async def wait_for_answer() -> None:
        nonlocal answer
        answer = await trio.to_thread.run_sync(_answer_or_none, asked)
        answered.set()

    # Both are tasks of their own: what ends the program cannot interrupt a main task that waits for a thread itself.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_take_back_when_cancelled, asked.application, answered)
        nursery.start_soon(wait_for_answer)
    return answer


async def _take_back_when_cancelled(application: Any, answered: trio.Event) -> None:
    try:
        await answered.wait()
    except trio.Cancelled:
        with trio.move_on_after(_TAKING_BACK, shield=True):
            while not answered.is_set():  # the question may not have been shown yet
                if application.is_running and application.loop is not None:
                    application.loop.call_soon_threadsafe(_leave, application)
                    break
                await trio.sleep(0.01)
        raise


def _leave(application: Any) -> None:
    if application.is_running and not application.is_done:
        application.exit(exception=KeyboardInterrupt)


def _in_lines(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return "\n    ".join(printable(line) for line in text.splitlines()) or '""'


def _answer_or_none(question: Any) -> Any:
    try:
        return question.unsafe_ask()
    except (KeyboardInterrupt, EOFError):
        return None


def _confirm(question: str) -> bool:
    return bool(_question(question).unsafe_ask())


def _question(text: str) -> Any:
    import questionary
    from prompt_toolkit.output import create_output

    return questionary.confirm(text, default=False, output=create_output(stdout=sys.stderr))
