"""What is needed to send telemetry: whether its packages are there, and whether a collector listens."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import trio

from bub.base.installing.extras import install_command
from bub.doctor.checks import Check, Patient
from bub.errors import BubError
from bub.telemetry.settings import host_of, is_installed, read_destination
from bub.telemetry.wanted import is_named_in_settings, is_wanted

_SUBJECT = "telemetry"
_PATIENCE = 3.0
_PORTS = {"http": 80, "https": 443}


async def look_at_telemetry(patient: Patient) -> Sequence[Check]:
    """Check where telemetry goes; nothing if nobody wants it, or if no settings are known."""
    framework = patient.framework
    if not is_wanted(framework.settings, patient.environ):
        return []
    is_meant = is_named_in_settings(framework.settings)
    try:
        destination = read_destination(framework, patient.environ)
        if not is_installed():
            raise BubError("the packages of OpenTelemetry are not installed", help=f"run `{install_command('otel')}`")
    except BubError as error:
        return [Check(_SUBJECT, "broken" if is_meant else "warn", str(error), error.help or "")]
    checks = [
        Check(_SUBJECT, "warn", f"{what} go nowhere: the environment names no address for them")
        for what, address in (("traces", destination.traces), ("metrics", destination.metrics))
        if not address
    ]
    address = destination.traces or destination.metrics
    if not address:
        return checks
    if patient.offline:
        return [*checks, Check(_SUBJECT, "skipped", f"{host_of(address)} was not asked, because of --offline")]
    return [*checks, await _reach(address)]


async def _reach(address: str) -> Check:
    """Connect to the collector; nothing is sent."""
    parts = urlsplit(address)
    shown = host_of(address)
    with trio.move_on_after(_PATIENCE):
        try:
            stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or _PORTS[parts.scheme])
        except OSError as error:
            told = f"the collector at {shown} cannot be reached: {error.strerror or type(error).__name__}"
            return Check(_SUBJECT, "warn", told, "start it, or correct the address; turns go on without it")
        await stream.aclose()
        return Check(_SUBJECT, "ok", f"a collector listens at {shown}")
    return Check(_SUBJECT, "warn", f"the collector at {shown} does not answer", "correct the address")
