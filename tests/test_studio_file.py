"""The pipeline file on the page of `bub studio`: checked as one types, compared with what runs, proved and loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.command_line import bub

from bub import BubFramework
from bub.errors import BubError, UsageError
from bub.studio.views.check import TextChecker, compare_text, explain_code
from bub.studio.views.file import load, prove, show_file
from bub.studio.views.loaded import ChangedError, NotThereError

GUARD = """\
from pathlib import Path
from bub import hookimpl

if Path(__file__).with_name("boom").exists():
    raise RuntimeError("boom")

@hookimpl
def moderate(prompt):
    return None
"""
BASE = "version: 1\nextends: bub:default\n"
FILE = """\
version: 1
extends: base.yaml
plugins: {guard: {path: guard.py}}
hooks: {moderate: {kind: gate, takes: [prompt]}}
stages:
  moderate: {before: run_model, timeout: 5s}
settings: {gateway: {studio: {write: true}}}
mcp:
  used: {command: [run-used]}
  idle: {command: [run-idle]}
profiles:
  default: {plugins: [guard, local_model], tools: {allow: [fs.read, "mcp.used.*"], ask: [bash]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("guard.py", GUARD), ("base.yaml", BASE), ("pipelines.yaml", FILE)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def framework(folder: Path) -> BubFramework:
    framework = BubFramework(folder / "pipelines.yaml", workspace=folder)
    framework.load_hooks()
    return framework


def shown(framework: BubFramework, may_write: bool = True) -> dict[str, Any]:
    return show_file(framework.generation, framework.mask, may_write=may_write)


def proved(framework: BubFramework, text: str) -> dict[str, Any]:
    return prove(framework.generation, text, framework.mask, may_write=True)


def loaded(framework: BubFramework, text: str, digest: str | None = None) -> dict[str, Any]:
    digest = shown(framework)["digest"] if digest is None else digest
    return load(framework.generation, text, digest, framework.reload, framework.mask, may_write=True)


def said(answer: dict[str, Any]) -> str:
    return "\n".join(f"{one['message']} ({one['help']})" for one in answer["findings"])


# Checking


@pytest.mark.anyio
async def test_a_text_has_the_findings_of_validate_while_it_is_typed_and_sure_repairs(
    framework: BubFramework, folder: Path
) -> None:
    text = FILE.replace("timeout: 5s", "timeot: 5s").replace("base.yaml", "base.yaml  # old")
    found = (await TextChecker().check(framework.generation, text, framework.mask))["findings"]
    (folder / "typed.yaml").write_text(text)
    expected = json.loads(bub(folder, "validate", "typed.yaml", "--pedantic", "--format", "json").stdout)["diagnostics"]
    assert [(one["code"], one["range"]["start"]) for one in found] == [
        (one["code"], one["range"]["start"]) for one in expected
    ]
    typo = next(one for one in found if "timeot" in one["message"])
    assert typo["fix"] == {"title": "Write timeout", "text": "timeout"} and typo["page"] == typo["code"]
    assert typo["range"]["start"] == {"line": 6, "column": 33}
    assert (folder / "pipelines.yaml").read_text() == FILE


@pytest.mark.anyio
async def test_a_finding_in_a_parent_is_at_the_place_that_names_it(framework: BubFramework, folder: Path) -> None:
    (folder / "base.yaml").write_text(f"{BASE}stages: {{x: {{kind: nonsense}}}}\n")
    found = (await TextChecker().check(framework.generation, FILE, framework.mask))["findings"]
    one = next(one for one in found if one["file"] == "base.yaml")
    assert one["message"].startswith("base.yaml:3: ") and one["range"]["start"]["line"] == 2 and one["fix"] is None


@pytest.mark.anyio
async def test_checking_imports_nothing_and_of_texts_that_wait_the_last_one_counts(
    framework: BubFramework, folder: Path
) -> None:
    (folder / "evil.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    text = FILE.replace("{guard: {path: guard.py}}", "{evil: {path: evil.py}}").replace("[guard,", "[evil,")
    checker, answers = TextChecker(), []

    async def check(text: str) -> None:
        answers.append(await checker.check(framework.generation, text, framework.mask))

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(check, f"{text}# {number}\n")
    assert [answer["is_old"] for answer in answers].count(False) == 1
    assert not (folder / "imported").exists()
    huge = await checker.check(framework.generation, "# " + "x" * 2_000_000, framework.mask)
    assert [one["code"] for one in huge["findings"]] == ["B009"]


def test_the_page_of_a_code_is_the_one_that_explain_prints() -> None:
    assert explain_code("b120")["text"].startswith("B120: ")
    for word in ("B999", "../x", ""):
        with pytest.raises(NotThereError):
            explain_code(word)


def test_a_text_is_compared_with_what_runs_and_not_with_the_disk(framework: BubFramework, folder: Path) -> None:
    same = compare_text(framework.generation, f"# a remark\n{FILE}", framework.mask)
    assert same["groups"] == [] and "no difference" in same["text"]
    (folder / "pipelines.yaml").write_text(FILE.replace("ask: [bash]", "ask: [bash, fs.read]"))
    changed = FILE.replace("timeout: 5s", "timeout: 5s, enabled: false").replace("[fs.read,", "[fs.read, fs.list,")
    groups = compare_text(framework.generation, changed, framework.mask)["groups"]
    assert groups[0]["danger"] and groups[0]["title"] == "gates that open"
    assert [group["danger"] for group in groups] == sorted((group["danger"] for group in groups), reverse=True)
    broken = compare_text(framework.generation, "version: [1\n", framework.mask)
    assert broken["findings"]


# Showing


def test_the_file_is_shown_with_its_digest_and_what_it_extends(framework: BubFramework) -> None:
    found = shown(framework)
    assert (found["name"], found["text"], found["write"], found["why"]) == ("pipelines.yaml", FILE, True, None)
    assert [parent["name"] for parent in found["parents"]] == ["base.yaml", "bub:default"]
    assert "resolve_session" in found["parents"][1]["text"]
    assert shown(framework, may_write=False)["why"] == "`gateway.studio.write` is not true"


def test_a_shipped_pipeline_is_shown_and_never_written(tmp_path: Path) -> None:
    framework = BubFramework(workspace=tmp_path)
    framework.load_hooks()
    found = shown(framework)
    assert "resolve_session" in found["text"] and not found["write"] and "shipped with Bub" in found["why"]
    with pytest.raises(UsageError, match="shipped with Bub"):
        loaded(framework, found["text"])


def test_a_file_with_a_secret_in_plain_text_is_shown_without_it_and_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-ant-api03-Ab3dEf6hIj9kLmNoPqRsTuVwXyZ0123456789"
    (folder / "pipelines.yaml").write_text(FILE.replace("settings: {", f"settings: {{api_key: {secret}, "))
    framework = BubFramework(folder / "pipelines.yaml", workspace=folder)
    framework.load_hooks()
    found = shown(framework)
    assert secret not in found["text"] and not found["write"] and "plain text" in found["why"]
    with pytest.raises(UsageError, match="plain text"):
        loaded(framework, found["text"])


# Proving and loading


def test_a_text_is_proved_with_the_plugins_that_are_loaded(framework: BubFramework, folder: Path) -> None:
    good = FILE.replace("timeout: 5s", "timeout: 6s")
    answer = proved(framework, good)
    assert answer["outcome"] == "ok" and "server `idle`, so Bub never uses the server" in said(answer)
    assert "bub prove" in answer["words"]
    unguarded = good.replace("moderate: {before", "other: {hook: gate_of_nobody, kind: gate, before")
    answer = proved(framework, unguarded)
    assert answer["outcome"] == "refused" and "gate_of_nobody" in said(answer)
    assert (folder / "pipelines.yaml").read_text() == FILE and framework.generation.number == 1
    with pytest.raises(UsageError, match=r"gateway\.studio\.write"):
        prove(framework.generation, good, framework.mask, may_write=False)


@pytest.mark.parametrize(
    ("before", "naming"),
    [
        (
            "profiles:",
            'schedules: {night: {cron: "0 8 * * *", message: Hi, session: "telegram:7", profile: "${env:P:-more}"}}',
        ),
        ("settings: {", 'http: {webhooks: {alarm: {secret: "${env:S}", profile: more}}}, '),
        ("settings: {", 'http: {clients: {ada: {token: "${env:S}", profiles: ["${env:P:-more}"]}}}, '),
    ],
    ids=["schedule", "webhook", "client"],
)
def test_a_profile_that_something_beside_routes_names_is_proved_too(
    framework: BubFramework, before: str, naming: str
) -> None:
    text = f"{FILE}  more: {{plugins: [local_model]}}\n"  # so that nobody implements its gate
    assert proved(framework, text)["outcome"] == "ok"
    named = f"{naming}\n{before}" if before == "profiles:" else f"{before}{naming}"
    answer = proved(framework, text.replace(before, named))
    assert answer["outcome"] == "refused" and "moderate" in said(answer)


def test_a_text_is_loaded_and_the_file_keeps_its_mode_its_link_and_its_ends_of_lines(
    framework: BubFramework, folder: Path
) -> None:
    path, real = folder / "pipelines.yaml", folder / "real.yaml"
    path.rename(real)
    path.symlink_to(real)
    real.write_bytes(FILE.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    text = FILE.replace("timeout: 5s", "timeout: 6s")
    answer = loaded(framework, text)
    assert answer["outcome"] == "ok", answer
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes() == text.replace("\n", "\r\n").encode()
    assert framework.generation.number == 2
    assert next(step for step in framework.graph.steps if step.id == "moderate").timeout == 6
    assert answer["digest"] == shown(framework)["digest"]
    assert sorted(one.name for one in folder.iterdir() if one.is_file()) == [
        "base.yaml",
        "guard.py",
        "pipelines.yaml",
        "real.yaml",
    ]


def test_nothing_is_written_over_what_somebody_else_wrote_meanwhile(framework: BubFramework, folder: Path) -> None:
    digest = shown(framework)["digest"]
    theirs = f"{FILE}# theirs\n"
    (folder / "pipelines.yaml").write_text(theirs)
    with pytest.raises(ChangedError):
        loaded(framework, FILE.replace("5s", "6s"), digest)
    assert (folder / "pipelines.yaml").read_text() == theirs and framework.generation.number == 1


def test_a_text_with_errors_is_refused_and_the_file_stays(framework: BubFramework, folder: Path) -> None:
    answer = loaded(framework, FILE.replace("kind: gate", "kind: gat"))
    assert answer["outcome"] == "refused" and answer["findings"] and "as it was" in answer["words"]
    assert (folder / "pipelines.yaml").read_text() == FILE and framework.generation.number == 1


def test_a_text_that_cannot_be_loaded_after_all_is_taken_back(framework: BubFramework, folder: Path) -> None:
    (folder / "boom").touch()
    answer = loaded(framework, FILE.replace("5s", "6s"))
    assert answer["outcome"] == "refused" and "boom" in said(answer) and "as it was" in answer["words"]
    assert (folder / "pipelines.yaml").read_text() == FILE and framework.generation.number == 1


def test_a_file_that_cannot_be_written_is_as_it_was(
    framework: BubFramework, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    digest = shown(framework)["digest"]
    monkeypatch.setattr("bub.base.rewrite.os.fsync", full)
    with pytest.raises(BubError, match="no space left on device"):
        loaded(framework, FILE.replace("5s", "6s"), digest)
    assert (folder / "pipelines.yaml").read_text() == FILE and framework.generation.number == 1
    assert not [one for one in folder.iterdir() if one.name.startswith(".bub-")]


FORBIDDEN: dict[str, tuple[Callable[[str], str], str]] = {
    "a plugin of a file": (
        lambda text: text.replace("plugins: {guard", "plugins: {evil: {path: evil.py}, guard").replace(
            "[guard", "[evil"
        ),
        "plugin `evil`",
    ),
    "an installed plugin": (
        lambda text: text.replace("[guard,", "[guard, telegram,"),
        "plugin `telegram` is not loaded",
    ),
    "a plugin in a profile that nobody uses": (lambda text: f"{text}  other: {{plugins: [telegram]}}\n", "telegram"),
    "the same name from another file": (lambda text: text.replace("path: guard.py", "path: evil.py"), "plugin `guard`"),
    "another loop": (lambda text: text.replace("path: guard.py", "path: guard.py, runtime: asyncio"), "plugin `guard`"),
    "a new server": (lambda text: text.replace("mcp:\n", "mcp:\n  new: {command: [evil]}\n"), "server `new`"),
    "a server of a profile": (lambda text: f"{text}  other: {{mcp: {{new: {{command: [evil]}}}}}}\n", "server `new`"),
    "another command": (lambda text: text.replace("run-used", "evil"), "server `used`"),
    "a server that is not in use": (lambda text: text.replace("mcp.used", "mcp.idle"), "server `idle` is not in use"),
    "a server behind a reference": (lambda text: text.replace("mcp.used.*", "${env:X:-mcp.idle.*}"), "server `idle`"),
    "another parent": (lambda text: text.replace("base.yaml", "evil.yaml"), "evil.yaml is not part"),
    "a way to the page": (lambda text: text.replace("write: true", "write: true, listen: 0.0.0.0:1"), "gateway.studio"),
    "a way to the page in a profile": (
        lambda text: f"{text}  other: {{settings: {{gateway: {{studio: {{write: false}}}}}}}}\n",
        "gateway.studio",
    ),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_what_would_be_imported_or_started_is_refused_by_its_name(
    framework: BubFramework, folder: Path, case: str
) -> None:
    change, words = FORBIDDEN[case]
    (folder / "evil.py").write_text(f"{GUARD}\nPath('imported').touch()\n")
    (folder / "evil.yaml").write_text(BASE)
    for answer in (proved(framework, change(FILE)), loaded(framework, change(FILE))):
        assert answer["outcome"] == "refused" and words in said(answer), answer
        assert "the page cannot load this" in said(answer)
    assert (folder / "pipelines.yaml").read_text() == FILE and framework.generation.number == 1
    assert not (folder / "imported").exists()


@pytest.mark.parametrize("file", ["guard.py", "base.yaml"])
def test_what_was_changed_on_the_disk_since_it_was_loaded_is_refused(
    framework: BubFramework, folder: Path, file: str
) -> None:
    (folder / file).write_text(f"{(folder / file).read_text()}# changed\n")
    answer = loaded(framework, FILE.replace("5s", "6s"))
    assert answer["outcome"] == "refused" and file in said(answer)
    framework.reload()
    assert loaded(framework, FILE.replace("5s", "6s"))["outcome"] == "ok"


@pytest.mark.anyio
async def test_what_was_let_go_meanwhile_is_not_known_to_be_the_same(framework: BubFramework, folder: Path) -> None:
    async with framework.running():
        framework.reload()
        of_page = framework.generation
        framework.reload()
        await framework._runtime.loaded.let_go()
        answer = prove(of_page, FILE, framework.mask, may_write=True)
        assert answer["outcome"] == "refused" and "guard.py" in said(answer)
        assert proved(framework, FILE)["outcome"] == "ok"


def test_what_changes_between_the_look_and_the_loading_is_refused_before_it_is_imported(
    framework: BubFramework, folder: Path
) -> None:
    def reload(require: Any) -> None:
        (folder / "guard.py").write_text(f"{GUARD}\nPath('imported').touch()\n")
        framework.reload(require)

    text = FILE.replace("5s", "6s")
    answer = load(framework.generation, text, shown(framework)["digest"], reload, framework.mask, may_write=True)
    assert answer["outcome"] == "refused" and "guard.py" in said(answer)
    assert (folder / "pipelines.yaml").read_text() == FILE and not (folder / "imported").exists()
