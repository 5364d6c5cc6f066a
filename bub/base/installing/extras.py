"""The extras of Bub: what to type if the packages of one are not there."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.util import find_spec

from bub.base.other_bub import OURS


def install_command(extra: str) -> str:
    """Return the command for a shell that installs the packages of an extra where Bub runs.

    It names these packages and not Bub, which may have come from sources or a file: then no index has it.
    """
    python = shlex.quote(sys.executable or "python")
    install = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return " ".join([install, *map(shlex.quote, _packages_of(extra) or [f"{OURS}[{extra}]"])])


def _packages_of(extra: str) -> list[str]:
    """Return what an extra needs, as the metadata of the installed Bub says; nothing if it is not installed."""
    from importlib.metadata import PackageNotFoundError, requires  # 40 ms, which only who lacks something pays

    try:
        needed = [one.partition(";") for one in requires(OURS) or ()]
    except PackageNotFoundError:
        return []
    return [package.strip() for package, _, when in needed if re.search(rf"\bextra == ['\"]{extra}['\"]", when)]
