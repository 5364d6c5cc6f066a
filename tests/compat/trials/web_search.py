"""bub-web-search: the model searches, and gets what was found."""

from __future__ import annotations

from tests.compat.services.searxng import SearXNG
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    searxng = await world.serve(SearXNG())
    world.model.answers = [("web.search", {"query": "trio"}), "Found it."]
    assert "Found it." in await world.run("look for trio")
    assert (await searxng.heard("search"))["q"] == "trio"
    assert "https://trio.example/" in str(world.model.requests[1]["messages"]), world.model.requests[1]["messages"][-1]


TRIAL = Trial(
    package="bub-web-search",
    plugin="web-search",
    does="the model calls the tool web.search, and gets the results",
    against="a fake of the search engine SearXNG at searx.example",
    settings={"provider": "searxng", "searxng_base_url": "https://searx.example"},
    answers={
        "configure_web_search": True,
        "provider": "searxng",
        "searxng_base_url": "https://searx.example",
        "enable_the_web_read_tool_jina_reader": False,
    },
    asked=("provider", "searxng_base_url"),
    hooks=("onboard_config",),
    turn=turn,
)
