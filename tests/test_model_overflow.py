"""A conversation that is too long for the model: told from every other refusal, in the words of each provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bub.agent.models.endpoint import Endpoint
from bub.agent.models.faults import explain_refusal, explain_stream_error, read_error_body

ENDPOINT = Endpoint("test", "m", "http://127.0.0.1/v1")


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


OVERFLOWS: dict[str, tuple[int, Any]] = {
    "openai": (
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in"
            " 10346 tokens. Please"
            " reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
    ),
    "openai, newer models": (
        400,
        openai("Your input exceeds the context window of this model. Please adjust your input and try again."),
    ),
    "azure": (
        400,
        openai(
            "This model's maximum context length is 16385 tokens, however you requested 17010 tokens (15962 in your"
            " prompt; 1048 for the completion). Please reduce your prompt; or completion length.",
            code="context_length_exceeded",
        ),
    ),
    "anthropic": (400, anthropic("prompt is too long: 213462 tokens > 200000 maximum")),
    "anthropic, with max_tokens": (
        400,
        anthropic(
            "input length and `max_tokens` exceed context limit: 188059 + 20000 > 200000, decrease input length or"
            " `max_tokens` and try again"
        ),
    ),
    "anthropic, in bytes": (413, anthropic("Request exceeds the maximum size", "request_too_large")),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (9010 tokens) exceeds the available context size (2048 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9010,
                "n_ctx": 2048,
            }
        },
    ),
    "llama.cpp, older": (
        400,
        openai(
            "the request exceeds the available context size. try increasing the context size or enable context shift"
        ),
    ),
    "llama.cpp, by its type alone": (500, {"error": {"code": 500, "type": "exceed_context_size_error"}}),
    "gemini": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1196265) exceeds the maximum number of tokens"
                    " allowed (1048575).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
    ),
    "mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 66000 tokens and 0 draft tokens, too large for model with 32768 maximum context"
            " length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
    "groq": (
        400,
        openai("Please reduce the length of the messages or completion.", code="context_length_exceeded"),
    ),
    "cerebras": (
        400,
        {
            "message": "Please reduce the length of the messages or completion. Current length is"
            " 20000 while limit is 8192",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
    ),
    "deepseek": (
        400,
        openai(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (131808 in the"
            " messages, 8192 in the completion). Please reduce the length of the messages or completion."
        ),
    ),
    "openrouter": (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you"
                " requested about 132463"
                " tokens (1463 of text input, 131000 in the output). Please reduce the length of either one, or use the"
                ' "middle-out" transform to compress your prompt automatically.',
                "code": 400,
            }
        },
    ),
    "openrouter, for another": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": json.dumps(anthropic("prompt is too long: 9 tokens > 8 maximum")),
                    "provider_name": "A",
                },
            }
        },
    ),
    "vllm": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested"
            " 4221 tokens (1829 in the"
            " messages, 2392 in the completion). Please reduce the length of the messages or completion.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "vllm, newer": (
        400,
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum"
            " context length is 4096 tokens"
            " and your request has 2104 input tokens (2000 > 4096 - 2104)."
        ),
    ),
    "sglang": (400, openai("Input length (265330) exceeds model's maximum context length (262144).")),
    "ollama": (400, openai("prompt too long; exceeded max context length by 100918 tokens", type="api_error")),
    "lm studio": (
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the"
            " context length. Try to load"
            " the model with a larger context length, or provide a shorter input"
        },
    ),
    "lm studio, older": (
        400,
        {
            "error": "Trying to keep the first 5040 tokens when context the overflows. However, the"
            " model is loaded with"
            " context length of only 4096 tokens, which is not enough."
        },
    ),
    "together": (400, openai("The input (516368 tokens) is longer than the model's context length (262144 tokens).")),
    "xai": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "kimi": (400, openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)")),
    "qwen": (400, openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]")),
    "minimax": (400, anthropic("invalid params, context window exceeds limit (2013)")),
    "a proxy": (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
}

OTHERS: dict[str, tuple[int, Any, str]] = {
    "openai, a minute's tokens": (
        429,
        openai(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit"
            " 30000, Requested 37021. The"
            " input or output tokens must be reduced in order to run successfully.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        "rate_limited",
    ),
    "openai, too often": (
        429,
        openai("Rate limit reached for gpt-4o on tokens per minute (TPM): Limit 30000, Used 29000, Requested 2000."),
        "rate_limited",
    ),
    "openai, no credit": (
        429,
        openai(
            "You exceeded your current quota, please check your plan and billing details.", code="insufficient_quota"
        ),
        "request",
    ),
    "groq, a minute's tokens": (
        413,
        openai(
            "Request too large for model `openai/gpt-oss-120b` in organization `org_x` service tier"
            " `on_demand` on tokens"
            " per minute (TPM): Limit 8000, Requested 11881, please reduce your message size and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        "rate_limited",
    ),
    "anthropic, too often": (
        429,
        anthropic(
            "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
            "rate_limit_error",
        ),
        "rate_limited",
    ),
    "bedrock, too often": (429, {"message": "Too many tokens, please wait before trying again."}, "rate_limited"),
    "bedrock, by its name": (
        400,
        {"message": "ThrottlingException: Too many tokens, please wait before trying again."},
        "request",
    ),
    "gemini, a day's quota": (
        429,
        [{"error": {"code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED"}}],
        "rate_limited",
    ),
    "openai, a long answer": (
        400,
        openai("max_tokens is too large: 100000. This model supports at most 16384 completion tokens."),
        "request",
    ),
    "openai, an unknown field": (400, openai("Unrecognized request argument supplied: context_window"), "request"),
    "anthropic, an unpaid bill": (
        400,
        anthropic("Your credit balance is too low to access the Anthropic API."),
        "request",
    ),
    "anthropic, overloaded": (529, anthropic("Overloaded", "overloaded_error"), "server"),
    "llama.cpp, loading": (
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        "server",
    ),
}


def kind_of(status: int, body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    content_type = "text/html" if isinstance(body, str) else "application/json"
    error = explain_refusal(ENDPOINT, status, read_error_body(text.encode(), content_type)).error
    assert str(error).isprintable()
    assert error.help
    return error.kind


@pytest.mark.parametrize("provider", OVERFLOWS)
def test_A13_a_conversation_that_is_too_long_is_known_by_the_words_of(provider: str) -> None:
    assert kind_of(*OVERFLOWS[provider]) == "context_overflow"


@pytest.mark.parametrize("provider", [name for name, (_, body) in OVERFLOWS.items() if isinstance(body, dict)])
def test_A13_it_is_known_inside_a_stream_too(provider: str) -> None:
    body = OVERFLOWS[provider][1]
    inside = body.get("error", body)
    if isinstance(inside, str):
        inside = body
    assert explain_stream_error(ENDPOINT, inside).error.kind == "context_overflow"


@pytest.mark.parametrize("provider", OTHERS)
def test_A13_no_other_refusal_is_taken_for_one(provider: str) -> None:
    status, body, kind = OTHERS[provider]
    assert kind_of(status, body) == kind


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429])
def test_A13_words_count_for_nothing_where_the_status_is_plain(status: int) -> None:
    assert kind_of(status, openai("prompt is too long")) != "context_overflow"


def test_A13_a_conversation_that_is_too_long_is_not_sent_again_and_says_what_to_do() -> None:
    failed = explain_refusal(
        ENDPOINT, 400, read_error_body(json.dumps(OVERFLOWS["llama.cpp"][1]).encode(), "application/json")
    )
    assert not failed.again
    assert "cannot take so long a conversation: request (9010 tokens)" in str(failed.error)
    assert "larger context" in (failed.error.help or "")
