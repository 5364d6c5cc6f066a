"""Loading a pipeline anew while its turns run: new turns take the new one, turns under way end on their own."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import trio
import trio.lowlevel
from fakes.toys import HELLO
from loguru import logger

from bub import BubFramework
from bub.base.diagnostics import PipelineError
from bub.errors import BubError, UsageError
from bub.framework import TurnResult

PIPELINE = """
    version: 1
    extends: bub:default
    stages:
      build_prompt: {{default: "{number}"}}
    settings: {{one: {{number: {number}}}}}
    plugins: {{one: {{path: one.py}}, two: {{path: two.py}}}}
    profiles: {{default: {{plugins: [one, two]}}}}
"""

ONE = """
    from bub import hookimpl

    class One:
        def __init__(self, framework):
            self.framework = framework

        @hookimpl
        def load_state(self):
            return {{"one": {number}, "settings": self.framework.settings["one"]["number"]}}

    plugin = One
"""

TWO = """
    import sys
    import trio
    from bub import hookimpl

    class Two:
        def __init__(self, framework):
            self.framework = framework

        @hookimpl
        async def run_model(self, prompt, state, message):
            for _ in range(3):
                await trio.sleep(0)
            if "gate" in message:
                message["began"].set()
                await message["gate"].wait()
            assert __name__ in sys.modules
            late = self.framework.settings["one"]["number"]
            return f"{{prompt}} {{state['one']}} {{state['settings']}} {number} {{late}}"

    plugin = Two
"""


class Bench:
    """A folder with a pipeline of two plugins, all of which say which number they have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(1)
        self.framework = BubFramework(folder / "pipelines.yaml", workspace=folder)
        self.framework.load_hooks()

    def write(self, number: int) -> None:
        for name, text in (("pipelines.yaml", PIPELINE), ("one.py", ONE), ("two.py", TWO)):
            self.put(name, text.format(number=number))

    def put(self, name: str, text: str) -> None:
        (self.folder / name).write_text(dedent(text).lstrip(), encoding="utf-8")

    def append(self, text: str) -> None:
        with (self.folder / "pipelines.yaml").open("a", encoding="utf-8") as file:
            file.write(text)

    async def ask(self, chat: str = "local", **more: Any) -> str:
        result: TurnResult = await self.framework.process_inbound({**HELLO, "chat_id": chat, **more})
        return str(result.model_output)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def log() -> Iterator[list[str]]:
    """What is logged while the test runs."""
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), format="{level} {message}")
    yield lines
    logger.remove(sink)


def all_of(number: int) -> str:
    """What a turn answers where everything in it is of one generation."""
    return " ".join([str(number)] * 5)


def test_turns_run_while_good_and_broken_files_are_loaded(bench: Bench) -> None:
    breakages = [
        ("pipelines.yaml", "version: 1\nstages: [\n"),
        ("pipelines.yaml", "version: 1\nextends: bub:default\nstages: {lod_state: {timeout: 1s}}\n"),
        ("two.py", "def broken(:\n"),
        ("one.py", "raise RuntimeError('not today')\n"),
    ]
    turns = 0
    answers: set[str] = set()
    loaded, refused = [1], 0

    def load(number: int) -> None:
        nonlocal refused
        bench.write(number)
        if number % 2:
            name, text = breakages[number // 2 % len(breakages)]
            bench.put(name, text)
            with pytest.raises(PipelineError) as told:
                bench.framework.reload()
            assert any(finding.severity == "error" for finding in told.value.diagnostics)
            refused += 1
        else:
            bench.framework.reload()
            loaded.append(number)

    async def converse(chat: str) -> None:
        nonlocal turns
        while turns < 1000 or not over:
            answer = await bench.ask(chat)
            turns += 1
            answers.add(answer)
            await trio.sleep(0.002)

    over = False

    async def scenario() -> None:
        nonlocal over
        async with bench.framework.running(), trio.open_nursery() as nursery:
            for index in range(20):
                nursery.start_soon(converse, f"chat-{index}")
            for number in range(2, 102):
                await trio.to_thread.run_sync(load, number)
                assert await bench.ask("watcher") == all_of(loaded[-1])
            over = True

    trio.run(scenario)
    assert turns >= 1000
    assert len(loaded) == 51 and refused == 50
    assert answers <= {all_of(number) for number in loaded}
    assert len(answers) > 25  # they did run meanwhile


def test_a_turn_under_way_ends_on_what_it_began_with(bench: Bench) -> None:
    async def scenario() -> None:
        gate, began = trio.Event(), trio.Event()
        answers: list[str] = []

        async def slow() -> None:
            answers.append(await bench.ask("slow", gate=gate, began=began))

        async with bench.framework.running(), trio.open_nursery() as nursery:
            bench.write(2)
            bench.framework.reload()
            nursery.start_soon(slow)
            await began.wait()
            for number in (3, 4):
                bench.write(number)
                bench.framework.reload()
                assert await bench.ask() == all_of(number)
            assert answers == []
            gate.set()
        assert answers == [all_of(2)]

    trio.run(scenario)


def test_a_turn_that_a_turn_starts_runs_on_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    asking = """
        from bub import hookimpl

        class One:
            def __init__(self, framework):
                self.framework = framework

            @hookimpl
            async def load_state(self, message):
                state = {{"one": {number}, "settings": self.framework.settings["one"]["number"]}}
                if "reload" in message:
                    message["reload"]()
                    inner = await self.framework.process_inbound({{"chat_id": "inner"}})
                    message["told"].append(inner.model_output)
                return state

        plugin = One
    """
    told: list[str] = []

    def reload() -> None:
        bench.write(2)
        bench.framework.reload()

    async def scenario() -> None:
        bench.put("one.py", asking.format(number=1))
        bench.framework.reload()
        assert await bench.ask("outer", reload=reload, told=told) == all_of(1)
        assert told == [all_of(1)]
        assert await bench.ask() == all_of(2)

    trio.run(scenario)


def test_what_was_loaded_before_is_let_go_when_its_last_turn_has_ended(bench: Bench) -> None:
    def modules() -> int:
        return sum(name.startswith("_bub_plugin_") for name in sys.modules)

    async def scenario() -> None:
        before = modules()
        for number in range(2, 12):
            bench.write(number)
            bench.framework.reload()
            assert await bench.ask() == all_of(number)
        assert modules() <= before + 2  # the first ones, which channels may be made of, and the current ones
        plugin = weakref.ref(bench.framework._runtime.loaded.current.profiles["default"].plugins.plugins[1].plugin)
        assert plugin() is not None
        bench.framework.reload()
        await bench.ask()
        gc.collect()
        assert plugin() is None

    trio.run(scenario)


def test_a_refused_file_leaves_no_modules_behind(bench: Bench) -> None:
    before = {name for name in sys.modules if name.startswith("_bub_plugin_")}
    bench.append("routes: [{match: {channel: x}, profile: none}]\n")
    with pytest.raises(PipelineError, match="no profile `none`"):
        bench.framework.reload()
    assert {name for name in sys.modules if name.startswith("_bub_plugin_")} == before


def test_what_plugins_share_is_their_generations_and_the_rest_stays_open(bench: Bench) -> None:
    bench.put(
        "one.py",
        """
        from contextlib import asynccontextmanager
        from bub import hookimpl

        @asynccontextmanager
        async def own():
            LOG.append("own opened")
            yield "own"
            LOG.append("own closed")

        class One:
            def __init__(self, framework):
                self.framework = framework

            @hookimpl
            async def run_model(self, message):
                global LOG
                LOG = message["log"]
                await self.framework.shared(own)
                return await self.framework.shared(message["open"])

        plugin = One
        """,
    )
    bench.put("two.py", "from bub import hookimpl\n\n@hookimpl\ndef save_state():\n    pass\n")
    log: list[str] = []

    class Lasting:
        async def __aenter__(self) -> str:
            log.append("lasting opened")
            return "lasting"

        async def __aexit__(self, *error: object) -> None:
            log.append("lasting closed")

    async def scenario() -> None:
        bench.framework.reload()
        async with bench.framework.running():
            assert await bench.ask(log=log, open=Lasting) == "lasting"
            assert log == ["own opened", "lasting opened"]
            bench.framework.reload()
            await bench.ask(log=log, open=Lasting)
            assert log[2:] == ["own opened", "own closed"]
        assert log[4:] == ["own closed", "lasting closed"]

    trio.run(scenario)


def test_variables_of_the_file_beside_it_are_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBER", raising=False)
    text = (bench.folder / "pipelines.yaml").read_text(encoding="utf-8")
    bench.put("pipelines.yaml", text.replace("number: 1", "number: '${env:NUMBER:-1}'"))
    bench.framework.reload()
    assert bench.framework.settings["one"]["number"] == "1"
    bench.put(".env", "NUMBER=7\n")
    bench.framework.reload()
    assert bench.framework.settings["one"]["number"] == "7"


def test_secrets_of_before_stay_covered(bench: Bench) -> None:
    for secret in ("sk-the-old-one-1", "sk-the-new-one-2"):
        bench.put(".env", f"OPENAI_API_KEY={secret}\n")
        bench.framework.reload()
    assert bench.framework.mask.text("sk-the-old-one-1 sk-the-new-one-2") == "*** ***"


def test_a_file_that_is_gone_is_not_replaced_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    monkeypatch.delenv("BUB_CONFIG", raising=False)
    bench = Bench(tmp_path)
    framework = BubFramework(workspace=tmp_path)
    framework.load_hooks()
    assert framework.settings["one"]["number"] == 1
    (bench.folder / "pipelines.yaml").unlink()
    with pytest.raises(UsageError, match="is not there any more"):
        framework.reload()
    assert framework.settings["one"]["number"] == 1


def test_the_files_to_watch_are_all_that_are_read_again(bench: Bench) -> None:
    bench.put("base.yaml", "version: 1\nextends: bub:default\n")
    text = (bench.folder / "pipelines.yaml").read_text(encoding="utf-8")
    bench.put("pipelines.yaml", text.replace("bub:default", "base.yaml"))
    bench.framework.reload()
    names = {"pipelines.yaml", "base.yaml", "one.py", "two.py", ".env"}
    assert set(bench.framework.watched_files) >= {bench.folder / name for name in names}
    bench.put("broken.yaml", "version: 1\nstages: {nothing: {}}\n")
    bench.put("pipelines.yaml", text.replace("bub:default", "broken.yaml"))
    with pytest.raises(PipelineError):
        bench.framework.reload()
    assert {bench.folder / "broken.yaml", bench.folder / "base.yaml"} <= set(bench.framework.watched_files)
    assert bench.folder / "broken.yaml" not in bench.framework.own_files


def test_a_plugin_may_reload_in_a_hook_but_not_while_it_is_made(bench: Bench) -> None:
    bench.put(
        "one.py",
        """
        from bub import hookimpl

        class One:
            def __init__(self, framework):
                framework.reload()

            @hookimpl
            def load_state(self):
                pass

        plugin = One
        """,
    )
    with pytest.raises(PipelineError, match="while it was being loaded itself"):
        bench.framework.reload()
    bench.write(2)
    bench.framework.seen_by("default").reload()
    assert bench.framework.settings["one"]["number"] == 2


def test_two_reloads_at_once_come_one_after_another(bench: Bench) -> None:
    failures: list[BaseException] = []

    def reload() -> None:
        try:
            bench.framework.reload()
        except BubError as error:
            failures.append(error)

    threads = [threading.Thread(target=reload) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert bench.framework._runtime.loaded.current.number == 5


def test_while_hundreds_of_profiles_are_loaded_anew_other_tasks_go_on(tmp_path: Path) -> None:
    profiles = "".join(f"  p{number}: {{plugins: []}}\n" for number in range(200))
    routes = "".join(f"  - {{match: {{chat_id: '{number}'}}, profile: p{number}}}\n" for number in range(200))
    file = tmp_path / "pipelines.yaml"
    file.write_text(f"version: 1\nextends: bub:default\nprofiles:\n{profiles}routes:\n{routes}", encoding="utf-8")
    framework = BubFramework(file, workspace=tmp_path)
    steps = 0

    async def step() -> None:
        nonlocal steps
        while True:
            await trio.lowlevel.checkpoint()
            steps += 1

    async def main() -> int:
        async with framework.running(), trio.open_nursery() as nursery:
            nursery.start_soon(step)
            await trio.lowlevel.checkpoint()
            before = steps
            await trio.to_thread.run_sync(framework.reload)
            nursery.cancel_scope.cancel()
            return steps - before

    assert trio.run(main) > 100


def test_settings_that_only_count_at_the_start_are_told_of(bench: Bench, log: list[str]) -> None:
    text = (bench.folder / "pipelines.yaml").read_text(encoding="utf-8")
    bench.put("pipelines.yaml", text.replace("settings: {", "settings: {tapes: {store: jsonl}, "))
    bench.framework.reload()
    assert any("pipeline.restart_needed" in line and "tapes" in line for line in log)


def restarts(log: list[str]) -> list[str]:
    """What needs a restart by the log, which is forgotten."""
    found = [line.partition("pipeline.restart_needed ")[2].strip() for line in log if "restart_needed" in line]
    log.clear()
    return found


def test_what_is_loaded_is_held_against_what_runs_and_not_against_what_was_loaded_before(
    bench: Bench, log: list[str]
) -> None:
    text = (bench.folder / "pipelines.yaml").read_text(encoding="utf-8")
    other = text.replace("settings: {", "settings: {tapes: {store: jsonl}, ")
    seen = []
    for loaded in (other, f"{other}\n# a remark\n", text):
        bench.put("pipelines.yaml", loaded)
        bench.framework.reload()
        seen.append(restarts(log))
    assert seen == [["settings=tapes"], ["settings=tapes"], []]


POSTS = """
    from bub import hookimpl
    from bub.channels import Channel

    class Post(Channel):
        name = "post"

    class Posts:
        @hookimpl
        def provide_channels(self, message_handler):
            return [Post()]

    plugin = Posts
"""


def test_a_plugin_with_channels_that_comes_or_goes_is_named(bench: Bench, log: list[str]) -> None:
    bench.put("post.py", POSTS)
    without = (bench.folder / "pipelines.yaml").read_text(encoding="utf-8")
    beside = without.replace("two: {path: two.py}", "two: {path: two.py}, post: {path: post.py}")
    with_it = beside.replace("[one, two]", "[one, two, post]")
    bench.put("pipelines.yaml", with_it)
    bench.framework.reload()
    assert restarts(log) == ["plugin=post why='its channels do not run'"]
    bench.put("pipelines.yaml", without)
    bench.framework.reload()
    assert restarts(log) == []  # it never ran
    bench.put("pipelines.yaml", with_it)
    started = Bench.__new__(Bench)
    started.folder, started.framework = bench.folder, BubFramework(bench.folder / "pipelines.yaml")
    started.framework.load_hooks()
    log.clear()
    bench.put("pipelines.yaml", without)
    started.framework.reload()
    assert restarts(log) == ["plugin=post why='its channels run on'"]


def test_what_became_of_a_reload_is_in_the_log(bench: Bench, log: list[str]) -> None:
    bench.framework.reload()
    bench.put("pipelines.yaml", "version: 1\nextends: bub:default\nstages: {lod_state: {}}\n")
    with pytest.raises(PipelineError):
        bench.framework.reload()
    assert log[0].startswith("INFO pipeline.reloaded generation=2")
    assert log[1].startswith("WARNING pipeline.reload_refused") and "pipelines.yaml:3:10" in log[1]
