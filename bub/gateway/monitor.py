"""A small HTTP server for whoever watches a runtime: `/healthz` as JSON, `/metrics` in the format of Prometheus."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import trio

from bub.base.counts import Counts
from bub.channels.server import Exchange, HttpServer, Limits, ListenAddress, Request, Response
from bub.gateway.metrics import Metrics

_PATIENCE = 10.0
"""How long, in seconds, one request may take from its first byte to the last of its answer."""

_MOST_CONNECTIONS = 32
"""How many may be open at once; one more is closed at once."""

Health: TypeAlias = Callable[[], tuple[bool, Mapping[str, Any]]]
"""Says whether all is well, and what there is to say about it in types of JSON."""


class Monitor:
    """Serves what `counts` and `health` say, to this machine alone."""

    def __init__(self, counts: Counts, health: Health) -> None:
        self._metrics = Metrics(counts)
        self._health = health

    async def serve(
        self, address: ListenAddress, *, task_status: trio.TaskStatus[ListenAddress] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Answer until cancelled; tells `task_status` where, once others can connect.

        Raises `BubError` if the port cannot be had.
        """
        server = HttpServer("monitor", self._answer, Limits(_MOST_CONNECTIONS, _PATIENCE))
        help_ = "perhaps another gateway has the port; `--listen` chooses another"
        await server.serve(address, help=help_, task_status=task_status)

    async def _answer(self, exchange: Exchange) -> None:
        await exchange.respond(self._page(exchange.request))

    def _page(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response.text(405, "only GET and HEAD")
        match request.path:
            case "/healthz":
                is_well, said = self._health()
                return Response(200 if is_well else 503, json.dumps(said).encode() + b"\n", "application/json")
            case "/metrics":
                body, media_type = self._metrics.exposition(request.headers.get("accept", ""))
                return Response(200, body, media_type)
        return Response.text(404, "there are /healthz and /metrics")
