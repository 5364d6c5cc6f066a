"""Checking a pipeline file without importing a plugin: what `bub validate` and every compile share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bub.diagnostics import Diagnostic, sort_diagnostics
from bub.pipeline import interpolate
from bub.pipeline.merge import DEFAULT_PROFILE, Document, load_document
from bub.pipeline.plan import Plan, flag_of, make_plan, text_of
from bub.pipeline.rules import RULES
from bub.pipeline.rules.stages import NO_STAGES
from bub.pipeline.schema import WRONG_TYPE, check_layer, check_sections, literal_secrets, shipped_sections
from bub.plugins import Declared, find_plugins

READ_OTHERWISE = "B012"
"""The warning about a word such as `yes`, which is text here and a truth value in other tools."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a check of one file found, and the text of every file that was read for it, by name."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Whether nothing found keeps the file from running."""
        return not any(finding.severity == "error" for finding in self.diagnostics)


def check_file(
    path: Path, *, profiles: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> CheckedFile:
    """Find everything that is wrong with a pipeline file for `profiles` (None: all it has), parents included.

    Nothing of the checked project is imported or run. With an `environment`, variables that are not set are
    warnings. Raises `UsageError` when the file cannot be read.
    """
    document = load_document(path)
    found = list(check_document(document, environment))
    broken = any(finding.severity == "error" for finding in found)
    for profile in profiles if profiles is not None else profiles_of(document):
        # Where the file is broken in itself, that there are no stages mostly follows from it.
        found += [finding for finding in check_profile(document, profile) if not (broken and finding.code == NO_STAGES)]
    return CheckedFile(sort_diagnostics(found), document.sources)


def profiles_of(document: Document) -> tuple[str, ...]:
    """The profiles a document has; `default` is there by itself."""
    section = document.root.get("profiles")
    names = [name for name, _ in section.items()] if section is not None else []
    return tuple(dict.fromkeys([DEFAULT_PROFILE, *names]))


def check_document(document: Document, environment: Mapping[str, str] | None = None) -> list[Diagnostic]:
    """What is wrong with the files of a document, each taken by itself: YAML, schema, references, secrets."""
    found = []
    for layer in document.layers:
        # Bub's own files are held to the schema where Bub is made; to do so again would cost each start 60 ms.
        if not layer.shipped:
            found += check_layer(layer.root)
            found += check_sections(layer.root)
        references = interpolate.check(layer.root, environment)
        if not layer.shipped:
            # A value with a broken reference is mended first: what is left in plain text shows then.
            broken = {finding.path for finding in references if finding.code == interpolate.MALFORMED}
            secrets = literal_secrets(layer.root, shipped_sections())
            found += [finding for finding in secrets if finding.path not in broken]
        found += references
    wrong = {(finding.file, finding.range) for finding in found if finding.code == WRONG_TYPE}
    read = [finding for finding in document.findings if finding.code != READ_OTHERWISE]
    warned = [finding for finding in document.findings if finding.code == READ_OTHERWISE]
    # `enabled: yes` is one mistake: that it has the wrong type says all there is to say.
    return [*read, *(finding for finding in warned if (finding.file, finding.range) not in wrong), *found]


def check_profile(document: Document, profile: str) -> list[Diagnostic]:
    """What is wrong with a document as one profile sees it, its plugins not loaded."""
    plan = make_plan(document, profile)
    check_plan(plan)
    declared = declared_plugins(plan)
    listed = [item for item in plan.allowlist if not _may_be_missing(declared.get(item[0]))]
    plan.findings.items += find_plugins(listed, declared=declared, base=document.base)
    return plan.findings.items


def check_plan(plan: Plan) -> None:
    """Apply every rule to a plan; none where a part of the document is missing, since the answer may lie there."""
    if plan.document.complete:
        for rule in RULES:
            rule(plan)


def declared_plugins(plan: Plan) -> dict[str, Declared]:
    """What the `plugins:` section says of each name; a path is seen from the file that says it."""
    section = plan.root.get("plugins")
    found = {}
    for name, node in section.items() if section is not None else ():
        said = node.get("path")
        path = text_of(said)
        folder = plan.document.folders.get(said.place.file) if said is not None else None
        place = said.place if said is not None else node.where
        full = Path(path) if path is not None else None
        if full is not None and folder is not None and folder != plan.document.base:
            full = folder.absolute() / full  # said by a file in another folder than the one that is read
        found[name] = Declared(name, full, flag_of(node.get("optional")) is True, place)
    return found


def _may_be_missing(said: Declared | None) -> bool:
    return said is not None and said.optional and said.path is None
