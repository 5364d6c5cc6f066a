"""The program `bub`."""

from __future__ import annotations

import gc
import signal
import sys
from importlib import import_module

from bub.base.other_bub import explain_import
from bub.gateway.hangup import hold_hangup

PROGRAM = "bub.cli.program"
"""What is loaded first, and then run."""

ANSWERER = ("__complete", "bub.cli.completion.answer")
"""What a shell calls at a Tab, and what is run then: it has to be quick, and needs nothing of the program."""


def main() -> int:
    """Run the command line of this process and return its exit code.

    While it is being loaded there is nothing to clean up, so a Ctrl-C ends the process at once, and not with a
    traceback of imports. A SIGHUP waits until it is known what it means: to a gateway, that it shall reload.
    """
    hold_hangup()
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as in `bub … &`
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is being loaded is no garbage, and to look for some takes a twelfth of the start
    try:
        program = import_module(ANSWERER[1] if sys.argv[1:2] == [ANSWERER[0]] else PROGRAM)
    except ImportError as error:
        raise explain_import(error) from None
    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = program.main()
    gc.freeze()  # what is there at the end goes with the process, and to look it through takes a tenth of a short one
    return code


if __name__ == "__main__":
    sys.exit(main())
