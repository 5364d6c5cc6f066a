"""How much a model is to think, in the words of its provider (sources: the providers' pages about reasoning)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from bub.agent.models.endpoint import Endpoint
from bub.agent.models.request import ChatRequest, calls_in
from bub.agent.models.thoughts import own_blocks
from bub.pipeline.plan.providers import ADAPTIVE, BOTH, OFF, ROUTED, SWITCHED, TEMPLATE, TOGGLE


def effort_fields(endpoint: Endpoint, asked: str | int | None) -> dict[str, Any]:
    """The fields of a chat completion that say how much its model is to think; none if nothing is to be said.

    `asked` is what one request wants other than the settings say.
    """
    wanted = endpoint.reasoning if asked is None else asked
    kind = endpoint.thinking
    if wanted is None or not kind.style or kind.word_for(wanted) is None:
        return {}
    word, is_on = kind.word_for(wanted), wanted != OFF
    if kind.style == ROUTED:
        return {"reasoning": {"max_tokens": wanted} if isinstance(wanted, int) else {"effort": word}}
    if kind.style == SWITCHED and not is_on:
        return {"reasoning": {"enabled": False}}
    fields: dict[str, Any] = {}
    if kind.style in (TOGGLE, BOTH):
        fields["thinking"] = {"type": "enabled" if is_on else "disabled"}
    elif kind.style == TEMPLATE:
        fields["chat_template_kwargs"] = {"enable_thinking": is_on}
    if kind.style not in (TOGGLE, BOTH, TEMPLATE) or (is_on and kind.style != TOGGLE):
        fields["reasoning_effort"] = word
    return fields


LEAST_BUDGET = 1024
"""The smallest number of tokens that Claude may be given to think."""

_BUDGETS: Mapping[str, int] = MappingProxyType({"low": 2048, "medium": 8192, "high": 16384})


class ClaudesThinking(msgspec.Struct, frozen=True):
    """What a request to Claude says of thinking: its `fields`, the longest answer with it, and whether it is `on`.

    `keeps_thoughts` says whether earlier thoughts go along.
    """

    fields: dict[str, Any]
    limit: int
    on: bool = False
    keeps_thoughts: bool = True


def thinking_of_claude(
    endpoint: Endpoint, request: ChatRequest, limit: int | None, usual: int, *, is_forced: bool
) -> ClaudesThinking:
    """How much Claude is to think; `limit` is the longest answer if one is set, `usual` what it is else.

    It does not think if a call is forced (`is_forced`), nor with a budget in the middle of a turn that it began
    without a thought: both are refused.
    """
    wanted, kind = endpoint.reasoning if request.reasoning is None else request.reasoning, endpoint.thinking
    least = usual if limit is None else limit
    if wanted is None or not kind.style:
        return ClaudesThinking({}, least)
    if wanted == OFF or is_forced:
        fields = {"thinking": {"type": kind.off}} if kind.off else {}
        return ClaudesThinking(fields, least, keeps_thoughts=kind.off is None)
    if kind.style == ADAPTIVE:
        effort = {"output_config": {"effort": kind.word_for(wanted)}}
        return ClaudesThinking({"thinking": {"type": "adaptive"}, **effort}, least, on=True)
    budget = max(LEAST_BUDGET, wanted if isinstance(wanted, int) else _BUDGETS[wanted])
    whole = budget + usual if limit is None else limit
    budget = min(budget, whole - LEAST_BUDGET)
    if budget < LEAST_BUDGET or _began_without_thought(endpoint, request):
        return ClaudesThinking({}, least, keeps_thoughts=False)
    return ClaudesThinking({"thinking": {"type": "enabled", "budget_tokens": budget}}, whole, on=True)


def _began_without_thought(endpoint: Endpoint, request: ChatRequest) -> bool:
    """Whether the turn under way has calls of which the model has no thoughts."""
    for message in reversed(request.messages):
        if message.get("role") == "user":
            return False
        if calls_in(message) and not own_blocks(message, endpoint.provider, endpoint.model):
            return True
    return False
