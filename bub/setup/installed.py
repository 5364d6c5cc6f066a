"""How this Bub was installed, as far as its environment tells: how it is called, and how it is removed."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from bub.base.other_bub import OURS

_UV, _PIPX = "uv-receipt.toml", "pipx_metadata.json"
"""What uv and pipx leave in an environment that they made for one program."""


def program_words() -> list[str]:
    """Return the words that call this program from any folder, whatever lies in it."""
    script = Path(sys.executable).with_name("bub")
    # -P: a folder `bub` of the current folder is not meant.
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "bub"]


def removal_of_program() -> str:
    """Say in a clause what removes the program."""
    prefix = Path(sys.prefix)
    for receipt, command in ((_UV, "uv tool uninstall"), (_PIPX, "pipx uninstall")):
        if (prefix / receipt).is_file() and prefix.name.startswith(OURS):  # else it is in another program's environment
            return f"run `{command} {prefix.name}`"
    folder = Path(__file__).parents[2]
    if not (folder / "pyproject.toml").is_file():
        return f"run `{_uninstall()}`"
    if prefix.is_relative_to(folder):
        return f"delete the folder {folder}"
    return f"run `{_uninstall()}`, then delete the folder {folder}"


def _uninstall() -> str:
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip uninstall" if find_spec("pip") else f"uv pip uninstall --python {python}"
    return f"{pip} {OURS}"
