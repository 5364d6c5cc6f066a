"""`then:` in the tests of a pipeline file: several messages in one test, each with what has to come of it."""

from __future__ import annotations

import json

import pytest
from fakes.desk import PIPELINE, Desk, Write

from bub.testing.page import verdict_lines

REMEMBERING = """
from bub import hookimpl

KNOWN = {}


@hookimpl
def load_state(session_id):
    return {"seen": list(KNOWN.get(session_id, ()))}


@hookimpl
def save_state(session_id, message):
    KNOWN.setdefault(session_id, []).append(message["content"])
"""

TALKING = PIPELINE.replace("[house_rules]", "[house_rules, remembering]", 1).replace(
    "plugins:\n", "plugins:\n  remembering: {path: remembering.py}\n", 1
)


@pytest.fixture
def desk(write: Write) -> Desk:
    write("remembering.py", REMEMBERING)
    return Desk(write)


def test_each_message_is_judged_by_itself_in_one_session_and_no_test_sees_another(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        what was said before is known:
          message: {channel: telegram, chat_id: "7", sender_id: ada, content: one}
          mock: {run_model: {return: hi}}
          expect: {state: {seen: []}, session_id: "telegram:7"}
          then:
            - message: {content: two}
              expect: {state: {seen: [one]}, session_id: "telegram:7", outbounds: [{channel: telegram, content: hi}]}
            - message: {content: my password}
              expect: {ended_by: "denied:moderate", skipped: [run_model]}
            - message: {chat_id: "8", content: three}
              expect: {state: {seen: []}, session_id: "telegram:8", ended_by: null}
            - message: {content: four}
              expect: {state: {seen: [three]}}
        another test begins anew:
          message: {channel: telegram, chat_id: "7", content: five}
          mock: {run_model: {return: hi}}
          expect: {state: {seen: []}}
        a session of its own stays:
          message: {session_id: mine, content: one}
          mock: {run_model: {return: hi}}
          expect: {session_id: mine}
          then:
            - {message: {content: two}, expect: {session_id: mine}}
        """,
        TALKING,
    )
    assert set(map(len, failures.values())) == {0}, failures


def test_a_turn_that_may_fail_ends_no_conversation_and_one_that_may_not_does(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        a failure is expected:
          message: {content: one}
          mock: {run_model: {answers: [{raise: OSError}, {return: hi}]}}
          expect: {error: {type: OSError}}
          then:
            - {message: {content: two}, expect: {model_output: hi}}
        a failure is not:
          message: {content: one}
          mock: {run_model: {answers: [{return: hi}, {raise: "OSError: gone"}, {return: hi}]}}
          expect: {model_output: hi}
          then:
            - {message: {content: two}, expect: {model_output: ho}}
            - {message: {content: three}, expect: {model_output: never judged}}
        """,
        TALKING,
    )
    assert failures["a failure is expected"] == []
    assert failures["a failure is not"] == [("", None, "the turn failed in stage `run_model`: OSError: gone")]


def test_a_failure_names_the_turn_and_its_line(desk: Desk) -> None:
    report = desk.run(
        """
        it:
          message: {content: one}
          mock: {run_model: {return: hi, delay: 2s}}
          expect: {model_output: hi, took: 2s}
          then:
            - message: {content: two}
              expect:
                took: 2s
                model_output: ho
            - {message: {content: three}, expect: {model_output: hi}}
        """,
        TALKING,
    )
    (verdict,) = report.verdicts
    (failure,) = verdict.failures
    assert (failure.path, failure.place.range.start.line) == ("then[0].model_output", PLACE)
    assert verdict.took == 4.0
    said = "\n".join("".join(span.text for span in line) for line in verdict_lines(verdict))
    assert "turn 2  resolve_session" in said
    (told,) = json.loads(json.dumps(report.as_dict()))["tests"]
    assert told["failures"][0]["path"] == "then[0].model_output"
    assert {record["turn"] for record in told["trace"]} == {0, 1}
    assert f"pipelines.yaml:{PLACE}:" in str(report)
    assert "`then[0].model_output` is 'hi', not 'ho'" in str(report)


PLACE = TALKING.strip().count("\n") + 11
"""The line of `model_output: ho` below the pipeline."""


def test_the_agent_knows_what_was_said_and_the_persons_own_tapes_do_not(desk: Desk) -> None:
    report = desk.run(
        """
        the agent is asked twice:
          message: {content: one}
          mock: {before_llm_call: {return: {finish: hi}}}
          expect: {model_output: hi}
          then:
            - message: {content: two}
              expect:
                model_output: hi
                calls:
                  before_llm_call:
                    - request:
                        messages: {contains: [{role: user, content: one}, {role: assistant, content: hi}]}
            - message: {content: ",tape.reset"}
              expect: {ended_by: null}
            - message: {content: three}
              expect: {calls: {before_llm_call: [{request: {messages: {contains: {content: two}}}}]}}
        """,
        TALKING,
    )
    (verdict,) = report.verdicts
    assert [(one.path, one.how) for one in verdict.failures] == [
        ("then[2].calls.before_llm_call[0].request.messages", "contains")
    ], str(report)
