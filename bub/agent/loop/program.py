"""What the program that asks brings into one turn: what was said before, results of its calls, and what it wants.

A program that asks Bub as it would ask a model runs tools of its own. A call of one ends the turn, and the results come
with another request: in a session the tape knows the calls, else the program sends the whole conversation again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bub.agent.calls.caller import Caller, ToolCall, ToolOutcome
from bub.agent.calls.program import WHAT, ProgramTool
from bub.agent.loop.context import Context
from bub.agent.models.calls import arguments_of
from bub.agent.models.request import calls_in, name_in
from bub.agent.task import Task
from bub.base.clients.request import NO_TOOL_CHOICE, ClientRequest, ClientTool, text_of_results
from bub.errors import UsageError
from bub.tape import Tape
from bub.tape.frames import put_in_frame

HANDED_BACK = "handed_back"
"""The event of a tape that names the calls which ended a turn, and the `finish` of such a turn."""

CHANGED = "[What came of it is below.]"
"""What stands for a result if a stage has made something else of what came in."""

NO_RESULT = "error: the program that asks gave no result for this call"

_LATEST = 64
"""How many of the newest entries of a tape are looked at for the calls that ended its last turn."""

Message = Mapping[str, Any]


class Program:
    """What the request of one task brings; nothing if there is none."""

    def __init__(self, task: Task) -> None:
        self.request = task.request or ClientRequest()
        self._prompt = task.prompt
        self._frame = task.frame

    @property
    def brings_results(self) -> bool:
        """Whether results of calls take the place of the prompt."""
        return bool(self.request.results)

    @property
    def _is_changed(self) -> bool:
        """Whether a stage has made something else of the results: what it made is what the model may read."""
        return self._prompt != text_of_results(self.request.results)

    def earlier(self) -> list[dict[str, Any]]:
        """Return the conversation in front of the prompt; of results of the program's tools it says whose they are."""
        names = {str(call.get("id")): name_in(call) for message in self.request.earlier for call in calls_in(message)}
        return [self._framed(dict(message), names) for message in self.request.earlier]

    def _framed(self, message: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        content = message.get("content")
        if message.get("role") != "tool" or not isinstance(content, str):
            return message
        name = names.get(str(message.get("tool_call_id")), "")
        return {**message, "content": put_in_frame(content, f"`{name}`, {WHAT}", self._frame(content))}

    async def take_results(self, context: Context, caller: Caller, shorten: Callable[[str], Awaitable[str]]) -> None:
        """Put what the program says came of its calls in the place of the prompt; `shorten` is for a tape.

        Raises `UsageError` if no such call is waited for, `TapeError` if it cannot be noted.
        """
        tape = caller.context.tape
        outcomes = await self._take_outcomes(caller, await self._find_calls(tape, context.messages))
        if tape is not None:
            outcomes = [replace(outcome, content=await shorten(outcome.content)) for outcome in outcomes]
        await context.answer_calls(outcomes)
        if self._is_changed:
            await context.ask()

    async def _find_calls(self, tape: Tape | None, messages: Sequence[Message]) -> list[ToolCall]:
        """Find the calls that the results answer, in the order of the calls."""
        asked = _last_calls(messages)
        waiting = set(asked) if tape is None else await _find_handed_back(tape)
        for result in self.request.results:
            if result.call_id not in waiting or result.call_id not in asked:
                raise UsageError(
                    f"no call `{result.call_id:.80}` waits for a result here",
                    help="send the results of the calls that ended the last answer, each once",
                )
        return list(asked.values())

    async def _take_outcomes(self, caller: Caller, calls: Sequence[ToolCall]) -> list[ToolOutcome]:
        given = {result.call_id: result.content for result in self.request.results}
        outcomes = []
        for call in calls:
            tool, content = ProgramTool.of(ClientTool(call.name)), given.get(call.id)
            if content is None:
                outcomes.append(ToolOutcome(call, NO_RESULT, is_error=True))
                continue
            content = caller.cover(CHANGED if self._is_changed else content)
            outside = "" if self._is_changed else f"`{call.name}`, {WHAT}"
            await caller.flow.take(tool, call.arguments or {}, content)
            outcome = ToolOutcome(call, content, outside=outside, frame=self._frame(content) if outside else "")
            await caller.observe(tool, call.arguments or {}, outcome)
            outcomes.append(outcome)
        return outcomes

    def amend(self, request: dict[str, Any], most_tokens: Any) -> None:
        """Lay what the program wants over a request to the model, whose answer the settings let have `most_tokens`.

        Its choice of a tool counts for each step, until it gets a call of one of its own.
        """
        wanted = self.request
        offered = request["tools"]
        choice = wanted.tool_choice if wanted.tools else None
        if request["tool_choice"] is None and choice not in (None, NO_TOOL_CHOICE) and offered:
            request["tool_choice"] = choice
        if wanted.max_tokens is not None:
            most = most_tokens if isinstance(most_tokens, int) else wanted.max_tokens
            request["max_tokens"] = min(wanted.max_tokens, most)
        if wanted.temperature is not None:
            request["temperature"] = wanted.temperature
        if wanted.reasoning is not None:
            request["reasoning"] = wanted.reasoning

    def find_handed_back(self, outcomes: Sequence[ToolOutcome | None]) -> list[dict[str, Any]]:
        """Return the calls that end the turn: all of an answer, if each of them is for the program.

        If others were called beside them, or one was denied, there are none: the model learns that first, and calls
        again. What a program does not send again with its next request would be lost to it otherwise.
        """
        handed = [
            {"id": one.call.id, "name": one.call.name, "arguments": one.handed_back}
            for one in outcomes
            if one is not None and one.handed_back is not None
        ]
        if len(handed) != len(outcomes) or (self.request.one_at_a_time and len(handed) > 1):
            return []
        return handed


async def _find_handed_back(tape: Tape) -> set[str]:
    """Find the ids of the calls that ended the last turn of a session; none if its model has answered since."""
    entries = await tape.search(tape.query().kinds("event", "message", "anchor"), most=_LATEST)
    for entry in entries:  # the newest first
        if entry.kind == "event" and entry.payload.get("name") == HANDED_BACK:
            data = entry.payload.get("data")
            return set(map(str, data.get("ids") or ())) if isinstance(data, Mapping) else set()
        is_answer = entry.kind == "message" and entry.payload.get("role") == "assistant"
        if entry.kind == "anchor" or (is_answer and not entry.meta.get("partial")):
            break
    return set()


def _last_calls(messages: Sequence[Message]) -> dict[str, ToolCall]:
    """The calls of the last message that has any, by their ids."""
    message = next((message for message in reversed(messages) if calls_in(message)), {})
    return {call.id: call for call in _read_calls(message)}


def _read_calls(message: Message) -> Iterator[ToolCall]:
    for call in calls_in(message):
        function = call.get("function")
        written = str(function.get("arguments") or "") if isinstance(function, Mapping) else ""
        yield ToolCall(str(call.get("id")), name_in(call), arguments_of(written), written)
