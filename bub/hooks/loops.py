"""Which event loop the code of a plugin is written for, as far as that can be seen without calling it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

from bub.errors import BubError
from bub.hooks.blocking import names_in
from bub.hooks.facts import BUILTIN

ON_NO_LOOP = frozenset(("register_cli_commands", "onboard_config"))
"""Hooks that run without a loop, and may start one themselves."""

_WAITING = (
    "sleep gather wait wait_for timeout timeout_at shield to_thread create_task ensure_future get_running_loop"
    " current_task TaskGroup Event Lock Condition Semaphore BoundedSemaphore Queue PriorityQueue Barrier"
    " open_connection start_server create_subprocess_exec create_subprocess_shell as_completed"
)

_NEEDS_LOOP = frozenset(_WAITING.split())
"""What of asyncio works only while its loop runs, at the latest when it is awaited."""

_IN_PLAIN_CODE = frozenset(("create_task", "ensure_future", "get_running_loop", "current_task"))
"""What of that fails in a plain function, too."""

_PACKAGES = (
    "aiobotocore aiofiles aiogram aiohttp aiokafka aiomysql aiopg aioredis aiosqlite apscheduler.schedulers.asyncio"
    " asyncpg botpy dingtalk_stream discord grpc.aio lark_oapi.ws motor nats nio pyrogram redis.asyncio"
    " slack_bolt.async_app slack_sdk.socket_mode.aiohttp slack_sdk.web.async_client sqlalchemy.ext.asyncio telegram.ext"
    " telethon websockets"
)

_ON_ASYNCIO = tuple(_PACKAGES.split())
"""Packages that run on asyncio and on nothing else."""


class Use(NamedTuple):
    """What shows which loop some code is written for: the name as it is written, and where."""

    name: str
    file: str
    line: int


def find_use(starts: Iterable[Any], loop: str) -> Use | None:
    """Find what shows that code needs `loop`, which is "asyncio" or "trio"; None if nothing does.

    Looks at functions and classes, and at all that they name of their own package.
    """
    seen: set[int] = set()
    waiting = list(starts)
    while waiting:
        one = waiting.pop()
        one = inspect.unwrap(getattr(one, "__func__", one)) if callable(one) else one
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, type):
            waiting += [part for name, part in _parts(one) if name not in ON_NO_LOOP]
        elif isinstance(one, FunctionType):
            for code in _codes(one.__code__):
                if _starts_a_loop(code, one.__globals__):
                    continue
                for chain, value in _resolved(code, one.__globals__):
                    if _shows(loop, chain, value, code):
                        return Use(".".join(chain), code.co_filename, code.co_firstlineno)
                    if isinstance(value, type | FunctionType) and _is_beside(value, one):
                        waiting.append(value)
    return None


def _parts(owner: type) -> Iterator[tuple[str, Any]]:
    """The functions of a class by name, those of properties too."""
    for name, part in vars(owner).items():
        if isinstance(part, property):
            yield name, part.fget
        elif isinstance(part, staticmethod | classmethod):
            yield name, part.__func__
        elif isinstance(part, FunctionType):
            yield name, part


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _starts_a_loop(code: CodeType, scope: dict[str, Any]) -> bool:
    """Whether code starts a loop itself, as a command does, or is written in code that does."""
    return "run" in code.co_names and any(
        chain[0] in ("asyncio", "trio", "anyio") and chain[-1] == "run" for chain, _ in _resolved(code, scope)
    )


def _resolved(code: CodeType, scope: dict[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """What code names that comes from somewhere: each name with its attributes, and what it stands for."""
    known = {name for name in code.co_names if name in scope or name in ("asyncio", "trio")}
    for chain in names_in(code) if known else ():
        if chain[0] in known:
            yield chain, scope.get(chain[0])


def _shows(loop: str, chain: list[str], value: Any, code: CodeType) -> bool:
    """Whether a name that code looks up shows that it needs a loop."""
    home = _home_of(chain[0], value)
    is_async = bool(code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
    if loop == "trio":
        return is_async and home.partition(".")[0] == "trio"
    name = chain[1] if isinstance(value, ModuleType | None) and len(chain) > 1 else chain[-1]
    if home.partition(".")[0] == "asyncio":
        return name in (_NEEDS_LOOP if is_async else _IN_PLAIN_CODE)
    full = ".".join([home, *chain[1:]]) if isinstance(value, ModuleType) else home
    return any(full == package or full.startswith(f"{package}.") for package in _ON_ASYNCIO)


def _home_of(name: str, value: Any) -> str:
    """The module that a name comes from; one that is imported in the function has its own."""
    if value is None:
        return name
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or "")


def _is_beside(value: type | FunctionType, function: FunctionType) -> bool:
    """Whether something is of the same package as a function."""
    own, other = (str(getattr(one, "__module__", None) or "").split(".") for one in (function, value))
    depth = 2 if own[0] == "bub_plugins" else 1  # the shipped ones are beside each other
    return own[:depth] == other[:depth]


# What fails without a loop.


_Error = TypeVar("_Error", bound=BaseException)


class NeedsAsyncioError(BubError):
    """Code that is written for asyncio was run on trio."""


_WORDS = (
    "no running event loop",
    "no current event loop",
    "trio.run received unrecognized yield message",
    "has no attribute 'create_future'",
    "should be used inside a task",
)
"""What asyncio, or trio of a future of asyncio, says then."""


def explain(error: _Error, plugin: str = "", what: str = "") -> _Error | NeedsAsyncioError:
    """The error itself, or one that says which line is missing if it failed since no asyncio loop runs there.

    `plugin` is whose code failed; if that is not known, `what` says what did.
    """
    if plugin == BUILTIN or not isinstance(error, RuntimeError | TypeError | AttributeError):
        return error
    said = str(error)
    if not any(words in said for words in _WORDS):
        return error
    who, entry = (f"plugin `{plugin}`", plugin) if plugin else (what, "NAME")
    asked = NeedsAsyncioError(
        f"{who} is written for asyncio, and runs on trio ({said.partition('. ')[0]})",
        help=f"say `plugins: {{{entry}: {{runtime: asyncio}}}}` in the pipeline file"
        + ("" if plugin else ", with the name of its plugin"),
    )
    asked.__cause__ = error
    return asked.with_traceback(error.__traceback__)
