"""bub-discord: a message in a channel of a guild that names the bot, and its answer."""

from __future__ import annotations

from tests.compat.services.discord import Discord
from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    discord = await world.serve(Discord())
    async with world.gateway():
        await discord.heard("ready")
        await discord.say("bub, hello from Discord")
        assert await discord.heard("typing") == "501"
        assert "bub, hello from Discord" in await world.model.asked()
        post = await discord.heard("message")
        assert (post["channel_id"], post["content"]) == ("501", ANSWER), post


TRIAL = Trial(
    package="bub-discord",
    plugin="discord",
    does="the bot answers a message in a channel, and shows that it types",
    against="a fake of Discord's API and of its WebSocket at discord.com; the library discord.py speaks to it",
    settings={"token": "discord-token"},
    answers={"bot_token": "discord-token"},
    asked=("token", "command_prefix"),
    hooks=("onboard_config", "provide_channels"),
    turn=turn,
)
