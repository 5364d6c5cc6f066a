"""Where the packages come from: a folder that `CONTRIB` names, or the address and commit that were tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ADDRESS = "https://github.com/bubbuild/bub-contrib"
COMMIT = "6b42022"


def check_out(folder: Path) -> Path:
    """The folder `packages/` of bub-contrib, cloned into `folder` if nobody named one."""
    named = os.environ.get("CONTRIB")
    if named:
        return Path(named).resolve() / "packages"
    if not folder.exists():
        cloned = subprocess.run(["git", "clone", "--quiet", ADDRESS, str(folder)])
        if cloned.returncode:
            sys.exit(f"{ADDRESS} cannot be cloned: name a folder that has it, CONTRIB=FOLDER")
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", COMMIT], check=True)
    return folder / "packages"
