"""What would keep a plugin's guard from guarding is found at its function, and what only looks like it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.guards import GUARD, LISTED, OTHER, PLUGIN, assert_is_one, findings
from fakes.mistakes import VERSION, marked, said

from bub.base.diagnostics import Range

pytestmark = pytest.mark.anyio

Write = Callable[[str, str], Path]


# Functions that are not marked, and arguments that are not offered.

HOOKED = "@hookimpl\ndef on_error(error): ...\n\n\n"
"""A plugin with one hook, so that it is no plugin without any."""


def place_in(text: str) -> tuple[str, Range]:
    """The text of a plugin whose mistake stands between « and », and the place of that in its file."""
    plain, (place,) = marked(PLUGIN + text)
    return plain.removeprefix(PLUGIN), place


@pytest.mark.parametrize(
    ("pipeline", "guard", "message", "severity"),
    [
        (
            LISTED,
            f"{HOOKED}def «tool_gate»(tool): ...\n",
            "plugin `guard` has a function `tool_gate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (  # a gate's arguments may be wrong as well
            LISTED,
            f"{HOOKED}async def «tool_gate»(tol, *, limit=3): ...\n",
            "plugin `guard` has a function `tool_gate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (
            "hooks: {moderate: {takes: [prompt]}}\n"
            f"stages: {{moderate: {{kind: gate, before: run_model}}}}\n{LISTED}",
            f"{HOOKED}def «moderate»(prompt): ...\n",
            "plugin `guard` has a function `moderate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (
            LISTED,
            f"{HOOKED}def «before_tool_call»(tool, args): ...\n",
            "plugin `guard` has a function `before_tool_call` that is not marked as a hook",
            "warning",
        ),
        (
            LISTED,
            f"{HOOKED}def «provide_tools»(): ...\n",
            "plugin `guard` has a function `provide_tools` that is not marked as a hook",
            "warning",
        ),
        (  # whoever overrides a hook marks it again
            LISTED,
            "class Base:\n    @hookimpl\n    def tool_gate(self, tool): ...\n\n"
            "    @hookimpl\n    def on_error(self): ...\n\n\n"
            "class Guard(Base):\n    def «tool_gate»(self, tool): ...\n\n\nplugin = Guard\n",
            "plugin `guard` has a function `tool_gate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (
            LISTED,
            "class Base:\n    @hookimpl\n    def tool_gate(self, tool): ...\n\n"
            "    @hookimpl\n    def on_error(self): ...\n\n\n"
            "class Guard(Base):\n    def «tool_gate»(self, tool):\n        return super().tool_gate(tool)\n\n\n"
            "plugin = Guard\n",
            "plugin `guard` has a function `tool_gate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (
            LISTED,
            f"{HOOKED}def «tool_gate»(tool): ...\n\n\nif __name__ == '__main__':\n    print(tool_gate('bash'))\n",
            "plugin `guard` has a function `tool_gate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (
            LISTED,
            "class Guard:\n    @hookimpl\n    def on_error(self): ...\n\n"
            "    @staticmethod\n    def «tool_gate»(tool): ...\n\n\n"
            "plugin = Guard\n",
            "plugin `guard` has a function `tool_gate` that is not marked as a hook, so it guards nothing",
            "error",
        ),
        (
            LISTED,
            f"{HOOKED}class Guard:\n    @hookimpl\n    def «tool_gate»(self, tool): ...\n",
            "plugin `guard` has a function `tool_gate` that is in `Guard`, and `Guard` is not the plugin,"
            " so it guards nothing",
            "error",
        ),
    ],
)
def test_a_function_that_only_looks_like_a_hook_is_found(
    write: Write, pipeline: str, guard: str, message: str, severity: str
) -> None:
    text, place = place_in(guard)
    found = findings(write, f"extends: bub:default\n{pipeline}", guard=text)
    assert_is_one(found, "B215", severity, place, message)
    assert Path(found[0].file).name == "guard.py"


@pytest.mark.parametrize(
    "guard",
    [
        # What the plugin calls itself is its own.
        f"{HOOKED}@hookimpl\ndef build_prompt(message):\n    before_tool_call(message, {{}})\n\n\n"
        "def before_tool_call(tool, args): ...\n",
        "class Guard:\n    @hookimpl\n    def build_prompt(self, message):\n        self.load_state(message)\n\n"
        "    def load_state(self, message): ...\n\n\nplugin = Guard\n",
        # It wants something else than the hook has, or this pipeline does not call the hook.
        f"{HOOKED}def load_state(path): ...\n",
        f"{HOOKED}def message_sent(message): ...\n",
        f"{HOOKED}def of_no_hook(tool): ...\n",
        # It is somebody else's, or a class, or a value.
        f"from shutil import copy as load_state\n\n\n{HOOKED}",
        f"{HOOKED}load_state = {{}}\n",
        # It is marked all the same.
        "def tool_gate(tool): ...\n\n\nhookimpl(tool_gate)\n",
        "@hookimpl(specname='tool_gate')\ndef check_tool(tool): ...\n",
        "class Base:\n    @hookimpl\n    def tool_gate(self, tool): ...\n\n\n"
        "class Guard(Base):\n    pass\n\n\nplugin = Guard\n",
    ],
)
def test_a_function_of_a_plugin_that_is_no_hook_stays_quiet(write: Write, guard: str) -> None:
    assert said(findings(write, f"extends: bub:default\n{LISTED}", guard=guard)) == []


@pytest.mark.parametrize(
    ("hooks", "guard", "message", "severity", "help_"),
    [
        (
            "",
            "@hookimpl\ndef before_tool_call(«tol»=None): ...\n",
            "plugin `guard` asks `before_tool_call` for `tol`",
            "warning",
            "did you mean `tool`?",
        ),
        (
            "",
            "@hookimpl\nasync def tool_gate(\n    tool,\n    *,\n    «arg»: dict = {},\n): ...\n",
            "plugin `guard` asks `tool_gate` for `arg`",
            "error",
            "did you mean `args`?",
        ),
        (
            "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n",
            "@hookimpl\ndef moderate(«promt»=''): ...\n",
            "plugin `guard` asks `moderate` for `promt`",
            "error",
            "did you mean `prompt`?",
        ),
        (
            "hooks: {moderate: {kind: gate}}\nstages: {moderate: {before: run_model}}\n",
            "@hookimpl\ndef moderate(«prompt»=''): ...\n",
            "plugin `guard` asks `moderate` for `prompt`",
            "error",
            "add it to what the hook takes: `moderate: {takes: [prompt]}`",
        ),
        (
            "hooks: {tool_gate: {takes: [session_id]}}\n",
            "@hookimpl\ndef tool_gate(«tool»=None): ...\n",
            "plugin `guard` asks `tool_gate` for `tool`",
            "error",
            "add it to what the hook takes: `tool_gate: {takes: [tool]}`",
        ),
    ],
)
def test_an_argument_that_can_only_keep_its_default_is_found(
    write: Write, hooks: str, guard: str, message: str, severity: str, help_: str
) -> None:
    text, place = place_in(guard)
    found = findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=text)
    argument = message.rpartition(" for ")[2]
    kept = f", but this hook has no such argument, so {argument} always keeps its default"
    assert_is_one(found, "B216", severity, place, message + kept)
    assert found[0].help == help_


@pytest.mark.parametrize(
    ("hooks", "guard"),
    [
        ("", "@hookimpl\ndef before_tool_call(tool=None, args=None, limit=3): ...\n"),
        ("", "@hookimpl\ndef before_tool_call(tool, tools=()): ...\n"),  # the other one is there
        ("", "@hookimpl\ndef tool_gate(tool, now=None, **more): ...\n"),
        # Pipelines differ, and a plugin may work in several.
        ("hooks: {load_state: {takes: [session_id]}}\n", "@hookimpl\ndef load_state(session_id, message=None): ...\n"),
        (
            "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n",
            "@hookimpl\ndef moderate(prompt, state=None): ...\n",
        ),
        (
            "hooks: {office_hours: {kind: gate}}\nstages: {office_hours: {before: run_model}}\n",
            "@hookimpl\ndef office_hours(clock=None): ...\n",
        ),
    ],
)
def test_an_argument_with_a_default_of_its_own_stays_quiet(write: Write, hooks: str, guard: str) -> None:
    assert said(findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=guard)) == []


# Time-outs that cannot interrupt.

TIMED = "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model, timeout: 5s}}\n"


@pytest.mark.parametrize(
    ("guard", "call"),
    [
        ("import time\n\n\n@hookimpl\ndef «moderate»(prompt):\n    time.sleep(9)\n", "time.sleep"),
        ("from time import sleep\n\n\n@hookimpl\ndef «moderate»(prompt):\n    sleep(9)\n", "sleep"),
        ("@hookimpl\ndef «moderate»(prompt):\n    import time\n    time.sleep(9)\n", "time.sleep"),
        (
            "import urllib.request\n\n\n@hookimpl\ndef «moderate»(prompt):\n    urllib.request.urlopen(prompt)\n",
            "urllib.request.urlopen",
        ),
        ("import httpx\n\n\n@hookimpl\ndef «moderate»(prompt):\n    httpx.post('', json=prompt)\n", "httpx.post"),
        (
            "import subprocess\n\n\n@hookimpl\ndef «moderate»(prompt):\n    return ask(prompt)\n\n\n"
            "def ask(prompt):\n    subprocess.run([prompt])\n",
            "subprocess.run",
        ),
        (
            "import time\n\n\nclass Guard:\n    @hookimpl\n    def «moderate»(self, prompt):\n        time.sleep(9)\n"
            "\n\nplugin = Guard\n",
            "time.sleep",
        ),
    ],
)
def test_a_plain_function_that_waits_where_there_is_a_time_out_is_a_warning(
    write: Write, guard: str, call: str
) -> None:
    text, place = place_in(guard)
    found = findings(write, f"extends: bub:default\n{TIMED}{LISTED}", guard=text)
    message = (
        f"plugin `guard` implements `moderate` as a plain function that calls `{call}`,"
        " and the time-out of stage `moderate` (5s) cannot interrupt it"
    )
    assert_is_one(found, "B217", "warning", place, message)
    assert found[0].help == "say `thread: true` there, or write it as an `async def`"


@pytest.mark.parametrize("hooks", [TIMED, "hooks: {tool_gate: {timeout: 5s}}\n"])
def test_any_other_plain_function_where_there_is_a_time_out_is_a_note(write: Write, hooks: str) -> None:
    name = "moderate" if "moderate" in hooks else "tool_gate"
    text, place = place_in(f"import time\n\n\n@hookimpl\ndef «{name}»():\n    time.time()\n")
    (found,) = findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=text)
    assert (found.code, found.severity, found.range) == ("B217", "note", place)


@pytest.mark.parametrize(
    ("hooks", "guard"),
    [
        (TIMED.replace("5s", "5s, thread: true"), "import time\n\n\n@hookimpl\ndef moderate():\n    time.sleep(9)\n"),
        (TIMED.replace("gate, ", "gate, thread: true, "), GUARD),
        (TIMED, "import trio\n\n\n@hookimpl\nasync def moderate():\n    await trio.sleep(9)\n"),
        (TIMED.replace(", timeout: 5s", ""), "import time\n\n\n@hookimpl\ndef moderate():\n    time.sleep(9)\n"),
        ("stages: {save_state: {timeout: 5s}}\n", OTHER),
    ],
)
def test_what_a_time_out_can_interrupt_stays_quiet(write: Write, hooks: str, guard: str) -> None:
    assert said(findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=guard)) == []


# Answers that no kind knows.


@pytest.mark.parametrize(
    ("hooks", "guard", "message", "severity"),
    [
        (
            "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n",
            "@hookimpl\ndef «moderate»(prompt):\n    yield {'deny': 'no'}\n",
            "plugin `guard` implements `moderate` with a function that yields, so none of its code runs,"
            " and the gate denies everything",
            "error",
        ),
        (
            "stages: {message_received: {kind: void, after: load_state}}\n",
            "@hookimpl\nasync def «message_received»(message):\n    yield message\n",
            "plugin `guard` implements `message_received` with a function that yields, so none of its code runs",
            "warning",
        ),
    ],
)
def test_a_hook_that_yields_is_found(write: Write, hooks: str, guard: str, message: str, severity: str) -> None:
    text, place = place_in(guard)
    assert_is_one(
        findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=text), "B220", severity, place, message
    )


@pytest.mark.parametrize(
    "guard",
    [
        "@hookimpl\nasync def run_model_stream(prompt):\n    yield prompt\n",
        "@hookimpl\ndef provide_tape_store():\n    yield None\n",
        "@hookimpl\ndef load_state():\n    return dict((name, 1) for name in 'ab')\n",
    ],
)
def test_a_hook_that_may_yield_stays_quiet(write: Write, guard: str) -> None:
    assert said(findings(write, f"extends: bub:default\n{LISTED}", guard=guard)) == []


@pytest.mark.parametrize(
    ("hooks", "guard", "message", "severity"),
    [
        (
            "",
            "@hookimpl\ndef before_tool_call(tool):\n    return «{'deny': 'no'}» if tool == 'bash' else None\n",
            "returns a denial from `before_tool_call`, but a hook of kind `modifying` denies nothing",
            "error",
        ),
        (
            "",
            "class Guard:\n    @hookimpl\n    async def after_tool_call(self):\n        return «dict(deny='é')»\n\n\n"
            "plugin = Guard\n",
            "returns a denial from `after_tool_call`, but a hook of kind `void` denies nothing",
            "error",
        ),
        (
            "stages: {inbound_claim: {kind: claiming, before: resolve_session}}\n",
            "@hookimpl\ndef inbound_claim(message):\n    if message:\n        return «{'deny': 'no'}»\n",
            "returns a denial from `inbound_claim`, but a hook of kind `claiming` denies nothing",
            "error",
        ),
        (
            "hooks: {moderate: {kind: observer, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n",
            "@hookimpl\ndef moderate(prompt):\n    return «{'deny': 'no'}»\n",
            "returns a denial from `moderate`, but a hook of kind `observer` denies nothing",
            "warning",
        ),
        (
            "",
            "@hookimpl\nasync def tool_gate(tool):\n    if tool == 'bash':\n        «{'deny': 'no'}»\n",
            "makes a denial in `tool_gate`, but does not return it, so it denies nothing",
            "error",
        ),
    ],
)
def test_a_denial_that_denies_nothing_is_found(
    write: Write, hooks: str, guard: str, message: str, severity: str
) -> None:
    text, place = place_in(guard)
    found = findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=text)
    assert_is_one(found, "B223", severity, place, f"plugin `guard` {message}")


@pytest.mark.parametrize(
    ("hooks", "guard"),
    [
        ("", "@hookimpl\nasync def tool_gate(tool):\n    return {'deny': 'no'} if tool == 'bash' else None\n"),
        ("", "@hookimpl\ndef load_state():\n    return {'deny': ['words']}\n"),
        (
            "",
            "@hookimpl\ndef before_tool_call(args):\n    def ask():\n        return {'deny': 'no'}\n\n"
            "    return {'args': ask()}\n",
        ),
        ("", "@hookimpl\ndef before_tool_call(args):\n    return {'args': {'deny': 'no'}}\n"),
        ("", "@hookimpl\nasync def tool_gate(tool):\n    verdict = {'deny': 'no'}\n    return verdict\n"),
        (
            "hooks: {rate: {kind: modifying}}\n",
            "@hookimpl\ndef rate():\n    return {'deny': True}\n\n\n"
            "@hookimpl\nasync def build_prompt(fire):\n    await fire('rate')\n",
        ),
    ],
)
def test_a_denial_that_is_heeded_stays_quiet(write: Write, hooks: str, guard: str) -> None:
    assert said(findings(write, f"extends: bub:default\n{hooks}{LISTED}", guard=guard)) == []


QUOTA = "@hookimpl\nasync def quota(amount): ...\n\n\n@hookimpl\nasync def build_prompt(fire):\n    "


@pytest.mark.parametrize(("kind", "severity"), [("gate", "error"), ("observer", "warning")])
def test_an_argument_that_nobody_hands_over_is_found(write: Write, kind: str, severity: str) -> None:
    text, (place,) = marked(
        f"{VERSION}extends: bub:default\nhooks: {{quota: {{kind: {kind}, takes: [session_id, «amount»]}}}}\n{LISTED}"
    )
    found = findings(write, text.removeprefix(VERSION), guard=f"{QUOTA}await fire('quota', amnt=3)\n")
    message = "hook `quota` takes `amount`, but no plugin that fires the hook hands `amount` over"
    assert_is_one(found, "B222", severity, place, message)
    assert found[0].help == "did you mean `amnt`?"


@pytest.mark.parametrize(
    "fires",
    [
        "await fire('quota', amount=3)\n",
        "await fire('quota', **{'amount': 3})\n",
        "await fire('quo' + 'ta')\n",
        "await fire('quota')\n    await fire('quota', amount=4)\n",
    ],
)
def test_an_argument_that_somebody_hands_over_stays_quiet(write: Write, fires: str) -> None:
    pipeline = f"extends: bub:default\nhooks: {{quota: {{kind: gate, takes: [session_id, amount]}}}}\n{LISTED}"
    assert said(findings(write, pipeline, guard=QUOTA + fires)) == []


# What runs in a thread.


@pytest.mark.parametrize("where", ["hook", "stage"])
def test_a_thread_for_what_is_async_is_told_where_it_is_asked_for(write: Write, where: str) -> None:
    hook, stage = (", «thread»: true", "") if where == "hook" else ("", ", «thread»: true")
    text = f"hooks: {{moderate: {{kind: gate, takes: [prompt]{hook}}}}}\n"
    text += f"stages: {{moderate: {{before: run_model, timeout: 5s{stage}}}}}\n"
    plain, (place,) = marked(f"{VERSION}extends: bub:default\n{text}{LISTED}")
    pipeline = plain.removeprefix(VERSION)
    found = findings(write, pipeline, guard="@hookimpl\nasync def moderate(prompt): ...\n")
    message = "stage `moderate` has `thread: true`, but it calls only `async` functions, and these run in no thread"
    assert_is_one(found, "B189", "warning", place, message)
    assert said(findings(write, pipeline, guard=GUARD)) == []


@pytest.mark.parametrize(
    ("pipeline", "guard", "message", "severity", "advice"),
    [
        (
            "extends: bub:ethos\n",
            "@hookimpl\ndef before_prompt_build():\n    return {«'prependSystem'»: 'Today is Monday.'}\n",
            "returns `prependSystem` from `before_prompt_build`, but Bub does not use this key there",
            "error",
            "write `prepend_system`",
        ),
        (
            "extends: bub:default\n",
            "@hookimpl\nasync def before_tool_call(args):\n"
            "    return {«'err'»: 'no'} if args else dict(args={**args, 'x': 1})\n",
            "returns `err` from `before_tool_call`, but Bub does not use this key there",
            "error",
            "it may return `args`, `error`",
        ),
        (
            "extends: bub:default\n",
            "@hookimpl\ndef before_tool_call(args):\n    return {'args': args, «'reason'»: 'it is late'}\n",
            "returns `reason` from `before_tool_call`, but Bub does not use this key there",
            "warning",
            "it may return `args`, `error`",
        ),
        (
            "extends: bub:default\n",
            "@hookimpl\ndef tool_gate(**payload):\n"
            "    return {'deny': 'no'} if payload.get(«'toolName'») == 'bash' else None\n",
            "looks up `toolName` in `tool_gate`, but nothing there has this name",
            "error",
            "Bub calls it `tool`",
        ),
        (
            "extends: bub:default\n",
            "class Guard:\n    @hookimpl\n    def before_tool_call(self, **given):\n"
            "        return {'error': 'no'} if given[«'toolName'»] == 'bash' else None\n\n\nplugin = Guard\n",
            "looks up `toolName` in `before_tool_call`, but nothing there has this name",
            "error",
            "Bub calls it `tool`",
        ),
    ],
)
def test_what_nobody_heeds_or_offers_is_found(
    write: Write, pipeline: str, guard: str, message: str, severity: str, advice: str
) -> None:
    text, place = place_in(guard)
    (finding,) = findings(write, f"{pipeline}{LISTED}", guard=text)
    assert_is_one([finding], "B240", severity, place, f"plugin `guard` {message}")
    assert finding.help == advice


@pytest.mark.parametrize(
    ("pipeline", "guard"),
    [
        ("default", "@hookimpl\ndef before_tool_call(args):\n    return {'args': {**args, 'toolName': 'x'}}\n"),
        ("default", "@hookimpl\ndef before_tool_call(args):\n    new = {'reason': 1}\n    return {'args': new}\n"),
        ("default", "@hookimpl\ndef after_tool_call(**given):\n    print({'toolName': given['tool']})\n"),
        ("ethos", "@hookimpl\ndef before_prompt_build():\n    return {'append_system': 'Be brief.', 'system': None}\n"),
        ("default", "@hookimpl\ndef load_state():\n    return {'sessionId': 1}\n"),
    ],
)
def test_what_is_heeded_or_somebody_elses_word_is_let_through(write: Write, pipeline: str, guard: str) -> None:
    assert findings(write, f"extends: bub:{pipeline}\n{LISTED}", guard=guard) == ()
