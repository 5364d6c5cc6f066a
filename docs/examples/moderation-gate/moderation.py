"""Two gates around the model: one judges what it is asked, one what it said."""

from __future__ import annotations

from typing import Any

from bub import BubFramework, Settings, hookimpl
from bub.envelope import content_of

Verdict = dict[str, str] | None


class ModerationSettings(Settings, section="moderation"):
    words: list[str]
    reason: str = "I do not talk about that."


class Moderation:
    def __init__(self, framework: BubFramework) -> None:
        settings = ModerationSettings.of(framework)
        self._denied: dict[str, str] = {"deny": settings.reason}
        self._words = [word.casefold() for word in settings.words]

    @hookimpl
    async def moderate(self, prompt: Any) -> Verdict:
        """Judge what is about to be asked."""
        return await self._judge(str(prompt))  # a prompt with pictures is a list of parts

    @hookimpl
    async def moderate_reply(self, message: Any) -> Verdict:
        """Judge a reply that is about to be sent."""
        return await self._judge(content_of(message))

    async def _judge(self, text: str) -> Verdict:
        # Here a service could be asked: whatever goes wrong with it, the gate stays shut.
        return self._denied if any(word in text.casefold() for word in self._words) else None


plugin = Moderation
