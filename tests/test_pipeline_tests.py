"""`bub test`: what the tests of a pipeline file can say, and in which profile they run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from fakes.desk import PIPELINE, Desk, Write

from bub.testing import run_tests

ROOT = Path(__file__).parent.parent


@pytest.fixture
def desk(write: Write) -> Desk:
    return Desk(write)


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
    expect = "{error: {type: HookTypeError, message: must return a string or a list of strings}}"
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
    assert "from code that cannot wait" in late.failures[0].got
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
