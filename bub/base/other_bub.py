"""The distribution `bub` of PyPI: another program, with the import name and the command of this one.

In one environment each of the two writes over files of the other, and takes them along when it is removed.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OTHER = "bub"
OURS = "bub-pipelines"


def is_other_here() -> bool:
    """Whether a file lies in this package that only the other Bub brings; costs one look at the disk."""
    return Path(__file__).parent.with_name("_version.py").exists()


def explain_other() -> str:
    """Say what happened."""
    return (
        f"the distribution `{OTHER}` of PyPI, another program of this name, is in the same environment, "
        "and the two write over each other's files"
    )


def mend_other() -> str:
    """Say what to do."""
    python = sys.executable or "python"
    uninstall = f"{python} -m pip uninstall --yes" if find_spec("pip") else f"uv pip uninstall --python {python}"
    return f"run `{uninstall} {OTHER} {OURS}`, then install `{OURS}` again, and it alone"


def explain_import(error: ImportError) -> BaseException:
    """Return what to raise if a module of Bub cannot be imported.

    That is the error itself if there is one Bub only; else words about both, which end the command `bub` without a
    traceback.
    """
    if not is_other_here():
        return error
    if Path(sys.argv[0]).stem == "bub" or sys.orig_argv[1:3] == ["-m", "bub"]:
        return SystemExit(f"bub: {explain_other()}\n  {mend_other()}")
    return ImportError(f"{explain_other()}; {mend_other()}", name=error.name)
