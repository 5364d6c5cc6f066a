"""What a test of a pipeline file expects: parts of texts, what was shown, and what mocks were called with."""

from __future__ import annotations

import pytest
from fakes.desk import PIPELINE, Desk, Write

from bub.testing.page import verdict_lines


@pytest.fixture
def desk(write: Write) -> Desk:
    return Desk(write)


def test_a_part_of_a_text_or_list_is_enough(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        both hold:
          message: {content: hello, channel: defiant}
          mock: {run_model: {return: "order 4711 is ready\\nfor you"}}
          expect:
            model_output: {contains: ready, matches: "[0-9]{4} is"}
            outbounds: [{content: {contains: [order, "for you"]}, channel: {matches: "^def"}}]
            prompt: {matches: "^hello$"}
        none holds:
          message: {content: hello}
          mock: {run_model: {return: hi}, load_state: {return: {list: [1, {a: b}], number: 5}}}
          expect:
            model_output: {contains: ho, matches: "^i"}
            outbounds: [{content: {contains: [h, i, j]}}]
            state: {number: {contains: "5"}, list: {contains: [1, 2]}}
        of a list, an item:
          message: {content: hello}
          mock: {run_model: {return: hi}, load_state: {return: {list: [1, {a: bcd, e: f}]}}}
          expect: {state: {list: {contains: [1, {a: {contains: c}}]}}}
        a value may have fields of these names:
          message: {content: hello}
          mock: {run_model: {return: hi}, load_state: {return: {query: {contains: some, matches: other}}}}
          expect: {state: {query: {contains: some, matches: other}}}
        """
    )
    assert failures == {
        "both hold": [],
        "none holds": [
            ("model_output", "ho", "hi"),
            ("model_output", "^i", "hi"),
            ("outbounds[0].content", "j", "hi"),
            ("state.number", "5", 5),
            ("state.list", 2, [1, {"a": "b"}]),
        ],
        "of a list, an item": [],
        "a value may have fields of these names": [],
    }


def test_a_pattern_from_the_environment_that_is_none_fails_its_test(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANTED", "(")
    (failure,) = desk.failures('{model_output: {matches: "${env:WANTED}"}}')
    assert failure[2].startswith("`model_output` cannot match `(`: missing )")


def test_what_lacks_a_part_is_shown_where_it_is_most_like_it(desk: Desk) -> None:
    text = f"{'a' * 4000} the order 4712 is ready {'b' * 4000}"
    report = desk.run(
        f"it: {{message: {{content: x}}, mock: {{run_model: {{return: {text}}}}},"
        " expect: {model_output: {contains: the order 4711 is ready}}}"
    )
    said = ["".join(span.text for span in line) for line in verdict_lines(report.verdicts[0])]
    assert '      contains  "the order 4711 is ready"' in said
    (got,) = [line for line in said if line.startswith("      got")]
    assert "the order 4712 is ready" in got
    assert len(got) < 250
    assert "which does not contain 'the order 4711 is ready'" in str(report)


SHOWN = [
    ("[hi, ' there']", "{return: [hi, ' there']}", "hello", []),
    ("['hi there']", "{return: hi there}", "hello", []),
    ("[{contains: h}, {matches: there}]", "{return: [hi, ' there']}", "hello", []),
    ("['hi there']", "{return: [hi, ' there']}", "hello", [("streamed", ["hi there"], ["hi", " there"])]),
    ("[hi]", "{return: [hi], raise: OSError}", "hello", []),
    ("[]", "{return: hi}", "my password", []),
    ("[]", "{return: hi}", "hello", [("streamed", [], ["hi"])]),
]


def test_what_was_shown_is_expected_part_by_part(desk: Desk) -> None:
    tests = [
        f"'{number}':\n  message: {{content: {content}}}\n  mock: {{run_model: {mock}}}\n"
        f"  expect: {{streamed: {streamed}{', error: {}' if 'raise' in mock else ''}}}".replace("{}", "{type: OSError}")
        for number, (streamed, mock, content, _) in enumerate(SHOWN)
    ]
    failures = desk.failures_of("\n".join(tests))
    assert failures == {str(number): expected for number, (*_, expected) in enumerate(SHOWN)}


LOOKING_BACK = (
    PIPELINE.replace("hooks:\n", "hooks:\n  look_back: {kind: gate, takes: [model_output]}\n")
    .replace("stages:\n", "stages:\n  look_back: {after: run_model, timeout: 5s}\n", 1)
    .replace("plugins:\n", "plugins:\n  look_back: {path: look_back.py}\n", 1)
    .replace("[house_rules]", "[house_rules, look_back]", 1)
)


def test_what_is_denied_behind_the_model_was_never_shown(desk: Desk) -> None:
    desk.write(
        "look_back.py",
        "from bub import hookimpl\n\n@hookimpl\ndef look_back(model_output):\n"
        "    return {'deny': 'not that'} if 'password' in model_output else None\n",
    )
    failures = desk.failures_of(
        """
        a denied answer:
          message: {content: hello}
          mock: {run_model: {return: [the, " password"]}}
          expect: {streamed: [], ended_by: "denied:look_back"}
        one that is allowed:
          message: {content: hello}
          mock: {run_model: {return: [hi, " there"]}}
          expect: {streamed: [hi there]}
        """,
        LOOKING_BACK,
    )
    assert failures == {"a denied answer": [], "one that is allowed": []}


def test_what_a_mock_was_called_with_and_how_often(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        as expected:
          message: {channel: cli, chat_id: local, content: hello}
          mock: {run_model: {return: hi}, moderate: {return: null}, dispatch_outbound: {return: true}}
          expect:
            calls:
              run_model: [{prompt: hello, session_id: "cli:local", message: {content: {contains: ell}}}]
              moderate: 1
              dispatch_outbound: [{message: {content: hi}}]
        otherwise:
          message: {content: hello}
          mock: {run_model: {return: hi}, moderate: {return: {deny: "no"}}}
          expect: {calls: {run_model: 1, moderate: [{prompt: hullo}]}}
        not as often:
          message: {content: hello}
          mock: {run_model: {return: hi}}
          expect: {calls: {run_model: [{prompt: hello}, {prompt: again}]}}
        none at all:
          message: {content: my password}
          mock: {run_model: {return: hi}}
          expect: {calls: {run_model: 0}}
        """
    )
    assert failures == {
        "as expected": [],
        "otherwise": [("calls.run_model", "1 call", "0 calls"), ("calls.moderate[0].prompt", "hullo", "hello")],
        "not as often": [("calls.run_model", "2 calls", "1 call: [{'prompt': 'hello'}]")],
        "none at all": [],
    }


def test_each_turn_counts_its_own_calls_as_they_were_made(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        it:
          message: {content: one}
          mock: {run_model: {return: hi}, load_state: {return: {list: []}}}
          expect: {calls: {run_model: [{prompt: one, state: {list: []}}]}}
          then:
            - {message: {content: two}, expect: {calls: {run_model: [{prompt: two}], load_state: 1}}}
        """
    )
    assert failures == {"it": []}


def test_answers_come_in_turn_and_one_call_more_fails_the_test(desk: Desk) -> None:
    pipeline = PIPELINE.replace("timeout: 120s", "timeout: 120s, retry: {times: 2, backoff: 1s}")
    failures = desk.failures_of(
        """
        fails first:
          message: {content: hello}
          mock: {run_model: {answers: [{raise: "ModelError: busy"}, {raise: OSError, delay: 2s}, {return: hi}]}}
          expect: {model_output: hi, calls: {run_model: 3}}
        has too few:
          message: {content: hello}
          mock: {run_model: {answers: [{raise: OSError}, {raise: OSError}]}}
          expect: {error: {stage: run_model}}
        a gate with too few still fails the test:
          message: {content: hello}
          mock: {run_model: {return: hi}, moderate: {answers: [{return: null}]}}
          expect: {ended_by: null}
          then:
            - {message: {content: hello}, expect: {ended_by: "denied:moderate"}}
        """,
        pipeline,
    )
    assert failures == {
        "fails first": [],
        "has too few": [("mock.run_model.answers", "2 calls at most", "3 calls")],
        "a gate with too few still fails the test": [("mock.moderate.answers", "1 call at most", "2 calls")],
    }
