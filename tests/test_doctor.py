"""`bub doctor`: one line for each thing, what to do where it is broken, and no check hides or holds up another."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any

import pytest
import trio
from conftest import Write
from fakes.command_line import bub

from bub import BubFramework
from bub.agent.confine import bubblewrap, landlock
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import resolve_endpoint
from bub.agent.models.probe import Served, ask_for_models
from bub.base.layout import cells
from bub.doctor import LOOKS
from bub.doctor.checks import Check, Look, Patient, check_lines, examine, summarize
from bub.errors import BubError, ModelError

KEY = "sk-or-0123456789abcdef"
PIPELINE = "version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n"


class Lists(BaseHTTPRequestHandler):
    """A model server that is asked for its models; the first part of the path says how it behaves."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, str | None]]
    gone: threading.Event

    def log_message(self, *args: Any) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate((timestamp or time()) - (3600 if self.path.startswith("/late") else 0), usegmt=True)

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["authorization"]))
        manner = self.path.split("/")[1]
        if manner == "silent":
            self.gone.wait(10)
            return
        key = (self.headers["authorization"] or "").removeprefix("Bearer ")
        status, body = {
            "refuses": (401, json.dumps({"error": {"message": f"no such key: {key}"}})),
            "plain": (404, "nothing here"),
            "broken": (500, "oh no"),
            "moved": (302, ""),
            "busy": (429, ""),
            "odd": (200, '{"data": [{"name": 5}]}'),
        }.get(manner, (200, json.dumps({"data": [{"id": "small-1"}, {"id": "models/large-1"}]})))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("location", "/elsewhere")
        self.end_headers()
        self.wfile.write(body.encode())


@dataclass
class Server:
    address: str
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    asked: list[tuple[str, str | None]] = []
    gone = threading.Event()
    handler = type("Handler", (Lists,), {"asked": asked, "gone": gone})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        listening.daemon_threads = True
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        yield Server(f"http://127.0.0.1:{listening.server_port}", asked)
        gone.set()
        listening.shutdown()


@pytest.fixture
def model(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server as the model of the settings."""
    for name, value in {"MODEL": "custom:small-1", "API_BASE": f"{server.address}/v1", "API_KEY": KEY}.items():
        monkeypatch.setenv(f"BUB_{name}", value)
    return server


def checked(
    config: Path | str | None = "bub:default",
    workspace: Path | None = None,
    *,
    looks: Mapping[str, Look] = LOOKS,
    patience: float = 10.0,
    offline: bool = False,
) -> dict[str, Check]:
    """What the checks find, by subject; of several on one subject the last that is not `ok`."""
    file = Path(config) if config is not None else None
    folder = workspace or Path.cwd()
    framework = BubFramework(config, workspace=folder)
    patient = Patient(framework, file, folder, dict(os.environ), offline)
    told: list[Check] = []
    sound = trio.run(partial(examine, patient, looks, told.append, patience=patience))
    assert sound == all(check.status != "broken" for check in told)
    found: dict[str, Check] = {}
    for check in told:
        if check.subject not in found or check.status != "ok":
            found[check.subject] = check
    return found


def plugin(write: Write, code: str) -> Path:
    write("work/own.py", f"from bub import hookimpl\n\n{code}")
    text = "version: 1\nextends: bub:default\nplugins: {own: {path: own.py}}\nprofiles: {default: {plugins: [own]}}\n"
    return write("work/pipelines.yaml", text)


# As a command


def test_what_is_sound_ends_with_0_and_the_server_is_asked_once(model: Server, tmp_path: Path) -> None:
    done = bub(tmp_path, "doctor", "--json", "--config", "bub:default", **model_variables(model))
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["ok"]) == (0, "", True)
    assert [check["check"] for check in found["checks"]] == [
        *["python", "file", "trust", "agent", "lock", "plugins", "model", "local model", "commands"],
        *["channels", "channels", "tapes", "home", "log", "workspace", "clock", "terminal"],
    ]
    assert [(check["check"], check["message"]) for check in found["checks"] if check["status"] != "ok"] == [
        ("lock", "there is no lock, so Bub starts with any plugins and packages"),
        ("channels", "telegram: not set up"),
    ]
    assert model.asked == [("/v1/models", f"Bearer {KEY}")]
    assert KEY not in done.stdout


def model_variables(model: Server) -> dict[str, str]:
    return {"BUB_MODEL": "custom:small-1", "BUB_API_BASE": f"{model.address}/v1", "BUB_API_KEY": KEY}


def test_what_is_broken_ends_with_1_and_says_what_to_do(write: Write) -> None:
    folder = write("work/pipelines.yaml", PIPELINE.replace("profiles:", "profils:")).parent
    done = bub(folder, "doctor", "--offline", "--config", "pipelines.yaml")
    assert done.returncode == 1
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "broken  file        pipelines.yaml (named) has 1 error" in lines
    assert "                    → `bub validate pipelines.yaml` shows each with its place" in lines
    assert lines[-1].endswith("broken")


def test_an_unknown_profile_is_told(tmp_path: Path) -> None:
    done = bub(tmp_path, "doctor", "--offline", "--json", "--profile", "defualt")
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["file"]["status"]) == (1, "ok")
    assert found["plugins"]["message"] == "the pipeline does not compile: there is no profile `defualt`"
    assert found["plugins"]["help"] == "did you mean `default`?"


def test_what_a_plugin_prints_is_no_result(write: Write) -> None:
    config = plugin(write, "print('hello there')\n@hookimpl\ndef build_prompt(): pass\n")
    done = bub(config.parent, "doctor", "--offline", "--json", "--config", str(config))
    assert "hello there" in done.stderr
    assert json.loads(done.stdout)["version"] == 1


# The file


def test_a_file_that_is_not_trusted_sends_and_imports_nothing(model: Server, write: Write) -> None:
    folder = plugin(write, "raise SystemExit('imported')\n").parent
    found = checked(None, folder)
    assert found["trust"].status == "broken"
    assert f"`bub trust {folder}`" in found["trust"].help
    assert [found[name].status for name in ("plugins", "model", "channels")] == ["skipped"] * 3
    assert found["model"].message == "not asked: the folder is not trusted"
    assert model.asked == []


def test_a_missing_file_is_told_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    found = checked(tmp_path / "nowhere.yaml")
    assert (found["file"].status, found["trust"].status) == ("broken", "skipped")
    assert "does not exist" in found["file"].message
    assert found["tapes"].status == found["home"].status == "ok"


def test_errors_in_the_file_do_not_hide_the_model(model: Server, write: Write) -> None:
    found = checked(write("pipelines.yaml", f"{PIPELINE}stages: {{run_modle: {{timeout: 5s}}}}\n"))
    assert (found["file"].status, found["plugins"].status) == ("broken", "skipped")
    assert found["model"].status == "ok"


def test_warnings_deserve_a_look_and_break_nothing(write: Write) -> None:
    found = checked(write("pipelines.yaml", f"{PIPELINE}description: no\n"), offline=True)
    assert found["file"].status == "warn"
    assert "1 warning" in found["file"].message


def test_a_variable_that_this_machine_lacks_is_a_warning(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write("pipelines.yaml", f'{PIPELINE}settings: {{api_key: "${{env:NOBODY_SET_IT}}"}}\n')
    found = checked(file, offline=True)
    assert (found["file"].status, found["variable"].status) == ("ok", "warn")
    assert found["variable"].message.startswith("the environment variable `NOBODY_SET_IT` is not set (")
    assert found["variable"].help.startswith("set it in the environment or in `.env`")
    monkeypatch.setenv("NOBODY_SET_IT", "sk-set")
    assert "variable" not in checked(file, offline=True)


def test_a_reference_that_does_not_fit_its_setting_is_told_with_its_place(write: Write) -> None:
    file = write("pipelines.yaml", f'{PIPELINE}settings: {{retries: "${{env:NOBODY_SET_IT:-plenty}}"}}\n')
    found = checked(file, offline=True)["plugins"]
    assert (found.status, found.help) == ("broken", "`retries` takes a whole number")
    assert re.search(r"the value of the reference is not .* \(\S*pipelines\.yaml:\d+:\d+\)$", found.message)


# Plugins and channels


def test_O19_a_plugin_that_fails_is_named_and_hides_nothing(model: Server, write: Write) -> None:
    found = checked(plugin(write, f"raise RuntimeError('no luck with {KEY}')\n"))
    assert found["plugins"].status == "broken"
    assert "plugin `own` does not load: RuntimeError: no luck with ***" in found["plugins"].message
    assert found["model"].status == "ok"
    assert found["tapes"].status == "ok"


def test_a_plugin_that_is_not_installed_is_named(write: Write) -> None:
    found = checked(write("pipelines.yaml", PIPELINE.replace("[]", "[telegarm]")), offline=True)
    assert found["plugins"].message == "plugin `telegarm` is listed, but not installed"


def test_a_warning_that_needs_no_plugins_is_told_of_the_file_alone(write: Write) -> None:
    tools = "{allow: [fs.write], ask: [fs.write], unasked: {bash: [ls]}}"
    text = PIPELINE.replace("plugins: []", f"plugins: [], tools: {tools}")
    found = checked(write("pipelines.yaml", text), offline=True)
    assert found["file"].message.endswith("has 1 warning")
    assert found["plugins"].status == "ok"


def test_a_warning_that_the_file_alone_shows_is_not_told_again_of_the_plugins(write: Write) -> None:
    tools = '{allow: ["weather.*", "fs.*"], ask: []}'
    text = PIPELINE.replace("plugins: []", f"plugins: [], tools: {tools}")
    found = checked(write("pipelines.yaml", text), offline=True)
    assert found["file"].message.endswith("has 1 warning")
    assert found["plugins"].status == "ok"


def test_O19_optional_and_unlisted_plugins_are_told(write: Write) -> None:
    text = f"{PIPELINE}plugins: {{gone: {{optional: true}}}}\n".replace("plugins: []", "plugins: [gone]")
    found = checked(write("pipelines.yaml", text), offline=True)["plugins"]
    assert found.status == "ok"
    assert "optional and not there: gone" in found.message
    assert re.search(r"installed and not listed: (\w+, )*local_model\b", found.message)


def test_a_plugin_that_hangs_holds_nothing_up(write: Write, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    config = plugin(write, f"with open({str(pipe)!r}) as pipe:\n    pipe.read()\n")
    looks = {name: LOOKS[name] for name in ("file", "trust", "plugins", "model", "channels", "folders")}
    found = checked(config, looks=looks, patience=0.5)
    pipe.open("w").close()  # lets the thread go
    assert found["plugins"].message == "not known: it took longer than 0.5 s"
    assert found["channels"].status == found["model"].status == "skipped"
    assert found["home"].status == "ok"


def test_a_channel_that_cannot_be_made_is_told_without_a_traceback(write: Write) -> None:
    code = "@hookimpl\ndef provide_channels(message_handler):\n    raise SystemExit('no way')\n"
    found = checked(plugin(write, code), offline=True)
    assert found["channels"].status == "broken"
    assert "no way" in found["channels"].message
    assert found["clock"].status == "skipped"


CHANNEL = """
class Channel:
    name = 'own'

@hookimpl
def provide_channels(message_handler):
    return [Channel()]
"""


def test_each_channel_has_a_line(write: Write) -> None:
    assert checked(plugin(write, CHANNEL), offline=True)["channels"] == Check("channels", "ok", "own")


def test_C4_a_channel_that_cannot_run_as_it_is_set_up_says_what_to_do(write: Write) -> None:
    disabled = CHANNEL.replace(
        "name = 'own'", "name = 'own'; enabled = False; why_disabled = 'set `settings.own.token`'"
    )
    help_ = "set `settings.own.token`"
    file = plugin(write, disabled)
    assert checked(file, offline=True)["channels"] == Check("channels", "skipped", "own: not set up", help_)
    text = file.read_text()
    file.write_text(text + "settings: {own: {who: me}}\n")
    found = checked(file, offline=True)["channels"]
    assert found == Check("channels", "warn", "own: it does not run as it is set up", help_)
    file.write_text(text.replace("plugins: [own]", "plugins: [own], channels: [own]"))
    found = checked(file, offline=True)["channels"]
    told = "own: the profile opens it, but it cannot run as it is set up"
    assert found == Check("channels", "broken", told, help_)


def test_C3_a_channel_that_the_profile_does_not_open_is_told(write: Write) -> None:
    file = plugin(write, CHANNEL)
    file.write_text(file.read_text().replace("plugins: [own]", "plugins: [own], channels: []"))
    found = checked(file, offline=True)["channels"]
    assert found == Check("channels", "skipped", "own: the profile does not open it")


# The model


@pytest.mark.parametrize(
    ("manner", "status", "words"),
    [
        ("v1", "ok", "custom:small-1 (GET "),
        ("plain/v1", "ok", "does not list its models"),
        ("plain", "warn", "nothing answers there, and the address has no version of the API"),
        ("odd", "ok", "does not list its models"),
        ("busy", "warn", "got too many requests (429)"),
        ("refuses", "broken", "refused the API key (401): no such key: [key]"),
        ("broken", "broken", "has a problem of its own (500)"),
        ("moved", "broken", "has moved (302)"),
    ],
)
def test_what_the_server_says_is_told(
    model: Server, monkeypatch: pytest.MonkeyPatch, manner: str, status: str, words: str
) -> None:
    monkeypatch.setenv("BUB_API_BASE", f"{model.address}/{manner}")
    found = checked()["model"]
    assert (found.status, words in found.message, KEY in str(found)) == (status, True, False), found
    assert bool(found.help) is (status != "ok")
    assert model.asked == [(f"/{manner}/models", f"Bearer {KEY}")]


@pytest.mark.parametrize(("name", "status"), [("large-1", "ok"), ("smal-1", "warn")])
def test_the_name_of_the_model_is_looked_up(
    model: Server, monkeypatch: pytest.MonkeyPatch, name: str, status: str
) -> None:
    monkeypatch.setenv("BUB_MODEL", f"custom:{name}")
    found = checked()["model"]
    assert found.status == status
    assert ("did you mean `small-1`?" in found.help) is (status == "warn")


def test_a_server_that_is_not_there_is_told(model: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_API_BASE", "http://127.0.0.1:9/v1")
    found = checked()
    assert found["model"].status == "broken"
    assert "cannot be reached" in found["model"].message
    assert found["clock"].status == "skipped"


def test_a_silent_server_is_waited_for_so_long_and_no_longer(server: Server) -> None:
    async def ask() -> Served:
        endpoint = resolve_endpoint({"model": "custom:x", "api_base": f"{server.address}/silent"})
        async with open_client() as client:
            return await ask_for_models(client, endpoint, 0.2)

    with pytest.raises(ModelError, match=r"said nothing for 0\.2 s"):
        trio.run(ask)


def test_offline_asks_nobody(model: Server) -> None:
    found = checked(offline=True)["model"]
    assert (found.status, model.asked) == ("skipped", [])


def test_a_model_without_its_key_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_MODEL", "openrouter:openrouter/free")
    found = checked()["model"]
    assert found == Check("model", "broken", "there is no API key for openrouter", found.help)
    assert "OPENROUTER_API_KEY" in found.help


def test_no_model_and_no_plugin_that_brings_one_is_broken(write: Write) -> None:
    found = checked(write("pipelines.yaml", PIPELINE))
    assert (found["model"].status, found["model"].message) == ("broken", "no model is chosen")
    assert found["local model"].status == "ok"


def test_the_small_local_model_has_to_be_there_where_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_LOCAL_MODEL", "/nowhere/model.gguf")
    found = checked()
    assert found["model"].message == "the small local model, since no other is chosen"
    assert found["local model"].status == "broken"
    monkeypatch.setenv("BUB_MODEL", "local:smollm2")
    assert checked()["model"].message == "the small local model"


def test_a_plugin_may_bring_the_model(write: Write) -> None:
    found = checked(plugin(write, "@hookimpl\ndef call_model(request):\n    return None\n"))
    assert found["model"] == Check("model", "ok", "plugin `own` brings the model")


ROUTED = """version: 1
extends: bub:default
profiles:
  default: {plugins: []}
  night: {extends: default, settings: {NIGHT}}
  idle: {extends: default, settings: {model: "nobody:asks"}}
routes: [{match: {channel: night}, profile: night}]
settings: {model: "custom:small-1", providers: {custom: {api_base: "ADDRESS", api_key: "${env:OWN_KEY}"}}}
"""


def told_of(subject: str, config: Path, *, offline: bool = False) -> list[Check]:
    """Everything that is told of one subject."""
    patient = Patient(BubFramework(config), config, Path.cwd(), dict(os.environ), offline)
    told: list[Check] = []
    trio.run(partial(examine, patient, LOOKS, told.append))
    return [check for check in told if check.subject == subject]


def routed(write: Write, address: str, night: str) -> Path:
    return write("pipelines.yaml", ROUTED.replace("ADDRESS", address).replace("NIGHT", night))


def test_every_profile_that_can_get_a_turn_has_its_model_and_its_key_looked_at(server: Server, write: Write) -> None:
    config = routed(write, f"{server.address}/v1", 'model: "openrouter:openrouter/free"')
    own, night = told_of("model", config)
    assert own.status == "ok"
    assert (night.status, night.message) == ("broken", "profile `night`: there is no API key for openrouter")
    assert len(server.asked) == 1


def test_profiles_with_one_model_have_one_line_and_its_server_is_asked_once(server: Server, write: Write) -> None:
    (own,) = told_of("model", routed(write, f"{server.address}/v1", "max_tokens: 5"))
    assert (own.status, len(server.asked)) == ("ok", 1)


def test_a_server_that_is_not_there_for_one_profile_does_not_hide_that_of_another(server: Server, write: Write) -> None:
    night = f'providers: {{custom: {{api_base: "{server.address}/v1"}}}}'
    own, other = told_of("model", routed(write, "http://127.0.0.1:9/v1", night))
    assert own.status == "broken" and "cannot be reached" in own.message
    assert other.status == "ok" and other.message.startswith("profile `night`: custom:small-1 (GET ")


def test_each_profile_has_a_line_for_its_plugins(write: Write) -> None:
    config = plugin(write, "@hookimpl\ndef build_prompt(): pass\n")
    more = "[own]}\n  quiet: {extends: default, plugins: []}\nroutes: [{match: {channel: quiet}, profile: quiet}]\n"
    text = config.read_text(encoding="utf-8").replace("profiles: {default: ", "profiles:\n  default: ")
    config.write_text(text.replace("[own]}}\n", more), encoding="utf-8")
    own, quiet = told_of("plugins", config, offline=True)
    assert own.message.startswith("builtin, own of profile `default`; installed and not listed: ")
    assert quiet == Check("plugins", "ok", "builtin of profile `quiet`")


@pytest.mark.parametrize(("manner", "status"), [("v1", "ok"), ("late", "warn")])
def test_a_wrong_clock_is_noticed(model: Server, monkeypatch: pytest.MonkeyPatch, manner: str, status: str) -> None:
    monkeypatch.setenv("BUB_API_BASE", f"{model.address}/{manner}")
    found = checked()["clock"]
    assert found.status == status
    if status == "warn":
        assert re.match("360[0-5] s ahead of that of http", found.message), found


# The machine


def test_a_tape_store_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    file = tmp_path / "home" / "tapes" / "tapes.db"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"this is no database at all" * 100)
    found = checked(offline=True)["tapes"]
    assert found.status == "broken"
    assert found.help == "move the file away to start over"


def test_looking_makes_no_tapes(tmp_path: Path) -> None:
    assert "made when the first message comes" in checked(offline=True)["tapes"].message
    assert not (tmp_path / "home" / "tapes").exists()


def test_a_folder_that_is_none_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file", encoding="utf-8")
    found = checked(offline=True)
    assert [found[name].status for name in ("home", "log")] == ["broken", "broken"]
    assert "cannot be written to: not a directory" in found["home"].message
    assert found["workspace"].status == "ok"


# The report


def test_one_check_that_fails_leaves_the_others_alone() -> None:
    async def fails(_: Patient) -> list[Check]:
        raise ValueError("a bug")

    async def stops(_: Patient) -> list[Check]:
        raise BubError("it is so", help="do that")

    async def waits(_: Patient) -> list[Check]:
        await trio.sleep_forever()
        return []

    async def works(_: Patient) -> list[Check]:
        return [Check("works", "ok", "fine")]

    looks = {"fails": fails, "stops": stops, "waits": waits, "works": works}
    found = checked(looks=looks, patience=0.05)
    assert {name: check.status for name, check in found.items()} == {
        "fails": "broken",
        "stops": "broken",
        "waits": "broken",
        "works": "ok",
    }
    assert found["fails"].message == "the check failed: ValueError: a bug"
    assert (found["stops"].message, found["stops"].help) == ("it is so", "do that")


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    check = Check("local model", "broken", "many words " * 20, "do something about it " * 5)
    lines = ["".join(span.text for span in line) for line in check_lines(check, width)]
    assert [line for line in lines if cells(line) > width] == []
    assert lines[0].startswith("broken  local model many")


def test_the_last_line_counts() -> None:
    def last(*statuses: Any) -> str:
        return "".join(span.text for span in summarize([Check("x", status, "") for status in statuses]))

    assert last("ok", "skipped") == "nothing is broken"
    assert last("ok", "warn", "warn") == "nothing is broken, 2 warnings"
    assert last("broken", "warn") == "1 broken, 1 warning"


def test_what_confines_commands_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfined = checked(write("pipelines.yaml", PIPELINE), offline=True)["commands"]
    assert re.match("they reach everything that you reach; Bub could (not )?enforce a `reach`", unconfined.message)
    monkeypatch.setattr(bubblewrap, "PROGRAM", "no-such-program")
    monkeypatch.setattr(landlock, "LEAST", 10_000)
    text = PIPELINE.replace("plugins: []", "plugins: [], reach: {}")
    found = checked(write("pipelines.yaml", text), offline=True)
    assert found["commands"].status == "broken"
    assert found["commands"].message.startswith("Bub cannot confine them: bubblewrap is not installed; ")
    assert "B237" not in found["model"].message


@pytest.mark.skipif(bool(landlock.find_lack()), reason=landlock.find_lack())
def test_which_programs_a_confined_command_does_not_see_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write("elsewhere/bin/tool", "").parent
    monkeypatch.setattr(bubblewrap, "PROGRAM", "no-such-program")
    monkeypatch.setenv("PATH", f"/usr/bin{os.pathsep}{folder}")
    text = PIPELINE.replace("plugins: []", "plugins: [], reach: {write: []}")
    found = checked(write("work/pipelines.yaml", text), folder.parent.parent / "work", offline=True)["commands"]
    assert found.status == "ok"
    assert found.message == f"Landlock confines them to what `reach` lists; they see no program in {folder}, of PATH"
