"""What a failure is: whose it is, what is in a group of them, and why the system refused something, in words."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["explain_os_error", "flatten_error", "is_ordinary", "unwrap_group"]


def is_ordinary(error: BaseException) -> bool:
    """Tell whether a failure is one of the code that was called, and no reason for others to end.

    A plugin that calls `sys.exit` means to end a program that is not its own. A cancellation and Ctrl-C are not
    ordinary, nor is a group with one of them in it.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_ordinary(one) for one in error.exceptions)
    return isinstance(error, Exception | SystemExit)


def flatten_error(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that happened: those of a group one by one, however deep, else the one itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flatten_error(inner)
    else:
        yield error


def unwrap_group(error: BaseException) -> BaseException:
    """Return the one failure in a group of one, however deep; what is no group, and a group of several, as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def explain_os_error(error: OSError) -> str:
    """Say in a clause, for behind a colon, why the system refused something: "permission denied".

    What the error says of a path is left out: whoever calls this has named it already, as people know it.
    """
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]
