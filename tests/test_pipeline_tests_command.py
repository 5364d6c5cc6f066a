"""`bub test` as a command: what it prints of tests and coverage, which tests and files it takes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from fakes.command_line import SOURCES
from fakes.desk import HOUSE_RULES, PIPELINE, Desk, Write

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.testing.selection import choose
from bub.testing.suite import open_suite


@pytest.fixture
def desk(write: Write) -> Desk:
    return Desk(write)


# The command


Bub = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bub(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bub:
    """Run a command line in the folder of the file; its exit code and what it prints on both streams."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = exit_code(lambda: command_line(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


TWO = """
    a greeting gets a reply:
      message: {content: hello}
      mock: {run_model: {return: hi}}
      expect: {outbounds: [{content: hi}]}
    a password is denied:
      message: {content: my password}
      expect: {ended_by: denied:moderate, outbounds: [{content: never}]}
"""


def test_each_test_is_a_line_and_one_that_failed_says_why(desk: Desk, bub: Bub) -> None:
    desk.file(TWO)
    code, out, _ = bub("test", "pipelines.yaml")
    assert code == 1
    assert out == dedent(
        """\
        ✓ pipelines.yaml::a greeting gets a reply
        ✗ pipelines.yaml::a password is denied
            pipelines.yaml:20:54: outbounds[0].content
              expected  "never"
              got       "passwords stay here"
            turn  resolve_session, load_state, build_prompt default, moderate denied, dispatch_outbound

        1 failed, 1 passed in 1 file
        """
    )


def test_what_went_wrong_on_the_way_is_told_with_its_place(desk: Desk, bub: Bub) -> None:
    desk.write(
        "house_rules.py", "from bub import hookimpl\n\n@hookimpl\ndef moderate(prompt):\n    return prompt / 2\n"
    )
    desk.file(TWO)
    code, out, _ = bub("test", "pipelines.yaml", "-k", "greeting")
    assert code == 1
    told = "TypeError: unsupported operand type(s) for /: 'str' and 'int' (house_rules.py:5)"
    assert f"    told  moderate:house_rules: {told}\n" in out


def test_a_difference_of_many_lines_is_shown_line_by_line(desk: Desk, bub: Bub) -> None:
    desk.file(
        r"""
        it:
          message: {content: hello}
          mock: {run_model: {return: "one\ntwo\nthree"}}
          expect: {model_output: "one\n2\nthree"}
        """
    )
    out = bub("test", "pipelines.yaml")[1]
    assert "      - expected, + got\n        one\n      - 2\n      + two\n        three\n" in out


def test_a_long_value_is_shown_where_it_differs(desk: Desk, bub: Bub) -> None:
    long = "x" * 5000
    desk.file(
        f"""
        it:
          message: {{content: hello}}
          mock: {{run_model: {{return: {long}b{long}}}}}
          expect: {{model_output: {long}a{long}}}
        """
    )
    out = bub("test", "pipelines.yaml")[1]
    assert "xxaxx" in out
    assert "xxbxx" in out
    assert max(map(len, out.splitlines())) < 300


def test_what_a_turn_says_cannot_steer_the_terminal(desk: Desk, bub: Bub) -> None:
    desk.file(r"""
        it:
          message: {content: "\e[31m\u202e"}
          mock: {run_model: {raise: "\e]0;owned\a"}}
          expect: {prompt: "a\u009bb"}
        """)
    _, out, _ = bub("test", "pipelines.yaml")
    assert out.count("owned") >= 1
    assert [letter for letter in out if not letter.isprintable() and letter != "\n"] == []


def test_json_is_for_a_program(desk: Desk, bub: Bub) -> None:
    desk.write(
        "house_rules.py", f"print('loaded')\n{dedent(HOUSE_RULES)}\n@hookimpl\ndef load_state():\n    print('called')\n"
    )
    desk.file(TWO)
    code, out, err = bub("test", "pipelines.yaml", "--format", "json", "--coverage")
    report = json.loads(out)
    assert code == 1
    assert {key: report[key] for key in ("version", "ok", "files", "passed", "failed", "diagnostics")} == {
        "version": 1, "ok": False, "files": 1, "passed": 1, "failed": 1, "diagnostics": []
    }  # fmt: skip
    passed, failed = report["tests"]
    assert passed["failures"] == []
    assert (failed["file"], failed["name"], failed["profile"], failed["passed"]) == (
        "pipelines.yaml",
        "a password is denied",
        "default",
        False,
    )
    assert failed["range"]["start"] == {"line": 18, "column": 3}
    (failure,) = failed["failures"]
    assert (failure["path"], failure["expected"], failure["got"]) == (
        "outbounds[0].content",
        "never",
        "passwords stay here",
    )
    assert (failure["file"], failure["range"]["start"]) == ("pipelines.yaml", {"line": 20, "column": 54})
    assert failed["trace"][3] == {"turn": 0, "stage": "moderate", "implementation": "house_rules", "outcome": "denied"}
    assert [one["profile"] for one in report["coverage"]] == ["default", "hasty"]
    assert "called" in err


def test_coverage_says_what_no_test_reaches(desk: Desk, bub: Bub) -> None:
    desk.file(TWO.replace("never", "passwords stay here"))
    code, out, _ = bub("test", "pipelines.yaml", "--coverage")
    assert code == 0
    assert out.partition("\n\n")[2] == dedent(
        """\
        pipelines.yaml, profile default: 81 % (9 of 11)
            pipelines.yaml:6:33: stage `moderate` never ran into its time-out
            pipelines.yaml:7:15: stage `run_model` never ran into its time-out

        pipelines.yaml, profile hasty: 0 % (0 of 11)
            bub:default:5:3: stage `resolve_session` never ran
            bub:default:6:3: stage `load_state` never ran
            bub:default:7:3: stage `build_prompt` never ran
            pipelines.yaml:6:3: stage `moderate` never ran
            pipelines.yaml:6:3: stage `moderate` never denied
            pipelines.yaml:6:33: stage `moderate` never ran into its time-out
            pipelines.yaml:12:38: stage `run_model` never ran
            pipelines.yaml:12:50: stage `run_model` never ran into its time-out
            bub:default:9:3: stage `save_state` never ran
            bub:default:10:3: stage `render_outbound` never ran
            bub:default:16:3: stage `dispatch_outbound` never ran

        2 passed in 1 file
        """
    )


def test_coverage_counts_every_way_a_stage_can_end(desk: Desk) -> None:
    desk.write(
        "rules.py",
        "from bub import hookimpl\n\n@hookimpl\ndef guard():\n    pass\n\n@hookimpl\ndef note():\n    pass\n",
    )
    pipeline = """
        version: 1
        hooks: {guard: {kind: gate}, note: {kind: void, timeout: 1s}}
        stages:
          guard: {}
          note: {when: {channel: cli}, on_failure: skip}
          answer: {kind: firstresult, hook: run_model, into: model_output, default: none}
          clean: {kind: broadcast, hook: save_state, cleanup_for: answer, timeout: 1s}
          off: {kind: broadcast, hook: save_state, enabled: false}
        plugins: {rules: {path: rules.py}}
        profiles: {default: {plugins: [rules]}}
        """
    test = "{}:\n  message: {{channel: {}, content: hello}}\n  mock: {{{}}}\n  expect: {{state: null}}\n".replace(
        "state: null", "prompt: null"
    )
    missing = []
    tests = ""
    for name, channel, mock in (
        ("plain", "cli", "run_model: {return: hi}"),
        ("denied", "cli", "guard: {return: {deny: never}}"),
        ("skipped", "tv", "run_model: {return: hi}"),
        ("failed", "cli", "note: {raise: kaputt}, run_model: {return: hi}"),
        ("late", "cli", "note: {delay: 2s}, run_model: {return: hi}"),
        ("default", "cli", "run_model: {return: null}"),
        ("late clean-up", "cli", "run_model: {return: hi}, clean: {delay: 2s}"),
    ):
        tests += test.format(name, channel, mock)
        file = desk.file(tests, pipeline)
        suite = open_suite(file)
        assert suite.can_run, suite.findings
        (coverage,) = suite.coverage(list(suite.run()))
        missing.append([f"{branch.stage} {branch.what}" for branch in coverage.missing])
    assert missing[0] == [
        "guard denied",
        "note skipped",
        "note timeout",
        "note failed",
        "answer default",
        "clean timeout",
    ]
    assert missing[1:] == [missing[0][number:] for number in (1, 2)] + [
        missing[0][2:3] + missing[0][4:],
        missing[0][4:],
        missing[0][5:],
        [],
    ]


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("greeting", ["a greeting gets a reply"]),
        ("GREETING", ["a greeting gets a reply"]),
        ("not greeting", ["a password is denied"]),
        ("greeting or denied", ["a greeting gets a reply", "a password is denied"]),
        ("a and not (password or nothing)", ["a greeting gets a reply"]),
        ("gets a reply", ["a greeting gets a reply"]),
        ("pipelines.yaml::a password", ["a password is denied"]),
    ],
)
def test_tests_are_chosen_by_words(desk: Desk, expression: str, chosen: list[str]) -> None:
    assert [verdict.trial.name for verdict in desk.run(TWO, chosen=expression).verdicts] == chosen


@pytest.mark.parametrize("expression", ["", "and", "a and", "(a", "a)", "not", "a or or b", "()"])
def test_what_chooses_nothing_sensible_is_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="-k"):
        choose(expression)


def test_a_mistake_in_a_test_is_a_finding_and_nothing_runs(desk: Desk, bub: Bub) -> None:
    desk.file(TWO.replace("mock: {run_model", "mock: {run_modle"))
    code, out, _ = bub("test", "pipelines.yaml")
    assert code == 1
    assert "did you mean `run_model`?" in out
    assert "✓" not in out
    desk.file(TWO.replace("ended_by", "endedby"))
    code, out, _ = bub("test", "pipelines.yaml")
    assert (code, "did you mean `ended_by`?" in out) == (1, True)
    report = json.loads(bub("test", "pipelines.yaml", "--format", "json")[1])
    assert (report["ok"], report["tests"], report["diagnostics"][0]["code"]) == (False, [], "B100")


def test_a_plugin_that_does_not_fit_is_a_finding_and_nothing_runs(desk: Desk, bub: Bub) -> None:
    desk.file(TWO)
    desk.write("house_rules.py", "from bub import hookimpl\n\n@hookimpl\ndef moderat(prompt):\n    pass\n")
    code, out, _ = bub("test", "pipelines.yaml")
    assert code == 1
    assert "error[B201] plugin `house_rules` implements `moderat`, which is not a hook" in out
    assert "✓" not in out


def test_a_folder_stands_for_all_its_pipelines(desk: Desk, bub: Bub) -> None:
    desk.file(TWO.replace("never", "passwords stay here"))
    desk.write("more/other.yaml", "version: 1\nextends: bub:default\n")
    desk.file(
        "it:\n  message: {content: x}\n  mock: {run_model: {return: hi}}\n  expect: {prompt: x}",
        "version: 1\nextends: bub:default",
        "more/third.yaml",
    )
    code, out, _ = bub("test", ".")
    assert code == 0
    assert [line.split("::")[0] for line in out.splitlines() if "::" in line] == ["✓ pipelines.yaml"] * 2 + [
        "✓ more/third.yaml"
    ]
    assert out.endswith("3 passed in 3 files\n")


def test_without_tests_it_is_wrong_usage(desk: Desk, bub: Bub) -> None:
    desk.write("pipelines.yaml", "version: 1\nextends: bub:default\n")
    assert bub("test", "pipelines.yaml")[::2] == (
        2,
        "bub: there are no tests in pipelines.yaml (write some under `tests:`, see docs/testing.md)\n",
    )
    assert bub("test", "bub:default")[0] == 2
    assert bub("test", "nothing.yaml")[0] == 2
    assert bub("test", "-")[0] == 2
    desk.file(TWO)
    code, _, err = bub("test", "pipelines.yaml", "-k", "nobody")
    assert (code, "no test in pipelines.yaml matches -k 'nobody'" in err) == (2, True)
    assert bub("test", "pipelines.yaml", "-k", "a and")[0] == 2


def test_without_tests_ci_may_go_on(desk: Desk, bub: Bub) -> None:
    Path("empty").mkdir()
    assert bub("test", "empty", "--pass-with-no-tests") == (0, "there is no pipeline file in empty\n", "")
    desk.write("pipelines.yaml", "version: 1\nextends: bub:default\n")
    assert bub("test", ".", "--pass-with-no-tests") == (0, "there are no tests in pipelines.yaml\n", "")
    code, out, _ = bub("test", ".", "--pass-with-no-tests", "--format", "json")
    assert (code, json.loads(out)["ok"], json.loads(out)["tests"]) == (0, True, [])

    desk.write("pipelines.yaml", "version: 1\nextends: bub:default\nstages: {run_modle: {timeout: 5s}}\n")
    assert bub("test", ".", "--pass-with-no-tests")[0] == 1, "no tests are no excuse for a mistake"
    desk.file(TWO)
    assert bub("test", ".", "--pass-with-no-tests", "-k", "nobody")[0] == 2, "who names a test wants one"
    assert bub("test", ".", "--pass-with-no-tests")[0] == 1


def test_the_usual_file_needs_trust_and_a_named_one_none(desk: Desk, bub: Bub, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.file(TWO.replace("never", "passwords stay here"))
    code, _, err = bub("test")
    assert (code, "bub trust" in err) == (2, True)
    assert bub("test", "pipelines.yaml")[0] == 0
    assert bub("--config", "pipelines.yaml", "test")[0] == 0
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    assert bub("test")[0] == 0


def test_the_chosen_profile_is_used_and_one_that_does_not_exist_is_a_finding(desk: Desk, bub: Bub) -> None:
    desk.file(
        """
        it:
          message: {content: x}
          mock: {run_model: {delay: 1h}}
          expect: {error: {type: TooSlowError}, took: 10s}
        """
    )
    assert bub("test", "pipelines.yaml")[0] == 1
    assert bub("test", "pipelines.yaml", "--profile", "hasty")[0] == 0
    code, out, _ = bub("test", "pipelines.yaml", "--profile", "hasti")
    assert (code, "did you mean `hasty`?" in out) == (1, True)


def test_secrets_are_covered(desk: Desk, bub: Bub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OTHER_TOKEN", "sk-of-something-else")
    monkeypatch.setenv("HOUSE", "sk-behind-a-reference")
    desk.write(
        "house_rules.py",
        """
        import os
        from bub import hookimpl

        class HouseRules:
            def __init__(self, framework):
                self.framework = framework

            @hookimpl
            def moderate(self):
                raise RuntimeError(f"{os.environ['HOUSE']} is wrong, and {os.environ['OTHER_TOKEN']} too")

            @hookimpl
            def load_state(self):
                settings = self.framework.settings
                return {"all": [settings["api_key"], settings["house_rules"], {os.environ["HOUSE"]: "sk-in-the-file"}]}

        plugin = HouseRules
        """,
    )
    pipeline = PIPELINE + 'settings: {house_rules: {where: "${env:HOUSE}", token: sk-in-the-file}}\n'
    desk.file("it:\n  message: {content: x}\n  expect: {state: {all: 1}, outbounds: []}", pipeline)
    for more in ((), ("--format", "json")):
        code, out, _ = bub("test", "pipelines.yaml", *more)
        assert code == 1
        assert "RuntimeError: *** is wrong, and *** too" in out
        assert "sk-" not in out


def test_a_secret_of_many_lines_and_odd_letters_is_covered_however_it_is_written(
    desk: Desk, bub: Bub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_KEY", "-----BEGIN-----\nabc/déf+ghi\n-----END-----\n")
    desk.write(
        "house_rules.py",
        """
        import json
        import os
        from urllib.parse import quote
        from bub import hookimpl

        KEY = os.environ["SIGNING_KEY"]

        @hookimpl
        def moderate():
            raise RuntimeError(f"{KEY} is wrong")

        @hookimpl
        def load_state():
            return {"all": [KEY, KEY.strip(), repr(KEY), json.dumps(KEY), KEY.encode(), KeyError(KEY), quote(KEY)]}
        """,
    )
    desk.file("it:\n  message: {content: x}\n  expect: {state: {all: 1}}")
    for more in ((), ("--format", "json")):
        code, out, _ = bub("test", "pipelines.yaml", *more)
        assert code == 1
        assert "RuntimeError: *** is wrong" in out
        assert "abc" not in out


# The process


def under_way(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bub", "test", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_all(desk: Desk, tmp_path: Path) -> None:
    desk.write(
        "house_rules.py",
        """
        import trio
        from bub import hookimpl

        @hookimpl
        async def moderate():
            print('here', flush=True)
            await trio.Event().wait()
        """,
    )
    desk.file(TWO, PIPELINE.replace(", timeout: 5s", ""))
    with under_way(tmp_path, "pipelines.yaml") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


def test_where_marks_cannot_be_shown_there_are_words(desk: Desk, tmp_path: Path) -> None:
    desk.file(TWO)
    with under_way(tmp_path, "pipelines.yaml", PYTHONIOENCODING="ascii") as process:
        out, _ = process.communicate(timeout=30)
    assert out.splitlines()[:2] == [
        "ok pipelines.yaml::a greeting gets a reply",
        "FAILED pipelines.yaml::a password is denied",
    ]
