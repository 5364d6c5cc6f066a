"""Where telemetry goes: the settings, the variables of OpenTelemetry, what is wrong with them, and which traces go."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from fakes.toys import HELLO, Toy, Workshop

from bub.base.installing.extras import install_command
from bub.doctor.checks import Check, Patient
from bub.doctor.telemetry import look_at_telemetry
from bub.errors import BubError
from bub.streaming import AsyncStreamEvents
from bub.telemetry.sampling import Sampler, read_sampler
from bub.telemetry.settings import Destination, read_destination, secret_headers
from bub.telemetry.wanted import is_wanted

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
OWN = {"endpoint": "http://own:4318/", "headers": {"authorization": "Bearer abcdefghijkl"}}


def settings_of(**telemetry: Any) -> Any:
    return cast(Any, SimpleNamespace(settings={"telemetry": telemetry} if telemetry else {}))


def read(environ: dict[str, str], **telemetry: Any) -> Destination:
    return read_destination(settings_of(**telemetry), environ)


@pytest.mark.parametrize(
    ("environ", "telemetry", "wanted"),
    [
        ({}, {}, False),
        ({}, {"content": True}, False),
        ({}, OWN, True),
        ({ENDPOINT: ""}, {}, False),
        ({ENDPOINT: "http://a:1"}, {}, True),
        ({TRACES: "http://a:1/x"}, {}, True),
        ({ENDPOINT: "http://a:1", "OTEL_SDK_DISABLED": "true"}, OWN, False),
        ({ENDPOINT: "http://a:1", "OTEL_SDK_DISABLED": "1"}, {}, True),
    ],
)
def test_telemetry_is_on_if_a_collector_is_named(
    environ: dict[str, str], telemetry: dict[str, Any], wanted: bool
) -> None:
    assert is_wanted(settings_of(**telemetry).settings, environ) is wanted


def test_the_environment_goes_before_the_settings_and_gets_none_of_their_headers() -> None:
    own = read({}, **OWN)
    assert (own.traces, own.metrics) == ("http://own:4318/v1/traces", "http://own:4318/v1/metrics")
    assert own.headers == OWN["headers"] and "abcdefghijkl" not in repr(own)
    other = read({ENDPOINT: "https://other/base"}, **OWN)
    assert (other.traces, other.metrics) == ("https://other/base/v1/traces", "https://other/base/v1/metrics")
    assert other.headers == {}


def test_an_address_for_one_signal_is_whole_and_sends_that_one_alone() -> None:
    only = read({TRACES: "http://a:4318/in"})
    assert (only.traces, only.metrics) == ("http://a:4318/in", "")
    both = read({TRACES: "http://a:4318/in", ENDPOINT: "http://b:4318"})
    assert (both.traces, both.metrics) == ("http://a:4318/in", "http://b:4318/v1/metrics")
    none = read({ENDPOINT: "http://b:4318", "OTEL_METRICS_EXPORTER": "none"})
    assert (none.traces, none.metrics) == ("http://b:4318/v1/traces", "")


@pytest.mark.parametrize(
    ("environ", "telemetry", "says"),
    [
        ({ENDPOINT: "collector:4318"}, {}, f"{ENDPOINT} is no address of a collector"),
        ({ENDPOINT: "http://x:99999"}, {}, f"{ENDPOINT} is no address of a collector"),
        ({TRACES: "ftp://user:geheim@x"}, {}, f"{TRACES} is no address of a collector"),
        ({}, {"endpoint": "http:///"}, "settings.telemetry.endpoint is no address"),
        ({ENDPOINT: "http://a", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {}, "protocol `grpc`"),
        ({ENDPOINT: "http://a"}, {"slow": "soon"}, "settings.telemetry.slow is no duration"),
        ({ENDPOINT: "http://a"}, {"contents": True}, "no setting `telemetry.contents`"),
    ],
)
def test_what_cannot_be_used_is_said_without_the_address(
    environ: dict[str, str], telemetry: dict[str, Any], says: str
) -> None:
    with pytest.raises(BubError, match=says) as caught:
        read(environ, **telemetry)
    assert caught.value.help
    assert "geheim" not in str(caught.value)


def test_a_host_is_shown_without_what_may_be_a_key() -> None:
    assert read({ENDPOINT: "https://me:geheim@x.org:1/key/abc"}).host == "https://x.org:1"


@pytest.mark.parametrize(
    ("sampler", "argument", "flags", "takes"),
    [
        ("", "", None, True),
        ("", "", 0, False),
        ("always_off", "", 1, False),
        ("always_on", "", 0, True),
        ("parentbased_always_off", "", None, False),
        ("parentbased_always_off", "", 1, True),
        ("traceidratio", "0.0", 1, False),
        ("traceidratio", "1.0", 0, True),
        ("parentbased_traceidratio", "0.0", None, False),
        ("traceidratio", "many", None, True),
        ("jaeger_remote", "", None, True),
    ],
)
def test_which_traces_are_sent(sampler: str, argument: str, flags: int | None, takes: bool) -> None:
    read = read_sampler({"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument})
    assert read.takes(TRACE, flags) is takes


def test_a_share_of_the_traces_is_that_share_and_the_same_as_the_sdk_takes() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace.sampling").TraceIdRatioBased(0.3)
    own = Sampler(0.3, heeds_parent=False)
    ids = [os.urandom(16).hex() for _ in range(2_000)]
    taken = [own.takes(one, None) for one in ids]
    assert taken == [bool(sdk.should_sample(None, int(one, 16), "x").decision.value) for one in ids]
    assert 450 < sum(taken) < 750


def test_a_header_is_secret_if_its_name_or_its_looks_say_so() -> None:
    environ = {ENDPOINT: "http://a:1", "OTEL_EXPORTER_OTLP_HEADERS": "x-scope-orgid=main,api-key=t0p%20secret"}
    secrets = secret_headers(read(environ), environ)
    assert "t0p secret" in secrets and "main" not in secrets


# Without the packages, and at the start


def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk.trace"):
        monkeypatch.setitem(sys.modules, name, None)


def quiet(bub: Workshop, settings: str = "") -> Any:
    return bub(f"extends: bub:default\n{settings}", toy=Toy(run_model_stream=lambda: AsyncStreamEvents.of_text("hi")))


async def test_without_the_packages_a_start_that_was_told_to_send_fails(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_packages(monkeypatch)
    framework = quiet(bub, "settings: {telemetry: {endpoint: 'http://127.0.0.1:9'}}")
    with pytest.raises(BubError, match="not installed") as caught:
        async with framework.running():
            pass
    assert install_command("otel") in str(caught.value.help)


async def test_without_the_packages_a_variable_for_other_programs_is_a_line_in_the_log(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    without_packages(monkeypatch)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    framework = quiet(bub)
    async with framework.running():
        assert (await framework.process_inbound(HELLO)).model_output == "hi"
    (line,) = [line for line in log if "telemetry" in line]
    assert line.startswith("telemetry.off") and "opentelemetry-sdk" in line


async def test_another_protocol_is_a_line_in_the_log_and_nothing_is_sent(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    framework = quiet(bub)
    async with framework.running():
        await framework.process_inbound(HELLO)
    (line,) = [line for line in log if "telemetry" in line]
    assert "http/protobuf" in line


# bub doctor


async def look(environ: dict[str, str], *, offline: bool = False, **telemetry: Any) -> list[tuple[str, str]]:
    patient = Patient(settings_of(**telemetry), None, Path(), environ, offline=offline)
    checks: list[Check] = [*await look_at_telemetry(patient)]
    return [(check.status, check.message) for check in checks]


async def test_the_doctor_says_whether_a_collector_listens() -> None:
    assert await look({}) == []
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    assert await look({ENDPOINT: address}) == [("ok", f"a collector listens at {address}")]
    assert await look({ENDPOINT: address}, offline=True) == [
        ("skipped", f"{address} was not asked, because of --offline")
    ]
    await listeners[0].aclose()
    ((status, message),) = await look({}, endpoint=address)
    assert status == "warn" and message.startswith(f"the collector at {address} cannot be reached")


async def test_the_doctor_says_what_is_wrong_and_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ((status, _),) = await look({ENDPOINT: "x"})
    assert status == "warn"
    ((status, _),) = await look({}, endpoint="x")
    assert status == "broken"
    without_packages(monkeypatch)
    ((status, message),) = await look({}, **OWN)
    assert (status, message) == ("broken", "the packages of OpenTelemetry are not installed")
