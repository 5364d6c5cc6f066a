"""Run a Python module in a process in which `bub` is this package: `python -m bub_reference pytest tests`."""

from __future__ import annotations

import runpy
import sys

from bub_reference.naming import name_whole_process


def main(arguments: list[str]) -> int:
    """Run the module `arguments[0]` with the rest as its arguments, as `python -m` does."""
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -m bub_reference MODULE [ARGUMENTS…], such as `… bub_reference pytest tests`\n")
        return 2
    name_whole_process()
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
