"""What a pipeline file names is held against its lock: nothing is imported for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.validate import check_files
from bub.pipeline.source.discovery import PipelineFile
from bub.plugins.lock.facts import digest_of_bytes

NOTES = "raise SystemExit('it ran')\n"

LOCK = f"""\
[tool.bub]
version = 1

[[tool.bub.plugins]]
name = "notes"
profiles = ["default"]
file = "notes.py"
sha256 = "{digest_of_bytes(NOTES.encode())}"
hooks = ["moderat", "provide_tools", "tool_gate"]

[tool.bub.plugins.tools]
"notes.add" = {{ description = "1", schema = "2" }}

[[tool.bub.servers]]
name = "time"
profiles = ["default"]
definition = {{ command = ["uvx", "mcp-server-time"] }}

[tool.bub.servers.tools]
now = {{ description = "1", schema = "2" }}
"""

FILE = """\
version: 1
extends: bub:{base}
plugins: {{notes: {{path: notes.py{labels}}}}}
{more}
profiles:
  default:
    plugins: [notes]
    tools: {tools}
"""


def check(
    folder: Path,
    *,
    tools: str = "{allow: [notes.add]}",
    more: str = "",
    labels: str = "",
    base: str = "default",
    lock: str = LOCK,
    notes: str = NOTES,
) -> list[Diagnostic]:
    (folder / "notes.py").write_text(notes)
    (folder / "pylock.bub.toml").write_text(lock)
    file = folder / "pipelines.yaml"
    file.write_text(FILE.format(tools=tools, more=more, labels=labels, base=base))
    found = check_files([PipelineFile("pipelines.yaml", file)]).diagnostics
    return [finding for finding in found if finding.severity != "note"]


def told(found: list[Diagnostic]) -> list[str]:
    return [f"{one.code} {one.severity}: {one.message}" for one in found]


def test_what_the_lock_has_is_fine(tmp_path: Path) -> None:
    labels = ", labels: {tools: {notes.add: {reads: private}}}"
    assert (
        told(check(tmp_path, tools='{allow: [fs.read, "notes.*", notes.add], ask: [notes.add]}', labels=labels)) == []
    )


def test_a_tool_that_the_lock_does_not_have_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    (found,) = check(tmp_path, tools="{allow: [notes.ad]}")

    assert told([found]) == [
        "B248 error: according to the lock, no plugin or server of profile `default` brings a tool `notes.ad`"
    ]
    assert (found.help, found.fix) == ("did you mean `notes.add`?", "notes.add")
    assert found.path == "profiles.default.tools.allow"


@pytest.mark.parametrize(
    ("tools", "severity"),
    [
        ("{allow: [notes.add], deny: [mail.send]}", "error"),
        ("{allow: [notes.add], ask: [mail.send]}", "error"),
        ('{allow: [notes.add, "mail.*"]}', "warning"),
    ],
)
def test_each_rule_of_a_profile_is_looked_at(tmp_path: Path, tools: str, severity: str) -> None:
    found = [one for one in check(tmp_path, tools=tools) if one.code == "B248"]

    assert [(one.severity, "mail." in one.message) for one in found] == [(severity, True)]


def test_a_test_may_mock_only_what_there_is(tmp_path: Path) -> None:
    more = (
        "tests: {t: {message: {content: hi}, mock: {run_model: hm}, mock_tools: {notes.edd: x}, expect: {reply: hm}}}"
    )

    (found,) = [one for one in check(tmp_path, more=more) if one.code == "B248"]
    assert found.path == "tests.t.mock_tools.notes.edd"


def test_labels_are_for_tools_that_there_are(tmp_path: Path) -> None:
    (found,) = check(tmp_path, labels=", labels: {tools: {notes.edd: {reads: private}}}")

    assert (found.code, found.path) == ("B248", "plugins.notes.labels.tools.notes.edd")


def test_a_hook_that_no_locked_plugin_implements_is_an_error(tmp_path: Path) -> None:
    more = "hooks: {moderate: {kind: gate}}\nstages: {moderate: {after: build_prompt, takes: [prompt]}}"
    (found,) = [one for one in check(tmp_path, more=more) if one.code == "B249"]

    assert found.message == (
        "stage `moderate` calls `moderate`, but according to the lock, no plugin of profile `default` implements it"
    )
    assert found.help == "a plugin implements `moderat`, which is no hook: did you mean that?"


def test_a_hook_that_a_locked_plugin_implements_is_fine(tmp_path: Path) -> None:
    more = "hooks: {moderate: {kind: gate}}\nstages: {moderate: {after: build_prompt, takes: [prompt]}}"

    found = check(tmp_path, more=more, lock=LOCK.replace('"moderat"', '"moderate"'))
    assert "B249" not in [one.code for one in found]


def test_a_plugin_that_the_lock_does_not_know_makes_it_stale_and_hides_what_follows(tmp_path: Path) -> None:
    lock = LOCK.replace('name = "notes"', 'name = "other"')
    found = check(tmp_path, tools="{allow: [mail.send]}", lock=lock)

    assert told(found) == ["B247 error: plugin `notes` is not what pylock.bub.toml says: + the lock does not know it"]
    assert found[0].help == (
        "if you want this change, `bub lock --upgrade notes` accepts it; `bub lock --check` shows all changes"
    )


def test_a_changed_file_makes_the_lock_stale(tmp_path: Path) -> None:
    assert told(check(tmp_path, notes=f"{NOTES}# changed\n")) == [
        "B247 error: plugin `notes` is not what pylock.bub.toml says: ~ content of notes.py"
    ]


def test_a_lock_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (found,) = check(tmp_path, lock="[tool.bub]\nversion = 9\n")

    assert found.code == "B246" and found.help is not None and "bub lock" in found.help
