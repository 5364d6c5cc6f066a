"""The windows of well-known models, for the case that neither the settings nor the server tells."""

from __future__ import annotations

import re

_K = 1024

_WINDOWS: tuple[tuple[str, int], ...] = (
    (r"gpt-5.*chat", 128_000),
    (r"gpt-[5-9]|codex", 272_000),  # of 400,000 tokens, 128,000 are kept for the answer
    (r"gpt-4\.1", 1_047_576),
    (r"gpt-4o|gpt-4-turbo|gpt-4-1106|gpt-4-0125|chatgpt-4o|o1-(mini|preview)", 128_000),
    (r"gpt-4-32k", 32_768),
    (r"gpt-4($|-0)", 8_192),
    (r"gpt-3\.5", 16_385),
    (r"o[1-9]($|-)", 200_000),
    (r"gpt-oss", 128 * _K),
    (r"claude", 200_000),
    (r"gemini-1\.5-pro", 2 * _K * _K),
    (r"gemini", _K * _K),
    (r"gemma-3", 128 * _K),
    (r"deepseek", 128_000),
    (r"kimi-k2-0711", 128 * _K),
    (r"kimi", 256 * _K),
    (r"moonshot-v1-8k", 8 * _K),
    (r"moonshot-v1-32k", 32 * _K),
    (r"moonshot-v1", 128 * _K),
    (r"glm-4(\.5|-)", 128 * _K),
    (r"glm-(4\.[6-9]|[5-9])", 200_000),
    (r"grok-(code|4)", 256_000),
    (r"grok", 128 * _K),
    (r"qwen3-(max|coder|next)|qwen-?plus", 256 * _K),
    (r"(mistral|pixtral|ministral|devstral)-|codestral", 128_000),
    (r"llama-?(3\.[1-3]|4)", 128 * _K),
    (r"command-[ar]", 128_000),
    (r"minimax-m[2-9]", 192 * _K),
)
"""Beginnings of names, the first that fits counts. Of what differs among providers, the smaller one is written here."""


def known_window(model: str) -> int | None:
    """The tokens that a model with this name takes; None for one that is not known. A provider's folder is no name."""
    name = model.rpartition("/")[2].lower()
    return next((tokens for pattern, tokens in _WINDOWS if re.match(pattern, name)), None)
