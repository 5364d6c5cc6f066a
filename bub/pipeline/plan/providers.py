"""The model providers Bub knows by name: where each is reached and how its key is usually called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

OPENAI = "openai"
ANTHROPIC = "anthropic"
APIS = (OPENAI, ANTHROPIC)
"""The two ways to ask a model: OpenAI's chat completions, which most servers speak, and Anthropic's Messages."""


class Provider(msgspec.Struct, frozen=True):
    """A provider, and what is particular about the way it speaks.

    `key_variable` is the environment variable in which people usually keep its key, None where no key is needed.
    `api` is one of `APIS`. The rest matters for OpenAI's chat completions: `limit_field` is its word for the longest
    answer, `asks_for_usage` says whether token counts must be asked for, and `call_ids` is a pattern of the ids of tool
    calls that it accepts.
    """

    name: str
    base_url: str
    key_variable: str | None
    limit_field: str = "max_tokens"
    asks_for_usage: bool = True
    api: str = OPENAI
    call_ids: str = ".*"


CUSTOM = "custom"
"""The provider of a model whose name says none (BEHAVIOURS O17)."""

LOCAL = "local"
"""The prefix of the small model that runs inside Bub's own process; the plugin `local_model` answers for it."""

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        provider.name: provider
        for provider in (
            Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
            # The newer models of OpenAI refuse `max_tokens`.
            Provider(
                "openai",
                "https://api.openai.com/v1",
                "OPENAI_API_KEY",
                limit_field="max_completion_tokens",
                call_ids=".{1,40}",
            ),
            Provider("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", api=ANTHROPIC),
            Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
            # Mistral counts tokens unasked and is strict about fields it does not know.
            Provider(
                "mistral",
                "https://api.mistral.ai/v1",
                "MISTRAL_API_KEY",
                asks_for_usage=False,
                call_ids="[A-Za-z0-9]{9}",
            ),
            Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
            Provider("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
            Provider("ollama", "http://127.0.0.1:11434/v1", None),
        )
    }
)

_NAME = r"[a-z][a-z0-9_-]*"


def split_model(model: str) -> tuple[str, str]:
    """The provider and the model of `provider:name`; the name alone belongs to the provider `custom`."""
    prefix, colon, rest = model.strip().partition(":")
    if colon and re.fullmatch(_NAME, prefix.lower()):
        return prefix.lower(), rest.strip()
    return CUSTOM, model.strip()


def provider_of(model: Any) -> str:
    """The provider that a model of the settings is asked at; "" if there is no model."""
    text = str(model or "").strip()
    return split_model(text)[0] if text else ""
