"""The address of the project, as `pyproject.toml` says it."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

ADDRESS: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
"""Where the project is, or what holds the place of that."""
