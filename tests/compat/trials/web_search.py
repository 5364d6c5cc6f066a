"""bub-web-search: the model searches, and gets what was found."""

from __future__ import annotations

from tests.compat.services.searxng import SearXNG
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    searxng = await world.serve(SearXNG())
    world.configure(provider="searxng", searxng_base_url=searxng.address)
    world.model.answers = [("web.search", {"query": "trio"}), "Found it."]
    assert "Found it." in await world.run("look for trio")
    assert (await searxng.heard("search"))["q"] == "trio"
    assert "https://trio.example/" in str(world.model.requests[1]["messages"]), world.model.requests[1]["messages"][-1]


TRIAL = Trial(
    package="bub-web-search",
    plugin="web-search",
    does="the tool web.search finds, and the model gets it",
    against="a fake of SearXNG's search, its address set in the section",
    hooks=("onboard_config",),
    turn=turn,
)
