"""bub-wechat: the login by a picture, a direct message out of the long poll, and its answer."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.services.wechat import WeChat
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    wechat = await world.serve(WeChat())
    async with world.gateway():
        await wechat.heard("poll")
        await wechat.say("hello from WeChat")
        assert (await wechat.heard("sendtyping"))["status"] == 1
        assert "hello from WeChat" in await world.model.asked()
        sent = (await wechat.heard("sendmessage"))["msg"]
        assert (sent["to_user_id"], sent["context_token"]) == ("ada@im.wechat", "x1"), sent
        assert sent["item_list"][0]["text_item"]["text"] == ANSWER, sent
        assert (await wechat.heard("sendtyping"))["status"] == 2


TRIAL = Trial(
    package="bub-wechat",
    plugin="wechat",
    does="after the login, the bot answers a direct message, and shows that it types",
    against="a fake of WeChat's API for bots at ilinkai.weixin.qq.com; the library weixin-bot-sdk speaks to it",
    hooks=("provide_channels",),
    turn=turn,
)
