"""`bub validate` as CI uses it: which files it takes, what it finds in one run, and that a stranger's do nothing."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.command_line import SOURCES

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.pipeline.source.discovery import discover
from bub.pipeline.source.merge import load_document

ROOT = Path(__file__).parent.parent
Write = Callable[[str, str], Path]

FORMATS = ("text", "json", "github", "sarif")
GOOD = "version: 1\nextends: bub:default\n"
BAD = "version: 1\nextends: bub:default\nstage: {}\n"
SECRET = "sk-hush-9f8e7d"

PARROT = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        return prompt
"""


class Done:
    """What one command line came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def found(self) -> list[tuple[str, str]]:
        """The code and file of each finding of a JSON report."""
        return [(item["code"], item["file"]) for item in json.loads(self.out)["diagnostics"]]


Validate = Callable[..., Done]


@pytest.fixture
def validate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Validate:
    """Runs `bub validate` with some arguments, in this process and in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)

    def run(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = exit_code(lambda: command_line(["validate", *arguments]))
        return Done(code, *capsys.readouterr())

    return run


def process(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `bub validate` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bub", "validate", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def watched(folder: Path, write: Write, hook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `bub validate` in a process that runs `hook` before anything else, to tell what it does or to hinder it."""
    site = write("site/sitecustomize.py", "import atexit, sys\n" + dedent(hook)).parent
    return process(folder, *arguments, PYTHONPATH=f"{site}{os.pathsep}{SOURCES}")


def below(folder: Path) -> list[str]:
    """The files that a folder stands for, seen from it."""
    return [str(file.path.relative_to(folder)) for file in discover([str(folder)], io.BytesIO()).files if file.path]


# Which files


def test_a_folder_stands_for_the_pipeline_files_in_it_and_below(tmp_path: Path, write: Write) -> None:
    write("pipelines.yaml", GOOD)
    write("b/c.yml", "version: 1\nstages: {}\n")
    write("b/a.yaml", "# first a word\n\nprofiles: {}\nversion: 1\n")
    write("compose.yaml", "services: {}\nversion: 3\n")
    write("chart.yaml", "version: 1\nx: {stages: {}}\n")
    write("ci.yaml", "stages: [build]\n")
    write("notes.txt", GOOD)
    assert below(tmp_path) == ["pipelines.yaml", "b/a.yaml", "b/c.yml"]


@pytest.mark.parametrize("folder", [".git", "node_modules", "a/.cache", "site-packages"])
def test_what_others_put_into_a_folder_is_left_out(tmp_path: Path, write: Write, folder: str) -> None:
    write("here.yaml", GOOD)
    write(f"{folder}/there.yaml", GOOD)
    assert below(tmp_path) == ["here.yaml"]
    assert below(tmp_path / folder) == ["there.yaml"]  # unless it is named


def test_virtual_environments_and_linked_folders_are_left_out(tmp_path: Path, write: Write) -> None:
    write("here.yaml", GOOD)
    write("venv/pyvenv.cfg", "")
    write("venv/lib/there.yaml", GOOD)
    (tmp_path / "circle").symlink_to(tmp_path)
    assert below(tmp_path) == ["here.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        'version: 1\nextends: bub:default\nstages: {a: "\n',
        "version: 1\r\nextends: bub:default\r\n\tx: 1\r\n",
        "version: 1\rstages: {}\r",
        "\ufeffversion: 1\nextends: x\n",
        "'version': 1\n\"stages\" : {}\n",
        '{"version": 1, "stages": {}}',
        "# a comment\n---\n  version: 1\n  stages: {}\n",
    ],
)
def test_a_pipeline_is_known_by_its_keys_whatever_is_wrong_with_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_bytes(text.encode())
    assert below(tmp_path) == ["a.yaml"]


@pytest.mark.parametrize(
    "text",
    ["", "version: 1\n", "x:\n  version: 1\n  stages: {}\n", '{"x": {"version": 1, "stages": {}}}', "{{ version }}: ["],
)
def test_other_files_are_nobodys_business(tmp_path: Path, write: Write, text: str) -> None:
    write("pipelines.yml", "")  # by its name alone
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert below(tmp_path) == ["pipelines.yml"]


def test_utf_16_and_bytes_that_are_no_text_do_not_hide_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD, encoding="utf-16")
    (tmp_path / "b.yaml").write_bytes(GOOD.encode() + b"x: \xff\n")
    assert below(tmp_path) == ["a.yaml", "b.yaml"]


def test_a_megabyte_of_comments_is_looked_through_at_once(tmp_path: Path, write: Write) -> None:
    write("pipelines.yaml", GOOD)
    (tmp_path / "a.yaml").write_text("# " + "-" * 30 + "\n   \n" * 150_000, encoding="utf-8")
    assert below(tmp_path) == ["pipelines.yaml"]


def test_a_file_is_checked_once_however_often_it_is_named(validate: Validate, write: Write) -> None:
    write("sub/a.yaml", BAD)
    path = Path("sub/a.yaml")
    (path.parent / "link.yaml").symlink_to("a.yaml")
    done = validate("--format", "json", "sub/a.yaml", "sub", "sub/../sub/a.yaml", str(path.absolute()))
    assert json.loads(done.out)["files"] == 1
    assert done.found == [("B100", "sub/a.yaml")]


def test_a_folder_without_a_pipeline_is_wrong_usage(validate: Validate, write: Write) -> None:
    write("empty/notes.yaml", "a: 1\n")
    done = validate("empty")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("bub: there is no pipeline file in empty (")


def test_a_change_concerns_the_files_that_extend_it(validate: Validate, write: Write) -> None:
    write("base.yaml", GOOD.replace("version: 1", "version: 1\nhooks: {moderate: {kind: gate, takes: [prompt]}}"))
    write("bots/middle.yaml", "version: 1\nextends: ../base.yaml\n")
    write("bots/pipelines.yaml", "version: 1\nextends: middle.yaml\nstages: {moderte: {before: run_model}}\n")
    write("broken/pipelines.yaml", BAD)
    write("compose.yaml", "version: 1\nservices: {}\n")
    changed = validate("--changed", "--format", "json", "compose.yaml", "base.yaml")
    assert json.loads(changed.out)["files"] == 3
    assert {file for _, file in changed.found} == {"bots/pipelines.yaml"}
    assert validate("--changed", "bots/middle.yaml").code == 1
    assert {file for _, file in validate("--changed", "--format", "json", "broken/pipelines.yaml").found} == {
        "broken/pipelines.yaml"
    }


def test_a_change_of_other_files_concerns_no_pipeline(validate: Validate, write: Write) -> None:
    write("pipelines.yaml", BAD)
    write("compose.yaml", "version: 1\nservices: {}\n")
    write(".github/workflows/pipelines.yaml", "on: push\njobs: {}\n")
    assert validate("--changed", "compose.yaml", ".github/workflows/pipelines.yaml").code == 0
    assert validate("--changed").code == 2
    assert validate("--changed", "gone.yaml").code == 2
    assert validate("compose.yaml").code == 1, "what is named by itself is checked, whatever it holds"


@pytest.mark.parametrize("name", ["gone.yaml", "bub:gone", ""])
def test_a_name_that_nothing_has_ends_it_before_anything_is_read(validate: Validate, write: Write, name: str) -> None:
    write("a.yaml", BAD)
    done = validate("a.yaml", name)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)


def test_what_may_not_be_read_in_a_folder_is_a_finding(tmp_path: Path, write: Write) -> None:
    for name in ("a.yaml", "closed.yaml", "closed/b.yaml"):
        write(name, GOOD)
    # Permissions would not do, since root may read everything.
    hook = """
        def closed(event, details):
            if event in ("open", "os.scandir") and str(details[0]).endswith(("closed.yaml", "closed")):
                raise PermissionError(13, "Permission denied")

        sys.addaudithook(closed)
    """
    done = watched(tmp_path, write, hook, "--format", "json", ".")
    report = json.loads(done.stdout)
    assert (done.returncode, report["files"]) == (1, 3)
    assert [(item["code"], item["file"], item["message"]) for item in report["diagnostics"]] == [
        ("B014", "closed", "the folder cannot be read: permission denied"),
        ("B014", "closed.yaml", "the file cannot be read: permission denied"),
    ]


def test_a_link_never_shows_what_lies_elsewhere(validate: Validate, write: Write) -> None:
    write("keys", f"{SECRET}: : :\n")
    write("ours/a.yaml", GOOD)
    for name in ("pipelines.yaml", "b.yaml"):
        Path("ours", name).symlink_to("../keys")
    done = validate("ours")
    assert done.code == 1
    assert "ours/pipelines.yaml:1:1: error[B014] the file cannot be read: it is a link" in done.out
    named = validate("ours/pipelines.yaml")
    assert (named.code, named.out) == (2, "")
    assert SECRET not in done.out + named.err


def test_standard_input_is_a_file_of_the_current_folder(validate: Validate, write: Write) -> None:
    write("base.yaml", BAD)
    done = validate("--format", "json", "-", stdin=b"version: 1\nextends: base.yaml\nstges: {}\n")
    assert (done.code, done.found) == (1, [("B100", "<stdin>"), ("B100", "base.yaml")])
    assert validate("-", stdin=b"version: \xff").out.startswith("<stdin>:1:10: error[B010] ")


def test_shipped_pipelines_are_checked_by_name(validate: Validate) -> None:
    assert validate("bub:default", "bub:classic", "bub:ethos").out == "3 files are fine\n"
    assert validate("--config", "bub:classic").out == "1 file is fine\n"


# All of it in one run


def test_what_is_wrong_in_a_parent_is_told_once(validate: Validate, write: Write) -> None:
    write("base.yaml", "version: 1\nextends: bub:default\nstages: {run_model: {timeout: 5}}\n")
    for name in "abc":
        write(f"{name}.yaml", "version: 1\nextends: base.yaml\nprofiles: {x: {}, y: {}}\n")
    done = validate("--format", "json", ".")
    assert [found for found in done.found if found[0] == "B104"] == [("B104", "base.yaml")]
    assert json.loads(done.out)["files"] == 4


def test_what_files_share_is_read_once(tmp_path: Path, write: Write) -> None:
    write("base.yaml", GOOD + "plugins: {local_model: {optional: false}}\n")
    write(".env", "A=1\n")
    names = [f"{number}.yaml" for number in range(5)]
    for name in names:
        write(name, "version: 1\nextends: base.yaml\nprofiles: {a: {plugins: [local_model]}, b: {}}\n")
    hook = """
        def told(event, details):
            if event == "open":
                print("open", details[0], file=sys.stderr)

        sys.addaudithook(told)
    """
    done = watched(tmp_path, write, hook, *names)
    assert done.stdout == "5 files are fine\n"
    opened = [line for line in done.stderr.splitlines() if line.startswith("open ")]
    for shared in ("base.yaml", "default.yaml", ".env", "entry_points.txt"):
        files = [line for line in opened if line.endswith(shared)]
        assert files, shared
        assert len(files) == len(set(files)), shared


def test_a_parent_means_to_each_file_what_that_file_makes_of_it(validate: Validate, write: Write) -> None:
    write("base.yaml", "version: 1\nextends: bub:default\nsettings: {model: '${env:TEAM_MODEL}'}\n")
    write("has/.env", "TEAM_MODEL=a:b\n")
    write("has/a.yaml", "version: 1\nextends: ../base.yaml\n")
    write("lacks/a.yaml", "version: 1\nextends: ../base.yaml\n")
    assert validate("has").out == "1 file is fine\n"
    for folders in (["has", "lacks"], ["lacks", "has"]):
        assert validate("--format", "json", "--pedantic", *folders).found == [("B031", "base.yaml")]


def test_findings_are_sorted_whatever_the_order_of_names(validate: Validate, write: Write) -> None:
    for name in ("b.yaml", "a.yaml"):
        write(name, BAD)
    done = validate("--format", "json", "b.yaml", "a.yaml")
    assert done.found == [("B100", "a.yaml"), ("B100", "b.yaml")]


def test_only_the_profile_that_is_named_is_checked(validate: Validate, write: Write) -> None:
    write("a.yaml", GOOD + "profiles: {good: {}, bad: {plugins: [nobody_has_this]}}\n")
    assert validate("a.yaml").code == 1
    assert validate("a.yaml", "--profile", "bad").code == 1
    assert validate("a.yaml", "--profile", "good").code == 0


# Formats


def test_github_gets_a_command_a_finding_and_a_count(validate: Validate, write: Write) -> None:
    write("a.yaml", BAD)
    done = validate("--format", "github", "a.yaml")
    assert done.code == 1
    assert re.fullmatch(
        r"::error file=a\.yaml,line=3,col=1,endLine=3,endColumn=6,title=bub B100::unknown key `stage` at the top level"
        r"%0A[^\n]*\n1 error in 1 file\n",
        done.out,
    )


def test_paths_for_github_begin_at_its_checkout(
    validate: Validate, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("agents/a.yaml", BAD)
    monkeypatch.chdir(tmp_path / "agents")
    assert "::error file=a.yaml," in validate("--format", "github", "a.yaml").out
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert "::error file=agents/a.yaml," in validate("--format", "github", "a.yaml").out
    assert json.loads(validate("--format", "sarif", "a.yaml").out)["runs"][0]["results"][0]["locations"][0][
        "physicalLocation"
    ]["artifactLocation"] == {"uri": "agents/a.yaml", "uriBaseId": "%SRCROOT%"}


# Strangers


HIJACK = """
    version: 1
    extends: '##[warning]parent'
    "##[add-mask]a": 1
    "::stop-commands::x": 1
    stages:
      "##[error]s": {kind: void, description: "##[stop-commands]x ::error::y", timout: 5s}  # ##[debug]
    tests:
      "::error::t": {message: hi, profile: "##[group]p"}
"""
"""A file that would have GitHub's runner mask letters, hear no commands any more, and tell what nobody found."""


def commands(log: str) -> list[str]:
    """The lines that GitHub's runner takes for commands to it."""
    lines = re.split(r"\r\n|\r|\n", log)
    return [line for line in lines if line.strip().startswith("::") or re.search(r"##\[[a-z-]+.*\]", line)]


@pytest.mark.parametrize("name", ["::error::x.yaml", " ::error::x.yaml", "\u200b::error::x.yaml", "a##[error]x.yaml"])
@pytest.mark.parametrize(
    "line",
    [
        *(f"validate --format {form} FILE" for form in ("text", "json", "sarif")),
        "validate FILE no_such_##[error]x",
        "validate --plugins FILE",
        "--config FILE explain",
        "--config FILE explain ##[error]s",
        "--config FILE explain --json",
        "--config FILE profiles --json",
        "diff --json bub:default FILE",
        "test --format json FILE",
        "--config FILE doctor --json --offline",
        *(f"graph --format {form} FILE" for form in ("text", "mermaid", "dot")),
        "diff bub:default FILE",
        "diff FILE git:HEAD:FILE",
        "test FILE",
        "schema --write FILE",
    ],
)
def test_no_file_gives_commands_to_the_runner_of_a_workflow(
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(name, HIJACK)
    exit_code(lambda: command_line([word.replace("FILE", name) for word in line.split()]))
    out, err = capsys.readouterr()
    assert out + err
    assert commands(out) + commands(err) == []


def test_the_annotations_of_a_file_are_the_only_commands_to_the_runner(validate: Validate, write: Write) -> None:
    write("::error::x.yaml", HIJACK)
    given = commands(validate("--format", "github", "::error::x.yaml").out)
    assert given
    for command in given:
        assert re.match(r"::(error|warning) file=%3A%3Aerror%3A%3Ax\.yaml,line=", command)


def test_a_fine_file_of_a_strange_name_gives_no_commands_either(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    test = "{message: {content: hi}, mock: {run_model: {return: a}}, expect: {outbounds: [{content: a}]}}"
    write("::error::x.yaml", f"{GOOD}settings: {{model: a:b}}\ntests: {{t: {test}}}\n")
    for line in ("diff FILE bub:default", "test --coverage FILE", "graph FILE", "--config FILE explain settings.model"):
        exit_code(lambda line=line: command_line(line.replace("FILE", "::error::x.yaml").split()))
        out, err = capsys.readouterr()
        assert ":error::x.yaml" in out
        assert commands(out) + commands(err) == []


def test_what_is_loaded_gives_no_commands_either(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("a##[error]b.py", "from bub import hookimpl\n@hookimpl\ndef run_model(prompt): return '##[error]x'\n")
    plugins = "plugins: {odd: {path: 'a##[error]b.py'}}\nprofiles: {default: {plugins: [odd]}}\n"
    test = '{message: {content: "##[error]hi"}, expect: {prompt: "##[error]no"}}'
    write("x.yaml", f'{GOOD}{plugins}settings: {{model: "##[error]a:b"}}\ntests: {{"##[error]t": {test}}}\n')
    for line in (
        "--config x.yaml hooks --json",
        "--config x.yaml plugins --json",
        "--config x.yaml plugins",
        "--config x.yaml run ##[error]hi --json",
        '--config x.yaml route --json --message {"channel":"##[error]c"}',
        "--config x.yaml config get model --json",
        "test --format json x.yaml",
    ):
        exit_code(lambda line=line: command_line(line.split()))
        out, err = capsys.readouterr()
        assert out and commands(out) + commands(err) == []
        if "json" in line and "hooks" not in line:
            assert "##[error]" in str(json.loads(out))


def test_no_format_shows_a_value_of_the_environment(write: Write) -> None:
    file = write(
        "pipelines.yaml",
        """
        version: 1
        extends: bub:default
        settings:
          model: ${env:MY_MODEL}
          api_key: ${env:MY_KEY}
          api_base: ${env:MY_KEY_BASE
          max_tokens: ${env:MY_MODEL}x
        profiles: {a: {settings: {modle: "${env:MY_KEY}"}}, b: {plugins: ["${env:MY_KEY}"]}}
        stages: {"${env:MY_KEY}": {kind: void}, run_model: {timeout: "${env:MY_KEY}"}}
        """,
    )
    write(".env", f"MY_MODEL={SECRET}\nHALF='{SECRET}\n")
    secrets = dict.fromkeys(("MY_KEY", "MY_KEY_BASE", "BUB_API_KEY", "BUB_MODEL", "OPENAI_API_KEY"), SECRET)
    for name in FORMATS:
        done = process(file.parent, "--format", name, ".", **secrets)
        assert done.returncode == 1
        assert SECRET not in done.stdout + done.stderr
        assert ".env" in done.stdout


def test_nothing_is_imported_and_nobody_is_called(tmp_path: Path, write: Write) -> None:
    write("house_rules.py", "open('imported', 'w').close()\n")
    write(
        "pipelines.yaml",
        """
        version: 1
        extends: bub:default
        plugins: {house_rules: {path: house_rules.py}}
        profiles: {default: {plugins: [local_model, house_rules]}}
        settings: {model: "openai:gpt-5", house_rules: {strict: true}}
        """,
    )
    hook = """
        def told(event, details):
            if event.startswith(("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork")):
                print("called", event, file=sys.stderr)

        sys.addaudithook(told)
        atexit.register(lambda: print("loaded", *sys.modules, file=sys.stderr))
    """
    for name in ("text", "sarif"):
        done = watched(tmp_path, write, hook, "--format", name, ".")
        assert done.returncode == 0, done
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert "yaml" in loaded
        assert loaded & {"called", "trio", "httpx", "questionary", "loguru", "bub_plugins", "house_rules"} == set()
        assert "jsonschema" not in loaded
        assert not [name for name in loaded if name.startswith("_bub_plugin")]
        assert not (tmp_path / "imported").exists()


# With plugins


@pytest.fixture
def project(validate: Validate, write: Write) -> Validate:
    """A folder with a pipeline that lists the plugin `parrot`; runs `bub validate` in it."""
    write("parrot.py", PARROT)
    write("pipelines.yaml", GOOD + "plugins: {parrot: {path: parrot.py}}\nprofiles: {default: {plugins: [parrot]}}\n")
    return validate


def test_with_plugins_a_run_is_proved(project: Validate, write: Write) -> None:
    assert project("--plugins", "pipelines.yaml").out == "1 file is fine\n"
    write("parrot.py", PARROT.replace("run_model(prompt)", "run_modle(prompt)"))
    assert project("pipelines.yaml").code == 0
    done = project("--plugins", "--format", "json", "pipelines.yaml")
    assert (done.code, done.found) == (1, [("B201", "parrot.py")])


def test_each_profile_is_proved_and_nothing_told_twice(project: Validate, write: Write) -> None:
    text = "stages: {run_model: {timeout: 5}}\nplugins: {parrot: {path: parrot.py}, broken: {path: broken.py}}\n"
    write("broken.py", "1 / 0\n")
    write("pipelines.yaml", f"{GOOD}{text}profiles: {{a: {{plugins: [parrot]}}, b: {{plugins: [broken, gone]}}}}\n")
    done = project("--plugins", "--format", "json", "pipelines.yaml")
    assert sorted(code for code, _ in done.found) == ["B104", "B160", "B200"]
    assert "B200" not in dict(project("--plugins", "--format", "json", "--profile", "a", "pipelines.yaml").found)


def test_one_mistake_is_told_once_with_and_without_plugins(validate: Validate, write: Write) -> None:
    write("a.yaml", "version: 1\nstage: {}\n")
    write("b.yaml", GOOD + "routes: [{match: {channel: cli}, profile: nobody}]\n")
    plain = validate("--format", "json", "a.yaml", "b.yaml").found
    assert len(plain) == 2
    assert validate("--format", "json", "--plugins", "a.yaml", "b.yaml").found == plain


def test_a_file_found_by_itself_needs_trust_before_its_plugins_are_imported(
    project: Validate, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("parrot.py", "open('imported', 'w').close()\n")
    done = project("--plugins")
    assert (done.code, done.out) == (2, "")
    assert "bub trust" in done.err
    assert not (tmp_path / "imported").exists()
    assert project().code == 0
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    project("--plugins")
    assert (tmp_path / "imported").exists()


@pytest.mark.parametrize("text", ["raise SystemExit('bye')", "import sys; sys.exit(0)", "raise BaseException('no')"])
def test_a_plugin_cannot_end_the_check_unseen(project: Validate, write: Write, tmp_path: Path, text: str) -> None:
    write("parrot.py", f"print('hello from the parrot')\n{text}\n")
    done = process(tmp_path, "--plugins", "--format", "json", "pipelines.yaml")
    assert done.returncode == 1
    assert "hello" not in done.stdout
    assert "hello from the parrot" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plugin_that_hangs_can_be_interrupted(write: Write) -> None:
    write("parrot.py", "import sys, time\nprint('here', file=sys.stderr, flush=True)\nwhile True: time.sleep(1)\n")
    text = "plugins: {parrot: {path: parrot.py}}\nprofiles: {default: {plugins: [parrot]}}\n"
    file = write("pipelines.yaml", GOOD + text)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "bub", "validate", "--plugins", str(file)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": SOURCES}, text=True, **pipes) as bub:
        assert bub.stderr is not None
        assert bub.stderr.readline() == "here\n"
        bub.send_signal(signal.SIGINT)
        out, err = bub.communicate(timeout=30)
    assert (bub.returncode, out, err) == (130, "", "")


def test_what_is_piped_in_has_no_plugins(validate: Validate) -> None:
    done = validate("--plugins", "-", stdin=GOOD.encode())
    assert (done.code, done.out) == (2, "")
    assert "save it to a file" in done.err


def test_shipped_pipelines_are_proved_by_name(validate: Validate) -> None:
    assert validate("--plugins", "bub:classic").out == "1 file is fine\n"


def test_what_is_checked_is_what_a_run_would_read(validate: Validate, write: Write) -> None:
    file = write("a.yaml", GOOD)
    assert load_document(file).file == "a.yaml"  # one name for one file, with and without plugins
    write("a.yaml", BAD)
    assert validate("--plugins", "--format", "json", str(file.absolute())).found == [("B100", "a.yaml")]


# --fix


SLIPS = """\
version: 1
extends: bub:default          # a remark
stages:
  run_model: {timeout: 5 sec}
  save_state: {'enabeld': yes, needs: [gone]}
"""


def test_what_has_one_sure_repair_is_repaired_and_the_rest_told(validate: Validate, write: Write) -> None:
    file = write("pipelines.yaml", SLIPS)
    done = validate("--fix", "--format", "json", ".")
    assert file.read_text() == SLIPS.replace("5 sec", "5s").replace("enabeld': yes", "enabled': true")
    assert done.found == [("B120", "pipelines.yaml")]
    assert done.err == "repaired 3 findings in pipelines.yaml (as it was: pipelines.yaml.bak)\n"
    assert done.code == 1

    again = validate("--fix", ".")
    assert again.err == ""
    assert (file.parent / "pipelines.yaml.bak").read_text() == SLIPS


def test_fix_all_repairs_what_is_probably_meant_too(validate: Validate, write: Write) -> None:
    write("pipelines.yaml", f"{GOOD}stages: {{run_model: {{timeout: 90}}}}\n")
    told = validate("--fix", "pipelines.yaml")
    assert (told.code, "= bub explain B104; bub validate --fix-all repairs this" in told.out) == (1, True)
    told = validate("--fix-all", "pipelines.yaml")
    assert (told.code, told.out) == (0, "1 file is fine\n")
    assert told.err == "repaired 1 finding in pipelines.yaml (as it was: pipelines.yaml.bak)\n"


def test_a_repaired_file_is_fine(validate: Validate, write: Write) -> None:
    write("pipelines.yaml", SLIPS.replace("[gone]", "[run_modle]"))
    assert validate("--fix", "pipelines.yaml").code == 0


def test_a_file_that_is_no_yaml_is_left_alone_and_the_next_one_repaired(validate: Validate, write: Write) -> None:
    broken = write("a.yaml", GOOD + "stages: {run_model: {timeout: 5 sec}\n")
    write("b.yaml", SLIPS)
    done = validate("--fix", "a.yaml", "b.yaml")
    assert broken.read_text() == GOOD + "stages: {run_model: {timeout: 5 sec}\n"
    assert done.err.splitlines() == [
        "nothing is repaired in a.yaml: mend its YAML first",
        "repaired 3 findings in b.yaml (as it was: b.yaml.bak)",
    ]


def test_a_file_that_cannot_be_written_fails_and_keeps_no_other_from_being_repaired(
    validate: Validate, write: Write
) -> None:
    locked = write("a.yaml", SLIPS)
    write("b.yaml", SLIPS.replace("[gone]", "[run_modle]"))
    (locked.parent / "a.yaml.bak").mkdir()  # where the text as it was would go
    done = validate("--fix", "a.yaml", "b.yaml")
    assert locked.read_text() == SLIPS
    first, second = done.err.splitlines()
    assert first.startswith("bub: ")
    assert "a.yaml" in first
    assert second == "repaired 4 findings in b.yaml (as it was: b.yaml.bak)"
    assert done.code == 1


def test_neither_shipped_files_nor_what_is_piped_in_are_repaired(validate: Validate) -> None:
    refused = {
        "bub:default": "bub: bub:default is shipped with Bub, so it is not changed (",
        "-": "bub: --fix cannot repair a pipeline from a pipe (",
    }
    for name, said in refused.items():
        done = validate("--fix", name, stdin=SLIPS.encode())
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(said)
        assert str(ROOT) not in done.err
