"""Whether a refusal means that the conversation is too long for the model (BEHAVIOURS A13).

There is no common code for it: each provider says it in words of its own, and some of the words are also those of a
rate limit, which must not cost anybody a part of the conversation.
"""

from __future__ import annotations

import re

_OVERFLOW = r"""(?ix)
      context[ _](?:length|window|size|limit)[ _]exceed        # a code of OpenAI and Groq; MiniMax
    | model_context_window_exceeded                            # Z.ai
    | exceed_context_size                                      # llama.cpp, as a code
    | (?:maximum|available|configured)[ ](?:context|prompt|input)[ ](?:length|size|window)
                                                               # OpenAI, Azure, vLLM, DeepSeek, OpenRouter, Mistral;
                                                               # llama.cpp; xAI
    | exceed\w*[ ](?:the[ ]|this[ ])?(?:model'?s?[ ])?context[ ](?:length|window|size|limit)   # OpenAI, Anthropic
    | prompt[ ](?:is[ ])?too[ ]long                            # Anthropic, Ollama
    | prompt[ ]exceeds[ ]max[ ]length                          # Z.ai
    | request_too_large | request[ ]exceeds[ ]the[ ]maximum[ ]size     # Anthropic, at 32 MB
    | input[ ]is[ ]too[ ]long                                  # Bedrock
    | (?:input|prompt)[ ]token[ ]count\b.{0,40}\bexceeds       # Gemini, Copilot
    | input[ ](?:length|tokens)\b.{0,40}\bexceed               # DeepSeek, SGLang
    | exceeds[ ]the[ ]maximum[ ]number[ ]of[ ](?:input[ ])?tokens      # Gemini
    | reduce[ ]the[ ]length[ ]of[ ](?:the[ ])?(?:messages|input|prompt|conversation)     # Groq, Cerebras
    | (?:greater|longer|larger)[ ]than[ ]the[ ](?:model'?s[ ])?(?:maximum[ ])?context    # LM Studio, Together
    | context[ ]the[ ]overflows | context[ ]length[ ]of[ ]only | context[ ]overflow      # LM Studio
    | exceeded[ ]model[ ]token[ ]limit                         # Kimi
    | range[ ]of[ ]input[ ]length[ ]should[ ]be                # Qwen
    | too[ ]many[ ](?:input[ ])?tokens                         # Bedrock, Cohere
    """
_RATE = (
    r"(?i)per[ -](?:second|minute|hour|day)|\b[TR]P[MD]\b|rate[ _-]?limit|throttl|too many requests|quota|please wait"
)
_NEVER = frozenset({401, 402, 403, 404, 429})
_TOO_LARGE = 413


def is_rate_limit(words: str) -> bool:
    """Whether a server's words and codes are about how often or how much it is asked."""
    return re.search(_RATE, words) is not None


def is_overflow(status: int | None, words: str) -> bool:
    """Whether a refusal says that what was sent is too long.

    `words` are the server's message and its codes; `status` is that of HTTP, None inside a stream.
    """
    if status in _NEVER or is_rate_limit(words):
        return False
    return status == _TOO_LARGE or re.search(_OVERFLOW, words) is not None
