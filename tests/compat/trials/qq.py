"""bub-qq: a direct message over the gateway, and its answer to that message."""

from __future__ import annotations

from tests.compat.services.model import ANSWER
from tests.compat.services.qq import QQ
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    qq = await world.serve(QQ())
    async with world.gateway():
        await qq.heard("ready")
        await qq.say("hello from QQ")
        assert "hello from QQ" in await world.model.asked()
        sent = await qq.heard("message")
        assert (sent["user"], sent["msg_id"], sent["msg_seq"]) == ("ada", "m1", 1), sent
        assert ANSWER in (sent.get("content") or sent["markdown"]["content"]), sent
        assert "qq_response_instruct" in str(world.model.requests[0]["messages"]), "its system prompt is missing"


TRIAL = Trial(
    package="bub-qq",
    plugin="qq",
    does="the bot answers a direct message; the model gets the package's system prompt",
    against="a fake of QQ's API and of its WebSocket at api.bot.qq.com; the package itself speaks to it",
    settings={"appid": "app1", "secret": "secret", "receive_mode": "websocket"},
    answers={"app_id": "app1", "secret": "secret", "receive_mode": "websocket"},
    asked=("appid", "secret", "receive_mode"),
    hooks=(
        "after_llm_call",
        "after_tool_call",
        "before_llm_call",
        "before_tool_call",
        "load_state",
        "onboard_config",
        "provide_channels",
        "system_prompt",
    ),
    turn=turn,
)
