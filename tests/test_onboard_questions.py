"""`bub onboard`: the questions about the model, those out of a schema, and where an answer belongs."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import Write
from fakes.onboarding import KEY, Somebody, Toys, answer, onboard, scripted
from fakes.scripted import serving

from bub.agent.onboarding import ask_for_model
from bub.errors import UsageError
from bub.pipeline.check.sections import check_section
from bub.pipeline.edit.paths import REMOVED
from bub.pipeline.source.merge import load_text
from bub.setup.changes import changes_of
from bub.setup.prompter import Prompter
from bub.setup.script import Script
from bub.setup.sections import ask_for_section


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


@pytest.mark.parametrize("settings", ["", "settings: {model: 'local:smollm2'}\n"])
def test_the_model_on_this_machine_is_offered_only_where_its_plugin_may_run(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: str
) -> None:
    text = f"version: 1\nextends: bub:default\nprofiles: {{default: {{plugins: []}}}}\n{settings}"
    file = write("none.yaml", text)
    assert onboard("--config", file, "onboard", "--non-interactive") == 2
    assert "the answers lack `model.provider`" in capsys.readouterr().err
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    assert onboard("--config", file, "onboard", "--non-interactive") == 2
    assert "is not one of the choices: `local`" in capsys.readouterr().err
    assert file.read_text() == text


def test_O17_a_key_is_kept_in_dotenv_and_only_referred_to(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, provider="openai", key=KEY, name="gpt-x", check="no") == 0
    dotenv = own.with_name(".env")
    assert dotenv.read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert stat.S_IMODE(dotenv.stat().st_mode) == 0o600
    assert KEY not in own.read_text()


def test_O17_another_key_for_the_same_provider_changes_dotenv_alone(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, provider="openai", key=KEY, name="gpt-x", check="no") == 0
    before = own.read_bytes()
    assert answer(monkeypatch, key="sk-another-key", check="no") == 0
    assert own.read_bytes() == before
    assert own.with_name(".env").read_text() == "OPENAI_API_KEY=sk-another-key\n"


def test_O17_a_key_that_the_environment_holds_is_taken_from_there(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    assert answer(monkeypatch, name="x", check="no") == 0
    assert "model: groq:x" in own.read_text() and '"${env:GROQ_API_KEY}"' in own.read_text()
    assert not own.with_name(".env").exists()


def test_O17_a_new_key_beside_another_one_of_the_environment_has_a_name_of_its_own(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-somebody-else")
    assert answer(monkeypatch, key=KEY, name="x", check="no") == 0
    assert '"${env:GROQ_API_KEY_KEPT}"' in own.read_text()
    assert own.with_name(".env").read_text() == f"GROQ_API_KEY_KEPT={KEY}\n"


def test_O17_a_key_does_not_follow_to_another_address(own: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    assert answer(monkeypatch, provider="custom", base_url="https://a.example/v1", key=KEY, name="x", check="no") == 0
    assert answer(monkeypatch, base_url=server) == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {
        "model": "custom:x",
        "providers": {"custom": {"api_base": server}},
    }


def test_O17_a_general_key_stays_with_the_provider_it_was_given_for(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.parent.mkdir()
    settings = 'settings:\n  model: openai:gpt-x\n  api_key: "${env:MY_KEY}"\n'
    own.write_text(f"version: 1\nextends: bub:default\n{settings}")
    assert answer(monkeypatch, provider="groq", key=KEY, name="x", check="no") == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {
        "model": "groq:x",
        "providers": {"openai": {"api_key": "${env:MY_KEY}"}, "groq": {"api_key": "${env:GROQ_API_KEY}"}},
    }


def test_O17_a_model_that_does_not_answer_is_told_without_the_key_and_kept_all_the_same(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(monkeypatch, provider="custom", base_url="http://127.0.0.1:9/v1", key=KEY, name="x") == 0
    told = capsys.readouterr().err
    assert "It does not answer: custom (127.0.0.1:9) cannot be reached: the connection was refused" in told
    assert KEY not in told and "Error" not in told
    assert "model: custom:x" in own.read_text()


def test_O17_whose_model_does_not_answer_tries_again_or_changes_the_answers(server: str) -> None:
    dead = "http://127.0.0.1:9/v1"
    person = Somebody(
        provider=["custom"],
        base_url=[dead, server],
        key=[KEY, KEY],
        name=["nobody", "large"],
        on_failure=["retry", "edit"],
    )
    ask = Prompter(person, {}, None)
    assert ask_for_model({}, ask, local=None) == {
        "model": "custom:large",
        "providers": {"custom": {"api_base": server, "api_key": "${env:CUSTOM_API_KEY}"}},
    }
    assert [text.partition(":")[0] for text in person.heard] == [
        "There is no list of models to choose from",
        "It does not answer",
        "It does not answer",
        "custom",
    ]
    assert person.offered["model.name"] == ["large", "small"]
    assert KEY not in "".join(person.heard)


def test_O17_the_models_of_an_anthropic_server_are_asked_for_in_its_own_way(server: str) -> None:
    current = {"model": "lab:large", "providers": {"lab": {"api": "anthropic", "api_base": server, "api_key": "k"}}}
    person = Somebody(name=["small"])
    assert ask_for_model(current, Prompter(person, {}, None), local=None) == {"model": "lab:small"}
    assert person.heard == ["lab:small answers: You said: Say hello in one short sentence."]
    log = httpx.get(f"{server.removesuffix('/v1')}/log?model=small").json()
    assert log[-1]["path"] == "/v1/messages" and log[-1]["headers"]["x-api-key"] == "k"
    assert ask_for_model(current, Prompter(Somebody(), {}, None), local=None) is None


def test_O17_a_variable_that_counts_before_the_answer_is_told(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_MODEL", "openai:gpt-x")
    assert answer(monkeypatch, provider="local", check="no") == 0
    assert "The variable BUB_MODEL is set, and counts before `settings.model`" in capsys.readouterr().err


def test_a_secret_beside_a_change_is_covered_where_the_change_is_shown(
    toys: Toys, capsys: pytest.CaptureFixture[str]
) -> None:
    file = toys.file(toy="return {'retries': 3}")
    file.write_text(file.read_text().replace("settings: {}", f"settings:\n  model: openai:x\n  api_key: {KEY}\n"))
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    told = capsys.readouterr().err
    assert "+  retries: 3" in told and "   api_key: ***" in told
    assert KEY not in told and KEY in file.read_text()


# Questions out of a schema.

BOT = {
    "required": ["token"],
    "properties": {
        "mode": {"enum": ["polling", "webhook"], "default": "polling", "x-onboard": {"order": 2}},
        "url": {"type": "string", "minLength": 9, "x-onboard": {"order": 3, "when": {"mode": "webhook"}}},
        "token": {"type": "string", "writeOnly": True, "pattern": "^[0-9]+:", "x-onboard": {"order": 1}},
        "retries": {"type": ["integer", "string"], "pattern": r"^\$\{", "minimum": 0, "maximum": 9, "default": 2},
        "chats": {"type": "array", "items": {"type": "string"}},
        "colours": {"type": "array", "items": {"enum": ["red", "green"]}},
        "quiet": {"$ref": "#/$defs/switch"},
        "limits": {"type": "object", "properties": {"day": {"type": "number"}}},
        "cache": {"type": "integer", "x-onboard": False},
        "odd": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {"switch": {"type": "boolean"}},
}


def section(current: dict[str, object], **answers: str) -> tuple[dict[str, object], list[str], Prompter]:
    """What changes of the section `bot`, which questions there were, and the prompter."""
    environ = {f"BUB_ONBOARD_BOT_{name.upper()}": value for name, value in answers.items()}
    script = Script.of(None, environ, lambda text: None)
    ask = Prompter(script, environ, None)
    return ask_for_section("bot", BOT, current, ask), script.asked, ask


def test_a_schema_asks_in_its_order_and_only_where_a_question_is_meant() -> None:
    changed, asked, ask = section({}, token="1:a")
    assert asked == [f"bot.{name}" for name in ("token", "mode", "retries", "chats", "colours", "quiet", "limits.day")]
    assert changed == {"token": "${env:BOT_TOKEN}"}
    assert ask.secrets == {"BOT_TOKEN": "1:a"}
    assert "bot.url" in section({}, token="1:a", mode="webhook")[1]


def test_answers_to_a_schema_have_its_types() -> None:
    told = {"token": "1:a", "retries": "5", "chats": "a, b", "colours": "green", "quiet": "yes", "limits_day": "0.5"}
    changed, _, _ = section({}, **told)
    assert {**changed, "token": ""} == {
        "token": "",
        "retries": 5,
        "chats": ["a", "b"],
        "colours": ["green"],
        "quiet": True,
        "limits": {"day": 0.5},
    }
    assert section({}, token="1:a", retries="${env:TIMES}")[0]["retries"] == "${env:TIMES}"


def test_what_a_section_says_so_far_is_the_default() -> None:
    now = {"token": "${env:T}", "mode": "webhook", "url": "https://x.example", "colours": ["red"], "quiet": True}
    assert section(now)[0] == {}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, "the answers lack `bot.token`"),
        ({"token": "no-token"}, "the answer to `bot.token` does not have the right form"),
        ({"token": "1:a", "retries": "10"}, "the answer to `bot.retries` must be"),
        ({"token": "1:a", "retries": "many"}, "the answer to `bot.retries` "),
        ({"token": "1:a", "mode": "webhok"}, "is not one of the choices: `webhok`"),
    ],
)
def test_an_answer_that_the_schema_refuses_is_refused(answers: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)) as raised:
        section({}, **answers)
    assert "no-token" not in str(raised.value)


def test_what_the_schema_refuses_is_told_in_the_words_of_validate() -> None:
    bounds = {"n": {"type": "integer", "minimum": 1}, "most": {"type": "number", "maximum": 5}}
    schema = {"type": "object", "properties": {**bounds, "name": {"type": "string", "pattern": "^a+$"}}}
    for name, given, plain in (("n", "0", 0), ("most", "9.5", 9.5), ("name", "b", "b")):
        script = Script.of(None, {f"BUB_ONBOARD_TOY_{name.upper()}": given}, print)
        with pytest.raises(UsageError) as refused:
            ask_for_section("toy", schema, {}, Prompter(script, {}, None))
        root = load_text(f"toy: {{{name}: {plain}}}\n").root.get("toy")
        assert root is not None
        (found,) = check_section("toy", root, schema)
        assert str(refused.value).endswith(found.message.replace(f"`settings.toy.{name}`", f"`toy.{name}`"))


def test_the_local_model_is_not_asked_about_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_LOCAL_MODEL_THREADS", "2")
    assert scripted() == 2
    assert "no question is called `BUB_ONBOARD_LOCAL_MODEL_THREADS`" in capsys.readouterr().err
    assert scripted("local_model") == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {"local_model": {"threads": 2}}


# Where a change belongs.


def test_a_value_that_a_profile_sets_changes_there() -> None:
    document = load_text(
        "version: 1\nextends: bub:default\nsettings: {model: 'a:x'}\n"
        "profiles: {default: {settings: {model: 'a:y'}}, other: {extends: default}}\n"
    )
    after = {"model": "a:z", "retries": 3, "api_key": None}
    before = {"model": "a:y", "api_key": "k"}
    assert changes_of(document, "default", before, after) == {
        ("profiles", "default", "settings", "model"): "a:z",
        ("settings", "retries"): 3,
        ("settings", "api_key"): REMOVED,
    }
    assert changes_of(document, "other", before, {"model": "a:z"}) == {
        ("profiles", "other", "settings", "model"): "a:z"
    }


def test_answers_for_a_profile_stay_with_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "version: 1\nextends: bub:default\nprofiles:\n  ci: {extends: default}\n"
    file = write("profiles.yaml", text)
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    monkeypatch.setenv("BUB_ONBOARD_TOOLS_UNASKED", "bash")
    assert onboard("--config", file, "--profile", "ci", "onboard", "--non-interactive") == 0
    said = "{extends: default, settings: {model: local:smollm2}, tools: {ask: [fs.write, fs.edit]}}"
    assert file.read_text() == text.replace("{extends: default}", said)
    assert onboard("--config", file, "--profile", "co", "onboard", "--non-interactive") == 1
