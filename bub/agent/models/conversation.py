"""A conversation in a shape that every provider takes, whatever a model sent and wherever a turn ended.

Servers that fill in a template (Mistral's and Gemma's among them) want one system prompt at the beginning, then the
user's messages and the model's in turns, the user's first; llama.cpp wants arguments that are JSON. What one of them
refuses once would be refused with every later request of the session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bub.agent.models.calls import arguments_of
from bub.agent.models.parts import text_part
from bub.agent.models.request import calls_in

BEGINNING = "[What was said before is left out.]"
"""What the user says if a conversation would begin with the model."""

SHOWN = "[What the tools have shown:]"
"""What the user says above pictures of tools."""

NO_ANSWER = "[I have not answered this yet.]"
"""What the model says if the user goes on behind the results of tools."""

_NO_SYSTEM = r"""(?ix)
      system[ ](?:role|messages?|prompts?|instructions?)\b.{0,40}(?:\bnot|n't)[ ](?:be[ ])?(?:support|allow|enabl)
                                                              # Gemma's template in llama.cpp, vLLM, LM Studio; others
    | (?:not|n't)[ ]support\w*[ ](?:the[ ]|a[ ])?(?:'?"?system'?"?|developer)\b     # OpenAI's o1-preview; others
    | developer[ ]instruction[ ]is[ ]not[ ]enabled            # Gemma at Google
    | only[ ]user[ ](?:and|,)[ ]assistant[ ]roles[ ]are[ ]supported     # Mistral 7B's template
    | roles[ ]must[ ]alternate                                # that one and Llama 2's, if a system prompt comes first
    """

Message = Mapping[str, Any]


def well_formed(messages: Iterable[Message]) -> list[Message]:
    """The messages with one system prompt in front, then the two sides in turns, and arguments that are JSON.

    What says nothing is left out, and what one side says in a row is one message. A result belongs to the call before
    it and stays there.
    """
    said = [message for message in messages if not _is_empty(message)]
    system = [message for message in said if _is_system(message)]
    shaped = [_join(system)] if system else []
    turns: list[Message] = []
    for message in said:
        if _is_system(message):
            continue
        if not turns and message.get("role") == "assistant":
            turns.append({"role": "user", "content": BEGINNING})
        message = _with_json(message)
        if turns and _is_continued(turns[-1], message):
            turns[-1] = _join([turns[-1], message])
        else:
            turns.append(message)
    return [*shaped, *turns]


def refuses_system(words: str, messages: Sequence[Message]) -> bool:
    """Whether a server's words about well-formed messages say that its model takes no system prompt."""
    return any(map(_is_system, messages)) and re.search(_NO_SYSTEM, words) is not None


def without_system(messages: Iterable[Message]) -> list[Message]:
    """The messages with what the system prompt says ahead of the user's first words."""
    return well_formed({**message, "role": "user"} if _is_system(message) else message for message in messages)


def shown_behind(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with what tools have shown in a message of the user behind their results, which are text alone.

    For servers that take no pictures in results. What the user says behind them is in the same message.
    """
    shown: list[Any] = []
    for message in messages:
        if message.get("role") == "tool":
            content = message.get("content")
            if isinstance(content, list | tuple):
                shown += [part for part in content if part.get("type") != "text"]
                said = [str(part.get("text") or "") for part in content if part.get("type") == "text"]
                message = {**message, "content": "\n".join(said)}
        elif shown:
            behind: Message = {"role": "user", "content": [text_part(SHOWN), *shown]}
            shown = []
            if message.get("role") == "user":
                message = _join([behind, message])
            else:
                yield behind
        yield message
    if shown:
        yield {"role": "user", "content": [text_part(SHOWN), *shown]}


def answered(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with an answer between the results of tools and what the user says behind them."""
    before = None
    for message in messages:
        if before == "tool" and message.get("role") == "user":
            yield {"role": "assistant", "content": NO_ANSWER}
        yield message
        before = message.get("role")


def _is_system(message: Message) -> bool:
    return message.get("role") in ("system", "developer")


def _is_empty(message: Message) -> bool:
    """Whether a message says and does nothing; a result that is empty is one."""
    content = message.get("content")
    blank = not content.strip() if isinstance(content, str) else not content
    return blank and message.get("role") != "tool" and not calls_in(message)


def _is_continued(before: Message, message: Message) -> bool:
    """Whether a message goes on with what the same side has said; behind calls come their results."""
    role = message.get("role")
    return role == before.get("role") and role in ("user", "assistant") and not calls_in(before)


def _join(messages: Sequence[Message]) -> Message:
    """Messages of one side as one; what the last one has beside its content counts."""
    if len(messages) == 1:
        return messages[0]
    contents = [message["content"] for message in messages if message.get("content")]
    joined: Any
    if all(isinstance(content, str) for content in contents):
        joined = "\n\n".join(contents) or None
    else:
        joined = [part for content in contents for part in _parts(content)]
    merged: dict[str, Any] = {}
    for message in messages:
        merged |= message
    return {**merged, "content": joined}


def _parts(content: Any) -> Sequence[Any]:
    return content if isinstance(content, list | tuple) else [text_part(str(content))]


def _with_json(message: Message) -> Message:
    """A message with calls whose arguments are JSON objects: what a model wrote instead of one is kept in it."""
    calls = calls_in(message)
    if not calls:
        return message
    return {**message, "tool_calls": [_call_with_json(call) for call in calls]}


def _call_with_json(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    written = function.get("arguments")
    if isinstance(written, Mapping):
        text = json.dumps(written, ensure_ascii=False, default=str)
    else:
        raw = str(written or "")
        text = (raw if raw.strip() else "{}") if arguments_of(raw) is not None else _wrap(raw)
    return {**call, "function": {**function, "arguments": text}}


def _wrap(raw: str) -> str:
    return json.dumps({"arguments": raw}, ensure_ascii=False)
