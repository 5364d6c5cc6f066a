"""bub-slack: a direct message over Socket Mode, and its answer by the Web API."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.services.slack import Slack
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    slack = await world.serve(Slack())
    async with world.gateway():
        await slack.heard("link")
        await slack.say("hello from Slack")
        assert await slack.heard("acknowledged") == "e-100.1"
        assert "hello from Slack" in await world.model.asked()
        post = await slack.heard("chat.postMessage")
        assert (post["channel"], post["text"]) == ("D1", ANSWER), post
        assert (await slack.heard("reactions.add"))["name"] == "hourglass"
        assert (await slack.heard("reactions.add"))["name"] == "white_check_mark"


TRIAL = Trial(
    package="bub-slack",
    plugin="slack",
    does="the bot answers a direct message, and reacts to it with two emoji",
    against="a fake of Slack's Web API and Socket Mode at slack.com; the library slack-sdk speaks to it",
    settings={"bot_token": "xoxb-1", "app_token": "xapp-1"},
    hooks=("provide_channels",),
    turn=turn,
)
