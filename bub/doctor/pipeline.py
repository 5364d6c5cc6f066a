"""The pipeline file and what it brings: findings, trust, plugins, channels, the tape store."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from bub.base.diagnostics import NO_FILE, Diagnostic, PipelineError, Place, Range, without_notes
from bub.base.identity.agents import KEY, find_agent
from bub.base.locate import AGENT_VARIABLE, Found, bub_home, find_pipeline
from bub.channels.enabling import ProfileChannels
from bub.doctor.checks import Check, Patient, Status, in_thread
from bub.errors import NotTrustedError, UsageError
from bub.framework import BubFramework
from bub.pipeline.check.validate import check_files
from bub.pipeline.report.start_codes import needs_plugins
from bub.pipeline.report.summary import summary
from bub.pipeline.source.discovery import PipelineFile, resolve_file
from bub.pipeline.source.interpolate import UNSET
from bub.pipeline.source.merge import DEFAULT_PROFILE, SHIPPED
from bub.runtime.trust import require_trust
from bub.runtime.view import RuntimeView
from bub.tape.opening import open_tapes
from bub.tape.store import place_of, show_place

_MISSING_PLUGINS = ("B160", "B161")


async def look_at_file(patient: Patient) -> Sequence[Check]:
    """Check which file is used, how it was found, and how many findings it has."""
    return await in_thread(lambda: _file(patient))


def _file(patient: Patient) -> list[Check]:
    config = patient.config
    if config is not None and str(config).startswith(SHIPPED):
        patient.found, file, how = Found(None, consent=True, workspace_file=False), resolve_file(str(config)), "named"
    else:
        patient.found = found = find_pipeline(config, patient.workspace, patient.environ)
        file = PipelineFile(str(found.path), found.path) if found.path else resolve_file(f"{SHIPPED}{DEFAULT_PROFILE}")
        how = _how(patient, found)
    checked = check_files([file], environ=patient.environ).diagnostics
    findings, variables = without_notes(checked), _unset_variables(checked)
    name, told = f"{file.name} ({how})", summary(findings, 1).removesuffix(" in 1 file")
    patient.findings = findings
    if not findings:
        return [Check("file", "ok", name), *variables]
    argument = f" {config}" if config is not None else ""
    remedy = f"`bub validate{argument}` shows each with its place"
    return [Check("file", "broken" if _has_errors(patient) else "warn", f"{name} has {told}", remedy), *variables]


def _has_errors(patient: Patient) -> bool:
    """Whether a check of the file alone finds errors."""
    return any(finding.severity == "error" for finding in patient.findings)


def _unset_variables(findings: Iterable[Diagnostic]) -> list[Check]:
    """Report the variables that the file refers to and this machine lacks: a check elsewhere need not have them."""
    unset = {finding.message: finding for finding in findings if finding.code == UNSET}
    return [
        Check("variable", "warn", f"{finding.message} ({Place(finding.file, finding.range)})", finding.help or "")
        for finding in unset.values()
    ]


def _how(patient: Patient, found: Found) -> str:
    if found.path is None:
        return "shipped, since there is no other"
    if patient.config is not None:
        return "named"
    if patient.environ.get("BUB_CONFIG"):
        return "named by BUB_CONFIG"
    return "the workspace's" if found.workspace_file else "your own"


async def look_at_trust(patient: Patient) -> Sequence[Check]:
    """Check that the file may be used: the checks below import its plugins and use its keys."""
    found, home = patient.found, bub_home(patient.environ)
    if found is None:
        return [Check("trust", "skipped", "there is no file to trust")]
    try:
        require_trust(found, home, patient.environ)
    except NotTrustedError as error:
        patient.unloaded = "the folder is not trusted"
        return [Check("trust", "broken", str(error), error.help or "")]
    patient.trusted = True
    return [Check("trust", "ok", "the folder is trusted" if found.workspace_file else "the file needs none")]


async def look_at_agent(patient: Patient) -> Sequence[Check]:
    """Check whose memory is used here, and what says so."""
    try:
        agent = find_agent(patient.workspace, patient.environ)
    except UsageError as error:
        return [Check("agent", "broken", str(error), error.help or "")]
    if not agent.name:
        return [Check("agent", "ok", "it has no name, so its memory is that of this folder")]
    said = agent.by if agent.by == AGENT_VARIABLE else f"`{KEY}` in {agent.by}"
    return [Check("agent", "ok", f"{agent.name}, as {said} says")]


async def look_at_plugins(patient: Patient) -> Sequence[Check]:
    """Check the plugins that each profile with turns lists, and what became of each."""
    if not patient.trusted:
        return [Check("plugins", "skipped", f"not loaded: {patient.unloaded}")]
    framework = patient.framework
    patient.unloaded = "they take too long, or fail in a way of their own"
    try:
        await in_thread(framework.load_hooks)
    except PipelineError as error:
        patient.unloaded = "the pipeline does not compile"
        return _report_not_loaded(error.diagnostics, has_errors=_has_errors(patient))
    except UsageError as error:
        patient.unloaded = str(error)
        raise
    patient.unloaded = ""
    listed = [_check_allowlist(one.seen) for one in patient.in_each_profile()]
    # What the file alone shows was counted for the file.
    known = {_key(finding) for finding in patient.findings}
    warned = [one for one in framework.warnings if needs_plugins(one.code) and _key(one) not in known]
    return [*listed, *(_check_of_finding(one, "warn") for one in warned), *_find_lacking(framework)]


def _key(finding: Diagnostic) -> tuple[str, Range]:
    """What a finding is known again by: a start may call the file otherwise, and name other profiles."""
    return finding.code, finding.range


def _find_lacking(framework: BubFramework) -> list[Check]:
    """Return the variables without which no turn would begin; of a model itself there is a check of its own."""
    try:
        framework.check_needs()
    except PipelineError as error:
        found = [finding for finding in error.diagnostics if finding.code == UNSET]
        return [Check("variable", "broken", f"{one.message}, and a turn needs it", one.help or "") for one in found]
    return []


def _check_allowlist(framework: RuntimeView) -> Check:
    """Report the list of one profile; what is not listed is named once, for the profile chosen at start."""
    statuses = framework.plugin_report()
    by_state = {
        state: [status.name for status in statuses if status.state == state]
        for state in ("loaded", "missing", "not listed")
    }
    parts = [f"{', '.join(by_state['loaded'])} of profile `{framework.profile}`"]
    if by_state["missing"]:
        parts.append(f"optional and not there: {', '.join(by_state['missing'])}")
    if by_state["not listed"] and framework.profile == framework.profiles[0]:
        parts.append(f"installed and not listed: {', '.join(by_state['not listed'])}")
    on_loops = [f"`{name}` runs on {loop}" for name, loop in framework.plugin_loops.items()]
    return Check("plugins", "ok", "; ".join([*parts, *on_loops]))


def _report_not_loaded(findings: Iterable[Diagnostic], *, has_errors: bool) -> list[Check]:
    """Return the findings about plugins of a pipeline that does not compile."""
    errors = [finding for finding in findings if finding.severity == "error"]
    about = [finding for finding in errors if finding.code in _MISSING_PLUGINS or needs_plugins(finding.code)]
    if about:
        return [_check_of_finding(finding, "broken") for finding in about]
    if has_errors:
        return [Check("plugins", "skipped", "not loaded: the file has errors")]
    first = errors[0]
    is_in_file = first.file != NO_FILE and not first.file.startswith(SHIPPED)
    where = f" ({Place(first.file, first.range)})" if is_in_file else ""
    told = f"the pipeline does not compile: {first.message}{where}"
    return [replace(_check_of_finding(first, "broken"), message=told)]


def _check_of_finding(finding: Diagnostic, status: Status) -> Check:
    return Check("plugins", status, finding.message, finding.help or "`bub validate --plugins` shows its place")


async def look_at_channels(patient: Patient) -> Sequence[Check]:
    """Check each channel that a plugin provides: whether it can run as it is set up."""
    if patient.unloaded:
        return patient.skip("channels")
    framework = patient.framework
    brought = await in_thread(lambda: framework.get_channels_by_plugin(_nobody))
    if not brought:
        return [Check("channels", "ok", "no plugin of the profile provides one")]
    channels = ProfileChannels(brought, framework.open_channels)
    return await in_thread(lambda: [_channel(name, channels, framework.settings) for name in channels.brought])


async def _nobody(message: object) -> None:
    """Takes the messages of a channel that is only looked at."""


def _channel(name: str, channels: ProfileChannels, settings: Mapping[str, Any]) -> Check:
    plugin, channel = channels.brought[name]
    why = str(getattr(channel, "why_disabled", ""))
    if channels.can_run(name):
        if name in channels.running or name not in channels.offered:
            return Check("channels", "ok", name)
        return Check("channels", "skipped", f"{name}: the profile does not open it")
    if name in (channels.opened or ()):
        return Check("channels", "broken", f"{name}: the profile opens it, but it cannot run as it is set up", why)
    if settings.get(plugin):
        return Check("channels", "warn", f"{name}: it does not run as it is set up", why)
    return Check("channels", "skipped", f"{name}: not set up", why)


async def look_at_tapes(patient: Patient) -> Sequence[Check]:
    """Check that the tape store opens and can be written to, and how much there is."""
    async with _store(patient) as store:
        if store is None:
            return [Check("tapes", "warn", "no plugin brings a tape store, so Bub keeps no tapes", "list one")]
        place = place_of(store)
        if place is not None and not place.exists():
            return [Check("tapes", "ok", f"{place}, made when the first message comes")]
        names = await _call_store(store.list_tapes)
        size = f", {await _call_store(store.size) / 2**20:.1f} MB" if hasattr(store, "size") else ""
        told = f"{show_place(store) or type(store).__name__}: {len(names)} tape{'' if len(names) == 1 else 's'}{size}"
        if place is not None and not os.access(place, os.W_OK):
            return [Check("tapes", "broken", f"{told}, and it is read-only", "correct its permissions")]
        return [Check("tapes", "ok", told)]


async def _call_store(method: Callable[[], Any]) -> Any:
    """Call a method of a store; one that is not async runs in a thread, since it may wait for a disk or a lock."""
    return await (method() if inspect.iscoroutinefunction(method) else in_thread(method))


@asynccontextmanager
async def _store(patient: Patient) -> AsyncIterator[Any]:
    """The store of the profile; if its plugins are not loaded, the one that Bub itself brings."""
    if not patient.unloaded:
        async with patient.framework.running() as framework:
            yield framework.get_tape_store()
    else:
        opened = open_tapes(bub_home(patient.environ), patient.workspace, patient.framework.settings)
        if isinstance(opened, AbstractAsyncContextManager):
            async with opened as shared:
                yield shared
        else:
            with opened as store:
                yield store
