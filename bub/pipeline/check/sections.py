"""The plugins' sections of the settings in a file: their schemas, and the findings of these."""

from __future__ import annotations

from collections.abc import Mapping

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check import late
from bub.pipeline.check.schema_finding import BROKEN_SCHEMA, MISSING, make_finding
from bub.pipeline.check.validators import validator_class
from bub.pipeline.check.words import Path
from bub.pipeline.plan.settings import all_settings, settings_of_tests
from bub.pipeline.source.document import Node
from bub.pipeline.source.schemas import Schema, names_of_settings, shipped_sections
from bub.plugins.schemas import installed_section
from bub.secrets.verdict import is_marked, is_named


def check_section(
    plugin: str, section: Node, schema: Schema, *, profile: str | None = None, test: str | None = None
) -> list[Diagnostic]:
    """Every place where a plugin's section under `settings` breaks the plugin's own schema.

    `profile` or `test` is given if the section is in that one's settings.
    """
    above: Path = ("settings", plugin)
    if profile is not None or test is not None:
        above = ("profiles", profile, *above) if profile is not None else ("tests", str(test), *above)
    # Where a reference leads back to a `$schema`, the library would go on with a validator of its own.
    bare = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}

    def is_hidden(path: Path) -> bool:
        return is_named(path[len(above) - 1 :]) or is_marked(path[len(above) :], bare)

    return late.explain_errors(section, validator_class()(bare), above, {}, is_hidden)


def check_sections(root: Node, sections: Mapping[str, Schema]) -> list[Diagnostic]:
    """Every place where a plugin's section, in `settings` or a profile's, breaks the plugin's schema in `sections`."""
    findings = []
    for profile, settings in all_settings(root):
        for plugin, section in settings.items():
            if plugin not in sections or not section.is_mapping:
                continue
            try:
                findings += check_section(plugin, section, sections[plugin], profile=profile)
            except RecursionError:  # a circle of references shows only when a value is held against them
                findings.append(_not_checked(plugin, section, "its schema refers to itself in a circle"))
    for test, settings in settings_of_tests(root):
        for plugin, section in settings.items():
            if plugin in sections and section.is_mapping:
                # It is laid over what the profile says, so nothing is missing in it.
                found = check_section(plugin, section, sections[plugin], test=test)
                findings += [finding for finding in found if finding.code != MISSING]
    return findings


def sections_of(root: Node, declared: Node | None = None) -> tuple[dict[str, Schema], list[Diagnostic]]:
    """The schemas for the plugins' sections of one file, and a warning for each that an installed package has broken.

    `declared` is the `plugins` of the whole document: a plugin that comes from a file has nothing to do with an
    installed package of its name. Packages are only asked where a section is neither Bub's own nor of a shipped plugin.
    """
    schemas, findings = dict(shipped_sections()), []
    for _, settings in (*all_settings(root), *settings_of_tests(root)):
        for plugin, section in settings.items():
            from_file = declared is not None and declared.get(plugin, "path") is not None
            if plugin in schemas or plugin in names_of_settings() or from_file or not section.is_mapping:
                continue
            found = installed_section(plugin)
            if found is not None and found.schema is not None:
                schemas[plugin] = found.schema
            elif found is not None:
                findings.append(_not_checked(plugin, section, f"{found.source} {found.problem}"))
    return schemas, findings


def _not_checked(plugin: str, section: Node, reason: str) -> Diagnostic:
    message = f"Bub does not check the settings of plugin `{plugin}`: {reason}"
    hint = "tell the author of the package that brings it"
    return make_finding(BROKEN_SCHEMA, message, section.where, ("settings", plugin), help=hint, severity="warning")
