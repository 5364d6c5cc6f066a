"""A question about a tool call as an elicitation, and the answer to it.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation and, for 2026-07-28, the same form inside of
`InputRequiredResult`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcp.types import ClientCapabilities, ElicitRequest, ElicitRequestFormParams, ElicitResult

from bub.approval import Answer, CannotAskError, Question

ANSWER = "answer"
"""The name of the one question in an `InputRequiredResult`."""

CANNOT = "this MCP client cannot ask its person (it does not declare `elicitation` with forms)"

_ALLOW = "allow"


def _yes_or_no(title: str) -> dict[str, Any]:
    field = {"type": "boolean", "title": title, "default": False}
    return {"type": "object", "properties": {_ALLOW: field}, "required": [_ALLOW]}


_FORM, _SAY_YES = _yes_or_no("Allow it"), _yes_or_no("Yes")


def find_hindrance(capabilities: ClientCapabilities | None) -> CannotAskError | None:
    """Say why a client cannot put a question to its person; None if it can."""
    elicitation = capabilities.elicitation if capabilities is not None else None
    # One that names no mode means forms: that was all there was before 2025-11-25.
    can = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    return None if can else CannotAskError(CANNOT)


def elicit(question: Question, cover: Callable[[str], str]) -> ElicitRequest:
    """Write a question as an elicitation: the tool and its whole arguments, so that nobody allows what they cannot see.

    `cover` takes secrets out.
    """
    form = question.form
    if form is not None:
        words = f"In the session {question.session_id}, {form.asker} asks, while `{question.tool}` runs:\n{form.text}"
        return ElicitRequest(params=ElicitRequestFormParams(message=cover(words), requested_schema=_SAY_YES))
    told = "".join(f"\n{name}: {_in_words(value)}" for name, value in question.arguments.items())
    why = f"\nWhy you are asked: {question.why}." if question.why else ""
    message = f"Bub wants to call `{question.tool}` in the session {question.session_id}:{told}{why}"
    return ElicitRequest(params=ElicitRequestFormParams(message=cover(message), requested_schema=_FORM))


def read_answer(said: Any, client: str) -> Answer:
    """Read what a person said through a client; whatever is no clear yes is a no."""
    if not isinstance(said, ElicitResult):
        return Answer(False, words="the MCP client gave no answer")
    if said.action == "cancel":
        return Answer(False, by=client, words="the question was closed without an answer")
    content = said.content if isinstance(said.content, Mapping) else {}
    return Answer(said.action == "accept" and content.get(_ALLOW) is True, by=client)


def _in_words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
