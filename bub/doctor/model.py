"""The model: whether one is chosen, its server answers and takes the key, and whose clock is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bub.builtin import local_install
from bub.builtin.models.client import open_client
from bub.builtin.models.endpoint import Endpoint, resolve_endpoint
from bub.builtin.models.probe import Served, ask_for_models
from bub.builtin.models.providers import LOCAL
from bub.diagnostics import did_you_mean
from bub.doctor.checks import Check, Patient, in_thread
from bub.errors import ModelError

ENDPOINT_PATIENCE = 5.0
"""How long, in seconds, a server may take to answer."""

MOST_SKEW = 60.0
"""By how many seconds clocks may differ before certificates and signatures suffer."""

_POINT = "call_model"
_LOCAL_PLUGIN = "local_model"
_INSTALL = "`bub local install` brings it"
_PROVIDER = "`export BUB_MODEL=provider:name BUB_API_KEY=…` chooses another model"


async def look_at_model(patient: Patient) -> Sequence[Check]:
    """The model of the settings: its server is asked for its models, which needs the key and costs nothing."""
    if not patient.trusted:
        return [Check("model", "skipped", f"not asked: {patient.unloaded}")]
    settings, others = patient.framework.settings, _bringers(patient)
    if _is_local(settings):
        if patient.unloaded:
            return patient.skipped("model")
        if others:
            return [Check("model", "ok", f"plugin `{others[0]}` brings the model")]
        if not _lists_local(patient):
            resolve_endpoint(settings)  # raises what a turn would
        return [Check("model", "ok", "the small local model, since no other is chosen")]
    try:
        endpoint = resolve_endpoint(settings)
    except ModelError as error:
        if not others:
            raise
        return [Check("model", "warn", f"{error}, unless plugin `{others[0]}` brings the model", error.help or "")]
    if patient.offline:
        return [Check("model", "skipped", f"{_name(endpoint)} was not asked, because of --offline")]
    async with open_client() as client:
        served = patient.served = await ask_for_models(client, endpoint, ENDPOINT_PATIENCE)
    return [_judged(endpoint, served)]


def _judged(endpoint: Endpoint, served: Served) -> Check:
    asked = f"GET {served.url} took {served.seconds * 1000:.0f} ms"
    if served.fault is not None:
        passes = served.fault.kind == "rate_limited"
        return Check("model", "warn" if passes else "broken", f"{served.fault} ({asked})", served.fault.help or "")
    if served.models is None:
        return Check("model", "ok", f"{_name(endpoint)}: the server is there, but does not list its models ({asked})")
    if not served.has(endpoint.model):
        near = did_you_mean(endpoint.model, served.models)
        message = f"the server of {_name(endpoint)} does not have it among its {len(served.models)} models ({asked})"
        return Check("model", "warn", message, near or "check the name; some servers do not list all they have")
    return Check("model", "ok", f"{_name(endpoint)} ({asked})")


def _name(endpoint: Endpoint) -> str:
    return f"{endpoint.provider}:{endpoint.model}"


async def look_at_local_model(patient: Patient) -> Sequence[Check]:
    """The small local model: whether it is installed, where it is the one that would answer."""
    return [await in_thread(lambda: _local_model(patient))]


def _local_model(patient: Patient) -> Check:
    wanted = patient.trusted and _is_local(patient.framework.settings) and _lists_local(patient)
    found, own = local_install.status(), _own_weights(patient)
    weights = Path(own).expanduser() if own else found.weights
    if found.engine and weights is not None and weights.is_file():
        return Check("local model", "ok", f"{weights.name}, {weights.stat().st_size // 2**20} MB")
    if own and found.engine:
        return Check("local model", "broken" if wanted else "warn", f"there is no file {weights}", "correct its path")
    if not wanted or _bringers(patient):
        return Check("local model", "ok", f"not installed, and not needed; {_INSTALL}")
    return Check("local model", "broken", "not installed, and no other model is chosen", f"{_INSTALL}; {_PROVIDER}")


def _own_weights(patient: Patient) -> str:
    section = patient.framework.settings.get(_LOCAL_PLUGIN)
    said = section.get("path") if isinstance(section, Mapping) else None
    return str(patient.environ.get("BUB_LOCAL_MODEL") or said or "")


async def look_at_clock(patient: Patient) -> Sequence[Check]:
    """This machine's clock, compared with that of the server that was asked."""
    served = patient.served
    if served is None or served.ahead is None:
        return [Check("clock", "skipped", "not compared, since no server told the time")]
    if abs(served.ahead) > MOST_SKEW:
        way = "behind" if served.ahead > 0 else "ahead of"
        message = f"{abs(served.ahead):.0f} s {way} that of {served.url}"
        return [Check("clock", "warn", message, "set the clock, or let the system set it by the network")]
    return [Check("clock", "ok", "goes with that of the model's server")]


def _is_local(settings: Mapping[str, Any]) -> bool:
    model = str(settings.get("model") or "").strip()
    return not model or model.partition(":")[0].lower() == LOCAL


def _bringers(patient: Patient) -> list[str]:
    """The plugins beside the local model's that may bring a model of their own."""
    if patient.unloaded:
        return []
    found = patient.framework.implementations(_POINT)
    return [one.plugin for one in found if one.plugin != _LOCAL_PLUGIN]


def _lists_local(patient: Patient) -> bool:
    """Whether the profile is known to list the local model."""
    return not patient.unloaded and _LOCAL_PLUGIN in (name for name, _ in patient.framework.graph.plan.allowlist)
