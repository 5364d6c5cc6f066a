"""bub-dingtalk: a direct message in stream mode, and its answer."""

from __future__ import annotations

import json

from tests.compat.services.dingtalk import DingTalk
from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    dingtalk = await world.serve(DingTalk())
    async with world.gateway():
        assert await dingtalk.heard("subscriptions") == ["/v1.0/im/bot/messages/get"]
        await dingtalk.heard("link")
        await dingtalk.say("hello from DingTalk")
        assert (await dingtalk.heard("acknowledged"))["code"] == 200
        assert "hello from DingTalk" in await world.model.asked()
        sent = await dingtalk.heard("sent")
        assert sent["userIds"] == ["staff1"] and json.loads(sent["msgParam"])["text"] == ANSWER, sent


TRIAL = Trial(
    package="bub-dingtalk",
    plugin="dingtalk",
    does="the bot answers a direct message",
    against="a fake of DingTalk's API and stream mode at api.dingtalk.com; the library dingtalk-stream speaks to it",
    settings={"client_id": "ding1", "client_secret": "secret", "allow_users": "*"},
    answers={"client_id": "ding1", "client_secret": "secret"},
    asked=("client_id", "client_secret", "allow_users"),
    hooks=("onboard_config", "provide_channels"),
    turn=turn,
)
