"""The settings of the model, as plugins that bring one themselves read them."""

from __future__ import annotations

import os
import re
from typing import Any

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from bub_reference.configure import Settings, config, ensure_config

DEFAULT_MODEL = "openrouter:openrouter/free"
DEFAULT_MAX_TOKENS = 16384

_OF_A_PROVIDER = re.compile(r"BUB_(?P<provider>.+)_API_(?P<what>KEY|BASE)")


@config()
class AgentSettings(Settings):
    """The model, and for each provider its key and address."""

    model_config = SettingsConfigDict(env_prefix="BUB_", env_parse_none_str="null", extra="ignore")

    model: str = DEFAULT_MODEL
    fallback_models: list[str] | None = None
    api_key: str | dict[str, str] | None = None
    api_base: str | dict[str, str] | None = None
    max_steps: int = Field(default=2**31 - 1, gt=0)
    max_tokens: int = DEFAULT_MAX_TOKENS
    model_timeout_seconds: int | None = None
    client_args: dict[str, Any] = Field(default_factory=dict)
    completion_args: dict[str, Any] = Field(default_factory=dict)
    verbose: int = Field(default=0, ge=0, le=2)

    @model_validator(mode="before")
    @classmethod
    def _read_providers(cls, given: Any) -> Any:
        """Take keys and addresses from `providers:`, where a pipeline file has them, and from the environment."""
        if not isinstance(given, dict):
            return given
        found: dict[str, dict[str, str]] = {"api_key": {}, "api_base": {}}
        for name, said in (given.get("providers") or {}).items():
            for field in found:
                if said.get(field):
                    found[field][name] = str(said[field])
        for variable, value in os.environ.items():
            if match := _OF_A_PROVIDER.fullmatch(variable):
                found[f"api_{match['what'].lower()}"][match["provider"].lower()] = value
        return {**{field: values for field, values in found.items() if values}, **given}


def load_settings() -> AgentSettings:
    """The settings of the profile that the code runs for."""
    return ensure_config(AgentSettings)
