"""The plugin of the newsroom: it knows the news, the weather, and what may not be asked."""

from __future__ import annotations

from typing import Any

from bub import hookimpl


@hookimpl
def fetch_news(message: dict[str, Any]) -> str:
    return "nothing new"


@hookimpl
def fetch_weather(message: dict[str, Any]) -> str:
    return "rain"


@hookimpl
def moderate(prompt: str) -> dict[str, str] | None:
    return {"deny": "no"} if "password" in prompt else None


@hookimpl
def run_model(prompt: str) -> str:
    return prompt


@hookimpl
def proofread(text: str) -> None:
    return None
