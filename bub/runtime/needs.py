"""What a turn needs of this machine, looked for before the first one: a model to ask, walls around commands."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bub.agent.confine.machine import choose_way
from bub.agent.confine.walls import UnconfinableError, build_walls
from bub.agent.models.endpoint import require_address, resolve_endpoint
from bub.base.diagnostics import NO_FILE, Diagnostic, Findings, PipelineError, Place
from bub.errors import ModelError
from bub.hooks.facts import BUILTIN
from bub.pipeline.check.rules import unknown_provider
from bub.pipeline.plan.providers import LOCAL, provider_of
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.settings import variable_of
from bub.pipeline.source.interpolate import UNSET, dotenv_place, read_environment
from bub.plugins.schemas import installed_section
from bub.plugins.shipped import LOCAL_MODEL
from bub.runtime.snapshot import Profile, Snapshot

CONFINING = "B237"
"""The code of a `reach` that this machine cannot enforce."""

_MODEL = "settings.model"
_POINTS = ("run_model", "run_model_stream")


def check_needs(snapshot: Snapshot, environ: Mapping[str, str]) -> None:
    """Prove that the model of each profile can be asked, its `reach` enforced, and that its plugins are set up.

    Raises `PipelineError` with a finding for each that cannot: its provider is not known and has no address, this
    machine cannot confine commands, or a variable is not set that its model, address or key, or what the schema of a
    plugin requires, refers to.
    """
    environment, _ = read_environment(snapshot.document.base, environ)
    found: dict[tuple[object, ...], Diagnostic] = {}
    for profile in snapshot.profiles.values():
        for item in (*_lacks(profile, environment), *_cannot_confine(profile, snapshot.own_files, environ)):
            found.setdefault((item.file, item.range, item.message), item)  # what several profiles lack is told once
    if found:
        raise PipelineError(found.values())


def _lacks(profile: Profile, environment: Mapping[str, str]) -> Iterator[Diagnostic]:
    unset = {item.path: item for item in profile.graph.warnings if item.code == UNSET}
    needed = {path for path in unset if _is_required(profile, path)}
    asks_builtin = _asks_builtin(profile, unset)
    if asks_builtin:
        needed.update(_needed_for_model(profile, unset))
    yield from (replace(unset[path], severity="error") for path in unset if path in needed)
    if needed or not asks_builtin:
        return
    for model in _models(profile.settings):
        try:
            require_address(profile.settings, model)
        except ModelError as error:
            findings = Findings()
            place, path, told_by = _place_of(profile, model, environment)
            findings.add(
                unknown_provider.CODE, f"{error}{told_by}", place, path=path, profile=profile.name, help=error.help
            )
            yield from findings.items


def _cannot_confine(profile: Profile, own_files: Iterable[Path], environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Tell why the commands of a profile cannot be confined here: then none may run."""
    said = profile.plan.effective.profile_node
    reach = said.get("reach") if said is not None else None
    lack = _find_lack(profile, own_files, environ)
    if lack and reach is not None:
        findings = Findings()
        findings.add(
            CONFINING,
            f"this machine cannot enforce `reach` of profile `{profile.name}`: {lack}",
            reach.where,
            path=f"profiles.{profile.name}.reach",
            profile=profile.name,
            help="install bubblewrap, such as with `apt-get install bubblewrap`; `bub doctor` says what is there",
        )
        yield from findings.items


def _find_lack(profile: Profile, own_files: Iterable[Path], environ: Mapping[str, str]) -> str:
    if profile.confinement is None:
        return ""
    try:
        choose_way(build_walls(profile.confinement, profile.view.workspace, own_files, environ))
    except UnconfinableError as error:
        return str(error)
    return ""


def _asks_builtin(profile: Profile, unset: Container[str]) -> bool:
    """Whether the first that is asked for an answer is the builtin agent, and no plugin may bring its model."""
    bringing = {call.plugin for call in profile.models.items}
    is_local = provider_of(str(profile.settings.get("model") or LOCAL)) == LOCAL and _MODEL not in unset
    if bringing - {LOCAL_MODEL} or (is_local and bringing):
        return False
    asked = [step.calls.items for step in profile.graph.steps if step.enabled and step.hook in _POINTS]
    return any(items and items[0].plugin == BUILTIN for items in asked)


def _needed_for_model(profile: Profile, unset: Mapping[str, Diagnostic]) -> Iterator[str]:
    """The settings, as paths, without which no model is chosen, or another server is asked, or none lets us in."""
    settings = profile.settings
    if not settings.get("model"):
        yield from (path for path in unset if path == _MODEL)
        return
    own = provider_of(str(settings["model"]))
    for model in _models(settings):
        provider = provider_of(model)
        general = ("settings",) if provider == own else ()
        addresses = [f"{where}.api_base" for where in (f"settings.providers.{provider}", *general)]
        keys = [f"{where}.api_key" for where in (f"settings.providers.{provider}", *general)]
        lacking = {path for path in unset if path.lower() in addresses}
        if not lacking and _has_no_key(settings, model):
            lacking = {path for path in unset if path.lower() in keys}
        yield from lacking


def _has_no_key(settings: Mapping[str, Any], model: str) -> bool:
    try:
        require_address(settings, model)
    except ModelError:
        return False
    try:
        resolve_endpoint(settings, model)
    except ModelError:
        return True
    return False


def _models(settings: Mapping[str, Any]) -> Iterator[str]:
    """The model, and those that are asked if it fails."""
    for model in (settings.get("model"), *(settings.get("fallback_models") or ())):
        if model and str(model).strip():
            yield str(model).strip()


def _is_required(profile: Profile, path: str) -> bool:
    """Whether the schema of a plugin that is loaded requires the setting at a path."""
    section, _, setting = path.removeprefix("settings.").partition(".")
    brought = installed_section(section) if any(one.name == section for one in profile.plugins.plugins) else None
    return brought is not None and setting in ((brought.schema or {}).get("required") or ())


def _place_of(profile: Profile, model: str, environment: Mapping[str, str]) -> tuple[Place, str, str]:
    """Where a model is named, the path of that, and who names it, if it is a variable: that goes before the file."""
    root, base = profile.plan.root, profile.plan.document.base
    is_first = model == str(profile.settings.get("model") or "").strip()
    key = "model" if is_first else "fallback_models"
    path, variable = f"settings.{key}", variable_of([key])
    if environment.get(variable):
        return (
            dotenv_place(variable, environment[variable], base) or Place(NO_FILE),
            path,
            f"; `{variable}` names this model",
        )
    node = root.get("settings", key)
    if node is not None and not is_first:
        node = next((each for each in node.elements() if (text_of(each) or "").strip() == model), node)
    return (node.place if node is not None else root.place), path, ""
