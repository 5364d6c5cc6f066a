"""What every test stands on: trio as the backend, and an environment that knows nothing of the machine's owner."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.collecting import Collector, collecting, send_to
from fakes.redis_server import TAPES, RedisServer, find_redis_server, serving_redis
from fakes.scripted import serving
from fakes.talk import Talk
from fakes.toys import Workshop
from hypothesis import HealthCheck, settings
from loguru import logger
from trio.testing import MockClock

from bub import log as bub_log
from bub.inbox.sqlite import SqliteInbox
from bub.pipeline.plan.providers import PROVIDERS

PROVIDER_KEYS = ("GOOGLE", *(each.key_variable.partition("_")[0] for each in PROVIDERS.values() if each.key_variable))
PROXIES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

pytest_plugins = ["hangs"]

# A shell starts what runs in the background with Ctrl-C ignored, and nohup with SIGHUP; so would be what a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Bub as a library is quiet; the tests read what it would say.
bub_log.keep_quiet()
for _package in ("bub", "bub_plugins"):
    logger.enable(_package)

# How long an example takes says more about what else the machine does than about Bub.
settings.register_profile("bub", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bub")

Write = Callable[[str, str], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files in which a test may take long, so that no worker is left alone with one at the end."""
    long = {item.path for item in items if item.get_closest_marker("timeout") is not None}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str | tuple[str, dict[str, Any]]:
    """Async tests run on trio; those with the marker `virtual_time` jump ahead if all only wait."""
    if request.node.get_closest_marker("virtual_time") is None:
        return "trio"
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def inboxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the inboxes in memory that a test left open, as a file outlives its manager: Python 3.13 warns of each."""
    opened: list[SqliteInbox] = []
    open_inbox = SqliteInbox.open

    def open_and_note(inbox: SqliteInbox, **how: bool) -> None:
        open_inbox(inbox, **how)
        if inbox.path is None:
            opened.append(inbox)

    monkeypatch.setattr(SqliteInbox, "open", open_and_note)
    yield
    for inbox in opened:
        inbox.close()


@pytest.fixture(autouse=True)
def hermetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, key or proxy of the machine reaches a test; Bub's own files go to `tmp_path/home`.

    The weights of the local model are found by themselves, where the package that carries them is installed.
    """
    ours = ("BUB_", "OTEL_", *(f"{name}_" for name in PROVIDER_KEYS))
    for name in os.environ:
        if name.startswith(ours) or name.upper() in PROXIES:
            monkeypatch.delenv(name)
    # Who runs the tests in several processes sets COLUMNS and LINES; PYTEST_ADDOPTS is not for those a test starts.
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS", "COLUMNS", "LINES", "TRACEPARENT", "TRACESTATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("BUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text, its indentation taken off, to a file below `tmp_path`, and return its path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Make frameworks out of toy plugins, in `tmp_path`."""
    return Workshop(tmp_path, monkeypatch)


@pytest.fixture
def bub(workshop: Workshop) -> Workshop:
    """Name the workshop as tests read best that only make frameworks: `bub.open(…)`."""
    return workshop


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve scripted models, and return where."""
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def redis_of_module() -> Iterator[RedisServer]:
    """Serve a Redis to the tests of a module."""
    with serving_redis() as server:
        yield server


@pytest.fixture
def redis(redis_of_module: RedisServer) -> RedisServer:
    """Serve an empty Redis, which no other test uses meanwhile; one that a test has ended is started again."""
    if redis_of_module.process is None:
        redis_of_module.start()
    redis_of_module.ask("FLUSHALL")
    return redis_of_module


@pytest.fixture(scope="module")
def redis_for_tapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Say to `BlockingTapes` where they lie, here and in child processes, if the machine has a Redis."""
    with pytest.MonkeyPatch.context() as environ:
        if find_redis_server():
            environ.setenv(TAPES, request.getfixturevalue("redis_of_module").address)
        yield


@pytest.fixture
def talk(workshop: Workshop, address: str) -> Talk:
    """Make an agent to talk to, whose model follows a script."""
    return Talk(workshop, address)


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Collect the lines that are logged during a test."""
    lines: list[str] = []
    handler = logger.add(lambda line: lines.append(str(line).strip()), format="{message}", level="INFO")
    yield lines
    logger.remove(handler)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts count, also where the tests themselves run in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def running_collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    with collecting(tmp_path_factory.mktemp("collector")) as (_, file, port):
        yield file, port


@pytest.fixture
def collector(running_collector: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> Collector:
    """The collector, which the environment names; spans and metrics go there a few times a second."""
    collector = Collector(*running_collector, f"/{uuid.uuid4().hex}")
    send_to(collector.endpoint, monkeypatch)
    return collector
