"""`docs/hooks.md` and its Chinese twin: every hook point with its signature, an example that runs, and a test.

That both say the same is held by `test_chinese_pages.py`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fakes.toys import admission_of

import bub.hookspecs
from bub import BubFramework
from bub.base.resources import shipped_pipelines
from bub.channels import ChannelMessage
from bub.errors import BubError
from bub.hooks.admission import Admission
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.source.merge import load_shipped
from bub.setup.prompter import Prompter
from bub.setup.script import Script

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
if not (DOCS / "hooks.md").is_file():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)


@dataclass(frozen=True)
class Page:
    """The page in one language: its file, and the words that the tests look for."""

    name: str
    kind: str
    sync_only: str
    overview: str

    @property
    def text(self) -> str:
        return (DOCS / self.name).read_text(encoding="utf-8")


ENGLISH = Page("hooks.md", r"^Kind: (.*?)\.", "A plain `def` only.", "Overview")
CHINESE = Page("hooks.zh.md", r"^类型\uff1a(.*?)。", "只能是普通的 `def`。", "概览")
PAGES = [pytest.param(page, id=page.name) for page in (ENGLISH, CHINESE)]
in_both = pytest.mark.parametrize("page", PAGES)
for_every_point = pytest.mark.parametrize("name", HOOK_POINTS)


@dataclass(frozen=True)
class Section:
    """What a page says of one hook point."""

    text: str

    @property
    def code(self) -> list[str]:
        """Its blocks of Python: the signature, then the example."""
        return re.findall(r"^```python\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)


@cache
def sections(page: Page) -> dict[str, Section]:
    """The sections of a page, by hook point, in the order they are in."""
    parts = re.split(r"^##+ (.*)$", page.text, flags=re.MULTILINE)
    headings = zip(parts[1::2], parts[2::2], strict=True)
    return {heading.strip("`"): Section(text) for heading, text in headings if heading.startswith("`")}


def section(page: Page, name: str) -> Section:
    found = sections(page).get(name)
    if found is None:
        pytest.fail(f"docs/{page.name} has no section ### `{name}`: say its kind, its signature, and give an example")
    return found


# What the sections say.


def signature(function: ast.FunctionDef) -> str:
    taken = [argument for argument in function.args.args if argument.arg != "self"]
    named = ", ".join(ast.unparse(argument) for argument in taken)
    return f"{function.name}({named}) -> {ast.unparse(function.returns) if function.returns else None}"


@cache
def declared() -> dict[str, str]:
    """The signature of every hook point as the code has it."""
    source = ast.parse(Path(str(bub.hookspecs.__file__)).read_text(encoding="utf-8"))
    specs = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "BubHookSpecs")
    return {node.name: signature(node) for node in specs.body if isinstance(node, ast.FunctionDef)}


@in_both
@for_every_point
def test_a_hook_point_has_its_section_with_its_signature(page: Page, name: str) -> None:
    code = section(page, name).code
    function = ast.parse(code[0]).body[0] if code else None
    written = signature(function) if isinstance(function, ast.FunctionDef) else None
    assert written == declared()[name], f"docs/{page.name} does not give `{name}` the signature that it has"


@in_both
def test_there_is_no_section_of_a_hook_point_that_there_is_not(page: Page) -> None:
    assert set(sections(page)) - set(HOOK_POINTS) == set()


@in_both
@for_every_point
def test_a_hook_point_is_described_as_it_is(page: Page, name: str) -> None:
    point, said = HOOK_POINTS[name], section(page, name)
    facts = re.search(page.kind, said.text, re.MULTILINE)
    assert facts is not None, f"docs/{page.name} does not say which kind `{name}` has"
    assert re.findall(r"`(\w+)`", facts[1]) == list(point.kinds)
    assert (page.sync_only in said.text) is point.sync_only


@in_both
def test_the_overview_says_which_shipped_pipeline_has_which_point(page: Page) -> None:
    has: dict[str, list[str]] = {name: [] for name in HOOK_POINTS}
    for shipped in shipped_pipelines():
        plan = make_plan(load_shipped(shipped), "default")
        for name in {*(stage.hook.point.name for stage in plan.stages), *plan.hooks}:
            has[name].append(shipped)
    for name, pipelines in has.items():
        twin = HOOK_POINTS[name].twin
        if twin is not None:
            pipelines += [other for other in has[twin] if other not in pipelines]
    _, _, overview = page.text.partition(f"\n## {page.overview}\n")
    rows = re.findall(r"^\| \[`(\w+)`\]\(#\1\) \|.*\|([^|]*)\|$", overview, re.MULTILINE)
    assert {name: sorted(re.findall(r"`(\w+)`", last)) for name, last in rows} == {
        name: sorted(pipelines) for name, pipelines in has.items()
    }
    assert len(rows) == len(HOOK_POINTS)


# The examples run.

CLERK = """
import json
from secrets import token_hex

from bub import hookimpl
from bub.streaming import StreamEvent

CALLS = [("fs.read", {"path": "notes.md"}), ("help", {"name": "help"}), ("subagent", {"prompt": "count to three"})]


@hookimpl
def call_model(request):
    print(json.dumps(request, default=str))
    roles, said = zip(*((message["role"], message["content"]) for message in request["messages"]))
    if said[-1] == "fail":
        raise RuntimeError("out of ink")
    if roles[-1] == "user" and said[-1] not in ("work", "Come to an end now."):
        return answering(said[-1]) if request["model"] == "echo:me" else None
    done = roles[said.index("work") :].count("tool")
    return calling(*CALLS[done]) if done < len(CALLS) else answering("all done")


async def calling(name, arguments):
    yield StreamEvent("tool_call", {"id": token_hex(8), "name": name, "arguments": arguments})


async def answering(text):
    yield StreamEvent.text(text)
"""
"""In the place of a model: it calls one tool after the other where it is told to work."""


@dataclass(frozen=True)
class Scene:
    """Turns in one pipeline that reach the examples of some points; `seen` is what each of these brings about."""

    model: str
    seen: Mapping[str, str]
    messages: Sequence[Mapping[str, str]]


def said(content: str, *, channel: str = "web", chat_id: str = "1") -> dict[str, str]:
    return {"channel": channel, "chat_id": chat_id, "sender_id": "ada", "content": content}


SCENES = {
    "default": Scene(
        model="parrot:polly",
        seen={
            "resolve_session": "session_id: 'person:ada'",
            "load_state": "'weekday':",
            "build_prompt": "prompt: 'Translate into German: good morning'",
            "run_model_stream": "model_output: '3, 2, 1, go!'",
            "save_state": "answers.txt: ",
            "render_outbound": "replies: ['I hear: one', 'two']",
            "dispatch_outbound": "letters.txt: Dear Bob, I hear: hello",
            "on_error": "turn failed: out of ink",
            "before_llm_call": '"temperature": 0.0',
            "after_llm_call": " s, no error",
            "continue_prompt": "Come to an end now.",
            "before_tool_call": "'limit': 100",
            "tool_gate": "the shell is for the profile `workshop`",
            "after_tool_call": "fs.read worked with",
            "subagent_spawning": "count to three (in one line)",
            "subagent_spawned": "has started temp/",
            "subagent_ended": "was helped: I hear: count to three",
            "call_model": "I hear: ",
            "admit_message": "admitted: 'drop'",
            "provide_tools": "'dice'",
            "build_tape_context": "context: TapeContext(anchor=None",
            "register_cli_commands": "commands: ['greet']",
            "onboard_config": "settings: {'weather': {'city': 'Ulm'}}",
            "provide_model_options": "models: ['openai:gpt-5-mini', 'anthropic:claude-sonnet-4-5']",
            "provide_bus": "on the bus: hello",
            "provide_tape_store": "default.db')",
            "provide_channels": "'printer'",
        },
        messages=[
            said("work"),
            said("de: good morning"),
            said("countdown"),
            said("one\n\ntwo"),
            said("hello", channel="letters", chat_id="Bob"),
            said(",bash date"),
            said("fail"),
        ],
    ),
    "classic": Scene(
        model="echo:me",
        seen={"normalize_inbound": "prompt: 'hello'", "run_model": "model_output: 'pong'"},
        messages=[said("@bub hello"), said("ping")],
    ),
    "ethos": Scene(
        model="echo:me",
        seen={
            "inbound_claim": "replies: ['pong']",
            "message_received": "web:1 asks: work",
            "session_start": "default has a new session: web:1",
            "system_prompt": "Answer in one sentence.",
            "before_prompt_build": "Write plain text of 160 letters at most.",
            "agent_done": "web:1 was told 8 letters",
            "message_sending": "replies: ['pay with [a card number]']",
            "before_dispatch": "on paper: hello",
            "message_sent": "sent to web:1",
            "tool_end_with_path": "fs.read has worked on",
            "personality_switched": "guest is the personality of this session",
        },
        messages=[
            said("/ping"),
            said("work"),
            said("hello", channel="sms"),
            said("hello", channel="printer"),
            said("pay with 1234567812345678", chat_id="2"),
            said(",personality admin", chat_id="3"),
        ],
    ),
}


def load(scene: str, folder: Path, examples: Sequence[str]) -> BubFramework:
    """A framework with the pipeline of a scene, in which some examples are plugins as the page shows them."""
    for name in examples:
        (folder / f"{name}.py").write_text(section(ENGLISH, name).code[1], encoding="utf-8")
    (folder / "clerk.py").write_text(CLERK, encoding="utf-8")
    (folder / "notes.md").write_text("Water the tomatoes.\n", encoding="utf-8")
    profile = {"plugins": [*examples, "clerk"], "tools": {"allow": ["*", "bash"]}}
    plugins = {name: {"path": f"{name}.py"} for name in (*examples, "clerk")}
    file = folder / "pipelines.yaml"
    pipeline = {
        "version": 1,
        "extends": f"bub:{scene}",
        "settings": {"model": SCENES[scene].model, "prompt": {"now": False}},
        "plugins": plugins,
        "profiles": dict.fromkeys(("default", "guest", "admin"), profile),
    }
    file.write_text(json.dumps(pipeline), encoding="utf-8")
    framework = BubFramework(file, workspace=folder)
    framework.load_hooks()
    return framework


async def play(scene: str, folder: Path, examples: Sequence[str], make: Callable[..., Any]) -> list[str]:
    """Lines that tell what comes of a scene, but for what it prints."""
    framework, lines = load(scene, folder, examples), list[str]()
    async with framework.running():
        for fields in SCENES[scene].messages:
            try:
                result = await framework.process_inbound(make(**fields))
            except (RuntimeError, BubError) as error:
                lines.append(str(error))
            else:
                replies = [reply["content"] for reply in result.outbounds or ()]
                lines += told(session_id=result.session_id, prompt=result.prompt, state=result.state)
                lines += told(model_output=result.model_output, replies=replies)
        busy = Admission(is_running=True, running_count=1, pending_count=20)
        lines += told(admitted=await admission_of(framework, make(**said("hello")), busy))
        lines += told(models=(await framework.get_model_options("cli:local"))[:2])
        await framework.create_bus().publish_inbound(make(**said("hello")))
        lines += told(store=getattr(framework.get_tape_store(), "path", None))
    return [*lines, *provided(framework), *written(folder)]


def provided(framework: BubFramework) -> list[str]:
    """Lines that tell what the plugins give beside turns."""
    answers = Script({}, {"BUB_ONBOARD_WEATHER_CITY": "Ulm"}, tell=print)
    return told(
        tools=sorted(framework.tools.tools),
        context=framework.build_tape_context(),
        channels=sorted(framework.get_channels(nowhere)),
        commands=[command.callback.__name__ for command in framework.create_cli_app().registered_commands],
        settings=framework.collect_onboard_config(ask=Prompter(answers, {}, None), only={"onboard_config"}),
    )


def written(folder: Path) -> list[str]:
    """The files that were written in the workspace."""
    return [f"{file.name}: {file.read_text(encoding='utf-8')}" for file in folder.glob("*.txt")]


def told(**facts: Any) -> list[str]:
    return [f"{name}: {fact!r}" for name, fact in facts.items()]


async def nowhere(message: Any) -> None:
    """Takes what channels bring."""


def as_dict(**fields: str) -> dict[str, str]:
    return fields


@pytest.mark.anyio
@pytest.mark.parametrize("make", [as_dict, ChannelMessage], ids=["as a dict", "as an object"])
@pytest.mark.parametrize("scene", SCENES)
async def test_the_examples_do_what_they_are_for(
    scene: str, make: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = SCENES[scene].seen
    everything = "\n".join(await play(scene, tmp_path, list(seen), make)) + capsys.readouterr().out
    assert {name: words for name, words in seen.items() if words not in everything} == {}, everything


@pytest.mark.anyio
@pytest.mark.parametrize("scene", SCENES)
async def test_what_is_seen_of_an_example_is_not_seen_without_it(
    scene: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = SCENES[scene].seen
    everything = "\n".join(await play(scene, tmp_path, [], as_dict)) + capsys.readouterr().out
    assert {name: words for name, words in seen.items() if words in everything} == {}, everything


@for_every_point
def test_the_example_of_a_hook_point_is_run(name: str) -> None:
    scenes = [scene for scene, played in SCENES.items() if name in played.seen]
    assert len(section(ENGLISH, name).code) == 2, f"docs/hooks.md has no example of `{name}`, or more than one"
    assert len(scenes) == 1, f"nothing runs the example of `{name}`: add to SCENES what is seen of it"


# Every hook point has a test of its own.


@cache
def names_of_tests() -> list[str]:
    """The names of all tests."""
    found = []
    for file in TESTS.glob("test_*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found += [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in found if name.startswith("test_")]


@for_every_point
def test_a_hook_point_has_a_test_that_is_named_after_it(name: str) -> None:
    longer = [other for other in HOOK_POINTS if name in other and name != other]
    of_others = re.compile("|".join(longer)) if longer else re.compile("(?!)")
    named = [test for test in names_of_tests() if re.search(rf"_{name}(_|$)", of_others.sub("", test))]
    assert named, f"no test is named after `{name}`: write one in tests/test_hook_points.py"
