"""Which failures cost only what was being done, and which are meant for the whole program."""

from __future__ import annotations


def is_ordinary(error: BaseException) -> bool:
    """Whether a failure is one of the code that was called, and no reason for others to end.

    A plugin that calls `sys.exit` means to end a program that is not its own. A cancellation and Ctrl-C are not
    ordinary, nor is a group with one of them in it.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_ordinary(one) for one in error.exceptions)
    return isinstance(error, Exception | SystemExit)
