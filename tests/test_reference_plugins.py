"""Plugins that were written for the Bub on PyPI, in Bub's own turns: which are adopted, and what they do there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.toys import HELLO, Workshop

from bub import BubFramework
from bub.base.diagnostics import PipelineError
from bub.channels import ChannelMessage as OurMessage
from bub.errors import BubError, TapeError
from bub.setup.prompter import Prompter
from bub.setup.script import Script
from bub.tape import TapeEntry, TapeQuery
from bub_reference.bridge.adopting import Adoption
from bub_reference.bridge.channels import AdoptedChannel
from bub_reference.bridge.messages import reply_to_bub, to_bub, to_reference
from bub_reference.bridge.stores import store_to_bub
from bub_reference.channels import ChannelMessage, MediaItem
from bub_reference.naming import _Finder
from bub_reference.surroundings import PROCESS, here
from bub_reference.tape import AsyncTapeStoreAdapter, InMemoryTapeStore
from bub_reference.tools import REGISTRY

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What a test's plugins declare is gone with it."""
    known, finders = dict(REGISTRY), list(sys.meta_path)
    yield
    REGISTRY.clear()
    REGISTRY.update(known)
    sys.meta_path[:] = finders


class House:
    """Writes plugins as their authors do, and pipeline files that list them with `runtime: asyncio`."""

    def __init__(self, bub: Workshop) -> None:
        self._bub = bub

    def __call__(self, settings: str = "{}", *, base: str = "bub:default", **texts: str) -> BubFramework:
        for name, text in texts.items():
            (self._bub.folder / f"{name}.py").write_text(dedent(text))
        plugins = ", ".join(f"{name}: {{path: {name}.py, runtime: asyncio}}" for name in texts)
        return self._bub(
            f"extends: {base}\nplugins: {{{plugins}}}\nsettings: {settings}\n"
            f'profiles: {{default: {{plugins: [{", ".join(texts)}], tools: {{allow: ["*"]}}}}}}'
        )


@pytest.fixture
def house(bub: Workshop) -> House:
    return House(bub)


WEATHER = """
    import asyncio
    import bub
    from bub import hookimpl, tool
    from bub.turn import TurnState
    from bub.tools import ToolContext
    from pydantic_settings import SettingsConfigDict

    @bub.config(name="weather")
    class WeatherSettings(bub.Settings):
        model_config = SettingsConfigDict(env_prefix="BUB_WEATHER_", extra="ignore")
        city: str = "nowhere"

    @tool(name="weather.tell", context=True)
    async def tell(days: int = 1, *, context: ToolContext) -> str:
        '''Tell the weather.'''
        await asyncio.sleep(0)
        await context.tape.append_event("told", {"days": days})
        return f"{bub.ensure_config(WeatherSettings).city} for {days}: {context.state['session_id']}"

    @hookimpl
    def load_state(message, session_id) -> TurnState:
        from bub.envelope import content_of
        return {"mood": content_of(message).upper()}

    @hookimpl
    def system_prompt(prompt, state):
        return f"you are in {state['session_id']}"

    @hookimpl
    async def run_model(prompt: str, session_id: str, state: TurnState) -> str:
        await asyncio.sleep(0)
        city = bub.ensure_config(WeatherSettings).city
        return " ".join((city, state["mood"], state["session_id"], state["_runtime_workspace"], str(bub.home)))
"""


async def test_a_plugin_answers_with_its_section_its_state_and_the_names_it_was_written_for(
    house: House, bub: Workshop, tmp_path: Path
) -> None:
    framework = house("{weather: {city: Rome}}", weather=WEATHER)
    async with framework.running():
        result = await framework.process_inbound(HELLO)
    assert result.model_output == f"Rome HELLO cli:local {bub.folder} {tmp_path / 'home'}"
    assert here() is PROCESS


async def test_its_tools_are_the_profiles_and_commands_are_bubs_own(house: House) -> None:
    framework = house("{weather: {city: Rome}}", weather=WEATHER)
    async with framework.running():
        result = await framework.process_inbound({**HELLO, "content": ",weather.tell days=3"})
        tapes = framework.get_tape_store()
        entries = [one for name in tapes.list_tapes() for one in tapes.fetch_all(TapeQuery(name).kinds("event"))]
    assert result.model_output == "Rome for 3: cli:local"
    assert {"name": "told", "data": {"days": 3}} in [entry.payload for entry in entries]


async def test_a_plugin_that_names_nothing_of_the_other_bub_keeps_bubs_names(house: House) -> None:
    framework = house(
        "{weather: {city: Oslo}}",
        weather="""
            import asyncio
            from bub import Settings, hookimpl, tool

            class WeatherSettings(Settings, section="weather"):
                city: str = "nowhere"

            class Weather:
                def __init__(self, framework):
                    self.settings = WeatherSettings.of(framework)

                @hookimpl
                async def run_model(self, prompt):
                    await asyncio.sleep(0)
                    return self.settings.city

            plugin = Weather
        """,
    )
    async with framework.running():
        assert (await framework.process_inbound(HELLO)).model_output == "Oslo"


async def test_two_profiles_have_settings_of_their_own(house: House, bub: Workshop) -> None:
    (bub.folder / "weather.py").write_text(dedent(WEATHER))
    framework = bub(
        """
        extends: bub:default
        plugins: {weather: {path: weather.py, runtime: asyncio}}
        profiles:
          default: {plugins: [weather], settings: {weather: {city: Rome}}, tools: {allow: ["*"]}}
          north: {extends: default, settings: {weather: {city: Oslo}}}
        routes: [{match: {chat_id: north}, profile: north}]
        """
    )
    async with framework.running():
        answers = [
            (await framework.process_inbound({**HELLO, "chat_id": chat})).model_output for chat in ("local", "north")
        ]
        called = [
            (await framework.process_inbound({**HELLO, "chat_id": chat, "content": ",weather.tell"})).model_output
            for chat in ("local", "north")
        ]
    assert [str(answer).split()[0] for answer in answers] == ["Rome", "Oslo"]
    assert [str(answer).split()[0] for answer in called] == ["Rome", "Oslo"]


async def test_settings_that_do_not_fit_are_told_without_their_values(house: House) -> None:
    text = WEATHER.replace('city: str = "nowhere"', 'city: str = "nowhere"; key: int = 0')
    framework = house("{weather: {key: s3cret}}", weather=text)
    async with framework.running():
        with pytest.raises(BubError, match=r"the settings do not fit: `weather\.key`: Input should be") as caught:
            await framework.process_inbound(HELLO)
    assert "s3cret" not in str(caught.value)


GUARD = """
    from bub import hookimpl
    from bub.hooks.interception import LlmCallDecision, LlmCallRequest, ToolCall, ToolCallDecision

    @hookimpl
    def before_llm_call(request: LlmCallRequest, state):
        if "enough" in str(request.messages):
            return LlmCallDecision.finish("no more")
        return None

    @hookimpl
    def before_tool_call(call: ToolCall, state):
        if call.tool == "fs.list":
            return ToolCallDecision.deny("not this folder")
        return ToolCallDecision.proceed({**call.arguments, "days": 7})
"""


async def test_nothing_is_said_of_hooks_that_a_plugin_does_not_have(house: House) -> None:
    assert house(guard=GUARD).hook_report()["before_tool_call"] == ["guard"]
    assert [one.code for one in house(guard=GUARD).warnings] == []


async def test_what_stands_before_a_call_of_the_model_can_answer_it(house: House) -> None:
    framework = house("{model: 'openai:none', api_key: k}", guard=GUARD)
    async with framework.running():
        result = await framework.process_inbound({**HELLO, "content": "is it enough?"})
    assert result.model_output == "no more"


async def test_a_tape_store_of_a_plugin_keeps_the_tapes(house: House) -> None:
    framework = house(
        weather=WEATHER,
        memory="""
            from bub import hookimpl
            from bub.tape import AsyncTapeStoreAdapter, InMemoryTapeStore

            @hookimpl
            def provide_tape_store():
                async def opened():
                    yield AsyncTapeStoreAdapter(InMemoryTapeStore())
                return opened()
        """,
    )
    async with framework.running():
        await framework.process_inbound({**HELLO, "content": ",weather.tell"})
        store = framework.get_tape_store()
        (tape,) = await store.list_tapes()
        kinds = {entry.kind for entry in await store.fetch_all(TapeQuery(tape))}
    assert {"anchor", "event"} <= kinds


def test_a_name_that_bub_does_not_have_is_an_error_that_says_where_it_is_needed(house: House) -> None:
    with pytest.raises(PipelineError, match=r"it needs `bub\.dreams\.Weaver` of the Bub on PyPI \(weather\.py:3\)"):
        house(weather="import bub.turn\n\nfrom bub.dreams import Weaver\n")


def test_a_plugin_whose_names_are_not_installed_says_what_to_install(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("bub_reference.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_settings", None)
    with pytest.raises(PipelineError) as caught:
        house(weather="from bub import config\n")
    assert [one.help for one in caught.value.diagnostics] == ["pip install 'bub-pipelines[reference]'"]


def test_what_a_plugin_tries_it_can_do_without(house: House) -> None:
    text = """
        from bub import config, hookimpl
        try:
            from bub.dreams import Weaver
        except ImportError:
            Weaver = None

        @hookimpl
        def run_model(prompt):
            return str(Weaver)
    """
    assert "run_model" in house(weather=text).hook_report()


def test_a_plugin_without_the_runtime_it_needs_is_told_the_line(bub: Workshop) -> None:
    (bub.folder / "weather.py").write_text(dedent(WEATHER))
    with pytest.raises(PipelineError) as caught:
        bub("extends: bub:default\nplugins: {weather: {path: weather.py}}\nprofiles: {default: {plugins: [weather]}}")
    assert "say `plugins: {weather: {runtime: asyncio}}`" in str([one.help for one in caught.value.diagnostics])


def test_a_package_is_found_with_its_names_and_no_other_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, text in (
        ("guest_of_bub", "import bub\nfrom guest_of_bub import part\n"),
        ("by_itself", "import bub\n"),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(text)
    (tmp_path / "guest_of_bub" / "part.py").write_text("def late():\n    import bub.turn\n    return bub.turn\n")
    monkeypatch.syspath_prepend(tmp_path)

    class View:
        settings, home, workspace = {}, tmp_path, tmp_path  # type: ignore[var-annotated]

    with Adoption("guest", View(), frozenset({"guest_of_bub"})).importing():
        import by_itself  # type: ignore[import-not-found]
        import guest_of_bub  # type: ignore[import-not-found]
    assert (by_itself.bub.__name__, guest_of_bub.bub.__name__) == ("bub", "bub_reference")
    assert guest_of_bub.part.late().__name__ == "bub_reference.turn"
    assert sum(isinstance(finder, _Finder) for finder in sys.meta_path) == 1
    with (
        pytest.raises(Exception, match="`by_itself` is imported already, with Bub's own names"),
        Adoption("other", View(), frozenset({"by_itself"})).importing(),
    ):
        pass
    for name in ("by_itself", "guest_of_bub", "guest_of_bub.part"):
        del sys.modules[name]


class _Watching(SourceFileLoader):
    """A loader as libraries put in front of Python's own (beartype, typeguard)."""


def test_a_package_has_its_names_though_a_library_loads_modules_its_own_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_guest.py").write_text("import bub\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path_hooks", [FileFinder.path_hook((_Watching, [".py"])), *sys.path_hooks])
    monkeypatch.setattr(sys, "path_importer_cache", {})

    class View:
        settings, home, workspace = {}, tmp_path, tmp_path  # type: ignore[var-annotated]

    with Adoption("watched", View(), frozenset({"watched_guest"})).importing():
        import watched_guest  # type: ignore[import-not-found]
    assert watched_guest.bub.__name__ == "bub_reference"
    del sys.modules["watched_guest"]


# The wizard


def test_its_questions_are_put_by_the_wizard(house: House, tmp_path: Path) -> None:
    framework = house(
        weather="""
            from bub import hookimpl, inquirer, ensure_config

            @hookimpl
            def onboard_config(current_config):
                if not inquirer.ask_confirm("Configure the weather", default=True):
                    return None
                return {"weather": {
                    "city": inquirer.ask_text("City", default="Rome"),
                    "token": inquirer.ask_secret("Weather token"),
                    "unit": inquirer.ask_select("Unit", choices=["C", "F"], default="C"),
                    "days": inquirer.ask_checkbox("Days", ["today", "later"], enabled=["today"]),
                }}
        """
    )
    answers = {"BUB_ONBOARD_WEATHER_CITY": "Oslo", "BUB_ONBOARD_WEATHER_TOKEN": "s3cret"}
    prompter = Prompter(Script({}, answers, tell=print), {}, tmp_path)
    told = framework.collect_onboard_config({}, ask=prompter, only={"weather"})
    assert told == {
        "weather": {"city": "Oslo", "token": "${env:BUB_WEATHER_TOKEN}", "unit": "C", "days": ["today"]},
    }
    assert prompter.secrets == {"BUB_WEATHER_TOKEN": "s3cret"}


# Channels, messages and stores, each in the form of the other


class Doorbell:
    name = "doorbell"
    needs_debounce = False
    enabled = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def start(self, stop_event: asyncio.Event) -> None:
        self.heard.append("started")

    async def send(self, message: ChannelMessage) -> None:
        self.heard.append(f"{message.chat_id} {message.content}")

    async def stop(self) -> None:
        self.heard.append("stopped")


def test_a_channel_is_started_told_of_replies_and_stopped(tmp_path: Path) -> None:
    bell = Doorbell()

    async def ring() -> None:
        channel = AdoptedChannel(bell, lambda: Adoption("d", _View(tmp_path), frozenset()).within())  # type: ignore[arg-type]
        running = asyncio.create_task(channel.run())
        await asyncio.sleep(0.01)
        await channel.send(OurMessage(channel="doorbell", chat_id="front", content="who is it?"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(ring())
    assert bell.heard == ["started", "front who is it?", "stopped"]


class _View:
    def __init__(self, folder: Path) -> None:
        self.settings: dict[str, Any] = {}
        self.home = self.workspace = folder


def test_a_message_goes_over_with_its_media_and_what_can_be_kept_of_its_context() -> None:
    async def fetch() -> bytes:
        return b"x"

    message = ChannelMessage(
        session_id="s",
        channel="slack",
        chat_id="c",
        content="see",
        context={"who": "me", "_client": object()},
        media=[MediaItem("image", "image/png", data_fetcher=fetch)],
    )
    ours = asyncio.run(to_bub(message, is_active=True))
    assert (ours.session_id, ours.channel, ours.chat_id, ours.is_active) == ("s", "slack", "c", True)
    assert ours.context == {"who": "me"}
    assert ours.media == [{"kind": "image", "mime_type": "image/png", "url": "data:image/png;base64,eA=="}]
    back = to_reference(ours)
    assert (back.context_str, back.media[0].url) == ("who=me|channel=$slack|chat_id=c", "data:image/png;base64,eA==")
    assert reply_to_bub(back)["content"] == "see"


async def test_a_store_of_a_plugin_answers_what_bub_asks() -> None:
    store = store_to_bub(InMemoryTapeStore())
    for text in ("one", "two", "three"):
        store.append("t", TapeEntry.message({"role": "user", "content": text}))  # type: ignore[unused-coroutine]
    store.append("t", TapeEntry.anchor("noon"))  # type: ignore[unused-coroutine]
    newest = store.fetch_all(TapeQuery("t").kinds("message").newest().limit(2))
    assert [entry.payload["content"] for entry in newest] == ["three", "two"]  # type: ignore[union-attr]
    assert store.fetch_all(TapeQuery("t").last_anchor()) == []
    with pytest.raises(TapeError, match="was not found") as caught:
        store.fetch_all(TapeQuery("t").after_anchor("midnight"))  # type: ignore[unused-coroutine]
    assert caught.value.reason == "not_found"


def test_a_store_that_is_awaited_stays_one() -> None:
    async def keep() -> list[TapeEntry]:
        store: Any = store_to_bub(AsyncTapeStoreAdapter(InMemoryTapeStore()))
        await store.append("t", TapeEntry.message({"role": "user", "content": "one"}))
        return await store.fetch_all(TapeQuery("t"))  # type: ignore[no-any-return]

    assert [entry.id for entry in asyncio.run(keep())] == [1]
