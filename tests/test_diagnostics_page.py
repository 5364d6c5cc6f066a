"""The page of every code is true: its bad example has that one mistake, its mended example has none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from fakes.command_line import SOURCES

import bub
from bub import BubFramework
from bub.base.diagnostics import Diagnostic, PipelineError, sort_diagnostics
from bub.base.resources import locate_shipped
from bub.pipeline.check.validate import check_files, profiles_of
from bub.pipeline.report.handbook import codes, page_of
from bub.pipeline.source.discovery import discover
from bub.pipeline.source.merge import load_document
from bub.testing.proving.proof import prove

PAGE = (locate_shipped("docs") / "diagnostics.md").read_text(encoding="utf-8")
ENVIRONMENT = {"OPENROUTER_API_KEY": "a key that only the tests have", "TELEGRAM_TOKEN": "1:a-token"}
PIPELINE = "pipelines.yaml"
NOBODY = 65534
"""The user that owns nothing."""
FROM_A_START = re.compile(r"B032|B034|B2\d\d")
"""The codes that need the plugins, or what the environment holds, and so are found at a start only."""
FROM_A_PROOF = frozenset({"B227", "B228", "B229"})
"""The codes that only `bub prove` finds."""
OF_THE_MACHINE = "B237"
"""The code that tells what this machine cannot do."""
IN_A_FOLDER = "B014"
"""The code that is found where a folder is named, and not its files."""

HEADING = re.compile(r"^## (B\d{3}): (.*)$", re.MULTILINE)
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
LABEL = re.compile(
    r"(?P<state>Bad|Mended)?(?:,? ?[Ii]n `(?P<file>[^`]+)`)?(?P<locked>, in a file that you have no right to read)?"
    r"(?:, with `(?P<escape>[^`]+)` for the byte 0x(?P<byte>[0-9A-F]{2}))?"
    r"(?:: the last line stands for (?P<times>[0-9,]+) such lines, numbered from 1 to (?P=times))?:"
)
"""What stands above a block: which of the two examples it is for (if neither, both), and what it stands for."""


@dataclass(frozen=True)
class Example:
    """One file of an example; `state` is "Bad" or "Mended", or None for a file of both."""

    state: str | None
    file: str
    data: bytes
    mode: int = 0o644


def sections() -> dict[str, str]:
    """The text of each code's section."""
    _, *parts = HEADING.split(PAGE)
    return dict(zip(parts[::3], parts[2::3], strict=True))


def examples(section: str) -> Iterator[Example]:
    for block in FENCE.finditer(section):
        above = section[: block.start()].rstrip("\n").rpartition("\n")[2]
        label = LABEL.fullmatch(above)
        assert label is not None, f"{above!r} does not say what the block below it is"
        mode = 0 if label["locked"] else 0o644
        yield Example(label["state"], label["file"] or PIPELINE, said_by(label, block["text"]), mode)


def said_by(label: re.Match[str], text: str) -> bytes:
    """What a block stands for: its text, unless the label says otherwise."""
    if label["times"]:
        *before, last = text.splitlines(keepends=True)
        numbers = range(1, int(label["times"].replace(",", "")) + 1)
        text = "".join([*before, *(last.replace("1", str(number), 1) for number in numbers)])
    data = text.encode()
    return data.replace(label["escape"].encode(), bytes.fromhex(label["byte"])) if label["escape"] else data


def write(section: str, state: str) -> None:
    """Write the files of the bad or the mended example."""
    for example in examples(section):
        if example.state in (state, None):
            path = Path(example.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(example.data)
            path.chmod(example.mode)


def find(*, named: str = PIPELINE, start: bool, proof: bool = False, needs: bool = False) -> tuple[Diagnostic, ...]:
    """What `bub validate` finds; with `start` what a run finds in each profile, too, and with `proof`, `bub prove`.

    With `needs`, a start also looks for what turns need of this machine.
    """
    with ordinary_rights():
        discovered = discover([named], BytesIO())
    findings = [*discovered.findings, *check_files(discovered.files, environ=ENVIRONMENT).diagnostics]
    for profile in profiles_of(load_document(Path(PIPELINE))) if start else ():
        framework = BubFramework(PIPELINE, profile=profile)
        try:
            framework.load_hooks()
            framework.check_channels()
            if needs:
                framework.check_needs()
            findings += framework.warnings
            findings += [finding for finding in framework.findings if finding.severity == "note"]
        except PipelineError as error:
            findings += error.diagnostics
    if proof:
        findings += prove(load_document(Path(PIPELINE)), workspace=Path.cwd()).findings
    return sort_diagnostics(findings)


NO_TIMEOUT = "B183"
"""The note that a stage has no time-out, which examples of other codes may earn, so that they stay short."""


def about(code: str, found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(finding for finding in found if code == NO_TIMEOUT or finding.code != NO_TIMEOUT)


@contextmanager
def ordinary_rights() -> Iterator[None]:
    """Look at files as somebody would who is not root, who may read everything."""
    rights = os.geteuid()
    if rights == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(rights)


def severity_of(code: str) -> str:
    """The severity that a section begins with."""
    return SECTIONS[code].strip().partition(".")[0].lower()


SECTIONS = sections()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("code", SECTIONS)
def test_the_bad_example_has_the_one_mistake(code: str) -> None:
    write(SECTIONS[code], "Bad")
    start, proof = FROM_A_START.fullmatch(code) is not None, code in FROM_A_PROOF
    found = find(named="." if code == IN_A_FOLDER else PIPELINE, start=start, proof=proof, needs=code == OF_THE_MACHINE)
    found = about(code, found)
    assert [(finding.code, finding.severity) for finding in found] == [(code, severity_of(code))], found


@pytest.mark.parametrize("code", SECTIONS)
def test_the_mended_example_has_none(code: str) -> None:
    write(SECTIONS[code], "Mended")
    found = find(start=True, proof=code in FROM_A_PROOF)
    assert [finding for finding in found if finding.severity != "note" or finding.code == code] == []


def test_the_tests_in_mended_examples_pass() -> None:
    mended = {
        code: example.data
        for code, section in SECTIONS.items()
        for example in examples(section)
        if example.state == "Mended" and b"\ntests:" in example.data
    }
    for code, data in mended.items():
        Path(f"{code}.yaml").write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "bub", "test", "."],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert mended
    assert f"{len(mended)} passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(bub.__file__).parent.rglob("*.py")]
    used = {code for text in sources for code in re.findall(r'"(B\d{3})"', text)}
    assert {code for code, _ in HEADING.findall(PAGE)} == used


def test_the_codes_stand_in_order_and_each_once_in_the_contents() -> None:
    written = [code for code, _ in HEADING.findall(PAGE)]
    assert written == sorted(set(written))
    assert re.findall(r"\[(B\d{3})\]\(#", HEADING.split(PAGE)[0]) == written


def test_every_code_has_the_title_of_its_heading() -> None:
    assert list(codes().items()) == HEADING.findall(PAGE)


@pytest.mark.parametrize("code", SECTIONS)
def test_a_page_is_for_a_terminal(code: str) -> None:
    page = page_of(code)
    assert page is not None
    assert page.startswith(f"{code}: {codes()[code]}\n\n{severity_of(code).capitalize()}. ")
    assert re.search(r"```|^#|\]\(|<!--|\n\n\n\n", page, re.MULTILINE) is None
    assert page == f"{page.strip()}\n"
    for block in FENCE.finditer(SECTIONS[code]):
        assert textwrap.indent(block["text"].rstrip("\n"), "    ") in page


def test_a_list_has_an_item_a_line_and_its_lines_are_as_wide_as_those_of_a_paragraph() -> None:
    page = page_of("B177") or ""
    assert [line.split()[1] for line in page.splitlines() if line.startswith("- ")] == ["The", "The", "Each"]
    assert max(len(line) for line in page.splitlines()) <= 80


def test_a_page_has_its_explanation_and_both_examples() -> None:
    assert page_of("B104") == textwrap.dedent(
        """\
        B104: a duration has the wrong form

        Error. Write a duration with its unit: `500ms`, `30s`, `2m`, `1h`. A bare number
        could be seconds or milliseconds.

        Bad:

            version: 1
            extends: bub:default
            stages:
              run_model: {timeout: 90}

        Mended:

            version: 1
            extends: bub:default
            stages:
              run_model: {timeout: 90s}
        """
    )


def test_links_are_their_words_in_a_terminal() -> None:
    assert "[kind](kinds.md)" in SECTIONS["B110"]
    assert "The kind says how" in str(page_of("B110"))


@pytest.mark.parametrize("code", ["B998", "b104", "", "B1040"])
def test_what_is_no_code_has_no_page(code: str) -> None:
    assert page_of(code) is None
