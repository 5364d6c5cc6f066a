"""Variables of the environment that look like settings of a pipeline, and set none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bub.base.diagnostics import NO_FILE, Diagnostic, Findings, Place, ask_for
from bub.pipeline.check import late
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.settings import RESERVED, named_like_settings, unknown_variables, variable_of, variables_of
from bub.pipeline.source.document import Node, walk
from bub.pipeline.source.interpolate import Environment, Reference, dotenv_place, references
from bub.pipeline.source.merge import Document
from bub.pipeline.source.other_names import variables_here
from bub.pipeline.source.schemas import Schema, whole_settings_schema

CODE = "B035"


def check_variables(document: Document, environment: Environment, environ: Environment) -> tuple[Diagnostic, ...]:
    """Each `BUB_…` variable of `environment` that sets nothing, as a warning with its place; no value is printed.

    `environ` is the part of it that the process has, whatever a `.env` says.

    Left alone are variables that the files refer to, and those that begin like a plugin whose section has no schema,
    since only the plugin knows what it reads.
    """
    findings = Findings()
    _find_what_steers(document, environment, environ, findings)
    if not named_like_settings(environment):
        return tuple(findings.items)
    section = document.root.get("settings")
    written = section.plain() if section is not None and section.is_mapping else {}
    if not unknown_variables(environment, whole_settings_schema(), written):
        return tuple(findings.items)
    schema = whole_settings_schema(section.plugin for section in late.installed_sections())
    plugins = {name for name in _plugins(document) if name not in schema["properties"]}
    beginnings = tuple(f"{variable_of([name])}_" for name in plugins)
    used = {reference.name for layer in document.layers for reference in _references(layer.root)}
    known = {*variables_of(schema, written), *RESERVED}
    for variable in unknown_variables(environment, schema, written):
        if variable in used or variable.startswith(beginnings):
            continue
        findings.warn(
            CODE,
            f"the environment variable `{variable}` sets nothing",
            dotenv_place(variable, environment[variable], document.base) or Place(NO_FILE),
            help=ask_for(_called_otherwise(variable, schema, written))
            or findings.did_you_mean(variable, known)
            or "no setting has this name; if another program uses the variable, leave it",
        )
    return tuple(findings.items)


def _find_what_steers(document: Document, environment: Environment, environ: Environment, findings: Findings) -> None:
    """Find variables of a `.env` that count in the real environment alone: a folder may not say what Bub is."""
    for variable in sorted(name for name in RESERVED & environment.keys() if not environ.get(name)):
        place = dotenv_place(variable, environment[variable], document.base) or Place(NO_FILE)
        remedy = "take it out, and set it in the environment from which you start Bub"
        findings.warn(CODE, f"in a `.env`, `{variable}` does nothing", place, help=remedy)


def _called_otherwise(variable: str, schema: Schema, written: Mapping[str, Any]) -> str | None:
    """The variable that sets something, if other tools call it as this one."""
    meant = [each for each in variables_here(variable) if not unknown_variables({each: ""}, schema, written)]
    return meant[0] if meant else None


def _plugins(document: Document) -> Iterator[str]:
    """Every name that a document gives to a plugin."""
    for section in (document.root.get("plugins"), document.root.get("settings")):
        yield from (name for name, _ in section.items()) if section is not None else ()
    profiles = document.root.get("profiles")
    for _, profile in profiles.items() if profiles is not None else ():
        yield from (name for name, _ in names_of(profile.get("plugins")))


def _references(root: Node) -> Iterator[Reference]:
    for _, node in walk(root):
        if isinstance(node.value, str) and "$" in node.value:
            yield from references(node.value)
