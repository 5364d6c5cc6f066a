"""Packages of other people, as pip leaves them: metadata with entry points, code, and the schema of a section."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

IMPORTED = 'raise SystemExit("the plugin was imported")\n'
"""The code of a package that nobody may import."""


def install_section(
    folder: Path, schema: Any, *, plugin: str = "weather", package: str = "bub_weather", code: str = IMPORTED
) -> Path:
    """Install in `folder` a package with a plugin that brings a schema for its section; returns `folder`."""
    metadata = folder / f"{package}-1.2.dist-info"
    metadata.mkdir(parents=True)
    names = f"[bub]\n{plugin} = {package}\n[bub.schema]\n{plugin} = {package}:settings.schema.json\n"
    (metadata / "entry_points.txt").write_text(names, encoding="utf-8")
    text = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n"
    (metadata / "METADATA").write_text(text, encoding="utf-8")
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(code, encoding="utf-8")
    (folder / package / "settings.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    return folder


def install_labels(
    folder: Path, labels: Any, *, plugin: str = "weather", package: str = "bub_weather", code: str = IMPORTED
) -> Path:
    """Install in `folder` a package with a plugin that brings labels for it; returns `folder`."""
    install_section(folder, {}, plugin=plugin, package=package, code=code)
    points = folder / f"{package}-1.2.dist-info" / "entry_points.txt"
    names = f"[bub]\n{plugin} = {package}\n[bub.labels]\n{plugin} = {package}:labels.json\n"
    points.write_text(names, encoding="utf-8")
    (folder / package / "labels.json").write_text(json.dumps(labels), encoding="utf-8")
    return folder
