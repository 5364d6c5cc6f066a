"""`bub test`: what the tests of a pipeline file can say, and what is told of one that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.desk import HOUSE_RULES, PIPELINE, Desk, Write

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.testing import Report, VirtualClock, run_tests
from bub.testing.bounds import AbortedError, run_bounded
from bub.testing.selection import choose
from bub.testing.suite import open_suite

ROOT = Path(__file__).parent.parent


@pytest.fixture
def desk(write: Write) -> Desk:
    return Desk(write)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts count, also where the tests themselves run in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# What a test can say


def test_the_tests_of_the_design_pass(desk: Desk) -> None:
    desk.write(
        "telegram.py", "from bub import hookimpl\n\n@hookimpl\ndef dispatch_outbound(message):\n    return True\n"
    )
    report = desk.run(
        """
        a greeting gets a reply:
          message: {channel: cli, chat_id: local, content: hello}
          mock: {run_model: {return: "hi there"}}
          expect: {session_id: "cli:local", outbounds: [{content: "hi there"}]}
        a slow model times out:
          message: {content: hello}
          mock: {run_model: {delay: 10m}}          # virtual clock: costs no real time
          expect: {error: {stage: run_model, type: TooSlowError}}
        """,
        """
        version: 1
        extends: bub:default
        hooks:
          moderate: {kind: gate, takes: [prompt, session_id]}
        stages:
          moderate: {before: run_model, timeout: 5s}
          run_model: {timeout: 120s}
        plugins:
          house_rules: {path: house_rules.py}
          telegram: {path: telegram.py}
          local_model: {optional: true}
        profiles:
          default:
            plugins: [telegram, house_rules]
          reviewer:
            extends: default
            plugins: [house_rules]
            settings: {model: "anthropic:claude-sonnet-4-5"}
            stages: {run_model: {timeout: 60s}}
        routes:
          - match: {channel: telegram, chat_id: "-1001*"}
            profile: reviewer
        """,
    )
    assert report.ok, str(report)
    assert [verdict.took for verdict in report.verdicts] == [0.0, 120.0]


@pytest.mark.parametrize(
    "expect",
    [
        "{session_id: 'cli:local', prompt: hello, model_output: hi, ended_by: null}",
        "{outbounds: [{content: hi, channel: cli}]}",
        "{outbounds: [{content: hi}], ran: [run_model, dispatch_outbound], took: 1ms}",
        "{state: {}}",
        "{state: {nobody_made_this: null}}",
    ],
)
def test_what_comes_as_expected_passes(desk: Desk, expect: str) -> None:
    assert desk.failures(expect) == []


@pytest.mark.parametrize(
    ("expect", "failures"),
    [
        ("{session_id: other}", [("session_id", "other", "cli:local")]),
        ("{model_output: Hi}", [("model_output", "Hi", "hi")]),
        ("{prompt: [hello]}", [("prompt", ["hello"], "hello")]),
        ("{outbounds: [{content: hi, channel: tv}]}", [("outbounds[0].channel", "tv", "cli")]),
        ("{outbounds: [{kind: denied}]}", [("outbounds[0].kind", "denied", None)]),
        ("{state: {a: {b: 1}}}", [("state.a", {"b": 1}, None)]),
        ("{ended_by: 'denied:moderate'}", [("ended_by", "denied:moderate", None)]),
        ("{skipped: [moderate]}", [("skipped[0]", "moderate did not run", "moderate ran (ok)")]),
        ("{error: {stage: run_model}}", [("error", {"stage": "run_model"}, "the turn ran to its end")]),
        ("{took: 5s}", [("took", "5s", "0 ms")]),
    ],
)  # fmt: skip
def test_what_comes_otherwise_is_told(desk: Desk, expect: str, failures: list[tuple[str, Any, Any]]) -> None:
    assert desk.failures(expect) == failures


def test_replies_are_matched_in_order_and_all_of_them(desk: Desk) -> None:
    (failure,) = desk.failures("{outbounds: []}")
    assert failure[:2] == ("outbounds", [])
    assert [reply["content"] for reply in failure[2]] == ["hi"]


def test_true_is_no_number_and_a_number_no_text(desk: Desk) -> None:
    desk.write(
        "house_rules.py",
        "from bub import hookimpl\n\n@hookimpl\ndef load_state():\n    return {'one': 1, 'sure': True, 'text': '1'}\n\n"
        "@hookimpl\ndef moderate():\n    pass\n",
    )
    assert desk.failures("{state: {one: 1, sure: true, text: '1'}}") == []
    assert [path for path, _, _ in desk.failures("{state: {one: true, sure: 1, text: 1}}")] == [
        "state.one",
        "state.sure",
        "state.text",
    ]


def test_a_denied_turn(desk: Desk) -> None:
    message = "message: {content: my password}"
    report = desk.run(
        f"""
        a password is denied:
          {message}
          expect:
            ended_by: denied:moderate
            outbounds: [{{content: passwords stay here, kind: denied}}]
            ran: [moderate, dispatch_outbound]
            skipped: [run_model, save_state]
            error: {{stage: moderate}}
        """
    )
    assert [(one.path, one.got) for one in report.verdicts[0].failures] == [
        ("error", "the turn ended as denied:moderate")
    ]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("no luck", {"type": "RuntimeError", "message": "no luck"}),
        ("ValueError", {"type": "ValueError"}),
        ("'ValueError: bad thing'", {"type": "ValueError", "message": "bad thing"}),
        ("ConnectionResetError", {"type": "OSError"}),
        ("TooSlowError", {"type": "TooSlowError"}),
        ("'ModelError: the server is down'", {"type": "BubError", "message": "server is down"}),
        ("NoSuchError", {"type": "RuntimeError", "message": "NoSuchError"}),
        ("KeyboardInterrupt", {"type": "RuntimeError"}),
        ("UnicodeDecodeError", {"type": "RuntimeError"}),
    ],
)
def test_a_mock_raises(desk: Desk, said: str, error: dict[str, str]) -> None:
    expected = json.dumps({"stage": "run_model", **error})
    assert desk.failures(f"{{error: {expected}}}", f"mock: {{run_model: {{raise: {said}}}}}") == []


def test_an_error_of_another_kind_in_another_place_is_told(desk: Desk) -> None:
    expect = "{error: {stage: moderate, type: TypeError, message: luck}}"
    assert desk.failures(expect, "mock: {run_model: {raise: 'ValueError: oh'}}") == [
        ("error.stage", "moderate", "run_model"),
        ("error.type", "TypeError", "ValueError"),
        ("error.message", "luck", "oh"),
    ]


def test_what_was_made_before_a_failure_can_be_expected_too(desk: Desk) -> None:
    made = "session_id: 'cli:local', prompt: hello, ended_by: 'failed:run_model', ran: [save_state]"
    expect = f"{{error: {{type: ValueError}}, {made}}}"
    assert desk.failures(expect, "mock: {run_model: {raise: ValueError}}") == []


def test_the_stage_of_an_error_is_that_of_the_error_that_ends_the_turn(desk: Desk) -> None:
    report = desk.run(
        """
        it:
          message: {content: hello}
          mock:
            run_model: {return: hi}
            moderate: {return: {deny: never}}
            save_state: {raise: "ValueError: while the turn is unwound"}
            dispatch_outbound: {raise: "OSError: the wire is cut"}
          expect: {error: {stage: dispatch_outbound, type: OSError}, ended_by: "failed:dispatch_outbound"}
        """,
        PIPELINE.replace("before: run_model", "after: run_model"),
    )
    assert report.ok, str(report)


def test_a_failure_that_nobody_expected_says_all(desk: Desk) -> None:
    failures = desk.failures(
        "{outbounds: [{content: hi}], ran: [dispatch_outbound]}", "mock: {build_prompt: {raise: kaputt}}"
    )
    assert failures == [("", None, "the turn failed in stage `build_prompt`: RuntimeError: kaputt")]


def test_a_delay_takes_its_time_and_then_answers_or_fails(desk: Desk) -> None:
    answers = "{run_model: {delay: 1m, return: hi}, build_prompt: {delay: 30s, return: hm}}"
    assert desk.failures("{took: 90s, model_output: hi, prompt: hm}", f"mock: {answers}") == []
    fails = "{run_model: {delay: 1m, raise: ValueError}}"
    assert desk.failures("{took: 1m, error: {type: ValueError}}", f"mock: {fails}") == []


def test_the_kind_holds_for_a_mock_as_for_a_plugin(desk: Desk) -> None:
    # A gate fails closed, on a failure, a wrong answer and a time-out.
    for mock in ("{raise: kaputt}", "{return: sure}", "{delay: 6s}"):
        assert desk.failures("{ended_by: 'denied:moderate'}", f"mock: {{moderate: {mock}}}") == []
    assert desk.failures("{outbounds: [{content: never}]}", "mock: {moderate: {return: {deny: never}}}") == []
    # A stream is told piece by piece, and what came before it broke is kept for the clean-up.
    assert desk.failures("{model_output: hi ho}", "mock: {run_model: {return: [hi, ' ho']}}") == []
    broken = "mock: {run_model: {return: [half, a], raise: ConnectionError}}"
    assert desk.failures("{error: {type: ConnectionError}, model_output: halfa}", broken) == []
    # Nobody answers: the default is used, and without one it is an error.
    assert (
        desk.failures("{session_id: 'cli:local'}", "mock: {resolve_session: {return: null}, run_model: {return: hi}}")
        == []
    )
    assert desk.failures("{error: {type: NoAnswerError}}", "mock: {run_model: {return: null}}") == []


def test_the_time_of_a_clean_up_is_as_long_as_it_says(desk: Desk) -> None:
    mock = "mock: {run_model: {return: hi}, save_state: {delay: 10m}}"
    assert desk.failures("{took: 30s, error: {stage: save_state, type: TooSlowError}}", mock) == []


def test_what_a_stream_has_to_return_is_said_as_a_mock_is_written(desk: Desk) -> None:
    expect = "{error: {type: HookTypeError, message: must return a text or a list of texts}}"
    for answer in ("5", "{a: 1}", "[hi, 5]"):
        assert desk.failures(expect, f"mock: {{run_model: {{return: {answer}}}}}") == []


def test_a_retried_mock_is_asked_again(desk: Desk) -> None:
    pipeline = PIPELINE.replace("timeout: 120s", "timeout: 120s, retry: {times: 2, backoff: 1s}")
    report = desk.run(
        """
        it is tried again:
          message: {content: hello}
          mock: {run_model: {delay: 1s, raise: kaputt}}
          expect: {error: {message: kaputt}, took: 6s}
        """,
        pipeline,
    )
    assert report.ok, str(report)


def test_a_mocked_hook_stands_in_wherever_it_is_called(desk: Desk) -> None:
    desk.write(
        "model.py",
        """
        from bub import hookimpl

        @hookimpl
        async def run_model(prompt, fire):
            return str(await fire("before_llm_call", request={"prompt": prompt}))
        """,
    )
    report = desk.run(
        """
        by the name of the hook:
          message: {content: hello}
          mock: {before_llm_call: {return: {max_tokens: 20}}}
          expect: {model_output: "{'max_tokens': 20}"}
        by the name of the stage's hook:
          message: {content: hello}
          mock: {run_model_stream: {return: hi}}
          expect: {model_output: hi}
        without a mock:
          message: {content: hello}
          expect: {model_output: "{}"}
        """,
        """
        version: 1
        extends: bub:default
        hooks: {before_llm_call: {kind: modifying}}
        plugins: {model: {path: model.py}}
        profiles: {default: {plugins: [model]}}
        """,
    )
    assert report.ok, str(report)


def test_the_two_names_of_one_question_mock_the_same(desk: Desk) -> None:
    tests = "it:\n  message: {content: hello}\n  mock: {run_model_stream: {return: hi}}\n  expect: {model_output: hi}"
    pipeline = "version: 1\nstages: {answer: {kind: firstresult, hook: run_model, into: model_output}}"
    report = desk.run(tests, pipeline)
    assert report.ok, str(report)


def test_each_call_of_a_mock_gets_an_answer_of_its_own(desk: Desk) -> None:
    desk.write(
        "model.py",
        """
        from bub import hookimpl

        @hookimpl
        def ask():
            pass

        @hookimpl
        async def run_model(fire):
            for word in ("once", "twice"):
                answer = await fire("ask")
                answer.append(word)
            return " ".join(answer)
        """,
    )
    report = desk.run(
        """
        it:
          message: {content: hello}
          mock: {ask: {return: [asked]}}
          expect: {model_output: asked twice}
        """,
        """
        version: 1
        extends: bub:default
        hooks: {ask: {kind: firstresult}}
        plugins: {model: {path: model.py}}
        profiles: {default: {plugins: [model]}}
        """,
    )
    assert report.ok, str(report)


def test_what_is_not_mocked_runs_for_real_and_only_ones_do_not_keep_a_mock_out(desk: Desk) -> None:
    desk.write("count.py", "from bub import hookimpl\n\n@hookimpl\ndef load_state():\n    return {'real': True}\n")
    pipeline = PIPELINE.replace(
        "house_rules: {path: house_rules.py}", "house_rules: {path: house_rules.py}\n  count: {path: count.py}"
    )
    pipeline = pipeline.replace("[house_rules]}", "[house_rules, count]}", 1).replace(
        "timeout: 5s}", "timeout: 5s, only: [house_rules]}"
    )
    report = desk.run(
        """
        both:
          message: {content: my password}
          mock: {run_model: {return: hi}, moderate: {return: null}}
          expect: {state: {real: true}, model_output: hi}
        """,
        pipeline,
    )
    assert report.ok, str(report)


def test_a_mock_without_time_has_no_delay(desk: Desk) -> None:
    pipeline = PIPELINE.replace(
        "stages:\n", "stages:\n  system_prompt: {kind: broadcast, combine: join, into: system, before: run_model}\n"
    )
    report = desk.run(
        """
        late:
          message: {content: hello}
          mock: {system_prompt: {delay: 1s, return: Be brief.}, run_model: {return: hi}}
          expect: {model_output: hi}
        now:
          message: {content: hello}
          mock: {system_prompt: {return: Be brief.}, run_model: {return: hi}}
          expect: {model_output: hi}
        """,
        pipeline,
    )
    late, now = report.verdicts
    assert "called where nothing can wait" in late.failures[0].got
    assert now.passed


# Which profile, and whose tests


def test_the_profile_is_the_tests_own_else_that_of_a_route_else_the_chosen_one(desk: Desk) -> None:
    tests = """
        {name}:
          {profile}
          message: {{channel: {channel}, content: hello}}
          mock: {{run_model: {{delay: 10m}}}}
          expect: {{took: {took}}}
        """
    routes = "routes:\n  - {match: {channel: work}, profile: hasty}\n"
    for profile, channel, took, start in (
        ("", "cli", "120s", None),
        ("", "work", "10s", None),
        ("profile: default", "work", "120s", None),
        ("profile: hasty", "cli", "10s", None),
        ("", "cli", "10s", "hasty"),
        ("profile: default", "cli", "120s", "hasty"),
    ):
        text = tests.format(name="it", profile=profile, channel=channel, took=took).replace(
            "expect: {", "expect: {error: {type: TooSlowError}, "
        )
        report = desk.run(text, PIPELINE + routes, profile=start)
        assert report.ok, str(report)
        assert report.verdicts[0].profile == ("hasty" if took == "10s" else "default")


def test_the_tests_of_a_parent_are_its_own(desk: Desk) -> None:
    parent = desk.file("fails:\n  message: {content: hello}\n  expect: {prompt: other}", name="parent.yaml")
    child = desk.file(
        "passes:\n  message: {content: hello}\n  mock: {run_model: {return: hi}}\n  expect: {prompt: hello}",
        "version: 1\nextends: parent.yaml",
    )
    assert parent.name == "parent.yaml"
    assert [verdict.trial.name for verdict in run_tests(child).verdicts] == ["passes"]


def test_no_test_sees_another(desk: Desk) -> None:
    desk.write(
        "house_rules.py",
        """
        from bub import hookimpl

        seen = []

        @hookimpl
        def moderate(prompt):
            seen.append(prompt)

        @hookimpl
        def load_state():
            return {"seen": len(seen)}
        """,
    )
    text = """
        {}:
          message: {{content: hello}}
          mock: {{run_model: {{return: hi}}}}
          expect: {{state: {{seen: 0}}}}
        """
    before = set(sys.modules)
    report = desk.run("\n".join(dedent(text.format(name)).strip() for name in ("one", "two")))
    assert report.ok, str(report)
    assert {name for name in set(sys.modules) - before if "house_rules" in name} == set()


def test_references_in_a_test_are_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREETING", "hello")
    text = """
        it:
          message: {content: "${env:GREETING}, $$5"}
          mock: {run_model: {return: hi}}
          expect: {prompt: "hello, $$5"}
        """
    assert desk.run(text).ok
    monkeypatch.delenv("GREETING")
    (failure,) = desk.run(text).verdicts[0].failures
    assert failure.got == "the environment variable `GREETING` is not set"
    assert str(failure.place).endswith("pipelines.yaml:15:25")


def test_what_stands_behind_a_reference_has_to_fit_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        it:
          message: {content: hello}
          mock: {run_model: {return: hi, delay: "${env:LONG}"}}
          expect: {took: "${env:LONG}"}
        """
    monkeypatch.setenv("LONG", "1m")
    report = desk.run(text)
    assert report.ok, str(report)
    assert report.verdicts[0].took == 60
    monkeypatch.delenv("LONG")
    assert [one.got for one in desk.run(text).verdicts[0].failures] == [
        "the environment variable `LONG` is not set"
    ] * 2  # each where it stands, and no more of what follows from it
    monkeypatch.setenv("LONG", "soon")
    assert [
        (one.path, one.place.range.start.line, one.got.partition(" must be a")[0])
        for one in desk.run(text).verdicts[0].failures
    ] == [
        ("", 16, "`delay` of mock `run_model` of test `it`"),
        ("", 17, "`took` of `expect` of test `it`"),
    ]


# Time


def test_what_really_takes_time_passes_and_is_not_counted_against_the_test(desk: Desk) -> None:
    desk.write(
        "house_rules.py",
        """
        import threading
        from bub import hookimpl

        @hookimpl
        def moderate():
            threading.Event().wait(0.1)
        """,
    )
    pipeline = PIPELINE.replace("timeout: 5s", "timeout: 5s, thread: true")
    report = desk.run(
        """
        it:
          message: {content: hello}
          mock: {run_model: {delay: 1m, return: hi}}
          expect: {took: 1m, model_output: hi}
        """,
        pipeline,
    )
    assert report.ok, str(report)
    assert 60.09 <= report.verdicts[0].took < 65


def with_and_without(desk: Desk, look_up: str, stage: str = "look_up: {before: run_model}") -> Report:
    """Two tests: in the first the hook `look_up` runs, in the second it is mocked."""
    rules = dedent(HOUSE_RULES).strip()
    desk.write("house_rules.py", f"import trio\n{rules}\n\n@hookimpl\nasync def look_up():\n    {look_up}\n")
    return desk.run(
        """
        goes wrong:
          message: {content: hello}
          mock: {run_model: {return: hi}}
          expect: {prompt: hello}
        goes on:
          message: {content: hello}
          mock: {run_model: {return: hi}, look_up: {return: null}}
          expect: {prompt: hello}
        """,
        PIPELINE.replace("hooks:\n", "hooks:\n  look_up: {kind: broadcast}\n").replace(
            "stages:\n", f"stages:\n  {stage}\n", 1
        ),
        timeout=0.2,
    )


@pytest.mark.parametrize(
    "how",
    ["await trio.sleep_forever()", "one, other = trio.socket.socketpair()\n    with one, other: await one.recv(1)"],
)
def test_a_test_that_hangs_is_ended(desk: Desk, how: str) -> None:
    began = time.perf_counter()
    hangs, follows = with_and_without(desk, how).verdicts
    assert time.perf_counter() - began < 30
    assert str(hangs.failures[0].got).startswith("it did not end within 0.2 seconds of real time (mock what waits")
    assert [record.outcome for record in hangs.trace][-1] == "cancelled"
    assert follows.passed


def test_a_hook_that_hangs_runs_out_of_the_time_of_its_stage(desk: Desk) -> None:
    stage = "look_up: {before: run_model, timeout: 30s}"
    hangs, follows = with_and_without(desk, "await trio.sleep_forever()", stage).verdicts
    assert "stage `look_up` took longer than 30 seconds" in str(hangs.failures[0].got)
    assert [record.outcome for record in hangs.trace][-1] == "timeout"
    assert follows.passed


async def block() -> None:
    time.sleep(60)  # noqa: ASYNC251 (just that is to be ended)


async def spin() -> None:
    while True:
        pass


async def insist() -> None:
    ended = time.perf_counter() + 60
    for _ in range(3):  # one interrupt, and one more, are not enough
        try:
            time.sleep(max(0, ended - time.perf_counter()))  # noqa: ASYNC251
        except:  # noqa: E722 (a plugin may be written like that)
            continue


@pytest.mark.parametrize("work", [block, spin, insist])
@pytest.mark.usefixtures("interruptible")
def test_code_that_blocks_is_interrupted(work: Callable[[], Awaitable[None]]) -> None:
    began = time.perf_counter()
    with pytest.raises(AbortedError, match="did not end within"):
        run_bounded(work, VirtualClock(), 0.1, grace=0.1)
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
@pytest.mark.usefixtures("interruptible")
def test_code_that_blocks_is_interrupted_whatever_the_program_makes_of_interrupts(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(AbortedError, match="did not end within"):
        run_bounded(block, VirtualClock(), 0.1, grace=0.1)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_is_to_be_ignored_is_ignored() -> None:
    async def work() -> str:
        signal.raise_signal(signal.SIGINT)
        return "done"

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert run_bounded(work, VirtualClock(), 60) == "done"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(work, VirtualClock(), 60)


def test_what_ends_too_late_has_not_passed() -> None:
    async def late() -> None:
        time.sleep(0.3)  # noqa: ASYNC251

    with pytest.raises(AbortedError, match="did not end within"):
        run_bounded(late, VirtualClock(), 0.1)


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_a_plugin_that_ends_the_program_ends_its_own_test(desk: Desk, name: str) -> None:
    ended, follows = with_and_without(desk, f"raise {name}").verdicts
    assert ended.failures[0].got == f"a plugin raised {name} (a hook has to return, or to raise an Exception)"
    assert follows.passed


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
            pipelines.yaml:6:33: stage `moderate` was never out of time
            pipelines.yaml:7:15: stage `run_model` was never out of time

        pipelines.yaml, profile hasty: 0 % (0 of 11)
            bub:default:5:3: stage `resolve_session` never ran
            bub:default:6:3: stage `load_state` never ran
            bub:default:7:3: stage `build_prompt` never ran
            pipelines.yaml:6:3: stage `moderate` never ran
            pipelines.yaml:6:3: stage `moderate` never denied
            pipelines.yaml:6:33: stage `moderate` was never out of time
            pipelines.yaml:12:38: stage `run_model` never ran
            pipelines.yaml:12:50: stage `run_model` was never out of time
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
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
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
