"""What a pipeline file says in its `tests:` is checked before a run: a word that would mean nothing is told."""

from __future__ import annotations

import pytest
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, said

HEAD = "extends: bub:default\n"
PLAIN = "extends: bub:classic\n"


def of(test: str, head: str = HEAD) -> str:
    """A file with one test."""
    return f"{head}tests: {{t: {{message: {{content: hello}}, {test}}}}}"


ANSWER = "mock: {run_model: {return: hi}}"
NEXT = "expect: {prompt: hello}, then: [{message: {content: two}, expect: "

MISTAKES = [
    # B152: the calls of what is not mocked
    Mistake(
        "B152",
        of(f"{ANSWER}, expect: {{calls: {{«run_modl»: 1}}}}"),
        "test `t` asks how `run_modl` was called, but does not mock it",
        "did you mean `run_model`?",
        ("run_modl", "run_model"),
    ),
    Mistake(
        "B152",
        of(f"{ANSWER}, {NEXT}{{calls: {{«load_state»: 1}}}}}}]"),
        "test `t` asks how `load_state` was called, but does not mock it",
        "mock it, such as `mock: {load_state: {return: …}}`: Bub keeps only the calls of mocks",
        ("load_state", "run_model"),
    ),
    Mistake(
        "B152",
        of(f"{ANSWER}, expect: {{calls: {{run_model: «twice»}}}}"),
        "`run_model` must be a whole number, or a list of calls",
        "write how often it is called, such as `run_model: 2`, or `run_model: [{ARGUMENT: …}, {}]`",
        ("twice", "2"),
    ),
    Mistake(
        "B152",
        of(f"{ANSWER}, expect: {{calls: {{run_model: [{{}}, {{«promt»: hello}}]}}}}"),
        "`run_model` is never called with `promt`",
        "did you mean `prompt`?",
        ("promt", "prompt"),
    ),
    # B153: what is no regular expression
    Mistake(
        "B153",
        of(f'{ANSWER}, expect: {{model_output: {{matches: «"(hi"»}}}}'),
        "test `t` cannot match this: missing ), unterminated subpattern at position 0",
        "write a regular expression of Python; to look for the text itself, use `contains`",
        ("(hi", "hi"),
    ),
    Mistake(
        "B153",
        of(f"{ANSWER}, {NEXT}{{outbounds: [{{content: {{matches: [hi, «5»]}}}}]}}}}]"),
        "test `t` cannot match this: it is not a string",
        "write a regular expression of Python; to look for the text itself, use `contains`",
        ("5", "'5'"),
    ),
    Mistake(
        "B153",
        of(f"{ANSWER}, expect: {{model_output: {{«contain»: hi}}}}"),
        "test `t` expects a text that is a mapping, with `contain`",
        "did you mean `contains`?",
        ("contain", "contains"),
    ),
    Mistake(
        "B153",
        of(f"{ANSWER}, {NEXT}{{streamed: [{{«regex»: hi}}]}}}}]"),
        "test `t` expects a text that is a mapping, with `regex`",
        "write the text itself, `{contains: TEXT}` or `{matches: PATTERN}`",
        ("regex", "matches"),
    ),
    Mistake(
        "B194",
        of(f"{ANSWER}, expect: {{model_output: {{contains: «''»}}}}"),
        'test `t` asks for a text that contains `""`, and every text does',
        'write what the text must have, or expect `""`',
        ("''", "hi"),
        severity="warning",
    ),
    # B154: nothing streams
    Mistake(
        "B154",
        of(f"{ANSWER}, expect: {{«streamed»: [hi]}}", PLAIN),
        "test `t` expects streamed text, but no stage of profile `default` streams",
        "take it out, or give the stage that asks the model `kind: stream`",
        ("streamed: [hi]", "model_output: hi"),
        severity="warning",
    ),
    # B156: what is said of an agent that is not asked
    Mistake(
        "B156",
        of("mock: {run_model: {«tool_calls»: [{name: fs.read}]}}, expect: {prompt: hello}"),
        "test `t` mocks `run_model` with `tool_calls`, which only the answer of a model has",
        "write it in a mock of `call_model`: the agent asks this mock instead of a model",
        ("run_model", "call_model"),
    ),
    Mistake(
        "B156",
        of("mock_tools: {fs.read: {answers: [{return: hi, «usage»: {}}]}}, expect: {prompt: hello}"),
        "test `t` mocks `fs.read` with `usage`, which only the answer of a model has",
        "write it in a mock of `call_model`: the agent asks this mock instead of a model",
        (", usage: {}", ""),
    ),
    Mistake(
        "B156",
        of("mock: {run_model: {return: hi}, «call_model»: {return: hi}}, expect: {prompt: hello}"),
        "test `t` mocks `call_model`, but stage `run_model` is mocked, so the agent is not asked",
        "take it out, or let the agent answer: mock `call_model`, and the agent runs its tools",
        (", call_model: {return: hi}", ""),
        severity="warning",
    ),
    Mistake(
        "B156",
        of(f"{ANSWER}, expect: {{prompt: hello}}, «mock_tools»: {{}}").replace(
            "«mock_tools»: {}", "mock_tools: {«fs.read»: {return: hi}}"
        ),
        "test `t` mocks the tool `fs.read`, but stage `run_model` is mocked, so the agent is not asked",
        "take it out, or let the agent answer: mock `call_model`, and the agent runs its tools",
        (", mock_tools: {fs.read: {return: hi}}", ""),
        severity="warning",
    ),
    Mistake(
        "B156",
        of(
            "expect: {«tool_calls»: [{name: fs.read}]}",
            f"{HEAD}stages: {{run_model: {{only: [local_model]}}}}\n"
            "profiles: {default: {plugins: [local_model]}}\n",
        ),
        "test `t` expects calls of tools, but stage `run_model` does not ask the agent",
        "take it out, or let the agent answer: mock `call_model`, and the agent runs its tools",
        ("tool_calls: [{name: fs.read}]", "prompt: hello"),
        severity="warning",
    ),
    # B211: a mocked tool that there is not
    Mistake(
        "B211",
        of("mock_tools: {«fs.raed»: {return: hi}}, expect: {prompt: hello}"),
        "test `t` mocks the tool `fs.raed`, which no plugin of profile `default` brings",
        "did you mean `fs.read`?",
        ("fs.raed", "fs.read"),
    ),
    # The rules about a test hold for each of its turns, and for each answer of a mock.
    Mistake(
        "B172",
        of(f"{ANSWER}, {NEXT}{{ran: [«run_modl»]}}}}]"),
        "test `t` expects stage `run_modl` to run, but profile `default` has no such stage",
        "did you mean `run_model`?",
        ("run_modl", "run_model"),
    ),
    Mistake(
        "B174",
        of(f"{ANSWER}, {NEXT}{{ran: [load_state], skipped: [«load_state»]}}}}]"),
        "test `t` expects stage `load_state` both to run and to be skipped",
        "take one of the two out",
        ("skipped: [load_state]", "prompt: two"),
        related="the other one is here",
    ),
    Mistake(
        "B175",
        of("mock: {run_model: {answers: [{return: hi}, {raise: «TooSlowEror»}]}}, expect: {prompt: hello}"),
        "test `t` names the exception `TooSlowEror`, which does not exist",
        "did you mean `TooSlowError`?",
        ("TooSlowEror", "TooSlowError"),
        severity="warning",
    ),
    Mistake(
        "B194",
        of("mock: {run_model: {«delay»: 5s, answers: [{return: hi}]}}, expect: {prompt: hello}"),
        "test `t` mocks `run_model` with `answers`, so Bub ignores what is beside them",
        "put it into one of the answers, or take it out",
        ("delay: 5s, ", ""),
        severity="warning",
    ),
    Mistake(
        "B194",
        of(f"{ANSWER}, {NEXT}{{prompt: ''}}}}]".replace("content: two", "«conten»: two")),
        "the message of test `t` has `conten`, which no other message has",
        "did you mean `content`?",
        ("conten: two", "content: two"),
        severity="warning",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.code} {mistake.message}")
def test_what_a_test_cannot_mean_is_found_and_its_mended_twin_is_not(mistake: Mistake) -> None:
    assert_is_found(mistake)


@pytest.mark.parametrize(
    "text",
    [
        of(f"{ANSWER}, {NEXT}{{skipped: [load_state]}}}}], profile: default").replace(
            "expect: {prompt: hello}", "expect: {ran: [load_state]}"
        ),
        of(
            "mock: {load_state: {return: {}}}, expect: {prompt: x}, "
            "then: [{message: {channel: cli}, expect: {prompt: x}}]"
        ).replace(HEAD, f"{HEAD}stages: {{load_state: {{when: {{channel: cli}}}}}}\n"),
        of(f"{ANSWER}, expect: {{calls: {{run_model: [{{message: {{content: hello}}, session_id: x, profile: x}}]}}}}"),
        of('mock: {before_llm_call: {return: null}}, expect: {calls: {before_llm_call: [{request: {model: ""}}]}}'),
        of('expect: {prompt: {matches: "${env:PATTERN:-(}"}}'),
        of("expect: {prompt: {parts: 2}, outbounds: [{content: {picture: x}}]}"),
    ],
)
def test_what_is_near_a_mistake_and_right_stays_quiet(text: str) -> None:
    assert said(check(VERSION + text)) == []


NOTED = """version: 1
extends: bub:default
settings: {model: "${env:MODEL:-openrouter:x/y}"}
tests: {t: {message: {content: x}, env: {MODEL: x, BUB_MODEL: 'a:b', GREETING: hi}, expect: {prompt: x}}}
"""


def test_a_variable_that_nobody_reads_is_noted() -> None:
    (told,) = check(NOTED)
    assert (told.code, told.severity, told.path) == ("B155", "note", "tests.t.env.GREETING")
    assert told.message.startswith("test `t` sets the variable `GREETING`, but neither this file nor a plugin")
    assert said(check(NOTED.replace("GREETING: hi", "BUB_HOME: hi"))) == []
