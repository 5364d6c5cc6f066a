"""Asking a model server which models it has: that costs nothing, and tells whether it is there and takes the key."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from bub.agent.models import faults
from bub.agent.models.apis import anthropic, openai
from bub.agent.models.endpoint import Endpoint
from bub.errors import ModelError
from bub.pipeline.plan.providers import ANTHROPIC

if TYPE_CHECKING:
    import httpx

_LARGEST = 16 * 1024 * 1024
_WITHOUT_LIST = frozenset({404, 405, 501})
"""What a server answers that has no list of its models."""

_WHOLE_LIST: Mapping[str, str] = MappingProxyType({ANTHROPIC: "limit=1000"})


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


class Served(msgspec.Struct, frozen=True):
    """What a server said: `models` are those it has, None where it does not tell; `fault` is why a turn would fail.

    `seconds` is how long it took. `ahead` is by how many seconds its clock is ahead of ours, None where it has none;
    HTTP knows whole seconds only.
    """

    url: str
    status: int
    seconds: float
    models: tuple[str, ...] | None = None
    ahead: float | None = None
    fault: ModelError | None = None

    def has(self, model: str) -> bool | None:
        """Whether a model is among those it has; None where that is not known. Some put a folder before the name."""
        if self.models is None:
            return None
        return any(one == model or one.endswith(f"/{model}") or one == f"{model}:latest" for one in self.models)


async def ask_for_models(client: httpx.AsyncClient, endpoint: Endpoint, patience: float) -> Served:
    """What the server of an endpoint says when it is asked for its models, within `patience` seconds.

    Raises `ModelError` if nothing answers.
    """
    import httpx

    url = f"{endpoint.base_url}/models"  # as it is shown: a query may hold a secret
    asked = endpoint.url_of("/models")
    whole = _WHOLE_LIST.get(endpoint.api)
    if whole is not None:
        asked += f"{'&' if endpoint.query else '?'}{whole}"
    request = client.build_request("GET", asked, headers=headers_of(endpoint))
    began = time.monotonic()
    try:
        with trio.fail_after(patience):
            response = await client.send(request, stream=True)
            try:
                body = await _body(response)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                    await response.aclose()
    except trio.TooSlowError:
        raise faults.silent(msgspec.structs.replace(endpoint, timeout=patience)) from None
    except httpx.TransportError as error:
        raise faults.unreachable(endpoint, error).error from error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise faults.impossible_address(endpoint).error from error
    status, seconds = response.status_code, time.monotonic() - began
    served = Served(url, status, seconds, ahead=_ahead(response.headers.get("date")))
    if response.is_success:
        return msgspec.structs.replace(served, models=_models_in(body))
    if status in _WITHOUT_LIST:
        return served
    said = faults.read_error_body(body[:_LARGEST], response.headers.get("content-type", "").lower())
    return msgspec.structs.replace(served, fault=faults.explain_refusal(endpoint, status, said).error)


def headers_of(endpoint: Endpoint) -> dict[str, str]:
    """What a question to a server carries that is no request for an answer, the key above all."""
    own = anthropic.headers(endpoint) if endpoint.api == ANTHROPIC else openai.headers(endpoint)
    return {"accept": "application/json", **own, **endpoint.headers}


async def _body(response: Any) -> bytes:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _LARGEST:
            break
    return bytes(body)


def _models_in(body: bytes) -> tuple[str, ...] | None:
    try:
        return tuple(model.id for model in msgspec.json.decode(body, type=_Models).data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _ahead(date: str | None) -> float | None:
    from email.utils import parsedate_to_datetime  # 8 ms, which no turn is to pay

    try:
        said = parsedate_to_datetime(date or "")
    except ValueError:
        return None
    # A date without a zone is one in UTC (RFC 9110 §5.6.7).
    return ((said if said.tzinfo else said.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
