"""bub-feishu: a direct message over the long connection, and a command, whose answer is a reply."""

from __future__ import annotations

from tests.compat.services.feishu import Feishu
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    feishu = await world.serve(Feishu())
    async with world.gateway():
        await feishu.heard("link")
        await feishu.say("hello from Feishu", message="om_1")
        assert "hello from Feishu" in await world.model.asked()
        assert (await feishu.heard("acknowledged"))["code"] == 200
        await feishu.say(",help", message="om_2")  # other answers go out by the package's skill, as it is made
        reply = await feishu.heard("reply")
        assert reply["to"] == "om_2" and "tape" in reply["content"], reply


TRIAL = Trial(
    package="bub-feishu",
    plugin="feishu",
    does="a message reaches the model with its sender's name; the bot replies to a command",
    against="a fake of Feishu's API and of its WebSocket at open.feishu.cn; the library lark-oapi speaks to it",
    settings={"app_id": "cli_1", "app_secret": "secret"},
    answers={"app_id": "cli_1", "app_secret": "secret"},
    asked=("app_id", "app_secret"),
    hooks=("onboard_config", "provide_channels"),
    turn=turn,
)
