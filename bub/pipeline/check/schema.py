"""Checks one file against the JSON Schema of pipeline files."""

from __future__ import annotations

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.schema_errors import explain_errors
from bub.pipeline.check.unknown_keys import homes_of_keys
from bub.pipeline.check.validators import pipeline_check, pipeline_validator
from bub.pipeline.check.words import Path
from bub.pipeline.plan.secret_places import setting_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.schemas import settings_schema
from bub.secrets.verdict import is_kept_secret


def check_layer(root: Node) -> list[Diagnostic]:
    """Every place where one file breaks the schema of pipeline files.

    A file may be an overlay, so the keys that only some kinds know are not judged here but on the merged document.
    """
    if pipeline_check()(root.plain()):
        return []
    return explain_errors(root, pipeline_validator(), (), homes_of_keys(), _is_kept_secret)


def _is_kept_secret(path: Path) -> bool:
    """Whether a path of the file is that of a setting that holds a secret."""
    setting = setting_of(path)
    return setting is not None and is_kept_secret(setting, settings_schema())
