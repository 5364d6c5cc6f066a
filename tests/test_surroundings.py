"""`env` and `settings` in the tests of a pipeline file: what only one test has around it."""

from __future__ import annotations

import os

import pytest
from fakes.checking import check_file
from fakes.desk import Desk, Write
from fakes.mistakes import check, said

from bub.testing import run_tests

DESK = """
version: 1
extends: bub:default
plugins:
  desk: {path: desk.py}
profiles:
  default: {plugins: [desk], settings: {desk: {greeting: "${env:GREETING:-good day}"}}}
  loud: {extends: default, settings: {desk: {greeting: HELLO}}}
routes:
  - match: {channel: shop}
    profile: loud
"""

PLUGIN = """
import os

from bub import Settings, hookimpl


class DeskSettings(Settings, section="desk"):
    greeting: str
    name: str = "nobody"


class Desk:
    def __init__(self, framework):
        self.settings = DeskSettings.of(framework)

    @hookimpl
    def run_model(self):
        return f"{self.settings.greeting} {self.settings.name} {os.environ.get('DESK_MODE')}"


plugin = Desk
"""


@pytest.fixture
def desk(write: Write) -> Desk:
    write("desk.py", PLUGIN)
    return Desk(write)


def test_variables_and_settings_are_those_of_one_test(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_MODE", "usual")
    monkeypatch.delenv("DESK_OTHER", raising=False)
    failures = desk.failures_of(
        """
        as it is:
          message: {content: x}
          expect: {model_output: good day nobody usual}
        variables:
          message: {content: x}
          env: {GREETING: hi, DESK_MODE: quiet}
          expect: {model_output: hi nobody quiet}
        settings go over those of the profile:
          message: {channel: shop, content: x}
          settings: {desk: {name: Ada}}
          expect: {model_output: HELLO Ada usual}
        settings look into the variables of the test:
          message: {channel: shop, content: x}
          settings: {desk: {greeting: "${env:DESK_OTHER}"}}
          env: {DESK_OTHER: ho}
          expect: {model_output: ho nobody usual}
        an empty one counts as unset:
          message: {content: x}
          env: {GREETING: "", BUB_DESK_NAME: Bob}
          expect: {model_output: {contains: good day}}
        as it was:
          message: {content: x}
          expect: {model_output: good day nobody usual}
        """,
        DESK,
    )
    assert [failed for failed in failures.values() if failed] == []
    assert len(failures) == 6
    assert os.environ["DESK_MODE"] == "usual"
    assert "DESK_OTHER" not in os.environ


def test_what_a_test_sets_wrongly_is_told_before_any_runs(desk: Desk) -> None:
    file = desk.file(
        """
        it:
          message: {content: x}
          settings: {desk: {greeting: "${env:NOT_THERE}"}}
          expect: {model_output: x}
        """,
        DESK,
    )
    report = run_tests(file)
    assert not report.ok
    assert not report.verdicts
    assert "the setting `desk.greeting` is missing" in str(report)


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("settings: {max_steps: 2}", None),
        ("settings: {max_tokens: many}", "`settings.max_tokens` of test `t` must be a whole number, 1 or more"),
        ("settings: {telegram: {token: 5}}", "`settings.telegram.token` of test `t` must be text, not a number"),
        ("settings: {telegrm: {token: x}}", "nobody reads the settings `telegrm`"),
        ("env: {A-B: x}", "must be a name of letters, digits and `_`"),
        ("env: {A: 5}", "must be text"),
    ],
)
def test_settings_and_variables_are_checked_as_elsewhere(test: str, found: str | None) -> None:
    text = f"version: 1\nextends: bub:default\ntests: {{t: {{message: {{content: x}}, {test}, expect: {{prompt: x}}}}}}"
    told = said(check(text))
    assert found is None or any(found in one for one in told), told


def test_what_a_plugin_reads_is_looked_up_in_its_file(desk: Desk) -> None:
    tests = "t: {message: {content: x}, env: {DESK_MODE: hi, DESK_MOOD: good}, expect: {prompt: x}}"
    found = check_file(desk.file(tests, DESK)).diagnostics
    assert [one.path for one in found if one.code == "B155"] == ["tests.t.env.DESK_MOOD"]
    found = check_file(desk.file(tests, DESK.replace("plugins: [desk]", "plugins: [desk, some_package]"))).diagnostics
    assert [one.path for one in found if one.code == "B155"] == []
