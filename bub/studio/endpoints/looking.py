"""What runs here: versions, the file, its profiles and routes."""

from __future__ import annotations

import os
from typing import Any

from bub import __version__
from bub.pipeline.plan.routes import routes_of
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.shown import document_to_show
from bub.pipeline.source.interpolate import read_environment
from bub.studio.requests import Asked
from bub.studio.studio import Studio


async def describe_state(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Describe the runtime: what it was started with, and what the page may do with it."""
    generation, around = studio.framework.generation, studio.around
    document = document_to_show(generation.snapshot.document)
    environment, _ = read_environment(document.base, os.environ)
    return {
        "version": __version__,
        "workspace": str(studio.framework.workspace),
        "file": document.file,
        "profile": studio.framework.profile,
        "profiles": [
            {
                "name": name,
                "description": text_of(document.root.get("profiles", name, "description")) or "",
                "is_start": name == studio.framework.profile,
            }
            for name in generation.profiles
        ],
        "channels": list(around.channels),
        "routes": [
            {"match": dict(route.match), "profile": route.profile} for route in routes_of(document, environment)
        ],
        "write": studio.settings.write,
        "writable_why": None if studio.settings.write else "`gateway.studio.write` is not true",
        "gateway": around.is_gateway,
        "started": studio.started,
    }
