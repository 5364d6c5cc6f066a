"""The hooks that are called outside of turns: what the plugins of a profile bring to the program around them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bub.asking import Asking
from bub.base.diagnostics import Diagnostic, Findings, PipelineError
from bub.base.waiting import settled
from bub.bus import BusProtocol, MessageBus, check_bus
from bub.configure import merge
from bub.envelope import Envelope
from bub.errors import HookTypeError
from bub.hooks.kinds.stream import as_events
from bub.hooks.loops import explain
from bub.hookspecs import HOOK_POINTS, MessageHandler
from bub.pipeline.plan.offers import offers_of
from bub.pipeline.run import provided
from bub.runtime.locked.drift import find_channel_drift
from bub.runtime.snapshot import CHANNELS, Profile, bind_bootstrap
from bub.streaming import AsyncStreamEvents


def provide_channels(profile: Profile, message_handler: MessageHandler) -> dict[str, tuple[str, Any]]:
    """The channels of a profile by name, each behind the plugin that brings it.

    Of two with one name, that of the higher priority counts (BEHAVIOURS C1, H32). A plugin that fails is a
    `PipelineError` that names it, unless it is `optional`: then the profile runs without its channels. What is no list
    is a `HookTypeError` (H31).
    """
    findings, failures = Findings(), list[BaseException]()
    channels = _collect_channels(profile, message_handler, findings, failures)
    if findings.has_errors:
        wrong = next((failure for failure in failures if isinstance(failure, HookTypeError)), None)
        raise wrong or PipelineError(findings.items) from next(iter(failures), None)
    return channels


def check_channels(profile: Profile) -> tuple[Diagnostic, ...]:
    """Prove that there are the channels that a profile opens; returns warnings, and notes of those that are asked for.

    Raises `PipelineError` for those that no plugin of it brings; if a plugin was left out, that is a warning.
    """
    failures, findings = Findings(), Findings()
    channels = cache(partial(_collect_channels, profile, _take_nothing, failures, []))
    if profile.channels is not None:
        provided.check_channels(profile.plan, profile.plugins, profile.channels, channels(), findings)
    provided.note_channels(profile.plan, channels, findings)
    missed = Findings()
    provided.check_schedules(profile.plan, channels, missed)
    # What seems to be missing may be of a plugin that fails, which is told then; a note, if no channel is to be opened.
    found = failures.items or findings.items
    if profile.channels is None:
        found = [replace(finding, severity="note") for finding in found]
    if any(finding.severity == "error" for finding in found):
        raise PipelineError(found)
    return (*found, *missed.items)


def _collect_channels(
    profile: Profile, message_handler: MessageHandler, findings: Findings, failures: list[BaseException]
) -> dict[str, tuple[str, Any]]:
    channels: dict[str, tuple[str, Any]] = {}
    calls = bind_bootstrap(profile.graph, CHANNELS)
    arguments = calls.arguments({"message_handler": message_handler})
    for implementation, call in zip(profile.graph.bootstrap[CHANNELS], calls.items, strict=True):
        try:
            answer = call.function(*arguments[call.signature])
            listed = call.check(answer) if answer is not None else ()
            brought = [(channel.name, channel) for channel in listed]
        except (Exception, SystemExit) as error:  # noqa: BLE001 (code of others: whatever it raises is its failure)
            offers = offers_of(profile.plan, profile.plugins)
            provided.tell_failure(findings, offers, implementation, "its channels", explain(error, call.plugin))
            failures.append(error)
            continue
        for name, channel in brought:
            channels.setdefault(name, (call.plugin, channel))
    if not failures:
        findings.items += find_channel_drift(profile, [(plugin, name) for name, (plugin, _) in channels.items()])
    return channels


async def _take_nothing(message: Envelope) -> None:
    """Takes the messages of channels that are only looked at."""


def provide_bus(profile: Profile) -> BusProtocol:
    """The bus of the first plugin that provides one, else a `MessageBus` (BEHAVIOURS U4).

    A plugin that fails, or provides what is no bus, is an error: falling back from a durable bus to memory would
    lose messages unseen (U5).
    """
    calls = bind_bootstrap(profile.graph, "provide_bus")
    for call in calls.items:
        try:
            brought = call.function(*calls.arguments({})[call.signature])
            if brought is not None:
                return check_bus(brought, call.plugin)
        except Exception as error:
            profile.hooks.notify_error_sync(stage=f"provide_bus:{call.plugin}", error=error)
            raise
    return MessageBus()


async def call_model(profile: Profile, request: Mapping[str, Any], session_id: str) -> AsyncStreamEvents | None:
    """The answer of the first plugin that brings the model itself; None if Bub's own providers are meant."""
    calls, values = profile.models, {"request": request, "session_id": session_id}
    for call in calls.items:
        answer = await settled(call.function(*calls.arguments(values)[call.signature]))
        if answer is not None:
            return as_events(call, answer)
    return None


async def provide_model_options(profile: Profile, session_id: str, workspace: Path) -> list[str]:
    """The names of the models that plugins offer for a session, each once, those of a higher priority first.

    A plugin that fails, or gives what is no list of names, is an error that names it.
    """
    calls = bind_bootstrap(profile.graph, "provide_model_options")
    values = {"session_id": session_id, "workspace": workspace}
    found: dict[str, None] = {}
    for call in calls.items:
        try:
            offered = await settled(call.function(*calls.arguments(values)[call.signature]))
        except Exception as error:
            error.add_note(f"(in `provide_model_options` of plugin `{call.plugin}`)")
            raise
        found.update((str(name), None) for name in (call.check(offered) if offered is not None else ()))
    return list(found)


def collect_onboard_config(
    profile: Profile,
    current_config: Mapping[str, Any] | None = None,
    *,
    ask: Asking | None = None,
    only: Container[str] | None = None,
) -> dict[str, Any]:
    """The configuration with every plugin's fragment laid over it, high priority last, so that it wins.

    Each plugin gets a copy of the configuration so far, and `ask` to put questions with; with `only`, no others
    than these plugins are asked. A fragment that is neither a dict nor None is a `HookTypeError` that names the
    plugin (BEHAVIOURS decision 8).
    """
    collected = merge(current_config or {}, {})
    calls = bind_bootstrap(profile.graph, "onboard_config")
    for call in reversed(calls.items):
        if only is None or call.plugin in only:
            values = {"current_config": merge(collected, {}), "ask": ask}
            try:
                fragment = call.function(*calls.arguments(values)[call.signature])
            except Exception as error:
                error.add_note(f"(in `onboard_config` of plugin `{call.plugin}`)")
                raise
            if fragment is not None:
                collected = merge(collected, call.check(fragment))
    return collected


def kind_of(profile: Profile, hook: str) -> str:
    """The kind that the pipeline gives a hook, else the usual one of its point."""
    for step in profile.plan.stages:
        if step.hook.point.name == hook or step.hook.point.twin == hook:
            return step.kind.name if step.kind is not None else ""
    fired = profile.graph.fired.get(hook)
    if fired is not None:
        return fired.kind.name
    return HOOK_POINTS[hook].kinds[0] if hook in HOOK_POINTS else ""
