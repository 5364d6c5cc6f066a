"""What a text from the page may not bring: anything that has to be imported or started, or another way to the page."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bub.base.diagnostics import Diagnostic, Place
from bub.pipeline.check.opened.texts import path_in
from bub.pipeline.check.validate import declared_plugins, profiles_of
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import SHIPPED, Document
from bub.plugins.finding import ASYNCIO, Declared, installed_plugins
from bub.plugins.importing import source_of_module
from bub.runtime.snapshot import Profile, Snapshot
from bub.tools import ToolPolicy

CODE = "write"
"""What is in the place of a code: no `bub explain` knows it."""

_YOURSELF = "edit the file itself, and start again"
_RELOAD = "look at the change, and reload Bub yourself"
_STUDIO = ("settings", "gateway", "studio")


def find_forbidden(snapshot: Snapshot, document: Document) -> list[Diagnostic]:
    """Return what a document has that the page may not load in the place of a snapshot; nothing is imported.

    It may name no plugin and no server that is not loaded, change where one lies or what starts it, extend no other
    file, and change nothing of `settings.gateway.studio`. What is loaded has to be the same on the disk still, since
    loading reads it again.
    """
    old, new = _plans_of(snapshot.document), _plans_of(document)
    return [
        *_find_files(snapshot.document, document),
        *_find_plugins(snapshot, new),
        *_find_declared(old, new),
        *_find_servers(snapshot, old, new),
        *_find_studio(old, new),
    ]


def _plans_of(document: Document) -> list[Plan]:
    """Return a plan for each profile; what they have alike is read once."""
    first, *others = profiles_of(document)
    plan = make_plan(document, first)
    return [plan, *(make_plan(document, profile, like=plan) for profile in others)]


def _forbid(message: str, place: Place, help: str = _YOURSELF) -> Diagnostic:  # noqa: A002 (the word of findings)
    return Diagnostic(CODE, "error", f"{message}, so the page cannot load this", place.file, place.range, help=help)


# Plugins


def _find_plugins(snapshot: Snapshot, new: Iterable[Plan]) -> Iterator[Diagnostic]:
    """Yield the plugins that any profile lists and that are not loaded, or would be loaded from another text."""
    sets = [profile.plugins for profile in snapshot.profiles.values()]
    loaded = {one.name for plugins in sets for one in plugins.plugins}
    missing = {one.name for plugins in sets for one in plugins.statuses if one.state == "missing"}
    changed = dict(_changed_plugins(snapshot.profiles.values()))
    for name, place in {name: place for plan in new for name, place in plan.allowlist}.items():
        if name in changed:
            yield _forbid(f"{changed[name]} is not what plugin `{name}` was loaded from", place, _RELOAD)
        elif name not in loaded and not (name in missing and name not in installed_plugins()):
            yield _forbid(f"plugin `{name}` is not loaded", place)


def _changed_plugins(profiles: Iterable[Profile]) -> Iterator[tuple[str, str]]:
    """Yield the loaded plugins with a `path` whose file is not known to be as it was, each with the file's name."""
    for profile in profiles:
        sources = [source for module in profile.plugins.modules if (source := source_of_module(module)) is not None]
        same = {os.path.realpath(path) for path, digest in sources if _digest_of(path) == digest}
        loaded = {one.name for one in profile.plugins.plugins}
        for name, said in declared_plugins(profile.plan).items():
            path = _real(said, profile.plan)
            if path is not None and name in loaded and path not in same:
                yield name, Path(path).name


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _find_declared(old: Iterable[Plan], new: Iterable[Plan]) -> Iterator[Diagnostic]:
    """Yield the plugins that are said to lie elsewhere, or to run on another loop, than those that are loaded."""
    running = {name: _identity(said, plan) for plan in old for name, said in declared_plugins(plan).items()}
    told = set()
    for plan in new:
        for name, said in declared_plugins(plan).items():
            if _identity(said, plan) != running.get(name, (None, False)) and name not in told:
                told.add(name)
                what = "has a `path`" if said.path is not None else "has a `runtime`"
                yield _forbid(f"plugin `{name}` {what} that is not loaded", said.place or Place(plan.document.file))


def _identity(said: Declared, plan: Plan) -> tuple[str | None, bool]:
    return _real(said, plan), said.runtime == ASYNCIO


def _real(said: Declared, plan: Plan) -> str | None:
    base = plan.document.base or Path()
    return os.path.realpath(base / said.path.expanduser()) if said.path is not None else None


# Servers


def _find_servers(snapshot: Snapshot, old: Iterable[Plan], new: Iterable[Plan]) -> Iterator[Diagnostic]:
    """Yield the servers that what runs does not have just so, and those that nobody may use there."""
    known = {(name, _key(node)) for plan in old for name, node in _servers_of(plan)}
    used = {
        spec.name
        for profile in snapshot.profiles.values()
        for spec in profile.served.specs
        if profile.tools.policy.wants(spec.name)
    }
    told = set()
    for plan in new:
        for name, node in _servers_of(plan):
            if name in told:
                continue
            if (name, _key(node)) not in known:
                told.add(name)
                yield _forbid(f"server `{name}` is none that is loaded", node.where)
            elif name not in used and _may_want(plan, name):
                told.add(name)
                yield _forbid(f"server `{name}` is not in use now", node.where)


def _servers_of(plan: Plan) -> Iterable[tuple[str, Node]]:
    section = plan.root.get("mcp")
    return section.items() if section is not None else ()


def _may_want(plan: Plan, server: str) -> bool:
    """Whether a profile may use a server; a reference may stand for any name."""
    said = plan.tools.plain() if plan.tools is not None else None
    policy = ToolPolicy.of(said if isinstance(said, Mapping) else None)
    return policy.wants(server) or any("${" in entry for entry in policy.allow or ())


# Files, and the page itself


def _find_files(old: Document, new: Document) -> Iterator[Diagnostic]:
    """Yield the files that are extended and are not part of what is loaded, or are others on the disk now."""
    running = {_file_of(old, name): text for name, text in old.sources.items()}
    extends = new.layers[-1].root.get("extends") if new.layers else None
    place = extends.place if extends is not None else Place(new.file)
    for name, text in new.sources.items():
        file = _file_of(new, name)
        if name == new.file:
            continue
        if file not in running:
            yield _forbid(f"{name} is not part of what is loaded", place)
        elif running[file] != text:
            yield _forbid(f"{name} has changed since it was loaded", place, _RELOAD)


def _file_of(document: Document, name: str) -> str:
    path = None if name.startswith(SHIPPED) else path_in(document, name)
    return os.path.realpath(path) if path is not None else name


def _find_studio(old: Sequence[Plan], new: Sequence[Plan]) -> Iterator[Diagnostic]:
    """Yield it if any profile says something else of the page; one that is new says what all of them do."""
    running = {plan.profile: plan.root.get(*_STUDIO) for plan in old}
    usual = old[0].document.root.get(*_STUDIO)
    for plan in new:
        said = plan.root.get(*_STUDIO)
        if _key(said) != _key(running.get(plan.profile, usual)):
            place = said.where if said is not None else Place(plan.document.file)
            yield _forbid("`settings.gateway.studio` says what this page may do", place)
            return


def _key(node: Node | None) -> str:
    """Return what a value says, to compare it with another one."""

    def in_order(value: Any) -> Any:
        if isinstance(value, dict):
            return sorted((str(name), in_order(item)) for name, item in value.items())
        return [in_order(item) for item in value] if isinstance(value, list) else value

    return repr(in_order(node.plain())) if node is not None else ""
