"""A form that somebody else hands the person: shown as theirs, filled in query by query, sent after a last look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.asking import Choice, Form, Query
from bub.channels.terminal.answer import Printout
from bub.channels.terminal.escaping import escape_invisible
from bub.channels.terminal.person import ChatSurface

_DECLINE = "decline"


async def fill_form(form: Form, surface: ChatSurface) -> Mapping[str, Any] | None:
    """Put a form to the person, and return their answers by the queries' names; None if they decline."""
    asker = escape_invisible(form.asker)
    words = "\n".join(f"  {line}" for text in (form.message, form.address) for line in text.splitlines())
    surface.show(Printout("asked", f"{asker} asks\n{escape_invisible(words)}"))
    if not form.queries:
        question = "Have you opened this address yourself?" if form.address else f"Say yes to {asker}?"
        return form.fill(await surface.ask(question) == "y")
    answers: dict[str, Any] = {}
    for query in form.queries:
        answer = await _put(query, surface)
        if answer is None:
            return None
        answers[query.name] = answer
    if form.is_yes_or_no or await surface.ask(f"Send this to {asker}?") == "y":
        return answers
    return None


async def _put(query: Query, surface: ChatSurface) -> Any:
    """Ask until the answer will do; None if the person declines."""
    title = escape_invisible(query.title)
    if query.kind == "confirm":
        key = await surface.ask(title, [_DECLINE])
        return None if key == _DECLINE[0] else key == "y"
    options = query.options()
    if options:
        listed = "\n".join(f"  {at}  {escape_invisible(one.title or one.value)}" for at, one in enumerate(options, 1))
        many = ", several with commas between" if query.kind == "checkbox" else ""
        surface.show(Printout("asked", f"{title}\n{listed}"))
        title = f"Which number{many}?"
    elif query.hint:
        title = f"{title} ({escape_invisible(query.hint)})"
    while True:
        line = await surface.ask_line(title)
        if line is None:
            return None
        answer, problem = _read(query, options, line.strip())
        if not problem:
            return answer
        surface.show(Printout("note", f"that {problem}"))


def _read(query: Query, options: list[Choice], line: str) -> tuple[Any, str]:
    """Return what a line answers, and what is wrong with it."""
    if not line and query.default is not None:
        return query.default, ""
    if not options:
        if not line:
            return None, "needs an answer"
        return line, (query.check(line) if query.check is not None else None) or ""
    known = {str(at): one.value for at, one in enumerate(options, 1)}
    said = [one.strip() for one in line.split(",")] if query.kind == "checkbox" else [line]
    if not all(one in known for one in said):
        return None, f"is no number from 1 to {len(options)}"
    chosen = [known[one] for one in said]
    return (chosen if query.kind == "checkbox" else chosen[0]), ""
