"""bub-wecom: a direct message over the WebSocket, and its answer as a stream that ends."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.services.wecom import WeCom
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    wecom = await world.serve(WeCom())
    async with world.gateway():
        await wecom.heard("aibot_subscribe")
        await wecom.say("hello from WeCom")
        first = (await wecom.heard("aibot_respond_msg"))["body"]["stream"]
        assert first["finish"] is False, first
        assert "hello from WeCom" in await world.model.asked()
        last = (await wecom.heard("aibot_respond_msg"))["body"]["stream"]
        assert last == {"id": first["id"], "finish": True, "content": ANSWER}, last


TRIAL = Trial(
    package="bub-wecom",
    plugin="wecom",
    does="the bot answers a direct message: first with a sign that it is busy, then with the answer",
    against="a fake of WeCom's WebSocket at openws.work.weixin.qq.com; the library wecom-aibot-python-sdk speaks to it",
    settings={"bot_id": "bot1", "secret": "secret"},
    answers={"bot_id": "bot1", "secret": "secret", "dm_policy": "open", "group_policy": "disabled"},
    asked=("bot_id", "secret", "dm_policy", "group_policy", "websocket_url"),
    hooks=("onboard_config", "provide_channels"),
    turn=turn,
)
