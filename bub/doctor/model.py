"""The model: whether one is chosen, its server answers and takes the key, and whose clock is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import trio

from bub.agent.local import parts
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import Endpoint, resolve_endpoint
from bub.agent.models.probe import Served, ask_for_models
from bub.base.diagnostics import did_you_mean
from bub.base.locate import bub_home
from bub.doctor.checks import Check, Patient, Status, in_thread, merge_profiles
from bub.errors import ModelError
from bub.pipeline.plan.providers import LOCAL

ENDPOINT_PATIENCE = 5.0
"""How long, in seconds, a server may take to answer."""

MOST_SKEW = 60.0
"""By how many seconds clocks may differ before certificates and signatures suffer."""

_POINT = "call_model"
_LOCAL_PLUGIN = "local_model"
_Access: TypeAlias = tuple[str, str, str | None, tuple[tuple[str, str], ...]]
"""What makes one server another: how it is spoken to, its address, and the key that opens it."""

_INSTALL = "`bub local install` brings it"
_PROVIDER = "`export BUB_MODEL=provider:name BUB_API_KEY=…` chooses another model"


async def look_at_model(patient: Patient) -> Sequence[Check]:
    """Check the model of each profile that can get a turn: ask its server, with the key, which models it has.

    That costs nothing. A server is asked once by one key, and all at the same time.
    """
    if not patient.trusted:
        return [Check("model", "skipped", f"not asked: {patient.unloaded}")]
    found = {one.seen.profile: _choose_model(one) for one in patient.in_each_profile()}
    endpoints = {_access(chosen): chosen for chosen in found.values() if isinstance(chosen, Endpoint)}
    answers: dict[_Access, Served | ModelError] = {}

    async def ask(access: _Access, endpoint: Endpoint) -> None:
        try:
            answers[access] = await ask_for_models(client, endpoint, ENDPOINT_PATIENCE)
        except ModelError as error:
            answers[access] = error

    if not patient.offline and endpoints:
        async with open_client() as client, trio.open_nursery() as nursery:
            for access, endpoint in endpoints.items():
                nursery.start_soon(ask, access, endpoint)
        patient.served = next((one for one in answers.values() if isinstance(one, Served)), None)

    def check(chosen: Endpoint | Check) -> Check:
        if isinstance(chosen, Check):
            return chosen
        if patient.offline:
            return Check("model", "skipped", f"{_name(chosen)} was not asked, because of --offline")
        answer = answers[_access(chosen)]
        if isinstance(answer, ModelError):
            return Check("model", "broken", str(answer), answer.help or "")
        return _judge(chosen, answer)

    return merge_profiles((profile, check(chosen)) for profile, chosen in found.items())


def _access(endpoint: Endpoint) -> _Access:
    return (endpoint.api, endpoint.url, endpoint.api_key, tuple(endpoint.headers.items()))


def _choose_model(patient: Patient) -> Endpoint | Check:
    """Return where the model of one profile is asked, or what is found without asking."""
    settings, others = patient.seen.settings, _bringers(patient)
    if _is_local(settings):
        if patient.unloaded:
            return patient.skip("model")[0]
        if others:
            return Check("model", "ok", f"plugin `{others[0]}` brings the model")
        if _lists_local(patient):
            why = "" if settings.get("model") else ", since no other is chosen"
            return Check("model", "ok", f"the small local model{why}")
    try:
        return resolve_endpoint(settings)
    except ModelError as error:
        status: Status = "warn" if others else "broken"
        unless = f", unless plugin `{others[0]}` brings the model" if others else ""
        return Check("model", status, f"{error}{unless}", error.help or "")


def _judge(endpoint: Endpoint, served: Served) -> Check:
    asked = f"GET {served.url} took {served.seconds * 1000:.0f} ms"
    if served.fault is not None:
        passes = served.fault.kind == "rate_limited"
        return Check("model", "warn" if passes else "broken", f"{served.fault} ({asked})", served.fault.help or "")
    if served.status == 404 and not endpoint.has_version:
        message = f"{_name(endpoint)}: nothing answers there, and the address has no version of the API ({asked})"
        advice = f"write `providers.{endpoint.provider}.api_base`, or BUB_API_BASE, with `/v1` at its end"
        return Check("model", "warn", message, advice)
    if served.models is None:
        return Check("model", "ok", f"{_name(endpoint)}: the server is there, but does not list its models ({asked})")
    if not served.has(endpoint.model):
        near = did_you_mean(endpoint.model, served.models)
        message = f"the server of {_name(endpoint)} lists {len(served.models)} models, but not this one ({asked})"
        return Check("model", "warn", message, near or "check the name; some servers do not list all they have")
    return Check("model", "ok", f"{_name(endpoint)} ({asked})")


def _name(endpoint: Endpoint) -> str:
    return f"{endpoint.provider}:{endpoint.model}"


async def look_at_local_model(patient: Patient) -> Sequence[Check]:
    """Check that the small local model is installed, if it would answer in some profile."""
    return [await in_thread(lambda: _local_model(patient))]


def _local_model(patient: Patient) -> Check:
    meant = [one for one in patient.in_each_profile() if _is_local(one.seen.settings) and _lists_local(one)]
    wanted, patient = patient.trusted and bool(meant), (meant or [patient])[0]
    found, own = parts.status(bub_home(patient.environ)), _own_weights(patient)
    weights = Path(own).expanduser() if own else found.weights
    if found.engine and weights is not None and weights.is_file():
        return Check("local model", "ok", f"{weights.name}, {weights.stat().st_size // 2**20} MB")
    if own and found.engine:
        return Check("local model", "broken" if wanted else "warn", f"there is no file {weights}", "correct its path")
    if not wanted or _bringers(patient):
        return Check("local model", "ok", f"not installed, and not needed; {_INSTALL}")
    return Check("local model", "broken", "not installed, and no other model is chosen", f"{_INSTALL}; {_PROVIDER}")


def _own_weights(patient: Patient) -> str:
    section = patient.seen.settings.get(_LOCAL_PLUGIN)
    said = section.get("path") if isinstance(section, Mapping) else None
    return str(patient.environ.get("BUB_LOCAL_MODEL") or said or "")


async def look_at_clock(patient: Patient) -> Sequence[Check]:
    """Compare this machine's clock with that of the server that was asked."""
    served = patient.served
    if served is None or served.ahead is None:
        return [Check("clock", "skipped", "not compared, since no server sent the time")]
    if abs(served.ahead) > MOST_SKEW:
        way = "behind" if served.ahead > 0 else "ahead of"
        message = f"{abs(served.ahead):.0f} s {way} that of {served.url}"
        return [Check("clock", "warn", message, "set the clock, or let the system set it by the network")]
    return [Check("clock", "ok", "goes with that of the model's server")]


def _is_local(settings: Mapping[str, Any]) -> bool:
    model = str(settings.get("model") or "").strip()
    return not model or model.partition(":")[0].lower() == LOCAL


def _bringers(patient: Patient) -> list[str]:
    """Return the plugins beside the local model's that may bring a model of their own."""
    if patient.unloaded:
        return []
    found = patient.seen.implementations(_POINT)
    return [one.plugin for one in found if one.plugin != _LOCAL_PLUGIN]


def _lists_local(patient: Patient) -> bool:
    """Return whether the profile is known to list the local model."""
    return not patient.unloaded and _LOCAL_PLUGIN in patient.seen.graph.allowlist
