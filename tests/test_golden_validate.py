"""`bub validate` on a corpus of files: what a person reads, word for word, and what each mistake has to yield.

`testdata/good` has no findings, `testdata/noted` only notes, which `--pedantic` shows, `testdata/warned` only warnings,
`testdata/bad` errors, `testdata/loaded` errors that `--plugins` finds. A case is two files: `NAME.yaml`, and its report
in `NAME.txt`. The file says in comments what is wrong with it:

    # expect: B100 on "timout" means "timeout"      one mistake: the code, the text it is about, what the help names
    # also: B132 on "enabled"                       a further finding that the mistake above it has
    # expect: B104 on "5" in "parent.yaml"          the mistake stands in another file

The text is written as in JSON. A case too large to be kept is made by the table `MADE`. After a wanted change, write
the reports anew with `python tests/test_golden_validate.py`, and read the difference.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from fakes.command_line import SOURCES

from bub.cli.exits import exit_code
from bub.cli.root import command_line

TESTDATA = Path(__file__).parent / "testdata"
FOLDERS = ("bad", "loaded", "warned", "noted", "good")
FILES = sorted(path for folder in FOLDERS for path in TESTDATA.glob(f"{folder}/**/*.yaml"))
EXIT_CODES = {"bad": 1, "loaded": 1, "warned": 0, "noted": 0, "good": 0, "made": 1}
WITH = {"loaded": ("--plugins",), "noted": ("--plugins", "--pedantic")}
"""Options that the cases of a folder are validated with."""

HEAD = "version: 1\nextends: bub:default\n"
MANY = range(4_000)
MADE: dict[str, tuple[str, str]] = {
    "alias_bomb_of_a_megabyte": (
        '# expect: B007 on "*a"\n',
        f"{HEAD}x-a: &a [{'lol, ' * 1_000}]\nx-b: [{'*a, ' * 200_000}]\n",
    ),
    "brackets": ('# expect: B008 on "["\n', f"{HEAD}x-deep: {'[' * 3_000}{']' * 3_000}\n"),
    "brackets_without_end": ('# expect: B008 on "["\n', f"{HEAD}x-deep: {'[' * 900_000}"),
    "braces": ('# expect: B008 on "{"\n', f"{HEAD}x-deep: {'{a: ' * 3_000}{'}' * 3_000}\n"),
    "dashes": ('# expect: B008 on "-"\n', f"{HEAD}x-deep:\n{'- ' * 400_000}end\n"),
    "mappings_in_mappings": (
        '# expect: B008 on "k"\n',
        f"{HEAD}x-deep:\n{''.join(' ' * level + 'k:' + chr(10) for level in range(1, 600))}",
    ),
    "chain_of_aliases": (
        '# expect: B008 on "*l29"\n',
        HEAD + "x-l0: &l0 [a]\n" + "".join(f"x-l{n}: &l{n} [*l{n - 1}]\n" for n in range(1, 20_000)),
    ),
    "over_a_megabyte": ('# expect: B009 on ""\n', HEAD + "# a comment\n" * 90_000),
    "long_line": (
        '# expect: B100 on "timout" means "timeout"\n',
        f"{HEAD}hooks: {{after_all: {{description: {'long ' * 20_000}, kind: void, timout: 5s}}}}\n",
    ),
    "long_key": ('# expect: B001 on "' + "k" * 2_000 + ': 1"\n', f"{HEAD}{'k' * 2_000}: 1\n"),
    "long_word": (
        '# expect: B102 on "' + "x" * 400_000 + '"\n',
        f"{HEAD}stages: {{run_model: {{kind: {'x' * 400_000}}}}}\n",
    ),
    "open_quote_of_a_megabyte": ('# expect: B001 on "\\""\n', f'{HEAD}description: "{"word " * 190_000}\n'),
    "digits": ('# expect: B101 on "' + "9" * 5_000 + '"\n', f"{HEAD}settings: {{max_tokens: {'9' * 5_000}}}\n"),
    "stages_by_the_thousand": (
        f'# expect: B125 on "s{1_000}"\n',
        "version: 1\nstages:\n" + "".join(f"  s{number}: {{kind: void, hook: message_received}}\n" for number in MANY),
    ),
    "unknown_keys_by_the_dozen": (
        "".join(f'# expect: B100 on "stage{number}"\n' for number in MANY[:60]),
        HEAD + "".join(f"stage{number}: {number}\n" for number in MANY[:60]),
    ),
}
"""Cases that are large: what is expected, and the text that follows it."""

NO_ROOM = {
    "bad/yaml_empty": '# expect: B013 on ""',
    "bad/yaml_only_blanks": '# expect: B013 on ""',
    "bad/yaml_utf16": '# expect: B010 on "\\ufffd"',
}
"""Cases that have no room for a comment, and what is expected of them."""

CASES = [*(path.relative_to(TESTDATA).with_suffix("").as_posix() for path in FILES), *(f"made/{name}" for name in MADE)]

TEXT = r'("(?:[^"\\]|\\.)*")'
EXPECTED = re.compile(rf"# (expect|also): (B\d{{3}}) on {TEXT}(?: means {TEXT})?(?: in {TEXT})?\s*$")


class Expected(NamedTuple):
    """What a case says of one finding; `is_mistake` is false for one that follows from the mistake above it."""

    code: str
    text: str
    meant: str
    file: str
    is_mistake: bool


class Ended(NamedTuple):
    """What a command line printed, both streams together, and its exit code."""

    printed: str
    code: int


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the cases: those of `testdata` and, beside them, those that are made."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in FOLDERS:
        (folder / name).symlink_to(TESTDATA / name)
    make(folder / "made")
    return folder


def make(folder: Path) -> None:
    """Write the large cases into a new folder."""
    folder.mkdir()
    for name, (expected, text) in MADE.items():
        (folder / f"{name}.yaml").write_text(expected + text, encoding="utf-8")


@cache
def validate(folder: Path, *arguments: str) -> Ended:
    """Run `bub validate` in a folder; the program's own lines, without a process of its own."""
    printed = io.StringIO()
    bare = patch.dict(os.environ, {"NO_COLOR": "1"}, clear=True)
    with chdir(folder), bare, redirect_stdout(printed), redirect_stderr(printed):
        code = exit_code(lambda: command_line(["validate", *arguments]))
    return Ended(printed.getvalue(), code)


def report(file: Path) -> str:
    """What a person reads about a file, and the exit code."""
    ended = validate(file.parent, file.name, *WITH.get(file.parent.name, ()))
    return f"{ended.printed}exit code {ended.code}\n"


def findings(file: Path) -> list[dict[str, Any]]:
    """The findings of a file as JSON has them."""
    extra = WITH.get(file.parent.name, ())
    report = json.loads(validate(file.parent, file.name, "--format", "json", *extra).printed)
    found: list[dict[str, Any]] = report["diagnostics"]
    return found


def golden(case: str) -> Path:
    return TESTDATA / f"{case}.txt"


def lines_of(file: Path) -> list[str]:
    text = file.read_bytes().decode("utf-8", errors="replace").removeprefix("\ufeff")
    return re.split(r"\r\n|\r|\n", text)


def expectations(file: Path) -> Iterator[Expected]:
    case = f"{file.parent.name}/{file.stem}"
    for line in [NO_ROOM[case]] if case in NO_ROOM else lines_of(file):
        if found := re.search(EXPECTED, line):
            text, meant, other = (json.loads(part or '""') for part in found.group(3, 4, 5))
            yield Expected(found[2], text, meant, other or file.name, found[1] == "expect")
        else:
            assert not re.match("# (expect|also):", line), f"{file.name}: this is not understood: {line}"


def text_at(lines: list[str], span: dict[str, dict[str, int]]) -> str:
    """The text of a range as JSON has it."""
    start, end = span["start"], span["end"]
    inside = lines[start["line"] - 1 : end["line"]]
    inside[-1] = inside[-1][: end["column"] - 1]
    inside[0] = inside[0][start["column"] - 1 :]
    return "\n".join(inside)


@pytest.mark.parametrize("case", CASES)
def test_the_report_on_a_file_is_the_one_that_was_read_and_found_right(case: str, corpus: Path) -> None:
    assert report(corpus / f"{case}.yaml") == golden(case).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_told_on_its_own_text_and_nothing_else_is_told(case: str, corpus: Path) -> None:
    file = corpus / f"{case}.yaml"
    found = findings(file)
    expected = list(expectations(file))
    texts = {item["file"]: lines_of(file.parent / item["file"]) for item in found}
    told = [(item["file"], item["code"], text_at(texts[item["file"]], item["range"])) for item in found]
    assert sorted(told) == sorted((each.file, each.code, each.text) for each in expected)
    for each in expected:
        helps = [item["help"] or "" for item in found if item["code"] == each.code]
        assert any(each.meant in text for text in helps), f"no help names {each.meant}: {helps}"
    # One mistake has three findings at most, itself included.
    follow = 0
    for each in expected:
        follow = 0 if each.is_mistake else follow + 1
        assert follow <= 2


@pytest.mark.parametrize("case", CASES)
def test_the_exit_code_is_that_of_the_worst_finding(case: str, corpus: Path) -> None:
    file, folder = corpus / f"{case}.yaml", case.partition("/")[0]
    severities = {item["severity"] for item in findings(file)}
    assert ("note" in severities) == (folder == "noted")
    assert ("error" in severities, "warning" in severities) in {
        "bad": [(True, False), (True, True)],
        "loaded": [(True, False)],
        "made": [(True, False)],
        "warned": [(False, True)],
        "noted": [(False, False)],
        "good": [(False, False)],
    }[folder]
    assert validate(file.parent, file.name, *WITH.get(folder, ())).code == EXIT_CODES[folder]


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("warned/", "noted/", "good/"))])
def test_strict_lets_warnings_fail_and_nothing_else(case: str) -> None:
    file = TESTDATA / f"{case}.yaml"
    options = WITH.get(file.parent.name, ())
    assert validate(file.parent, file.name, "--strict", *options).code == case.startswith("warned/")


@pytest.mark.parametrize("case", CASES)
def test_text_and_json_tell_the_same(case: str, corpus: Path) -> None:
    file = corpus / f"{case}.yaml"
    heads = re.findall(r"(?m)^([^ \n][^:\n]*):(\d+):(\d+): (error|warning|note)\[(B\d+)\] (.+)$", report(file))
    for head, item in zip(heads, findings(file), strict=True):
        start = item["range"]["start"]
        place = (item["file"], str(start["line"]), str(start["column"]))
        assert head[:5] == (*place, item["severity"], item["code"])
        assert head[5].startswith(" ".join(item["message"].split()))


def test_all_files_in_one_run_and_in_a_process_of_its_own_have_the_findings_of_each(corpus: Path) -> None:
    names = [f"{case}.yaml" for case in CASES if case.partition("/")[0] not in WITH]
    environment = {"NO_COLOR": "1", "PATH": os.environ["PATH"]}
    bub = subprocess.run(
        [sys.executable, "-m", "bub", "validate", "--format", "json", *names],
        cwd=corpus,
        env={**environment, "PYTHONPATH": SOURCES},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert (bub.stderr, bub.returncode) == ("", 1)
    together = json.loads(bub.stdout)
    assert together["files"] == len(names)
    told = {(item["file"], item["code"], str(item["range"])) for item in together["diagnostics"]}
    for name in names:
        for item in findings(corpus / name):
            assert (f"{Path(name).parent}/{item['file']}", item["code"], str(item["range"])) in told


MEASURED = """
import contextlib, io, pathlib, resource, sys, time
from bub.cli.root import command_line

def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # what getrusage says on Linux has the peak of the parent process in it
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)

def validated(file):
    with contextlib.redirect_stdout(io.StringIO()):
        return command_line(["validate", file])

validated(sys.argv[1])
before, memory = time.process_time(), peak()
code = validated(sys.argv[2])
print(code, time.process_time() - before, peak() - memory)
"""
"""A process that validates a small file, then measures what another costs beyond it: CPU seconds, peak megabytes."""

REFUSED = [name for name, (expected, _) in MADE.items() if expected[10:14] in ("B007", "B008", "B009")]


@pytest.mark.parametrize("name", REFUSED)
def test_bombs_depth_and_size_are_refused_at_once_and_in_little_memory(name: str, corpus: Path) -> None:
    files = (str(corpus / "good" / "fine.yaml"), str(corpus / "made" / f"{name}.yaml"))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCES}
    child = subprocess.run(
        [sys.executable, "-c", MEASURED, *files], env=environment, capture_output=True, encoding="utf-8", timeout=60
    )
    assert child.stderr == ""
    code, seconds, memory = child.stdout.split()
    assert code == "1"
    assert float(seconds) < 0.1
    assert float(memory) < 50


def test_there_is_a_report_for_every_case_and_a_case_for_every_report() -> None:
    assert set(CASES) == {path.relative_to(TESTDATA).with_suffix("").as_posix() for path in TESTDATA.rglob("*.txt")}
    assert sum(case.startswith("bad/") for case in CASES) >= 150


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        make(Path(temporary) / "made")
        TESTDATA.joinpath("made").mkdir(exist_ok=True)
        for each in CASES:
            origin = Path(temporary) if each.startswith("made/") else TESTDATA
            golden(each).write_text(report(origin / f"{each}.yaml"), encoding="utf-8")
