"""The destination of telemetry, and what is in it: read from the settings and from the variables of OpenTelemetry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from bub.base.duration import parse_duration
from bub.errors import BubError
from bub.plugins.section import HasSettings, Settings
from bub.secrets.literals import credentials_in, looks_secret
from bub.secrets.names import SECRET_HEADER
from bub.telemetry.wanted import ENDPOINT, SIGNAL_ENDPOINTS, is_named_in_settings

PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
"""The one that is spoken."""

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_TRACES, _METRICS = "/v1/traces", "/v1/metrics"
_EXPORTERS = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS")


_Headers: TypeAlias = Annotated[dict[str, str], msgspec.Meta(extra_json_schema={"writeOnly": True})]


class TelemetrySettings(Settings, section="telemetry"):
    """The section `telemetry` of the settings."""

    endpoint: str = ""
    headers: _Headers = msgspec.field(default_factory=dict)
    content: bool = False
    slow: str = "50ms"


class Destination(msgspec.Struct, frozen=True):
    """The addresses of spans and metrics, each "" if they go nowhere; `headers` are those of the settings.

    With `content`, spans hold what people, models and tools have said. An implementation that takes `slow` seconds has
    a span of its own. `repr` shows no header and no part of an address that may hold a key.
    """

    traces: str
    metrics: str
    headers: Mapping[str, str]
    content: bool
    slow: float

    def __repr__(self) -> str:
        return f"Destination({self.host})"

    @property
    def host(self) -> str:
        """The address without what may be secret in it: scheme, host and port."""
        return host_of(self.traces or self.metrics)


def is_installed() -> bool:
    """Whether the packages are there, as far as that can be said without loading them."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


def read_slow(framework: HasSettings) -> float:
    """Read how many seconds an implementation may take without a span of its own; what is wrong is said elsewhere."""
    try:
        return _seconds(TelemetrySettings.of(framework).slow)
    except BubError:
        return _seconds(TelemetrySettings().slow)


def host_of(address: str) -> str:
    """The scheme, the host and the port of an address, without a name, a password or a path in it."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def read_destination(framework: HasSettings, environ: Mapping[str, str]) -> Destination:
    """Read where telemetry goes. The environment goes before the settings, with its own headers.

    Raises `BubError` for an address that is none, for one that is asked for by another protocol, and for a section
    that is wrong.
    """
    said = TelemetrySettings.of(framework)
    _require_protocol(environ)
    base = environ.get(ENDPOINT, "")
    own = [environ.get(name, "") for name in SIGNAL_ENDPOINTS]
    is_from_settings = not base and not any(own) and is_named_in_settings(framework.settings)
    base = said.endpoint if is_from_settings else base
    addresses = []
    for name, address, path, exporter in zip(SIGNAL_ENDPOINTS, own, (_TRACES, _METRICS), _EXPORTERS, strict=True):
        whole = address or (f"{base.removesuffix('/')}{path}" if base else "")
        where = "settings.telemetry.endpoint" if is_from_settings else name if address else ENDPOINT
        addresses.append("" if environ.get(exporter, "").strip() == "none" else _check(whole, where))
    return Destination(
        addresses[0],
        addresses[1],
        said.headers if is_from_settings else {},
        said.content,
        _seconds(said.slow),
    )


def secret_headers(destination: Destination, environ: Mapping[str, str]) -> list[str]:
    """What the headers that are sent keep secret: all of one whose name says so, of others what looks like a key."""
    pairs = [pair.partition("=") for name in _HEADERS for pair in environ.get(name, "").split(",")]
    told = [(name.strip(), unquote(value.strip())) for name, _, value in pairs]
    return [
        secret
        for name, value in (*destination.headers.items(), *told)
        if re.search(SECRET_HEADER, name) or looks_secret(value)
        for secret in (value, *credentials_in(value))
    ]


def _require_protocol(environ: Mapping[str, str]) -> None:
    for name in PROTOCOLS:
        asked = environ.get(name, "").strip()
        if asked and asked != PROTOCOL:
            raise BubError(
                f"{name} asks for the protocol `{asked[:40]}`, and Bub speaks `{PROTOCOL}` only",
                help=f"set it to `{PROTOCOL}`, and name the port for it: a collector usually has 4318",
            )


def _check(address: str, where: str) -> str:
    """Return an address that can be one, or "" for none."""
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise BubError(
            f"{where} is no address of a collector", help="write one such as `http://localhost:4318`, with its scheme"
        )
    return address


def _seconds(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None:
        raise BubError("settings.telemetry.slow is no duration", help="write one such as `50ms` or `2s`")
    return seconds
