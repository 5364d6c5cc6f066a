"""Loading is a function to a frozen snapshot or to all findings; what plugins see of a runtime comes in three steps."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bub import BubFramework, hookimpl
from bub.base.diagnostics import PipelineError
from bub.base.resources import shipped_pipeline, shipped_pipelines
from bub.errors import BubError
from bub.framework import load_pipeline
from bub.pipeline.source.merge import Document, load_document, load_shipped, load_text
from bub.plugins.view import ProfileView
from bub.runtime.loader import find_document
from bub.runtime.runtime import Runtime, TooEarlyError
from bub.runtime.snapshot import Snapshot, files_of

pytestmark = pytest.mark.anyio

PLUGIN = """
from bub import hookimpl

class One:
    def __init__(self, framework):
        self.framework = framework

    @hookimpl
    def run_model(self, message):
        return f"{self.framework.profile}: {message['content']}"

plugin = One
"""

TEXT = """
version: 1
extends: bub:default
plugins: {one: {path: one.py}}
profiles: {default: {plugins: [one]}, other: {plugins: [one], settings: {one: {number: 2}}}}
routes: [{match: {channel: other}, profile: other}]
settings: {one: {number: 1}}
"""


def document_of(folder: Path, text: str = TEXT, plugin: str = PLUGIN) -> Document:
    (folder / "one.py").write_text(plugin, encoding="utf-8")
    return load_text(text, file="pipelines.yaml", base=folder)


def load_default(document: Document, **others: Any) -> Snapshot:
    return load_pipeline(document, profile="default", workspace=Path.cwd(), environ={}, **others)


def plugin_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("_bub_plugin_")}


@pytest.fixture(autouse=True)
def no_modules_left() -> Iterator[None]:
    before = plugin_modules()
    yield
    for name in plugin_modules() - before:
        del sys.modules[name]


# The snapshot


@pytest.mark.parametrize("name", shipped_pipelines())
def test_the_files_that_say_what_the_agent_may_do_are_all_there_with_those_that_ship_with_bub(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(f"version: 1\nextends: bub:{name}\n", encoding="utf-8")
    for own_files in (files_of(load_document(file)), files_of(load_shipped(name))):
        assert [path for path in own_files if not path.is_file()] == []
        assert shipped_pipeline(name) in own_files
    assert file in files_of(load_document(file))


def test_a_snapshot_holds_every_profile_that_can_get_a_turn_and_cannot_be_changed(tmp_path: Path) -> None:
    snapshot = load_default(document_of(tmp_path))
    assert list(snapshot.profiles) == ["default", "other"]
    assert [profile.settings["one"]["number"] for profile in snapshot.profiles.values()] == [1, 2]
    assert snapshot.profile_for({"channel": "other"}).name == "other"
    assert snapshot.profile_for({"channel": "cli"}).name == "default"
    assert {tmp_path / "one.py", tmp_path / "pipelines.yaml"} <= set(snapshot.own_files)
    with pytest.raises(AttributeError):
        snapshot.start_profile = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        snapshot.profiles["default"].budget = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.profiles["third"] = snapshot.profiles["default"]  # type: ignore[index]


def test_the_same_document_loads_again_to_another_snapshot_of_the_same(tmp_path: Path) -> None:
    document = document_of(tmp_path, TEXT + "nothing: known\n".replace("nothing", "x-free"))
    first, second = load_default(document), load_default(document)
    assert first.profiles["default"].plugins.modules != second.profiles["default"].plugins.modules
    assert first.warnings == second.warnings


def test_a_snapshot_without_routes_has_the_one_profile(tmp_path: Path) -> None:
    snapshot = load_default(document_of(tmp_path), routed=False)
    assert list(snapshot.profiles) == ["default"]
    assert snapshot.profile_for({"channel": "other"}).name == "default"


@pytest.mark.parametrize(("environ", "loaded"), [({}, ["default", "other"]), ({"P": "third"}, ["default", "third"])])
@pytest.mark.parametrize(
    "http",
    [
        'clients: {ada: {token: "${env:T:-0123456789abcdef}", profiles: ["${env:P:-other}"]}}',
        'webhooks: {alarm: {secret: "${env:T:-0123456789abcdef}", profile: "${env:P:-other}"}}',
    ],
    ids=["client", "webhook"],
)
def test_a_profile_is_loaded_that_a_client_or_a_webhook_names_by_a_reference(
    tmp_path: Path, http: str, environ: dict[str, str], loaded: list[str]
) -> None:
    text = f"version: 1\nextends: bub:default\nprofiles: {{other: {{}}, third: {{}}}}\nsettings: {{http: {{{http}}}}}\n"
    snapshot = load_pipeline(document_of(tmp_path, text), profile="default", workspace=tmp_path, environ=environ)
    assert list(snapshot.profiles) == loaded


def test_all_findings_of_all_profiles_come_at_once_and_no_module_stays(tmp_path: Path) -> None:
    before = plugin_modules()
    text = TEXT.replace("other: {plugins: [one],", "other: {plugins: [one, gone],").replace(
        "default: {plugins: [one]}", "default: {plugins: [one, lost]}"
    )
    with pytest.raises(PipelineError) as told:
        load_default(document_of(tmp_path, text))
    messages = [finding.message for finding in told.value.diagnostics if finding.severity == "error"]
    assert [name for name in ("lost", "gone") for message in messages if f"`{name}`" in message] == ["lost", "gone"]
    assert plugin_modules() == before


def test_what_is_read_is_known_before_a_plugin_is_imported(tmp_path: Path) -> None:
    before = plugin_modules()
    seen: list[tuple[dict[str, int], bool]] = []

    def learn(settings: Any, mask: Any) -> None:
        numbers = {name: said["one"]["number"] for name, said in settings.items()}
        seen.append((numbers, bool(plugin_modules() - before)))

    with pytest.raises(PipelineError, match="not today"):
        load_pipeline(
            document_of(tmp_path, plugin="raise RuntimeError('not today')"),
            learn,
            profile="default",
            workspace=tmp_path,
            environ={},
        )
    assert seen == [({"default": 1, "other": 2}, False)]


def test_loading_gives_way_before_it_goes_on_to_another_profile(tmp_path: Path) -> None:
    loaded = 0
    seen: list[int] = []

    def learn(*_: Any) -> None:
        seen.append(-1)

    class Plugin:
        def __init__(self, view: object) -> None:
            nonlocal loaded
            loaded += 1

    profiles = "".join(f"  p{number}: {{plugins: []}}\n" for number in range(200))
    routes = "".join(f"  - {{match: {{chat_id: '{number}'}}, profile: p{number}}}\n" for number in range(200))
    text = f"version: 1\nextends: bub:default\nprofiles:\n{profiles}routes:\n{routes}"
    load_pipeline(
        document_of(tmp_path, text),
        learn,
        profile="default",
        workspace=tmp_path,
        environ={},
        builtin=Plugin,
        give_way=lambda: seen.append(loaded),
    )
    assert seen == [0] * 201 + [-1] + list(range(201))


def test_a_witness_hears_of_failures_in_every_profile(tmp_path: Path) -> None:
    class Witness:
        @hookimpl
        def on_error(self, stage: str) -> None: ...

    snapshot = load_default(document_of(tmp_path), witnesses={"nobody's name": Witness()})
    for profile in snapshot.profiles.values():
        assert "nobody's name" in profile.hooks.hook_report()["on_error"]


def test_a_file_is_found_as_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\n", encoding="utf-8")
    assert find_document(str(file), tmp_path, {}).file == str(file)
    assert find_document("bub:classic", tmp_path, {}).file == "bub:classic"
    assert find_document(None, tmp_path, {"BUB_HOME": str(tmp_path / "home")}).file == "bub:default"


# What a plugin sees


LIVING: dict[str, Callable[[ProfileView], Any]] = {
    "get_tape_store": lambda view: view.get_tape_store(),
    "registry": lambda view: view.registry,
    "counts": lambda view: view.counts,
    "reload": lambda view: view.reload(),
    "profile_of": lambda view: view.profile_of({}),
}

WAITING: dict[str, Callable[[ProfileView], Awaitable[Any]]] = {
    "process_inbound": lambda view: view.process_inbound({"content": "hi"}),
    "shared": lambda view: view.shared(lambda: asynccontextmanager(_nothing)()),
}

LOADED: dict[str, Callable[[ProfileView], Any]] = {
    "tools": lambda view: view.tools,
    "profiles": lambda view: view.profiles,
    "budget": lambda view: view.budget,
    "own_files": lambda view: view.own_files,
    "implementations": lambda view: view.implementations("run_model"),
    "seen_by": lambda view: view.seen_by("other"),
    "get_system_prompt": lambda view: view.get_system_prompt("", {}),
    "build_tape_context": lambda view: view.build_tape_context(),
}


async def _nothing() -> Any:
    yield None


@pytest.mark.parametrize("asked", [*LIVING, *LOADED])
def test_who_asks_while_it_is_made_is_told_when_to(tmp_path: Path, asked: str) -> None:
    seen: list[BubError] = []

    def builtin(view: ProfileView) -> object:
        assert view.settings["one"]["number"] == (1 if view.profile == "default" else 2)
        assert view.workspace == Path.cwd()
        assert view.mask.text("sk-a-key-of-mine") == "***"
        with pytest.raises(TooEarlyError) as told:
            {**LIVING, **LOADED}[asked](view)
        seen.append(told.value)
        return object()

    load_pipeline(
        document_of(tmp_path),
        profile="default",
        workspace=Path.cwd(),
        environ={"OPENAI_API_KEY": "sk-a-key-of-mine"},
        builtin=builtin,
    ).let_go()
    assert len(seen) == 2
    assert "while it was being loaded itself" in str(seen[0]) and seen[0].help


@pytest.mark.parametrize("asked", LOADED)
def test_what_is_loaded_can_be_asked_for_before_a_runtime_uses_it(tmp_path: Path, asked: str) -> None:
    view = load_default(document_of(tmp_path)).profiles["default"].view
    LOADED[asked](view)


@pytest.mark.parametrize("asked", LIVING)
def test_what_lives_cannot(tmp_path: Path, asked: str) -> None:
    view = load_default(document_of(tmp_path)).profiles["default"].view
    with pytest.raises(TooEarlyError):
        LIVING[asked](view)


@pytest.mark.parametrize("asked", WAITING)
async def test_nor_can_what_is_waited_for(tmp_path: Path, asked: str) -> None:
    view = load_default(document_of(tmp_path)).profiles["default"].view
    with pytest.raises(TooEarlyError):
        await WAITING[asked](view)


async def test_a_runtime_lets_plugins_ask_for_everything(tmp_path: Path) -> None:
    runtime = runtime_over(document_of(tmp_path))
    runtime.load()
    view = runtime.loaded.current.profiles["other"].view
    for ask in (*LIVING.values(), *LOADED.values()):
        ask(view)
    assert view.get_tape_store() is None
    async with runtime.open(lambda: "a store"):
        assert view.get_tape_store() == "a store"
        result = await view.process_inbound({"channel": "other", "content": "hi"})
        assert result.model_output == "other: hi"


def test_the_framework_is_a_view_as_well() -> None:
    view: ProfileView = BubFramework("bub:default")
    assert view.profile == "default"


# The runtime


def runtime_over(document: Document) -> Runtime:
    load = partial(load_pipeline, profile="default", workspace=Path.cwd(), environ={})
    return Runtime(Path.cwd(), read=lambda: document, load=load)


def test_reload_loads_what_was_not_loaded_before(tmp_path: Path) -> None:
    runtime = runtime_over(document_of(tmp_path))
    runtime.reload()
    assert runtime.loaded.current.number == 1


async def test_everything_is_closed_in_reverse_order_whatever_ends_the_closing(tmp_path: Path) -> None:
    seen: list[str] = []

    def opening(name: str, *, ends: bool = False) -> Callable[[], Any]:
        @asynccontextmanager
        async def opened() -> Any:
            yield name
            seen.append(name)
            if ends:
                raise KeyboardInterrupt

        return opened

    @contextmanager
    def store() -> Iterator[str]:
        yield "tapes"
        seen.append("tapes")

    runtime = runtime_over(document_of(tmp_path))
    runtime.load()
    with pytest.raises(KeyboardInterrupt):
        async with runtime.open(store):
            await runtime.shared(opening("first"))
            await runtime.shared(opening("second", ends=True))
            generation = runtime.loaded.current
            await generation.scope.shared(opening("its own", ends=True))
            await generation.scope.shared(opening("its other"))
    assert seen == ["its other", "its own", "second", "first", "tapes"]
    assert runtime.loaded.tape_store is None and runtime.loaded.scope is None
