"""The application that the server runs: who may ask comes first, then one table says which endpoint answers what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from secrets import token_hex
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bub.errors import BubError
from bub.log import log_exception
from bub.studio.access import MARK, Access, RefusedRequestError
from bub.studio.endpoints import approvals, chat, entering, file, health, inbox, looking, pipelines, tapes, turns
from bub.studio.feed import Feed
from bub.studio.files import Page, PageFile
from bub.studio.requests import Asked, read_object
from bub.studio.studio import Studio
from bub.studio.views.loaded import ChangedError, NotThereError

_API = "/api/"
_FEED = f"{_API}feed"

_HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src {style}; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-frame-options": "DENY",
}
"""What every answer carries; `{style}` is the style of the page, by its hash."""

_STATUS: Mapping[type[BubError], int] = {NotThereError: 404, ChangedError: 409}
"""What an error for people is in HTTP; any other is 400."""

Answer: TypeAlias = Callable[[Studio, Asked], Awaitable[Any]]
"""Answers a request with what JSON knows; None is an answer without a body."""


class Endpoint(NamedTuple):
    """What answers a request for a path below `/api/`; a part in braces is handed over by its name.

    A `POST` changes something, or may. Secrets in an answer are covered, unless that is the endpoint's own to do.
    """

    method: str
    path: str
    answer: Answer
    covered: bool = True


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("POST", "leave", entering.leave),
    Endpoint("GET", "state", looking.describe_state),
    Endpoint("GET", "graph", pipelines.show_graph),
    Endpoint("GET", "stage", pipelines.describe_stage),
    Endpoint("POST", "way", pipelines.find_way_of),
    Endpoint("GET", "turns", turns.list_turns),
    Endpoint("GET", "turns/{id}", turns.describe_turn),
    Endpoint("GET", "plots", turns.describe_plots),
    Endpoint("GET", "sessions", tapes.sessions),
    Endpoint("GET", "tape", tapes.tape),
    Endpoint("GET", "search", tapes.search),
    Endpoint("GET", "approvals", approvals.list_approvals),
    Endpoint("POST", "approvals/{id}", approvals.answer),
    Endpoint("GET", "chat", chat.read_chat),
    Endpoint("POST", "chat", chat.say),
    Endpoint("POST", "chat/stop", chat.stop),
    Endpoint("GET", "inbox", inbox.list_inbox),
    Endpoint("POST", "inbox/{id}/retry", inbox.retry),
    Endpoint("POST", "inbox/{id}/drop", inbox.drop),
    Endpoint("GET", "health", health.describe_health),
    Endpoint("GET", "file", file.show, covered=False),
    Endpoint("POST", "file/check", file.check, covered=False),
    Endpoint("POST", "file/diff", file.diff, covered=False),
    Endpoint("POST", "file/prove", file.prove, covered=False),
    Endpoint("POST", "file/load", file.load, covered=False),
    Endpoint("GET", "file/code", file.explain, covered=False),
)
"""All that the page can ask for, beside `enter` and `feed`. Whoever adds one adds a line here."""


def make_app(studio: Studio, access: Access, page: Page) -> ASGIApp:
    """Return the application that serves the page of a runtime to who may ask."""
    routes = [Route(f"{_API}{one.path}", _Answering(studio, one), methods=[one.method]) for one in ENDPOINTS]
    routes.append(Route(_FEED, _Feeding(studio), methods=["GET"]))
    routes.append(Route(f"{_API}enter", _Entering(access), methods=["POST"]))
    routes += [Route(path, _Serving(file), methods=["GET"]) for path, file in page.files.items()]
    app = Starlette(routes=routes, exception_handlers={404: _explain_404, 405: _explain_405})
    app.router.redirect_slashes = False
    headers = {name: value.replace("{style}", page.style) for name, value in _HEADERS.items()}
    return _Guard(app, access, headers)


class _Guard:
    """Lets pass what may be asked, and gives every answer the headers that bind a browser."""

    def __init__(self, app: ASGIApp, access: Access, headers: Mapping[str, str]) -> None:
        self._app = app
        self._access = access
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks another protocol
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        is_api = scope["path"].startswith(_API)

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                caching = {"cache-control": "no-store" if is_api else "no-cache"}
                more = [(name.encode(), value.encode()) for name, value in {**self._headers, **caching}.items()]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        try:
            self._check(Request(scope), is_api=is_api)
        except RefusedRequestError as error:
            await _refusal(error)(scope, receive, send_strictly)
            return
        await self._app(scope, receive, send_strictly)

    def _check(self, request: Request, *, is_api: bool) -> None:
        access = self._access
        access.check_host(request.headers.getlist("host"))
        if request.method not in ("GET", "HEAD", "POST"):
            raise RefusedRequestError(405, "only GET and POST")
        if not is_api:
            return
        if request.method == "HEAD":
            raise RefusedRequestError(405, "only GET and POST")
        if request.method == "POST":
            access.check_change(request.headers)
        else:
            access.check_site(request.headers)
        if request.scope["path"] == f"{_API}enter":
            return
        if not access.lets_in(_cookie_of(request, access), _mark_of(request)):
            raise RefusedRequestError(
                401,
                "this browser has not shown the token of this page",
                help="open the whole address that Bub has printed",
            )


class _Answering:
    """Answers requests for one endpoint."""

    def __init__(self, studio: Studio, endpoint: Endpoint) -> None:
        self._studio = studio
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, mask = Request(scope), self._studio.framework.mask
        try:
            asked = Asked(
                request.path_params,
                request.query_params,
                await read_object(receive, request.headers.get("content-length")) if request.method == "POST" else {},
                _cookie_of(request, self._studio.access) or "",
            )
            said = await self._endpoint.answer(self._studio, asked)
            shown = msgspec.to_builtins(said, enc_hook=str)
            response = _json(200, mask.value(shown) if self._endpoint.covered else shown)
            if said is None:
                response = Response(status_code=204)
        except RefusedRequestError as error:
            response = _refusal(error, mask.text)
        except BubError as error:
            status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 400)
            response = _refusal(RefusedRequestError(status, str(error), help=error.help), mask.text)
        except Exception as error:  # noqa: BLE001 (it concerns this request alone)
            name = token_hex(4)
            log_exception("studio.failed", error, id=name, path=self._endpoint.path)
            response = _json(500, {"error": "something went wrong here", "help": f"the log has more: error {name}"})
        await response(scope, receive, send)


class _Feeding:
    """Answers a browser that wants to be told of what happens."""

    def __init__(self, studio: Studio) -> None:
        self._access = studio.access
        self._feed = Feed(studio)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._feed.serve(_cookie_of(Request(scope), self._access) or "", scope, receive, send)


class _Entering:
    """Gives who has the token a cookie."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_object(receive, Request(scope).headers.get("content-length"))
            value = self._access.enter(Asked(body=body).text("token"))
            own = {"set-cookie": self._access.set_cookie(value), MARK: self._access.mark_of(value)}
            response = Response(status_code=204, headers=own)
        except RefusedRequestError as error:
            response = _refusal(error)
        await response(scope, receive, send)


class _Serving:
    """Serves one file of the page."""

    def __init__(self, file: PageFile) -> None:
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file, headers = self._file, Request(scope).headers
        own = {"etag": file.tag, "vary": "accept-encoding"}
        if headers.get("if-none-match") == file.tag:
            response = Response(status_code=304, headers=own)
        elif "gzip" in headers.get("accept-encoding", ""):
            response = Response(file.packed, headers=own | {"content-encoding": "gzip"}, media_type=file.media_type)
        else:
            response = Response(file.body, headers=own, media_type=file.media_type)
        await response(scope, receive, send)


async def _explain_404(request: Request, error: Exception) -> Response:
    return _json(404, {"error": "there is nothing here", "help": None})


async def _explain_405(request: Request, error: Exception) -> Response:
    return _json(405, {"error": "this address takes no such request", "help": None})


def _cookie_of(request: Request, access: Access) -> str | None:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(access.cookie)
    except CookieError:
        return None
    return found.value if found is not None else None


def _mark_of(request: Request) -> str:
    """Return what a request says beside its cookie; a browser can give the feed no header, so there it is a query."""
    query = request.query_params.get("mark", "") if request.scope["path"] == _FEED else ""
    return request.headers.get(MARK) or query


def _refusal(error: RefusedRequestError, cover: Callable[[str], str] = str) -> Response:
    """Answer a request that may not have been read to its end; so its connection is not used again."""
    response = _json(error.status, {"error": cover(str(error)), "help": cover(error.help) if error.help else None})
    response.headers["connection"] = "close"
    return response


def _json(status: int, value: Any) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), status_code=status, media_type="application/json")
