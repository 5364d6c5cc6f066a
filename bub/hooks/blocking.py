"""Functions that surely wait for something outside of trio, as far as that can be seen without calling them."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

_REQUESTS = frozenset(["get", "post", "put", "patch", "delete", "head", "request"])

_WAITING: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "time": frozenset({"sleep"}),
        "os": frozenset({"system", "popen"}),
        "subprocess": frozenset({"run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}),
        "urllib.request": frozenset({"urlopen", "urlretrieve"}),
        "requests": _REQUESTS,
        "requests.api": _REQUESTS,
        "httpx": _REQUESTS,
        "httpx._api": _REQUESTS,
        "socket": frozenset({"create_connection", "getaddrinfo", "gethostbyname"}),
        "smtplib": frozenset({"SMTP", "SMTP_SSL"}),
    }
)
"""What waits for the clock, a process or the network, by the module it is written in or looked up in."""


def find_blocking_call(function: Callable[..., Any]) -> str | None:
    """What a function calls that surely waits, as it is written; None if nothing of the kind is seen.

    Functions of its own module that it calls are looked at, too.
    """
    return _find(inspect.unwrap(getattr(function, "__func__", function)), set())


def _find(function: object, seen: set[int]) -> str | None:
    if not isinstance(function, FunctionType) or id(function) in seen:
        return None
    seen.add(id(function))
    scope = function.__globals__
    for root, *attributes in names_in(function.__code__):
        value = scope.get(root)
        if attributes:  # of a module that is imported at the top, or inside the function
            module = value.__name__ if isinstance(value, ModuleType) else root if value is None else ""
            if attributes[-1] in _WAITING.get(".".join([module, *attributes[:-1]]), ()):
                return ".".join([root, *attributes])
        elif getattr(value, "__name__", None) in _WAITING.get(getattr(value, "__module__", None) or "", ()):
            return root
        elif isinstance(value, FunctionType) and value.__globals__ is scope and (found := _find(value, seen)):
            return found
    return None


def names_in(code: CodeType) -> Iterator[list[str]]:
    """Every name that a function looks up, each with the attributes that it takes of it: `time.sleep` in two parts."""
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(step.argval)
            continue
        if chain:
            yield chain
        chain = [step.argval] if step.opname.startswith("LOAD_") and isinstance(step.argval, str) else []
    if chain:
        yield chain
