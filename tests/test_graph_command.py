"""`bub graph`: the drawing of a pipeline in text, Mermaid and DOT, and how long a turn may take.

The drawings are kept word for word in `golden/`. After a wanted change, write them anew with
`python tests/test_graph_command.py` and read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType

import pytest
from fakes.command_line import bub

from bub.base.layout import cells
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.show.drawing import Drawing, describe_longest_path, drawing_of
from bub.pipeline.show.flowcharts import dot, mermaid
from bub.pipeline.show.lanes import text_lines
from bub.pipeline.source.merge import load_document, load_text

GOLDEN = Path(__file__).parent / "golden"
DRAWINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "graph_default": ("bub:default",),
        "graph_ethos": ("--pipeline", "bub:ethos"),
        "graph_night": ("newsroom.yaml", "--profile", "night"),
        "graph_night_mermaid": ("newsroom.yaml", "--profile", "night", "--format", "mermaid"),
        "graph_night_dot": ("newsroom.yaml", "--profile", "night", "--format", "dot"),
    }
)
"""What is drawn for each file of `golden/`."""


def printed(arguments: tuple[str, ...]) -> str:
    done = bub(GOLDEN, "graph", *arguments)
    return f"{done.stdout}{done.stderr}exit code {done.returncode}\n"


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_the_one_that_was_read_and_found_right(name: str) -> None:
    assert printed(DRAWINGS[name]) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def plan(stages: str, hooks: str = "{}") -> Plan:
    text = f"version: 1\nhooks: {hooks}\nstages:\n{dedent(stages).strip(chr(10))}"
    lines = text.splitlines()
    return make_plan(load_text("\n".join([*lines[:3], *(f"  {line}" for line in lines[3:])]) + "\n"), "default")


def drawn(stages: str, width: int = 80) -> str:
    """The lanes and names of a drawing, without its title and its last lines."""
    lines = ["".join(span.text for span in line).rstrip() for line in text_lines(drawing_of(plan(stages)), width)]
    return "\n".join(lines[2 : lines.index("", 2)])


# Words that wait


def test_a_stream_says_whose_word_it_waits_for() -> None:
    hooks = "{judge: {kind: gate, takes: [said]}, edit: {kind: modifying, takes: [said]}}"
    stages = """
        talk: {kind: stream, hook: run_model, into: said}
        judge: {kind: gate}
        {edit}send: {kind: broadcast, hook: dispatch_outbound}
        """
    judged = drawing_of(plan(stages.replace("{edit}", ""), hooks))
    assert judged.boxes[0].shown == "shown after judge"
    assert "stream, shown after judge" in mermaid(judged)
    assert "stream, shown after judge" in dot(judged)
    assert "calls run_model; shown after judge" in text_of(judged)
    edited = plan(stages.replace("{edit}", "edit: {kind: modifying, changes: [said]}\n        "), hooks)
    assert drawing_of(edited).boxes[0].shown == "shown after judge, edit if implemented"
    at_once = plan(stages.replace("{edit}", "").replace("into: said", "into: said, show: at_once"), hooks)
    assert drawing_of(at_once).boxes[0].shown == "shown at once"


def text_of(drawing: Drawing) -> str:
    return "\n".join("".join(span.text for span in line) for line in text_lines(drawing, 120))


# Lanes


def test_stages_side_by_side_stand_on_lanes_of_their_own() -> None:
    told = drawn(
        """
        a: {kind: void}
        b: {kind: void, needs: [a]}
        c: {kind: void, needs: [a]}
        d: {kind: void, needs: [a]}
        e: {kind: void}
        """
    )
    assert told == dedent(
        """\
        ●      a  void  -
        ├─╮
        ├─┼─╮
        ● │ │  b  void  -
        │ │ │
        │ ● │  c  void  -
        ├─╯ │
        │   ●  d  void  -
        ├───╯
        ●      e  void  -"""
    )


def test_a_clean_up_hangs_on_a_dashed_lane() -> None:
    told = drawn(
        """
        a: {kind: void}
        b: {kind: void}
        c: {kind: void, cleanup_for: a, timeout: 1s}
        """
    )
    assert told == dedent(
        """\
        ●    a  void  -
        ├┄╮
        ● ┊  b  void  -
        │ ┊
        ├┄╯
        ●    c  void  1s      cleans up after a"""
    )


def test_a_clean_up_is_dashed_where_other_stages_wait_for_its_target_too() -> None:
    told = drawn(
        """
        a: {kind: void}
        b: {kind: void, cleanup_for: a, timeout: 1s}
        c: {kind: void, needs: [a]}
        """
    )
    assert told == dedent(
        """\
        ●    a  void  -
        ├┄╮
        │ ●  b  void  1s      cleans up after a
        │
        ●    c  void  -"""
    )


def test_gates_claims_and_stages_that_are_off_have_signs_of_their_own() -> None:
    told = drawn(
        """
        a: {kind: gate}
        b: {kind: claiming}
        c: {kind: void, enabled: false}
        """
    )
    assert re.findall(r"^(\S)  +(\w)", told, re.MULTILINE) == [("◆", "a"), ("◇", "b"), ("○", "c")]
    assert told.endswith("off")


def test_neighbours_that_run_for_each_of_a_list_stand_in_one_frame() -> None:
    told = drawn(
        """
        a: {kind: void, for_each: outbounds}
        b: {kind: void, for_each: outbounds}
        c: {kind: void, for_each: others}
        """
    )
    assert re.findall(r"for each of \w+", told) == ["for each of outbounds", "for each of others"]
    assert told.count("└") == 2
    assert drawing_of(plan("a: {kind: void, for_each: x}\nb: {kind: void}")).groups[1][0] is None


def edges(drawing: Drawing) -> set[tuple[str, str]]:
    return {(edge.start, edge.end) for edge in drawing.edges}


def test_only_direct_waits_are_drawn_and_a_clean_up_once() -> None:
    drawing = drawing_of(make_plan(load_document(GOLDEN / "newsroom.yaml"), "default"))
    assert ("load_state", "build_prompt") not in edges(drawing)
    assert {("load_state", "fetch_news"), ("load_state", "fetch_weather"), ("fetch_news", "build_prompt")} <= edges(
        drawing
    )
    assert [edge for edge in drawing.edges if edge.end == "save_state"] == [("run_model", "save_state", True)]


def test_every_edge_of_a_large_pipeline_is_drawn_and_nothing_else_fails() -> None:
    stages = "\n".join(f"s{n}: {{kind: void, needs: [{f's{n // 3}' if n else ''}]}}" for n in range(200))
    drawing = drawing_of(plan(stages))
    assert edges(drawing) == {(f"s{n // 3}", f"s{n}") for n in range(1, 200)}
    assert len(text_lines(drawing, 80)) > 400


@pytest.mark.parametrize(
    "stages",
    [
        "a: {kind: void, needs: [a]}",
        "a: {kind: void, needs: [b]}\nb: {kind: void, needs: [a]}",
        "a: {kind: void, cleanup_for: b}\nb: {kind: void, cleanup_for: a}",
        "a: {needs: nope}\nb: {kind: nope, timeout: [1]}",
        "a: {kind: void, cleanup_for: a, for_each: [x]}",
        "a: {kind: void, for_each: x, timeout: 5}\nb: {kind: gate, for_each: x, needs: []}",
    ],
)
def test_a_broken_pipeline_is_drawn_as_far_as_it_can_be_read(stages: str) -> None:
    drawing = drawing_of(plan(stages))
    assert len(drawing.boxes) == stages.count("{")
    assert mermaid(drawing)
    assert tokens(dot(drawing))
    for box in drawing.boxes:
        assert box.id in "".join(span.text for line in text_lines(drawing, 80) for span in line)


# How long it may take


def test_the_longest_path_counts_and_what_runs_beside_it_does_not() -> None:
    stages = """
        a: {kind: void, timeout: 1m}
        b: {kind: void, needs: [a], timeout: 90s, retry: {times: 3}}
        c: {kind: void, needs: [a], timeout: 500ms}
        d: {kind: void, timeout: 1s}
        e: {kind: void, timeout: 1h, enabled: false}
        """
    assert describe_longest_path(plan(stages)) == "at most 2m 31s: a → b → d"


def test_a_time_out_of_the_hook_point_counts() -> None:
    assert describe_longest_path(plan("a: {}", hooks="{a: {kind: void, timeout: 500ms}}")) == "at most 500ms: a"


def test_what_counts_more_than_once_is_said() -> None:
    stages = """
        a: {kind: void, timeout: 1s}
        b: {kind: void, timeout: 1s, cleanup_for: a}
        c: {kind: void, timeout: 1s, for_each: outbounds}
        """
    assert describe_longest_path(plan(stages)) == (
        "at most 3s: a → b → c (counted once: c for each of outbounds; b for each implementation)"
    )


def test_a_stage_without_a_time_out_is_named() -> None:
    assert (
        describe_longest_path(plan("a: {kind: void, timeout: 1s}\nb: {kind: void}")) == "unbounded: b has no time-out"
    )
    assert describe_longest_path(plan("a: {kind: void, timeout: '${env:T}'}")).startswith("unknown: the time-out of a")


# Escapes


NAMES = ('say "hi"', "a\\nb", "x[y]{z}(w)<v>|;", "&amp; #35; %% `c`", "模型 ✓", "end", "line\nbreak", "\x1b[31m", "-->")


def strange(names: tuple[str, ...]) -> Drawing:
    quoted = (
        name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\x1b", "\\e") for name in names
    )
    return drawing_of(plan("\n".join(f'"{name}": {{kind: void, for_each: "a\\"b"}}' for name in quoted)))


ENTITY = re.compile(r"#(\d+);")
MERMAID_LINE = re.compile(
    r"""---|title:\ "(?:[^"\\]|\\.)*"|flowchart\ TD|
    \ *(?:s\d+(?:\["[^"]*"\]|\{"[^"]*"\}|\{\{"[^"]*"\}\})
    |subgraph\ each\d+\["[^"]*"\]|end|s\d+\ (?:-->|-\.\ clean-up\ \.->)\ s\d+
    |classDef\ \w+\ [\w:#,-]+|class\ s\d+(?:,s\d+)*\ \w+)""",
    re.VERBOSE,
)


def test_mermaid_keeps_to_its_grammar_and_shows_every_name() -> None:
    text = mermaid(strange(NAMES))
    assert [line for line in text.splitlines() if not MERMAID_LINE.fullmatch(line)] == []
    labels = re.findall(r'^ *s\d+\["(.*)<br/>', text, re.MULTILINE)
    for label in labels:
        assert not re.search(r"[\"`<>\[\]{}|\\&;%]", ENTITY.sub("", label)), label
    shown = [ENTITY.sub(lambda found: chr(int(found[1])), label) for label in labels]
    assert shown == [name.replace("\n", "�").replace("\x1b", "�") for name in NAMES]


DOT_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(->|[{}\[\];,=])|([A-Za-z_][A-Za-z0-9_]*))')


def tokens(text: str) -> list[str]:
    """The tokens of a DOT graph, and an error for what is none: quoted texts, words and signs."""
    found, at = [], 0
    while text[at:].strip():
        match = DOT_TOKEN.match(text, at)
        assert match is not None, text[at : at + 40]
        found.append(match[1] or match[2] or match[3])
        at = match.end()
    assert found.count("{") == found.count("}")
    return found


def test_dot_can_be_read_and_every_name_is_one_token() -> None:
    found = tokens(dot(strange(NAMES)))
    said = {
        token[1:-1].replace('\\"', '"').replace("\\\\", "\\").replace("&amp;", "&")
        for token in found
        if token[0] == '"'
    }
    assert {name.replace("\n", "�").replace("\x1b", "�") for name in NAMES} <= said
    assert 'for each of a"b' in said


# The command


def test_wide_names_keep_the_columns_straight() -> None:
    lines = text_lines(strange(("模型模型", "abc")), 80)
    rows = ["".join(span.text for span in line) for line in lines if any("void" in span.text for span in line)]
    assert len({cells(row.partition("void")[0]) for row in rows}) == 1


def test_long_time_outs_keep_the_columns_straight() -> None:
    told = drawn(
        "a: {kind: gate, timeout: 120000ms, when: {channel: x}}\nb: {kind: void, timeout: 1s, when: {kind: x}}"
    )
    assert len({line.index("conditional") for line in told.splitlines() if "conditional" in line}) == 1


def test_ascii_is_drawn_where_no_more_can_be_shown() -> None:
    done = bub(GOLDEN, "graph", "newsroom.yaml", PYTHONIOENCODING="ascii")
    assert done.stdout.isascii()
    assert "+-+" not in done.stdout.splitlines()[0]
    assert re.search(r"^\* \|    fetch_news ", done.stdout, re.MULTILINE)
    assert "\\u" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nope.yaml",), "nope.yaml does not exist"),
        (("newsroom.yaml", "--pipeline", "bub:default"), "two pipelines"),
        (("--pipeline", "bub:nope"), "there is no shipped pipeline `bub:nope`"),
        (("newsroom.yaml", "--profile", "nigth"), "did you mean `night`?"),
        (("newsroom.yaml", "--format", "png"), "png"),
    ],
)
def test_what_cannot_be_drawn_is_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    done = bub(GOLDEN, "graph", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_folder_and_errors_of_a_file_are_told(write: Callable[[str, str], Path]) -> None:
    folder = write("work/pipelines.yaml", "version: 1\nextends: bub:default\nstagse: {}\n").parent
    done = bub(folder.parent, "graph", "work")
    assert done.returncode == 0
    assert "run_model" in done.stdout
    assert done.stderr == "bub: work/pipelines.yaml has 1 error; `bub validate work` lists it\n"


if __name__ == "__main__":
    for each, what in DRAWINGS.items():
        (GOLDEN / f"{each}.txt").write_text(printed(what), encoding="utf-8")
