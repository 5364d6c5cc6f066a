"""What `bub test` prints for programs that show results: JUnit's XML and annotations of GitHub."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from fakes.desk import Desk, Write

from bub.cli.exits import exit_code
from bub.cli.root import command_line

TESTS = """
    it goes on:
      message: {content: hello}
      mock: {run_model: {answers: [{return: hi, delay: 2s}, {return: "<b>\\x07 & 'so'"}]}}
      expect: {model_output: hi}
      then:
        - message: {content: two}
          expect: {model_output: {contains: "]]>"}}
    it is fine:
      message: {content: my password}
      expect: {ended_by: "denied:moderate"}
"""


@pytest.fixture
def desk(write: Write, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(write)
    monkeypatch.chdir(desk.file(TESTS).parent)
    return desk


def run(capsys: pytest.CaptureFixture[str], kind: str) -> tuple[int, str]:
    code = exit_code(lambda: command_line(["test", "pipelines.yaml", "--format", kind]))
    return code, capsys.readouterr().out


def test_junit_has_a_suite_for_each_file_and_a_failure_for_each_expectation(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = run(capsys, "junit")
    root = ElementTree.fromstring(out)
    (suite,) = root
    assert code == 1
    assert (root.tag, root.attrib) == ("testsuites", {"tests": "2", "failures": "1", "errors": "0"})
    assert suite.attrib == {"name": "pipelines.yaml", "tests": "2", "failures": "1", "time": "2"}
    failed, passed = suite
    assert (failed.get("name"), failed.get("file"), failed.get("time")) == ("it goes on", "pipelines.yaml", "2")
    (failure,) = failed
    assert "`then[0].model_output` is" in str(failure.get("message"))
    assert "which does not contain ']]>'" in str(failure.text)
    assert len(passed) == 0


def test_github_shows_a_failure_at_the_line_of_its_expectation(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "github")
    (line,) = out.splitlines()
    assert code == 1
    assert line.startswith("::error file=pipelines.yaml,line=20,")
    assert "title=bub test%3A it goes on::" in line
    assert "`then[0].model_output`" in line


def test_a_file_with_an_error_is_one_that_could_not_run(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.file(TESTS.replace("run_model", "run_modl"))
    code, out = run(capsys, "junit")
    (suite,) = ElementTree.fromstring(out)
    ((error,),) = suite
    assert (code, suite.get("errors"), error.tag) == (1, "1", "error")
    assert "B171" in str(error.get("message"))
    code, out = run(capsys, "github")
    assert (code, out.count("::error "), "B171" in out) == (1, 1, True)
