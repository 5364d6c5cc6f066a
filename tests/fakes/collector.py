"""A collector of OpenTelemetry, in a process of its own: what it gets it decodes with the official messages, and keeps.

It takes OTLP over HTTP as protobuf, with or without gzip. Each request is one line of a file, as JSON: its path, its
headers, and what was in it. A test has a path of its own in front of `/v1/traces`. `--mute` accepts connections and
never answers; `--refuse N` answers the first N requests with 503. It prints its port.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def serve(port: int, file: Path, refuse: int) -> None:
    """Take what comes on a port, 0 for any, until the process ends."""
    from google.protobuf.json_format import MessageToDict  # a test that only reads what came does without
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

    known = {
        "/v1/traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse),
        "/v1/metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    }
    lock, left = threading.Lock(), [refuse]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            wanted, answer = next((ways for end, ways in known.items() if self.path.endswith(end)), (None, None))
            if wanted is None or answer is None or self.headers["content-type"] != "application/x-protobuf":
                self._say(404 if wanted is None else 415, b"")
                return
            if left[0]:
                left[0] -= 1
                self._say(503, b"")
                return
            request = wanted.FromString(body)
            line = json.dumps({"path": self.path, "headers": dict(self.headers), "body": MessageToDict(request)})
            with lock, file.open("a", encoding="utf-8") as kept:
                kept.write(f"{line}\n")
            self._say(200, answer().SerializeToString())

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def be_mute(port: int) -> None:
    """Accept every connection and never say a word."""
    listener = socket.create_server(("127.0.0.1", port), backlog=100)
    print(listener.getsockname()[1], flush=True)
    held = []
    while True:
        held.append(listener.accept())


def spans_in(file: Path, under: str = "") -> list[dict[str, Any]]:
    """The spans that a collector has kept, with their attributes as plain values; `under` is the path of a test."""
    return [
        {**span, "attributes": plain(span.get("attributes", ())), "resource": plain(group["resource"]["attributes"])}
        for request in _requests_in(file, f"{under}/v1/traces")
        for group in request["body"]["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]


def metrics_in(file: Path, under: str = "") -> dict[str, dict[str, Any]]:
    """The metrics that a collector was sent last, by their names."""
    return {
        metric["name"]: metric
        for request in _requests_in(file, f"{under}/v1/metrics")
        for group in request["body"]["resourceMetrics"]
        for scope in group["scopeMetrics"]
        for metric in scope["metrics"]
    }


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes as a mapping of plain values."""
    return {one["key"]: _value(one["value"]) for one in attributes}


def hexadecimal(span_id: str | None) -> str:
    """An id as headers write it."""
    return base64.b64decode(span_id or "").hex()


def _value(value: dict[str, Any]) -> Any:
    ((kind, said),) = value.items()
    if kind == "arrayValue":
        return [_value(one) for one in said.get("values", ())]
    return int(said) if kind == "intValue" else said


def requests_in(file: Path, under: str) -> list[dict[str, Any]]:
    """All that a collector has kept of one test."""
    return [*_requests_in(file, f"{under}/v1/traces"), *_requests_in(file, f"{under}/v1/metrics")]


def _requests_in(file: Path, path: str) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        request = json.loads(line)
        if request["path"] == path:
            yield request


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--mute", action="store_true")
    parser.add_argument("--refuse", type=int, default=0)
    given = parser.parse_args(sys.argv[1:])
    if given.mute:
        be_mute(given.port)
    serve(given.port, given.file, given.refuse)
