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

    `base_url` is its address; if `is_own`, everybody has another, and words in capitals stand for what is different.
    `key_variable` is the environment variable in which people usually keep its key, None if it needs none, and
    `key_header` the header that carries it. `api` is one of `APIS`. The rest matters for OpenAI's chat completions, but
    for `untempered`, a pattern of the models that refuse a temperature: `limit_field` is its word for the longest
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
    is_own: bool = False
    key_header: str | None = None
    untempered: str = "(?!)"

    @property
    def usual_url(self) -> str | None:
        """Where everybody reaches it."""
        return None if self.is_own else self.base_url

    def takes_temperature(self, model: str) -> bool:
        """Whether it takes a temperature for a model."""
        return re.match(self.untempered, model) is None


CUSTOM = "custom"
"""The provider of a model whose name says none (BEHAVIOURS O17)."""

LOCAL = "local"
"""The prefix of the small model that runs inside Bub's own process; the plugin `local_model` answers for it."""

_COMPLETION_LIMIT = "max_completion_tokens"
_OPENAI_IDS = ".{1,40}"
_OPENAI_THINKERS = r"o[1-9]|gpt-(5(?!.*chat)|[6-9])"
_NEWER_CLAUDES = r"claude-(opus-4-[7-9](?!\d)|[a-z]+-([5-9]|[1-9]\d)(?!\d))"

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        provider.name: provider
        for provider in (
            Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
            # The newer models of OpenAI refuse `max_tokens`, those that think also a temperature.
            Provider(
                "openai",
                "https://api.openai.com/v1",
                "OPENAI_API_KEY",
                limit_field=_COMPLETION_LIMIT,
                call_ids=_OPENAI_IDS,
                untempered=_OPENAI_THINKERS,
            ),
            # Claude refuses a temperature from Opus 4.7 and the models of version 5 on.
            Provider(
                "anthropic",
                "https://api.anthropic.com/v1",
                "ANTHROPIC_API_KEY",
                api=ANTHROPIC,
                untempered=_NEWER_CLAUDES,
            ),
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
            # Azure wants its key in a header of its own; the model is the name of a deployment.
            Provider(
                "azure",
                "https://RESOURCE.openai.azure.com/openai/v1",
                "AZURE_OPENAI_API_KEY",
                is_own=True,
                key_header="api-key",
                limit_field=_COMPLETION_LIMIT,
                call_ids=_OPENAI_IDS,
                untempered=_OPENAI_THINKERS,
            ),
            Provider(
                "bedrock",
                "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
                "AWS_BEARER_TOKEN_BEDROCK",
                is_own=True,
                limit_field=_COMPLETION_LIMIT,
            ),
            # The key is a token that `gcloud auth print-access-token` prints; it holds for an hour.
            Provider(
                "vertex",
                "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/endpoints/openapi",
                "GOOGLE_OAUTH_ACCESS_TOKEN",
                is_own=True,
            ),
            Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY", limit_field=_COMPLETION_LIMIT),
            Provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
            Provider("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
            # Kimi has a fixed temperature and refuses any other.
            Provider(
                "moonshot",
                "https://api.moonshot.ai/v1",
                "MOONSHOT_API_KEY",
                limit_field=_COMPLETION_LIMIT,
                untempered="kimi-",
            ),
            # Z.ai counts tokens unasked and does not know `stream_options`.
            Provider("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", asks_for_usage=False),
            Provider("lmstudio", "http://127.0.0.1:1234/v1", None),
            Provider("vllm", "http://127.0.0.1:8000/v1", None),
            Provider("llamacpp", "http://127.0.0.1:8080/v1", None),
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
