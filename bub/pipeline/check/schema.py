"""Checks one file against the JSON Schema of pipeline files."""

from __future__ import annotations

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check import late
from bub.pipeline.check.validators import pipeline_check
from bub.pipeline.source.document import Node


def check_layer(root: Node) -> list[Diagnostic]:
    """Every place where one file breaks the schema of pipeline files.

    A file may be an overlay, so the keys that only some kinds know are not judged here but on the merged document.
    """
    return [] if pipeline_check()(root.plain()) else late.explain_layer(root)
