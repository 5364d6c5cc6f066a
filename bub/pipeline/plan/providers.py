"""The model providers Bub knows by name: the address of each, the name of its key, and how Bub speaks to it."""

# Long because it is a table: what is particular about each provider is in one place, whoever needs to know it.

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

OPENAI = "openai"
ANTHROPIC = "anthropic"
RESPONSES = "responses"
APIS = (OPENAI, ANTHROPIC, RESPONSES)
"""The ways to ask a model: OpenAI's chat completions, which most servers speak, Anthropic's Messages, and OpenAI's
Responses."""

OFF = "off"
LEVELS = ("low", "medium", "high")
"""What people say; a number of tokens is the other way."""

MOST_OF = (4096, 16384)
"""Up to how many tokens are little thinking, and up to how many a medium amount, for models that know levels alone."""

EFFORT, TOGGLE, BOTH, ROUTED, TEMPLATE, SWITCHED = "effort", "toggle", "both", "routed", "template", "switched"
BUDGET, ADAPTIVE = "budget", "adaptive"
"""How a level is written; `bub/agent/models/apis/effort.py` does it."""


class Thinking(msgspec.Struct, frozen=True):
    """What one kind of model understands.

    `models` is a pattern of their names, `style` how a level is written, "" if there is no way to say one. `levels` are
    the words for low, medium and high, `off` the one for none; "" if nothing need be said for it, and None if the model
    always thinks.
    """

    models: str = ""
    style: str = EFFORT
    levels: tuple[str, str, str] = LEVELS
    off: str | None = "none"

    def word_for(self, wanted: str | int) -> str | None:
        """The word for a level or a number of tokens; None if it has none."""
        if wanted == OFF:
            return self.off
        return self.levels[LEVELS.index(level_of(wanted))]

    def find_problem(self, wanted: str | int) -> str | None:
        """Why a model of this kind cannot do what is wanted, as the end of a sentence; None if it can."""
        if wanted == OFF and self.off == "":
            return None
        if not self.style:
            return "has no setting for how much to think"
        if wanted == OFF and self.off is None:
            return "always thinks"
        if isinstance(wanted, int) and self.style not in (ROUTED, BUDGET):
            return f"knows no number of tokens, and takes `{level_of(wanted)}` for it"
        return None


ANY = Thinking()
UNTOLD = Thinking(style="")


class Provider(msgspec.Struct, frozen=True):
    """A provider, and what is particular about the way it speaks.

    `base_url` is its address; if `is_own`, everybody has another, and words in capitals stand for what is different.
    `key_variable` is the environment variable in which people usually keep its key, None if it needs none, and
    `key_header` the header that carries it. `api` is one of `APIS`. The rest matters for OpenAI's chat completions,
    except `untempered`, a pattern of the models that refuse a temperature: `limit_field` is its word for the longest
    answer, `asks_for_usage` says whether token counts must be asked for, and `call_ids` is a pattern of the ids of tool
    calls that it accepts. `thinking` are the kinds of its models: the first that fits counts; one that fits
    none has no setting for how much to think. `echo` is the field in which thoughts go back with what was said, "" if
    they do not, and `wants_echo` a pattern of the models that refuse a tool call without it. `blind` is a pattern of
    the models that take no pictures, `readers` one of those that take PDFs.
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
    thinking: tuple[Thinking, ...] = (ANY,)
    echo: str = ""
    wants_echo: str = "(?!)"
    blind: str = "(?!)"
    readers: str = "(?!)"

    @property
    def usual_url(self) -> str | None:
        """Return the address that everybody reaches it at."""
        return None if self.is_own else self.base_url

    def takes_temperature(self, model: str) -> bool:
        """Whether it takes a temperature for a model."""
        return re.match(self.untempered, model) is None

    def sees(self, model: str) -> bool:
        """Whether a model takes pictures, as far as is known."""
        return re.match(self.blind, model) is None

    def takes_pdfs(self, model: str, api: str) -> bool:
        """Whether a model takes PDFs by an API."""
        return (api == self.api or (api, self.api) == (RESPONSES, OPENAI)) and re.match(self.readers, model) is not None

    def thinking_of(self, model: str) -> Thinking:
        """What a model understands of how much it is to think."""
        return next((kind for kind in self.thinking if re.match(kind.models, model)), UNTOLD)


CUSTOM = "custom"
"""The provider of a model whose name says none (BEHAVIOURS O17)."""

LOCAL = "local"
"""The prefix of the small model that runs inside Bub's own process; the plugin `local_model` answers for it."""

_COMPLETION_LIMIT = "max_completion_tokens"
_OPENAI_IDS = ".{1,40}"
_OPENAI_THINKERS = r"o[1-9]|gpt-(5(?!.*chat)|[6-9])"
_NEWER_CLAUDES = r"claude-(opus-4-[7-9](?!\d)|[a-z]+-([5-9]|[1-9]\d)(?!\d))"

_OF_OPENAI = (
    Thinking(r"gpt-5(\.\d+)?-chat|gpt-[34]|chatgpt", style="", off=""),
    Thinking("o[1-9]", off=None),
    Thinking(r"gpt-5(?!\.)", off="minimal"),
    ANY,
)
_OF_GEMINI = (
    Thinking(r"(google/)?gemini-2\.5-flash"),
    Thinking(r"(google/)?gemini-(2\.5|[3-9])", off=None),
)
_OF_GPT_OSS = Thinking(r"(openai[./])?gpt-oss", off=None)
_OF_CLAUDE = (
    Thinking(r"claude-3-[05]|claude-3-(opus|sonnet|haiku)|claude-[12]", style="", off=""),
    Thinking(r"claude-(3-7|[a-z]+-4(-[0-5])?(-\d{8}|@|$|-latest|-v))", BUDGET, off=""),
    Thinking(r"claude-[a-z]+-4-[6-9]", ADAPTIVE, off=""),
    Thinking(r"claude-[a-z]+-5(-\d{8}|@|$|-latest|-v)", ADAPTIVE, off="disabled"),
    Thinking("claude-", ADAPTIVE, off=None),
    Thinking(style=BUDGET, off=""),
)
_KEPT = "reasoning_content"

_BLIND_OF_OPENAI = r"gpt-3|gpt-4(-\d{4})?$|gpt-4-32k|o1-(mini|preview)|o3-mini|gpt-oss"
_READERS_OF_OPENAI = r"gpt-4o|gpt-4\.1|gpt-[5-9]|o1(?!-)|o[34]"
_CLAUDES = r"claude-(?!3-(opus|sonnet|haiku)|[12]|instant)"

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        provider.name: provider
        for provider in (
            Provider(
                "openrouter",
                "https://openrouter.ai/api/v1",
                "OPENROUTER_API_KEY",
                thinking=(Thinking(style=ROUTED),),
                echo="reasoning_details",
                # Other models would have a PDF read for them, at a price.
                readers=rf"anthropic/{_CLAUDES}|openai/({_READERS_OF_OPENAI})|google/gemini",
            ),
            # The newer models of OpenAI refuse `max_tokens`, those that think also a temperature.
            Provider(
                "openai",
                "https://api.openai.com/v1",
                "OPENAI_API_KEY",
                limit_field=_COMPLETION_LIMIT,
                call_ids=_OPENAI_IDS,
                untempered=_OPENAI_THINKERS,
                thinking=_OF_OPENAI,
                blind=_BLIND_OF_OPENAI,
                readers=_READERS_OF_OPENAI,
            ),
            # Claude refuses a temperature from Opus 4.7 and the models of version 5 on.
            Provider(
                "anthropic",
                "https://api.anthropic.com/v1",
                "ANTHROPIC_API_KEY",
                api=ANTHROPIC,
                untempered=_NEWER_CLAUDES,
                thinking=_OF_CLAUDE,
                blind=r"claude-([12]|instant)",
                readers=_CLAUDES,
            ),
            Provider(
                "groq",
                "https://api.groq.com/openai/v1",
                "GROQ_API_KEY",
                blind=r"openai/gpt-oss|llama-3|qwen/qwen3-32b",
                thinking=(_OF_GPT_OSS, Thinking("qwen/", levels=("default", "default", "default"))),
            ),
            # Mistral counts tokens unasked and is strict about fields it does not know.
            Provider(
                "mistral",
                "https://api.mistral.ai/v1",
                "MISTRAL_API_KEY",
                asks_for_usage=False,
                call_ids="[A-Za-z0-9]{9}",
                thinking=(Thinking("mistral-large-[4-9]"), Thinking("mistral-(small|medium)", levels=("high",) * 3)),
                echo="content",
            ),
            # A model of DeepSeek that thinks refuses a tool call of its own that comes back without its thoughts.
            Provider(
                "deepseek",
                "https://api.deepseek.com/v1",
                "DEEPSEEK_API_KEY",
                thinking=(Thinking(style=BOTH),),
                echo=_KEPT,
                wants_echo="",
                blind="deepseek-(chat|reasoner|coder)",
            ),
            Provider(
                "gemini",
                "https://generativelanguage.googleapis.com/v1beta/openai",
                "GEMINI_API_KEY",
                thinking=_OF_GEMINI,
            ),
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
                thinking=_OF_OPENAI,
            ),
            Provider(
                "bedrock",
                "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
                "AWS_BEARER_TOKEN_BEDROCK",
                is_own=True,
                limit_field=_COMPLETION_LIMIT,
                thinking=(_OF_GPT_OSS,),
            ),
            # The key is a token that `gcloud auth print-access-token` prints; it holds for an hour.
            Provider(
                "vertex",
                "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/endpoints/openapi",
                "GOOGLE_OAUTH_ACCESS_TOKEN",
                is_own=True,
                thinking=_OF_GEMINI,
            ),
            Provider(
                "xai",
                "https://api.x.ai/v1",
                "XAI_API_KEY",
                limit_field=_COMPLETION_LIMIT,
                thinking=(
                    Thinking("grok-3-mini", levels=("low", "high", "high"), off=None),
                    Thinking(r"grok-(4\.[3-9]|[5-9]|latest)"),
                ),
            ),
            Provider(
                "together",
                "https://api.together.xyz/v1",
                "TOGETHER_API_KEY",
                thinking=(Thinking(style=SWITCHED),),
                echo=_KEPT,
            ),
            Provider("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", echo=_KEPT),
            # Kimi has a fixed temperature and refuses any other.
            Provider(
                "moonshot",
                "https://api.moonshot.ai/v1",
                "MOONSHOT_API_KEY",
                limit_field=_COMPLETION_LIMIT,
                untempered="kimi-",
                thinking=(
                    Thinking("kimi-k[3-9]", levels=("low", "high", "high"), off=None),
                    Thinking(r"kimi-k2\.[56]", TOGGLE),
                ),
                echo=_KEPT,
                wants_echo="kimi-",
            ),
            # Z.ai counts tokens unasked and does not know `stream_options`.
            Provider(
                "zai",
                "https://api.z.ai/api/paas/v4",
                "ZAI_API_KEY",
                asks_for_usage=False,
                thinking=(
                    Thinking(r"glm-5\.[3-9]", BOTH, levels=("low", "high", "max"), off=None),
                    Thinking(r"glm-5\.2", BOTH),
                    Thinking("glm-", TOGGLE),
                ),
                echo=_KEPT,
            ),
            Provider("lmstudio", "http://127.0.0.1:1234/v1", None),
            Provider("vllm", "http://127.0.0.1:8000/v1", None, thinking=(Thinking(style=TEMPLATE),), echo=_KEPT),
            Provider("llamacpp", "http://127.0.0.1:8080/v1", None, thinking=(Thinking(style=TEMPLATE),), echo=_KEPT),
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


def quirks_of(provider: str, api: str | None = None) -> Provider:
    """What is particular about a provider, also about one that Bub does not know; `api` is the way it is asked."""
    known = PROVIDERS.get(provider)
    if known is not None and (api is None or (api == ANTHROPIC) == (known.api == ANTHROPIC)):
        return known
    kinds = _OF_CLAUDE if api == ANTHROPIC else (ANY,)
    return msgspec.structs.replace(known or Provider(provider, "", None, echo=_KEPT), thinking=kinds)


def read_reasoning(said: object) -> str | int | None:
    """The level or the number of tokens that a setting says; None for nothing. Raises ValueError for anything else."""
    if said is None or said == "":
        return None
    if said is False:  # `off`, as YAML 1.1 reads it
        return OFF
    text = str(said).strip().lower()
    if text in (OFF, *LEVELS):
        return text
    if re.fullmatch("[1-9][0-9]{0,6}", text):
        return int(text)
    raise ValueError(f"one of {OFF}, {', '.join(LEVELS)}, or a number of tokens")


def level_of(wanted: str | int) -> str:
    """The level that comes closest to what is wanted."""
    if isinstance(wanted, str):
        return wanted
    return LEVELS[sum(wanted > most for most in MOST_OF)]
