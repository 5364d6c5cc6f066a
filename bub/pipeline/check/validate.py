"""Checking pipeline files without importing a plugin: what `bub validate` and every compile share."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from bub.base.diagnostics import Diagnostic, Findings, Place
from bub.base.locate import lock_of
from bub.errors import UsageError
from bub.pipeline.check import late
from bub.pipeline.check.ignores import Ignore, check_ignores, ignores_of, settle
from bub.pipeline.check.outline import Outline, outline_of
from bub.pipeline.check.rules import (
    NOTE_RULES,
    OUTLINE_RULES,
    PROFILE_NOTE_RULES,
    PROFILE_RULES,
    SOUND_RULES,
    STAGE_RULES,
    no_stages,
)
from bub.pipeline.check.schema import check_layer
from bub.pipeline.check.variables import check_variables
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.plan.scalars import flag_of, text_of
from bub.pipeline.plan.settings import all_settings, settings_of_tests
from bub.pipeline.source import interpolate
from bub.pipeline.source.discovery import PipelineFile, leads_astray
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document, Layer, Parents, load_document, load_text
from bub.pipeline.source.profiles import Effective
from bub.plugins.finding import PYTHON, Declared, EntryPoints, find_plugins, read_entry_points

READ_OTHERWISE = "B012"
"""The warning about a word such as `yes`, which is text here and a boolean in other tools."""


UNREADABLE_LOCK = "B246"
"""A lock that cannot be read: to go on without it would be to go on unlocked."""

NOT_READ = ("B001", "B005")
"""The findings about a value that the reader left as it is: an unknown anchor, a tag."""


class CheckedFile(msgspec.Struct, frozen=True):
    """What a check of one file or of several found, and the text of every file that was read for it, by name."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    ignored: tuple[Diagnostic, ...] = ()
    """What is not to be shown. It may tell where a secret is, so whoever shows lines has to know it."""

    @property
    def ok(self) -> bool:
        """Whether nothing found keeps the file from running."""
        return not any(finding.severity == "error" for finding in self.diagnostics)


class Shared:
    """What the files of one run have in common, so that it is read and checked once: parents, `.env`, packages.

    `environ` is the environment of the process; left out, whether variables are set is not asked.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.parents = Parents()
        self.entry_points: Callable[[], EntryPoints] = cache(read_entry_points)
        self._environ = environ
        self._environments: dict[Path, tuple[Mapping[str, str] | None, tuple[Diagnostic, ...]]] = {}
        self._layers: dict[tuple[int, int, frozenset[str]], list[Diagnostic]] = {}

    def environment(self, folder: Path) -> tuple[Mapping[str, str] | None, tuple[Diagnostic, ...]]:
        """The variables that a file in `folder` sees, and what is wrong with the `.env` there."""
        if folder not in self._environments:
            environ = self._environ
            self._environments[folder] = (
                (None, ()) if environ is None else interpolate.read_environment(folder, environ)
            )
        return self._environments[folder]

    def check_parent(
        self, layer: Layer, declared: Node | None, environment: Mapping[str, str] | None
    ) -> list[Diagnostic]:
        """What is wrong with a parent by itself, as `_check_layer` finds it; it has to be one of `parents`."""
        from_files = frozenset(name for name, said in _items(declared) if said.get("path") is not None)
        key = (id(layer.root), id(environment), from_files)  # root and environment live as long as this object
        if key not in self._layers:
            self._layers[key] = _check_layer(layer, declared, environment)
        return self._layers[key]


Rules: TypeAlias = tuple[Callable[[Plan], None], ...]

Further: TypeAlias = Callable[[PipelineFile, Sequence[str]], Iterable[Diagnostic]]
"""A check of a file and its profiles that goes beyond what can be known without its plugins."""


def check_files(
    files: Iterable[PipelineFile],
    *,
    profiles: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    further: Further | None = None,
) -> CheckedFile:
    """Find everything that is wrong with pipeline files for `profiles` (None: all that each has), parents included.

    Nothing of the checked project is imported or run, unless `further` does. With `environ`, the environment of the
    process, variables that neither it nor the `.env` beside a file sets are warnings. Raises `UsageError` when a file
    cannot be read.
    """
    gathered = Found.nothing()
    for found in check_each(files, profiles=profiles, environ=environ, further=further):
        gathered.add(found)
    return gathered.settle(complete=profiles is None, loaded=further is not None)


class Found(msgspec.Struct, frozen=True):
    """What was found in one file, in no order, the text of every file that was read for it, and what these ignore."""

    findings: list[Diagnostic]
    sources: dict[str, str]
    ignores: list[Ignore]

    @classmethod
    def nothing(cls) -> Found:
        return cls([], {}, [])

    def add(self, other: Found) -> None:
        """Add what was found in another file."""
        self.findings.extend(other.findings)
        self.sources.update(other.sources)
        self.ignores.extend(other.ignores)

    def settle(self, *, complete: bool, loaded: bool) -> CheckedFile:
        """Return all of it, sorted, without what is ignored; `complete` and `loaded` are as in `ignores.settle`."""
        told = settle(self.findings, self.ignores, complete=complete, loaded=loaded)
        ignored = set(self.findings) - set(told) if self.ignores else ()
        return CheckedFile(told, self.sources, tuple(ignored))


def check_each(
    files: Iterable[PipelineFile],
    *,
    profiles: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    further: Further | None = None,
) -> Iterator[Found]:
    """Check files one after another; all is as for `check_files`."""
    shared = Shared(environ)
    for file in files:
        document = _load(file, shared.parents)
        environment, found = shared.environment(document.base) if document.base is not None else (None, ())
        if environment is not None:
            found += check_variables(document, environment, environ or {})
        checked = [*found, *_check(document, profiles, environment, shared)]
        if further is not None:
            checked += _without_sequels(further(file, profiles or profiles_of(document)), checked)
        yield Found(checked, dict(document.sources), ignores_of(document))


def _without_sequels(found: Iterable[Diagnostic], known: Iterable[Diagnostic]) -> list[Diagnostic]:
    """What was found, but where a file is `known` to be broken in itself, that it has no stages follows from it."""
    broken = any(finding.severity == "error" for finding in known)
    return [finding for finding in found if not (broken and finding.code == no_stages.CODE)]


def check_loaded(
    document: Document,
    *,
    profiles: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    shared: Shared | None = None,
) -> CheckedFile:
    """Check one document that has been read, as `check_files` does, with the variables it sees as its `environment`.

    With `shared`, its parents are those of `document`, too, and what is known of them is not found out again.
    """
    findings = _check(document, profiles, environment, shared or Shared())
    found = Found(findings, dict(document.sources), ignores_of(document))
    return found.settle(complete=profiles is None, loaded=False)


def _load(file: PipelineFile, parents: Parents) -> Document:
    if file.path is None:
        return load_text(file.data, file=file.name, base=Path(), parents=parents)
    if file.shipped:
        return load_document(file.path, display=file.name, parents=parents)
    if leads_astray(file.path):
        raise UsageError(f"{file.name} is a link to a file that is not YAML", help="name the pipeline file itself")
    return load_document(file.path, parents=parents)


def _check(
    document: Document, profiles: Sequence[str] | None, environment: Mapping[str, str] | None, shared: Shared
) -> list[Diagnostic]:
    lock, unreadable = lock_beside(document)
    checker = ProfileChecker(outline_of(document), lock)
    found = [*unreadable, *check_document(document, environment, shared), *check_outline(checker.outline)]
    seen = [check_profile(checker, profile, shared) for profile in profiles or profiles_of(document)]
    return [*found, *_without_sequels(itertools.chain(*seen), found)]


def lock_file(document: Document) -> Path | None:
    """Return the file of the lock of a document, if there is one or not; None for a pipeline that comes with Bub."""
    if document.base is None or not document.layers or document.layers[-1].shipped:
        return None
    return lock_of(document.base / Path(document.file).name)


def lock_beside(document: Document) -> tuple[late.Lock | None, list[Diagnostic]]:
    """Read the lock of a document; None if there is none, or if it cannot be read, which is found."""
    file, findings = lock_file(document), Findings()
    if file is None or not os.path.lexists(file):
        return None, []
    try:
        return late.read_lock(file), []
    except late.LockError as error:
        findings.add(UNREADABLE_LOCK, str(error), Place(document.file), help=error.help)
        return None, findings.items


def profiles_of(document: Document) -> tuple[str, ...]:
    """The profiles a document has; `default` is there by itself."""
    return tuple(dict.fromkeys([DEFAULT_PROFILE, *(name for name, _ in _items(document.root.get("profiles")))]))


def check_document(
    document: Document, environment: Mapping[str, str] | None = None, shared: Shared | None = None
) -> list[Diagnostic]:
    """What is wrong with the files of a document, each taken by itself: YAML, schema, references, secrets.

    With `shared`, its parents are those of `document`, too.
    """
    found = []
    declared = document.root.get("plugins")
    for index, layer in enumerate(document.layers):
        is_parent = index < len(document.layers) - 1
        check = shared.check_parent if shared is not None and is_parent else _check_layer
        found += check(layer, declared, environment)
    # What a tag or an unknown anchor would have stood for is not known, so nothing else is said of such a value;
    # but of a setting, since a report covers the secrets that findings tell of.
    unread = {(finding.file, finding.path) for finding in document.findings if finding.code in NOT_READ}
    found = [item for item in found if (item.file, item.path) not in unread or "settings" in item.path.split(".")]
    wrong = {(finding.file, finding.range) for finding in found if finding.severity == "error"}
    read = [finding for finding in document.findings if finding.code != READ_OTHERWISE]
    warned = [finding for finding in document.findings if finding.code == READ_OTHERWISE]
    # `enabled: yes` is one mistake: that it has the wrong type says all there is to say. So is the key `on:`.
    warned = [finding for finding in warned if (finding.file, finding.range) not in wrong]
    return [*read, *warned, *found, *check_ignores(document)]


def _check_layer(layer: Layer, declared: Node | None, environment: Mapping[str, str] | None) -> list[Diagnostic]:
    """What is wrong with one file; `declared` is the `plugins` of the whole document."""
    references = interpolate.check(layer.root, environment)
    # Bub's own files are held to the schema where Bub is made; to do so again would cost each start 60 ms.
    if layer.shipped:
        return list(references)
    found = check_layer(layer.root)
    if any(all_settings(layer.root)) or any(settings_of_tests(layer.root)):
        sections, trouble = late.sections_of(layer.root, declared)
        found += [*trouble, *late.check_sections(layer.root, sections)]
        # A value with a broken reference is mended first: what is left in plain text shows then.
        broken = {one.path for one in references if one.code == interpolate.MALFORMED and one.severity == "error"}
        secrets = late.literal_secrets(layer.root, sections)
        found += [finding for finding in secrets if finding.path not in broken]
    if layer.root.get("mcp") is not None or any(one.get("mcp") for _, one in _items(layer.root.get("profiles"))):
        found += late.secrets_of_servers(layer.root)
    return [*found, *references]


def check_outline(outline: Outline) -> list[Diagnostic]:
    """What is wrong with a document whatever the profile is: its routes, and what leads to its profiles."""
    if outline.document.complete:
        for rule in OUTLINE_RULES:
            rule(outline)
        if outline.document.root.get("agents") is not None:
            late.check_agents(outline)
        if any(said.get("gateway", "store") is not None for _, said in all_settings(outline.document.root)):
            late.check_stores(outline)
        if any(said.get("gateway", "studio") is not None for _, said in all_settings(outline.document.root)):
            late.check_pages(outline)
    return outline.findings.items


class ProfileChecker:
    """Makes the plans of one document's profiles and applies the rules; what some have alike is looked at once.

    With a `lock`, what the profiles name is held against that, too.
    """

    def __init__(self, outline: Outline, lock: late.Lock | None = None) -> None:
        self.outline, self.lock = outline, lock
        self._first: Plan | None = None
        self._found_in_stages: list[Diagnostic] = []
        self._found_if_sound: dict[Rules, list[Diagnostic]] = {}

    def plan_for(
        self,
        profile: str,
        root: Node | None = None,
        tools: Node | None = None,
        view: Effective | None = None,
        known: Iterable[Diagnostic] = (),
    ) -> Plan:
        """The plan of a profile with what every rule finds, and what is `known`; the others are as in `make_plan`.

        No rule is applied where a part of the document is missing, since the answer may lie there.
        """
        plan = make_plan(self.outline.document, profile, root, tools, like=self._first, view=view)
        is_complete, first = self.outline.document.complete, self._first
        if first is not None and plan.flow is first.flow:
            plan.findings.items += self._found_in_stages
        else:
            if is_complete:
                _apply(STAGE_RULES, plan)
            if first is None:
                self._first, self._found_in_stages = plan, plan.findings.items[len(plan.effective.findings) :]
        plan.findings.items += known
        if is_complete:
            _apply(PROFILE_RULES, plan)
            self.apply_if_sound(SOUND_RULES, plan)
            for case in self.outline.cases.get(profile, ()):
                for case_rule in late.CASE_RULES:
                    case_rule(plan, case)
            if self.lock is not None:
                late.check_locked(plan, self.outline.cases.get(profile, ()), self.lock)
        return plan

    def apply_if_sound(self, rules: Rules, plan: Plan) -> None:
        """Apply rules about stages to a plan in which nothing is wrong, once for all that have the first one's."""
        if plan.findings.has_errors or not self.outline.document.complete:
            return
        if self._first is None or plan.flow is not self._first.flow:
            _apply(rules, plan)
        elif rules in self._found_if_sound:
            plan.findings.items += self._found_if_sound[rules]
        else:
            before = len(plan.findings.items)
            _apply(rules, plan)
            self._found_if_sound[rules] = plan.findings.items[before:]


def _apply(rules: Iterable[Callable[[Plan], None]], plan: Plan) -> None:
    for rule in rules:
        rule(plan)


def check_profile(checker: ProfileChecker, profile: str, shared: Shared | None = None) -> list[Diagnostic]:
    """What is wrong with a document as one profile alone sees it, its plugins not loaded."""
    plan = checker.plan_for(profile)
    declared = declared_plugins(plan)
    listed = [item for item in plan.allowlist if not _may_be_missing(declared.get(item[0]))]
    entry_points = shared.entry_points if shared is not None else None
    base = checker.outline.document.base
    plan.findings.items += find_plugins(listed, declared=declared, base=base, entry_points=entry_points)
    checker.apply_if_sound(NOTE_RULES, plan)
    if checker.outline.document.complete:
        _apply(PROFILE_NOTE_RULES, plan)
    return plan.findings.items


def declared_plugins(plan: Plan) -> dict[str, Declared]:
    """What the `plugins:` section says of each name; a path is seen from the file that says it."""
    found = {}
    for name, node in _items(plan.root.get("plugins")):
        said = node.get("path")
        path = text_of(said)
        folder = plan.document.folders.get(said.place.file) if said is not None else None
        place = said.place if said is not None else node.where
        full = Path(path) if path is not None else None
        if full is not None and folder is not None and folder != plan.document.base:
            full = folder.absolute() / full  # said by a file in another folder than the one that is read
        runtime = text_of(node.get("runtime")) or PYTHON
        found[name] = Declared(name, full, flag_of(node.get("optional")) is True, place, runtime)
    return found


def _may_be_missing(said: Declared | None) -> bool:
    return said is not None and said.optional and said.path is None


def _items(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None:
        yield from node.items()
