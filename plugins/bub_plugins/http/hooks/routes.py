"""The route of webhooks: `POST /hooks/NAME`."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bub.base.duration import parse_duration
from bub_plugins.http.door import Door
from bub_plugins.http.hooks.answers import Streaming, Waiting, repeated, streamed
from bub_plugins.http.hooks.reading import read_message
from bub_plugins.http.hooks.seen import Seen
from bub_plugins.http.refusal import Refusal


def webhook_routes(door: Door, seen: Seen) -> list[BaseRoute]:
    """Return the route of the webhooks of a door."""

    async def take(request: Request) -> Any:
        name = request.path_params["name"]
        hook = door.settings.webhooks.get(name)
        if hook is None:
            raise Refusal(404, "there is nothing here")
        if "origin" in request.headers:
            raise Refusal(403, "pages may not send requests to a webhook")
        message = await read_message(request, door, seen, name, hook)
        if message is None:
            return Response(status_code=204)
        kept = seen.answer_to(message.message_id)
        streams = "text/event-stream" in request.headers.get("accept", "")
        if kept is not None:
            return (streamed if streams else repeated)(message.message_id, kept)
        if streams:
            return Streaming(door.askers, message)
        return Waiting(door.askers, message, parse_duration(hook.answer_within) or 0)

    return [Route("/hooks/{name}", take, methods=["POST"])]
