"""bub-tapestore-otel: what a turn writes on its tape becomes traces."""

from __future__ import annotations

from tests.compat.services.collector import Collector
from tests.compat.services.model import ANSWER
from tests.compat.trial import Trial
from tests.compat.world import World


async def turn(world: World) -> None:
    collector = await world.serve(Collector())
    world.variables["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{collector.address}/v1/traces"
    assert ANSWER in await world.run("hello, collector")
    traces = await collector.heard("traces")
    for word in ("service.name", "compat", "hello, collector", ANSWER):
        assert word.encode() in traces, f"no {word} in {traces!r}"


TRIAL = Trial(
    package="bub-tapestore-otel",
    plugin="tapestore-otel",
    does="a collector of OpenTelemetry gets the turn and its messages",
    against="a fake collector, over HTTP; OpenTelemetry's own variable has its address",
    settings={"service_name": "compat"},
    hooks=("provide_tape_store",),
    turn=turn,
)
