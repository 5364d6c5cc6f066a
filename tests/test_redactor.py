"""Secrets are covered wherever a turn is kept or shown: a redactor's law, and the log of a real program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from fakes.command_line import SOURCES
from fakes.installed import install_section
from hypothesis import given
from hypothesis import strategies as st

from bub.framework import BubFramework
from bub.pipeline.plan.secret_values import redactor_of
from bub.pipeline.source.merge import load_document
from bub.secrets.redactor import Redactor

KEY = "sk-wagtail-93"

Write = Callable[[str, str], Path]


# A redactor

SECRETS = st.lists(st.text("abc-", min_size=4, max_size=8), max_size=4)


@given(SECRETS, st.text("abc- ", max_size=60))
def test_no_secret_is_left_and_a_text_without_one_stays_as_it_is(secrets: list[str], text: str) -> None:
    covered = Redactor(tuple(sorted(secrets, key=len, reverse=True))).text(text)
    assert [secret for secret in secrets if secret in covered] == []
    assert (covered == text) is not any(secret in text for secret in secrets)


@given(SECRETS, st.text("abc- ", max_size=20))
def test_to_cover_twice_is_to_cover_once(secrets: list[str], text: str) -> None:
    redactor = Redactor(tuple(sorted(secrets, key=len, reverse=True)))
    assert redactor.text(redactor.text(text)) == redactor.text(text)


def test_what_would_be_a_pattern_is_a_text_like_any_other() -> None:
    assert Redactor(("p.ss(w|*",)).text("passw and p.ss(w|*") == "passw and ***"


def test_a_redactor_does_not_show_what_it_covers() -> None:
    assert KEY not in repr(Redactor((KEY,)))


def test_a_value_is_covered_all_the_way_down() -> None:
    call = {"function": {"name": "bash", "arguments": f'{{"cmd": "curl -H {KEY}"}}'}, KEY: [1, None, (KEY,)]}
    assert Redactor((KEY,)).value(call) == {
        "function": {"name": "bash", "arguments": '{"cmd": "curl -H ***"}'},
        "***": [1, None, ["***"]],
    }


def test_a_framework_knows_the_secrets_of_its_environment_and_of_every_profile(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(
        "pipelines.yaml",
        """
        version: 1
        extends: bub:default
        profiles:
          default: {settings: {model: "openai:gpt-5-mini", api_key: "${env:FIRST}"}}
          other: {settings: {providers: {openai: {api_key: key-of-the-other}}}}
        routes:
          - {match: {channel: work}, profile: other}
        """,
    )
    write(".env", "FROM_DOTENV_TOKEN=beside-the-file\n")
    monkeypatch.setenv("FIRST", "behind-a-reference")
    monkeypatch.setenv("MY_PASSWORD", "of-the-environment")
    framework = BubFramework(file)
    framework.load_hooks()
    secrets = ["behind-a-reference", "key-of-the-other", "of-the-environment", "beside-the-file"]
    assert framework.mask.text(" ".join(secrets)) == "*** *** *** ***"


WRITTEN = {
    "as it is": lambda secret: f"the key is {secret}, they say",
    "quoted by Python": repr,
    "quoted by Python among quotes": lambda secret: repr(f'it\'s "{secret}"'),
    "as bytes": lambda secret: repr(secret.encode()),
    "in an exception": lambda secret: repr(KeyError(secret)),
    "in JSON": lambda secret: json.dumps({"key": secret}),
    "in JSON as people read it": lambda secret: json.dumps({"key": secret}, ensure_ascii=False),
    "in the path of an address": lambda secret: f"https://host.example/{quote(secret)}",
    "in the query of an address": lambda secret: f"https://host.example/?key={quote(secret, safe='')}&x=1",
    "in a form": lambda secret: f"key={quote_plus(secret)}",
    "in a header": lambda secret: f"Authorization: Basic {b64encode(f'me:{secret}'.encode()).decode()}",
    "in base64": lambda secret: b64encode(secret.encode()).decode(),
    "in the middle of base64": lambda secret: b64encode(f"user:{secret}, and so on".encode()).decode(),
    "in base64 for addresses": lambda secret: urlsafe_b64encode(f"a{secret}b".encode()).decode(),
    "in one line": lambda secret: " ".join(secret.split()),
    "as one of its lines": lambda secret: f"key.pem:2: {(secret.splitlines() * 2)[1]}",
}
"""Where secrets turn up, with what surrounds them there."""


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "it's-wagtail",
        "pä ss/wörd+?&=\"'\\%",
        "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n",
    ],
    ids=["plain", "quote", "odd", "lines"],
)
def test_a_secret_is_covered_however_it_is_written(
    secret: str, written: Callable[[str], str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", secret)
    framework = BubFramework(write("pipelines.yaml", "version: 1\nextends: bub:default\n"))
    framework.load_hooks()
    text = written(secret)
    for covered in (framework.mask.text(text), json.dumps(framework.mask.value({"error": [text]}))):
        assert "***" in covered
        assert all(told not in covered for told in ("wagtail", "wörd", "%B6rd", "MIIEvQIBADAN", "BgkqhkiG9w0B"))
        assert b64encode(secret.encode()).decode()[4:16] not in covered


def test_a_password_in_an_address_is_a_secret_and_what_only_tells_where_one_is_is_none(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("key.json", "{}")
    for name, value in {
        "DATABASE_URL": "postgres://me:Wag%2Ftail93@host/db",
        "LOCAL_DATABASE_URL": "postgres://postgres:postgres@localhost/db",
        "GIT_REMOTE": "https://ghp_wagtail93@git.example/x.git",
        "DB_PASS": "Wagtail-94",
        "MIRROR": "https://builder@mirror.example/",
        "TOKEN_URL": "https://login.example/token",
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json"),
    }.items():
        monkeypatch.setenv(name, value)
    settings = "settings: {providers: {openai: {api_base: 'https://me:Wagtail-95@proxy.example/v1'}}}"
    framework = BubFramework(write("pipelines.yaml", f"version: 1\nextends: bub:default\n{settings}\n"))
    framework.load_hooks()
    for secret in ("Wag%2Ftail93", "Wag/tail93", "ghp_wagtail93", "Wagtail-94", "Wagtail-95"):
        assert framework.mask.text(f"<{secret}>") == "<***>"
    for harmless in ("postgres", "builder", "https://login.example/token", str(tmp_path / "key.json"), "proxy.example"):
        assert framework.mask.text(harmless) == harmless


# The log

PIPELINE = f"""
    version: 1
    extends: bub:default
    plugins: {{parrot: {{path: parrot.py}}}}
    profiles: {{default: {{plugins: [parrot], settings: {{api_key: {KEY}}}}}}}
"""

FAILING = f"""
    from bub import hookimpl
    from loguru import logger

    @hookimpl
    def run_model(prompt):
        logger.info("the parrot was given {KEY}")
        try:
            raise ConnectionError("no answer to {KEY}")
        except ConnectionError as error:
            error.add_note("sent: {KEY}")
            raise RuntimeError("the parrot is silent about {KEY}") from error
"""


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def log(tmp_path: Path) -> Callable[[], str]:
    return lambda: (tmp_path / "home" / "logs" / "bub.log").read_text(encoding="utf-8")


def test_a_key_in_what_a_plugin_fails_with_or_logs_is_covered(write: Write, log: Callable[[], str]) -> None:
    write("parrot.py", FAILING)
    file = write("pipelines.yaml", PIPELINE)
    done = run(file.parent, "-m", "bub", "--config", str(file), "run", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "bub: RuntimeError: the parrot is silent about *** (the details are in " in done.stderr
    assert KEY not in log() + done.stderr
    assert "the parrot was given ***" in log()
    assert 'raise ConnectionError("no answer to ***")' in log()  # the line of code
    assert "ConnectionError: no answer to ***\nsent: ***" in log()
    assert "RuntimeError: the parrot is silent about ***" in log()


def test_a_key_in_what_a_plugin_fails_to_load_with_is_covered_too(write: Write, log: Callable[[], str]) -> None:
    write("parrot.py", f"raise ImportError('no parrot for {KEY}')\n")
    file = write("pipelines.yaml", PIPELINE)
    done = run(file.parent, "-m", "bub", "--config", str(file), "run", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no parrot for ***" in done.stderr
    assert "ImportError: no parrot for ***" in log()
    assert KEY not in log() + done.stderr


EMBEDDING = f"""
    import sys
    from loguru import logger
    from bub.log import cover, log_exception, log_info
    from bub.secrets.redactor import Redactor

    def show(line):
        failure = line.record["exception"]
        print(line.record["message"], "|", type(failure.value).__name__ if failure else "-")

    logger.remove()
    logger.configure(handlers=[{{"sink": show, "format": "{{message}}"}}], patcher=lambda record: print("patched"))
    log_info("before.masks", key="{KEY}")
    cover(Redactor(("{KEY}",)))
    cover(Redactor(("another-key",)))
    log_info("with.masks", key="{KEY}", other="another-key")
    logger.info("its own line with {KEY}")
    log_exception("it.failed", ValueError("no secret"))
    log_exception("it.failed", ValueError("{KEY}"))
"""


def test_a_program_that_embeds_bub_keeps_its_own_log_and_gets_the_lines_of_bub_covered(write: Write) -> None:
    done = run(write("embedding.py", EMBEDDING).parent, "embedding.py")
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if line != "patched"] == [
        f"before.masks key={KEY} | -",
        "with.masks key=*** other=*** | -",
        f"its own line with {KEY} | -",
        "it.failed error='ValueError: no secret'",
        "ValueError: no secret | -",
        "it.failed error='ValueError: ***'",
        "ValueError: *** | -",
    ]
    assert done.stdout.count("patched") == 5


LIBRARY = """
    import sys
    import trio
    from loguru import logger
    from bub import BubFramework

    if "enabled" in sys.argv:
        logger.enable("bub")

    async def main():
        framework = BubFramework("pipelines.yaml")
        async with framework.running():
            await framework.process_inbound({"channel": "cli", "chat_id": "x", "content": "hello"})

    try:
        trio.run(main)
    except RuntimeError as error:
        print(error)
"""

UNLUCKY = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        password = "a-" + "local-value"
        raise RuntimeError("the parrot is silent")
"""


def test_as_a_library_bub_logs_nothing_and_if_enabled_no_values_of_variables(write: Write) -> None:
    write("parrot.py", UNLUCKY)
    write("pipelines.yaml", PIPELINE)
    file = write("program.py", LIBRARY)
    quiet = run(file.parent, "program.py")
    assert (quiet.stdout, quiet.stderr) == ("the parrot is silent\n", "")
    enabled = run(file.parent, "program.py", "enabled")
    assert "RuntimeError: the parrot is silent" in enabled.stderr
    assert "Traceback" in enabled.stderr
    assert "a-local-value" not in enabled.stderr


# References


EVERYWHERE = """
    version: 1
    extends: bub:default
    x-notes: {who: "${env:IN_NOTES}"}
    plugins: {parrot: {path: parrot.py}}
    profiles:
      default: {plugins: [parrot], description: "Bird of ${env:IN_DESCRIPTION}."}
      other: {settings: {telegram: {token: "Bot ${env:IN_PROFILE}"}, model: "${env:IN_MODEL}"}}
    stages:
      run_model: {when: {chat_id: "${env:IN_WHEN}"}}
    routes:
      - {match: {sender_id: "${env:IN_ROUTE}"}, profile: default}
    tests:
      speaks:
        message: {content: "${file:said.txt} ${env:IN_TEST}"}
        mock: {run_model: {return: "${env:SOME_TOKEN:-wagtail-default}"}}
        expect: {outbounds: []}
"""


def test_what_stands_behind_a_reference_is_covered_wherever_that_stands(write: Write) -> None:
    write("said.txt", "wagtail-in-a-file\n")
    places = ("NOTES", "DESCRIPTION", "PROFILE", "WHEN", "ROUTE", "TEST")
    environment = {f"IN_{place}": f"wagtail-in-{place.lower()}-93" for place in places}
    document = load_document(write("pipelines.yaml", EVERYWHERE))
    redactor = redactor_of(document, {**environment, "IN_MODEL": "local:x"}, {})
    for place in places:
        assert redactor.text(f"<wagtail-in-{place.lower()}-93>") == "<***>", place
    assert redactor.text("wagtail-in-a-file local:x wagtail-default") == "*** *** ***"


def test_what_only_a_reference_says_is_no_secret_if_it_is_short_a_word_or_prose(write: Write) -> None:
    write("said.txt", "A long text of prose.\nIt tells of wagtails and more.\nWagtails!\n")
    text = """
        version: 1
        extends: bub:default
        stages:
          run_model: {when: {channel: "${env:CHANNEL}", chat_id: "${env:CHAT}", kind: "${env:KIND:-wagtail-93}"}}
        tests: {speaks: {message: {content: "${file:said.txt}"}, expect: {outbounds: []}}}
    """
    redactor = redactor_of(load_document(write("pipelines.yaml", text)), {"CHANNEL": "telegram", "CHAT": "a"}, {})
    harmless = "a telegram wagtail-93 Wagtails! A long text of prose.\nIt tells of wagtails and more.\nWagtails!"
    assert redactor.text(harmless) == harmless


def test_a_number_is_covered_where_the_schema_marks_it_and_not_for_its_name_alone(write: Write) -> None:
    file = write(
        "pipelines.yaml", "version: 1\nextends: bub:default\nsettings: {weather: {pin: 493817, sort_key: 1024}}\n"
    )
    schema = {"properties": {"pin": {"type": "integer", "writeOnly": True}, "sort_key": {"type": "integer"}}}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(install_section(file.parent / "site", schema))
        redactor = redactor_of(load_document(file), {}, {})
    assert redactor.text("pin 493817 in 1024") == "pin *** in 1024"
    assert redactor.value({"pin": 493817, "key": 1024, "yes": True}) == {"pin": "***", "key": 1024, "yes": True}
    assert redactor_of(load_document(file), {}, {}).text("493817") == "493817"


def test_a_secret_in_the_file_is_covered_though_no_profile_that_is_loaded_has_it(write: Write) -> None:
    text = "version: 1\nextends: bub:default\nprofiles: {spare: {settings: {telegram: {token: wagtail-94}}}}\n"
    framework = BubFramework(write("pipelines.yaml", text))
    framework.load_hooks()
    assert framework.profiles == ("default",)
    assert framework.mask.text("wagtail-94") == "***"
