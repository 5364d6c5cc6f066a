"""A test of a pipeline file whose model calls tools: they really run, or are mocked, and the model gets the result."""

from __future__ import annotations

import pytest
from fakes.desk import Desk, Write

AGENT = """
version: 1
extends: bub:default
plugins:
  guard: {path: guard.py}
profiles:
  default: {plugins: [guard], tools: {allow: ["fs.*", "bash"], ask: [bash]}, budget: {tokens_per_turn: 1000}}
"""

GUARD = """
from bub import hookimpl


@hookimpl
def tool_gate(tool, args):
    if args.get("path") == "secret.txt":
        return {"deny": "not that one"}
"""


@pytest.fixture
def desk(write: Write) -> Desk:
    write("guard.py", GUARD)
    write("notes.txt", "buy milk")
    return Desk(write)


def test_tools_run_as_the_model_calls_them_and_it_gets_their_results(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        a tool runs:
          message: {content: what is in it?}
          mock:
            call_model:
              answers:
                - {return: Let me see., tool_calls: [{name: fs.read, arguments: {path: notes.txt}}]}
                - {return: [It says, " milk."]}
          expect:
            streamed: [Let me see., "\\n\\n", It says, " milk."]
            tool_calls: [{name: fs.read, arguments: {path: notes.txt}, result: {contains: buy milk}}]
            calls:
              call_model:
                - request: {messages: {contains: {role: user, content: {contains: what is in it?}}}}
                - request: {messages: {contains: [{role: tool, content: {contains: buy milk}}, {role: assistant}]}}
        a tool is mocked, and checked and judged all the same:
          message: {content: what is in it?}
          mock:
            call_model:
              answers:
                - tool_calls:
                    - {name: fs.read, arguments: {path: notes.txt}}
                    - {name: fs.read, arguments: {path: secret.txt}}
                    - {name: fs.read, arguments: {pth: notes.txt}}
                    - {name: fs.raed}
                    - {name: bash, arguments: {command: rm -rf /}}
                - {return: done}
          mock_tools: {fs.read: {return: mocked}, bash: {return: never}}
          expect:
            model_output: done
            tool_calls:
              - {result: mocked}
              - {arguments: {path: secret.txt}, result: "error: not that one"}
              - {result: {contains: "has no argument `pth`"}}
              - {name: fs.raed, result: {contains: "did you mean `fs.read`"}}
              - {result: {contains: "needs a person's yes"}}
        mocked tools take turns and fail too:
          message: {content: again}
          mock:
            call_model:
              answers:
                - {tool_calls: [{name: fs.read, arguments: {path: a}}]}
                - {tool_calls: [{name: fs.read, arguments: {path: b}}]}
                - {return: done}
          mock_tools: {fs.read: {answers: [{raise: "OSError: it is gone"}, {return: {lines: 2}, delay: 3s}]}}
          expect: {tool_calls: [{result: {contains: it is gone}}, {result: '{"lines":2}'}], took: 3s}
        a command uses mocked tools:
          message: {content: ",fs.read notes.txt"}
          mock_tools: {fs.read: {return: mocked}}
          expect: {outbounds: [{content: mocked}]}
        what it uses counts:
          message: {content: hello}
          mock: {call_model: {tool_calls: [{name: fs.read, arguments: {path: notes.txt}}], usage: {total_tokens: 600}}}
          expect: {error: {type: BudgetError, message: tokens}, calls: {call_model: 2}}
        a model that fails:
          message: {content: hello}
          mock: {call_model: {answers: [{return: [hi], raise: "ModelError: cut off"}]}}
          expect: {error: {type: ModelError, message: cut off}, streamed: [hi]}
        """,
        AGENT,
    )
    assert [failed for failed in failures.values() if failed] == []
    assert len(failures) == 6


def test_what_a_model_calls_otherwise_is_told(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        other calls:
          message: {content: hello}
          mock:
            call_model: {answers: [{tool_calls: [{name: fs.read, arguments: {path: notes.txt}}]}, {return: done}]}
          expect: {tool_calls: [{name: fs.list, arguments: {path: other.txt}, result: {contains: bread}}]}
        no calls:
          message: {content: hello}
          mock: {call_model: {return: done}}
          expect: {tool_calls: [{name: fs.read}]}
        too few answers of a tool:
          message: {content: hello}
          mock:
            call_model:
              answers:
                - {tool_calls: [{name: fs.read, arguments: {path: a}}, {name: fs.read, arguments: {path: b}}]}
                - {return: done}
          mock_tools: {fs.read: {answers: [{return: a}]}}
          expect: {model_output: done}
        """,
        AGENT,
    )
    (name, arguments, result) = failures["other calls"]
    assert (name, arguments) == (
        ("tool_calls[0].name", "fs.list", "fs.read"),
        ("tool_calls[0].arguments.path", "other.txt", "notes.txt"),
    )
    assert result[:2] == ("tool_calls[0].result", "bread")
    assert failures["no calls"] == [("tool_calls", [{"name": "fs.read"}], [])]
    assert failures["too few answers of a tool"] == [("mock_tools.fs.read.answers", "1 call at most", "2 calls")]


def test_a_mocked_tool_that_nobody_brings_fails_its_test(desk: Desk) -> None:
    failures = desk.failures_of(
        """
        it:
          message: {content: hello}
          mock: {call_model: {return: done}}
          mock_tools: {memory.keep: {return: kept}}
          expect: {model_output: done}
        """,
        AGENT,
    )
    ((path, _, got),) = failures["it"]
    assert path == ""
    assert "the test mocks the tool `memory.keep`, but no plugin of profile `default` brings it" in got
