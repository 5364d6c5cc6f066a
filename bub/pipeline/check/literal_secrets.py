"""Secrets that are in a file as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.schema_finding import LITERAL_SECRET, make_finding
from bub.pipeline.check.words import Path, describe
from bub.pipeline.plan.secret_places import is_given_to_server, leaves_below
from bub.pipeline.plan.settings import all_settings
from bub.pipeline.source.document import Node
from bub.pipeline.source.schemas import Schema, settings_schema_with
from bub.secrets.literals import looks_like_key
from bub.secrets.names import is_secret_variable
from bub.secrets.verdict import is_marked


def literal_secrets(root: Node, sections: Mapping[str, Schema] | None = None) -> list[Diagnostic]:
    """A warning for each secret that is in the file itself instead of a reference to it.

    A secret is here what a schema marks as one; `sections` holds the schemas of the plugins' settings by plugin. The
    secret is never part of the finding.
    """
    schema = settings_schema_with(sections or {})
    findings = []
    for profile, settings in all_settings(root):
        above: Path = ("settings",) if profile is None else ("profiles", profile, "settings")
        for setting, node in _find_marked(settings, schema):
            if _holds_literal(node):
                findings.append(
                    make_finding(
                        LITERAL_SECRET,
                        f"{describe((*above, *setting))} is a secret, and the file shows it as plain text",
                        node.place,
                        (*above, *setting),
                        help="write `${env:NAME}` or `${file:PATH}` instead, and keep the secret out of the file",
                        severity="warning",
                    )
                )
    return findings


def secrets_of_servers(root: Node) -> list[Diagnostic]:
    """A warning for each header, and each variable that looks like a secret, that a server gets from the file itself.

    The secret is never part of the finding.
    """
    findings = []
    for steps, node in leaves_below(root):
        if is_given_to_server(steps) and _holds_literal(node) and _may_be_secret(steps, node):
            findings.append(
                make_finding(
                    LITERAL_SECRET,
                    f"{describe(steps)} may be a secret, and the file shows it as plain text",
                    node.place,
                    steps,
                    help="write `${env:NAME}` or `${file:PATH}` instead, and keep the secret out of the file",
                    severity="warning",
                )
            )
    return findings


def _may_be_secret(steps: Path, node: Node) -> bool:
    return steps[-2] == "headers" or is_secret_variable(str(steps[-1])) or looks_like_key(str(node.value))


def _find_marked(node: Node, schema: Schema, setting: Path = ()) -> Iterator[tuple[Path, Node]]:
    """The settings that a schema marks as secrets; of one with parts it is the whole, whose keys may tell as much."""
    if is_marked(setting, schema):
        yield setting, node
        return
    for name, below in node.items():
        yield from _find_marked(below, schema, (*setting, name))
    for index, below in enumerate(node.elements()):
        yield from _find_marked(below, schema, (*setting, index))


def _holds_literal(node: Node) -> bool:
    below = [*(child for _, child in node.items()), *node.elements()]
    return any(map(_holds_literal, below)) or _is_literal(node.value)


_REFERENCE = r"\$\{(?:env|file):[^{}]+\}"


def _is_literal(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    text = value
    references = re.findall(_REFERENCE, text.replace("$$", ""))
    # `${env:KEY:-sk-123}` keeps the secret in the file as well.
    with_default = any(re.search(":-[^}]", reference) for reference in references)
    return bool(text) and (not references or with_default)
