"""The app: all routes at one address, and what each refusal looks like."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bub_plugins.http.door import Door
from bub_plugins.http.hooks.routes import webhook_routes
from bub_plugins.http.hooks.seen import Seen
from bub_plugins.http.openai.routes import openai_routes
from bub_plugins.http.refusal import Refusal


def build_app(door: Door, seen: Seen) -> Starlette:
    """Return the app that answers for a door; `seen` are the requests of webhooks that came before."""
    return Starlette(
        routes=[*webhook_routes(door, seen), *openai_routes(door)],
        exception_handlers={Refusal: _tell_refusal, HTTPException: _tell_unknown, Exception: _tell_failure},
    )


async def _tell_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refusal_response(error)


async def _tell_unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is nothing here", 405: "this address takes no such request"}
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return refusal_response(Refusal(error.status_code, words.get(error.status_code, "this cannot be asked"), **headers))


async def _tell_failure(request: Request, error: Exception) -> Response:
    return refusal_response(Refusal(500, "something went wrong here"))


def refusal_response(refusal: Refusal) -> Response:
    """Return a refusal as JSON: `{"error": what, "help": what to do}`."""
    said = {"error": refusal.error, **({"help": refusal.help} if refusal.help else {})}
    return JSONResponse(said, refusal.status, headers={"cache-control": "no-store", **refusal.headers})
