"""The names of the Bub on PyPI: which there are, who sees them, and that what stands behind them does what they say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pluggy import PluginManager
from pydantic import BaseModel, Field
from pydantic_settings import SettingsConfigDict

import bub
from bub_reference import configure, inquirer
from bub_reference.builtin.settings import AgentSettings
from bub_reference.channels import ChannelMessage, MediaItem
from bub_reference.errors import BubError, ErrorKind
from bub_reference.framework import BubFramework
from bub_reference.hooks import BUB_HOOK_NAMESPACE, BubHookSpecs, hookimpl
from bub_reference.hooks.runtime import HookRuntime
from bub_reference.naming import BUILTINS, MissingNameError
from bub_reference.streaming import AsyncStreamEvents, StreamEvent
from bub_reference.surroundings import Surroundings, here, within
from bub_reference.tape import InMemoryTapeStore, TapeContext, TapeEntry, TapeQuery, build_messages
from bub_reference.tools import REGISTRY, ToolContext, tool

USED = {
    "": "BubFramework Settings config configure ensure_config home hookimpl inquirer tool",
    "builtin": "tools",
    "builtin.auth": "app",
    "builtin.context": "default_tape_context",
    "builtin.settings": "AgentSettings",
    "channels": "Channel ChannelMessage Lifecycle",
    "channels.contracts": "MessageHandler",
    "channels.manager": "ChannelManager",
    "channels.message": "ChannelMessage MediaItem MediaType",
    "configure": "CONFIG_MAP _config_data _global_config ensure_config merge",
    "envelope": "Envelope content_of field_of normalize_envelope",
    "errors": "BubError ErrorKind",
    "framework": "BubFramework",
    "hooks": "BUB_HOOK_NAMESPACE BubHookSpecs hookimpl",
    "hooks.interception": "LlmCallDecision LlmCallRequest LlmCallResult ToolCall ToolCallDecision ToolCallResult",
    "hooks.runtime": "HookRuntime",
    "inquirer": "ask_confirm ask_secret ask_select ask_text",
    "model_selection": "ModelChoice ModelOptions",
    "streaming": "AsyncStreamEvents StreamEvent StreamState",
    "tape": "AsyncTapeStore AsyncTapeStoreAdapter InMemoryQueryMixin InMemoryTapeStore LAST_ANCHOR TapeContext "
    "TapeEntry TapeQuery TapeStore build_messages is_async_tape_store utc_now",
    "tools": "REGISTRY Tool ToolContext tool",
    "turn": "TurnResult TurnState",
}
"""What the 25 public packages of bub-contrib (6b42022) and their tests take of `bub`, by module."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What a test declares for the whole process is gone with it."""
    known, declared = dict(REGISTRY), {name: list(classes) for name, classes in configure.CONFIG_MAP.items()}
    yield
    for table, before in ((REGISTRY, known), (configure.CONFIG_MAP, declared)):
        table.clear()  # type: ignore[attr-defined]
        table.update(before)  # type: ignore[attr-defined]
    configure._config_data.clear()
    configure._global_config.clear()


@pytest.mark.parametrize(("module", "names"), USED.items())
def test_every_name_that_a_public_plugin_takes_is_there(module: str, names: str) -> None:
    taken: dict[str, Any] = {"__builtins__": BUILTINS}
    exec(f"from bub{module and '.'}{module} import {', '.join(names.split())}", taken)
    assert set(names.split()) <= set(taken)


# Who sees them


def test_a_module_with_builtins_of_its_own_sees_them_at_its_top_and_later() -> None:
    names: dict[str, Any] = {"__builtins__": BUILTINS}
    code = """
import bub
import bub.tape as tape
from bub import inquirer, Settings
from importlib import import_module

def later():
    from bub.turn import TurnState
    import bub.channels.message
    return bub.channels.message, import_module("bub.tools"), TurnState
"""
    exec(code, names)
    assert names["bub"].__name__ == "bub_reference"
    assert (names["tape"], names["inquirer"]) == (import_module("bub_reference.tape"), inquirer)
    assert names["Settings"] is configure.Settings
    assert [part.__name__ for part in names["later"]()[:2]] == ["bub_reference.channels.message", "bub_reference.tools"]


def test_for_everybody_else_bub_is_bub() -> None:
    assert bub.Settings is not configure.Settings
    assert import_module("bub.tools").__file__ == str(Path(bub.__file__).with_name("tools.py"))


@pytest.mark.parametrize("statement", ["import bub.store_of_dreams", "from bub.store_of_dreams import x"])
def test_a_module_that_bub_will_not_have_is_named_as_the_plugin_writes_it(statement: str) -> None:
    with pytest.raises(MissingNameError, match=r"Bub does not have `bub\.store_of_dreams` of the Bub on PyPI"):
        exec(statement, {"__builtins__": BUILTINS})


def test_a_whole_process_can_see_them(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(
        "import bub, importlib\n"
        "from bub.turn import TurnState\n"
        "print(bub.__name__, importlib.import_module('bub.tools').__name__, __name__)\n"
    )
    called = [sys.executable, "-m", "bub_reference", "shown"]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bub_reference", "bub_reference.tools", "__main__"]


# Settings


def declare_weather() -> type[configure.Settings]:
    @configure.config(name="weather")
    class WeatherSettings(configure.Settings):
        model_config = SettingsConfigDict(env_prefix="BUB_WEATHER_", extra="ignore")
        city: str = "Paris"
        degrees: int = 0

    return WeatherSettings


def test_settings_are_those_of_the_profile_that_the_code_runs_for(monkeypatch: pytest.MonkeyPatch) -> None:
    weather = declare_weather()
    monkeypatch.setenv("BUB_WEATHER_DEGREES", "7")
    warm, cold = Surroundings({"weather": {"city": "Rome", "degrees": 30}}), Surroundings({"weather": {"city": "Oslo"}})
    with within(warm):
        assert (configure.ensure_config(weather).city, configure.ensure_config(weather).degrees) == ("Rome", 7)
        with within(cold):
            assert configure.ensure_config(weather).city == "Oslo"
        assert configure.ensure_config(weather) is configure.ensure_config(weather)
    assert configure.ensure_config(weather).city == "Paris"


def test_settings_that_nobody_declared_are_refused() -> None:
    class Loose(configure.Settings):
        __config_name__ = "nobody_declared_it"

    with pytest.raises(ValueError, match="no settings are declared for the section `nobody_declared_it`"):
        configure.ensure_config(Loose)


def test_the_settings_of_the_model_have_the_keys_of_a_pipeline_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_OPENAI_API_KEY", "from-the-environment")
    settings = {"model": "anthropic:claude", "providers": {"anthropic": {"api_key": "k", "api_base": "http://here"}}}
    with within(Surroundings(settings)):
        model = configure.ensure_config(AgentSettings)
    assert model.model == "anthropic:claude"
    assert model.api_key == {"anthropic": "k", "openai": "from-the-environment"}
    assert model.api_base == {"anthropic": "http://here"}


def test_home_follows_the_profile_else_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = import_module("bub_reference")
    monkeypatch.setenv("BUB_HOME", str(tmp_path / "said"))
    assert reference.home == here().home == tmp_path / "said"
    with within(Surroundings({}, folder=tmp_path / "other")):
        assert reference.home == tmp_path / "other"


# Tools


def test_a_tool_has_the_schema_of_its_function_and_checks_what_it_is_given() -> None:
    @tool(name="weather.tell", context=True)
    def tell(city: str, days: int = 1, *, context: ToolContext) -> str:
        """Tell the weather."""
        return f"{city} {days} {context.state['mood']}"

    assert REGISTRY["weather.tell"] is tell
    assert tell.parameters["required"] == ["city"]
    assert set(tell.parameters["properties"]) == {"city", "days"}
    context = ToolContext(tape=SimpleNamespace(), state={"mood": "fine"})  # type: ignore[arg-type]
    assert asyncio.run(tell.run(city="Rome", days="2", context=context)) == "Rome 2 fine"
    with pytest.raises(ValueError, match="days"):
        asyncio.run(tell.run(city="Rome", days="many", context=context))


def test_a_tool_with_a_model_takes_one_such_object() -> None:
    class Place(BaseModel):
        """Tell where."""

        city: str = Field(description="the town")

    @tool(model=Place)
    async def where(place: Place) -> str:
        return place.city

    assert (where.name, where.description) == ("place", "Tell where.")
    assert where.parameters["properties"]["city"]["description"] == "the town"
    assert asyncio.run(where.run(city="Rome")) == "Rome"


def test_a_tool_that_asks_for_a_context_has_to_take_it() -> None:
    with pytest.raises(TypeError, match="has no parameter `context`"):
        tool(name="lost", context=True)(lambda city: city)


# Tapes


@pytest.fixture
def store() -> InMemoryTapeStore:
    store = InMemoryTapeStore()
    for entry in (
        TapeEntry.message({"role": "user", "content": "Hello Rome"}),
        TapeEntry.anchor("noon", {"summary": "so far"}),
        TapeEntry.message({"role": "user", "content": "and now?"}),
        TapeEntry.event("run", {"status": "ok"}),
    ):
        store.append("t", entry)
    return store


def test_a_store_answers_queries_by_anchor_text_kind_and_number(store: InMemoryTapeStore) -> None:
    query = TapeQuery("t", store)
    assert [entry.id for entry in query.all()] == [1, 2, 3, 4]
    assert [entry.id for entry in query.after_anchor("noon").all()] == [3, 4]
    assert [entry.id for entry in query.last_anchor().kinds("event").all()] == [4]
    assert [entry.id for entry in query.query("ROME").all()] == [1]
    assert [entry.id for entry in query.limit(2).all()] == [1, 2]
    assert [entry.id for entry in query.between_dates("2020-01-01", "2020-01-02").all()] == []
    assert TapeQuery("other", store).all() == []


def test_a_store_says_which_anchor_is_missing(store: InMemoryTapeStore) -> None:
    with pytest.raises(BubError, match="Anchor 'midnight' was not found") as caught:
        TapeQuery("t", store).after_anchor("midnight").all()
    assert caught.value.kind is ErrorKind.NOT_FOUND
    with pytest.raises(BubError, match="is later than"):
        TapeQuery("t", store).between_dates("2026-02-01", "2026-01-01").all()


def test_a_context_chooses_what_a_model_reads(store: InMemoryTapeStore) -> None:
    entries = store.read("t") or []
    assert build_messages(entries, TapeContext()) == [entries[0].payload, entries[2].payload]
    chosen = TapeContext(anchor=None, select=lambda entries, context: [{"n": len(list(entries))}])
    assert build_messages(entries, chosen) == [{"n": 4}]
    assert TapeContext(anchor="noon").build_query(TapeQuery("t", store))._after_anchor == "noon"


# Messages, hooks, a framework of one's own


def test_a_message_tells_the_model_where_it_comes_from() -> None:
    message = ChannelMessage(
        session_id="s", channel="slack", content="hi", chat_id="c", context={"_own": 1, "who": "me"}
    )
    assert message.context_str == "who=me|channel=$slack|chat_id=c"
    joined = ChannelMessage.from_batch([message, ChannelMessage(session_id="s", channel="slack", content="there")])
    assert (joined.content, joined.chat_id, joined.output_channel) == ("hi\nthere", "default", "slack")


def test_media_are_fetched_when_somebody_wants_them() -> None:
    async def fetch() -> bytes:
        return b"cat"

    assert asyncio.run(MediaItem("image", "image/png", data_fetcher=fetch).get_url()) == "data:image/png;base64,Y2F0"
    assert asyncio.run(MediaItem("image", "image/png").get_url()) is None


class Parrot:
    @hookimpl
    async def run_model_stream(self, prompt: str) -> AsyncStreamEvents:
        async def speak() -> Any:
            for word in prompt.split():
                yield StreamEvent("text", {"delta": word})

        return AsyncStreamEvents(speak())

    @hookimpl
    def load_state(self) -> dict[str, Any]:
        return {"_runtime_workspace": "elsewhere"}


def test_hooks_are_asked_by_name_and_a_stream_is_a_text_too() -> None:
    manager = PluginManager(BUB_HOOK_NAMESPACE)
    manager.add_hookspecs(BubHookSpecs)
    manager.register(Parrot(), "parrot")
    runtime = HookRuntime(manager)
    assert asyncio.run(runtime.run_model("hello you", "s", {})) == "helloyou"
    assert runtime.hook_report() == {"load_state": ["parrot"], "run_model_stream": ["parrot"]}
    assert runtime.call_first_sync("run_model_stream", prompt="x") is None  # it would have to be awaited


@pytest.mark.parametrize("stream_output", [False, True])
def test_a_framework_of_ones_own_carries_a_message_to_its_reply(tmp_path: Path, stream_output: bool) -> None:
    sent = []

    class Router:
        async def dispatch_output(self, message: Any) -> bool:
            sent.append(message)
            return True

        def wrap_stream(self, message: Any, stream: Any) -> Any:
            return stream

    async def turn() -> Any:
        framework = BubFramework(tmp_path / "config.yml")
        framework._load_builtin_hooks()
        framework._plugin_manager.register(Parrot(), "parrot")
        framework.bind_channel_router(Router())  # type: ignore[arg-type]
        message = ChannelMessage(session_id="s", channel="slack", content=",say hi", chat_id="c")
        async with framework.running():
            return await framework.process_inbound(message, stream_output)

    result = asyncio.run(turn())
    assert (result.session_id, result.model_output) == ("s", ",sayhi")
    assert result.state["_runtime_workspace"] == "elsewhere"
    assert [(reply.channel, reply.chat_id, reply.content) for reply in sent] == [("slack", "c", ",sayhi")]
