"""bub-schedule: the agent sets a reminder, which is a turn a second later."""

from __future__ import annotations

from tests.compat.services.slack import Slack
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    slack = await world.serve(Slack())
    world.model.answers = [("schedule.add", {"after_seconds": 1, "message": "the tea is ready"}), "I shall.", "Tea!"]
    async with world.gateway():
        await slack.heard("link")
        await slack.say("remind me of the tea")
        assert "remind me of the tea" in await world.model.asked()
        await world.model.asked()
        assert "scheduled: " in str(world.model.requests[1]["messages"]), world.model.requests[1]["messages"][-1]
        assert (await slack.heard("chat.postMessage"))["text"] == "I shall."
        assert "the tea is ready" in await world.model.asked()
        assert (await slack.heard("chat.postMessage"))["text"] == "Tea!"


TRIAL = Trial(
    package="bub-schedule",
    plugin="schedule",
    does="the tool schedule.add_plugin sets a reminder; a second later, the reminder starts a turn that answers",
    against="the real APScheduler; bub-slack and a fake Slack bring the message",
    beside={"bub-slack": {"bot_token": "xoxb-1", "app_token": "xapp-1"}},
    hooks=("load_state", "provide_channels"),
    turn=turn,
)
