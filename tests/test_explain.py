"""`bub explain`: what a pipeline comes to, who set each value, and what is never shown.

What a person reads is kept word for word in `golden/`. After a wanted change, write it anew with
`python tests/test_explain.py` and read the difference.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from fakes.command_line import SOURCES, bub
from hypothesis import given
from hypothesis import strategies as st

from bub.base.layout import cells
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.framework import BubFramework
from bub.pipeline.plan.origins import Lookup, flow, lookup_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.plan.waits import waits_of
from bub.pipeline.show.explain import explain
from bub.pipeline.show.facts import Implementers, StageFacts, ValueFacts
from bub.pipeline.show.pages import page
from bub.pipeline.source.merge import load_document, load_text

Write = Callable[[str, str], Path]

GOLDEN = Path(__file__).parent / "golden"
PAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "explain_default": ("--config", "bub:default"),
        "explain_ethos": ("--config", "bub:ethos"),
        "explain_night": ("--config", "newsroom.yaml", "--profile", "night"),
        "explain_stage": ("--config", "newsroom.yaml", "--profile", "night", "run_model"),
        "explain_hook": ("--config", "newsroom.yaml", "proofread"),
        "explain_settings": ("--config", "newsroom.yaml", "--profile", "night", "settings"),
        "explain_path": ("--config", "newsroom.yaml", "--profile", "night", "stages.run_model.timeout"),
        "explain_flow": ("bot.yaml", "--flow", "guests"),
        "explain_flow_default": ("bot.yaml", "--flow", "default"),
    }
)
"""What is explained for each file of `golden/`."""

SECRET = "sk-3f9a7c1e5b"


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


Said = Callable[..., Done]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command line in this process, in a folder."""

    def run(folder: Path, *arguments: str, **environment: str) -> Done:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("COLUMNS", "80")
            for name, value in environment.items():
                patch.setenv(name, value)
            code = exit_code(lambda: command_line(arguments))
        return Done(code, *capsys.readouterr())

    return run


def printed(arguments: tuple[str, ...]) -> str:
    done = bub(GOLDEN, "explain", *arguments)
    text = re.sub(r"\S*agent/builtin\.py:\d+", "BUILTIN:LINE", done.stdout)
    return f"{text}{done.stderr}exit code {done.returncode}\n"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_one_that_was_read_and_found_right(name: str) -> None:
    assert printed(PAGES[name]) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["explain", "graph", "hooks", "validate"])
def test_a_shipped_pipeline_is_named_alike(said: Said, tmp_path: Path, command: str) -> None:
    named = said(tmp_path, command, "bub:ethos")
    assert (named.code, named.err) == (0, "")
    assert named.out == said(tmp_path, "--config", "bub:ethos", command).out
    other = said(tmp_path, "--config", "bub:default", command, *(["--all"] if command == "hooks" else []))
    assert named.out != other.out or command == "validate"
    slip = said(tmp_path, command, "bub:ethoss")
    assert slip == Done(2, "", "bub: there is no shipped pipeline `bub:ethoss` (did you mean `bub:ethos`?)\n")


def test_a_file_may_be_named_before_what_is_explained(said: Said, write: Callable[[str, str], Path]) -> None:
    folder = write("quick.yaml", "version: 1\nextends: bub:default\nstages: {run_model: {timeout: 7s}}\n").parent
    assert said(folder, "explain", "quick.yaml", "stages.run_model.timeout").out.startswith(
        "stages.run_model.timeout: 7s\n"
    )
    assert "before_dispatch" in said(folder, "explain", "bub:ethos", "before_dispatch").out
    assert said(folder, "explain", "run_model", "timeout") == Done(
        2, "", "bub: `run_model` is no pipeline (name a file that ends in .yaml, or bub:NAME)\n"
    )


def facts(text: str, topic: str | None = None, profile: str = "default", **environ: str) -> Any:
    """The facts about a pipeline that is given as a text, as if it stood in `pipelines.yaml`."""
    plan = make_plan(load_text(dedent(text).lstrip("\n")), profile)
    return explain(lookup_of(plan, environ), topic, None)


def shown(text: str, topic: str | None = None, width: int = 80, **environ: str) -> str:
    lines = page(facts(text, topic, **environ), width)
    return "\n".join("".join(span.text for span in line) for line in lines)


# Origins


LAYERED = """
    version: 1
    extends: bub:default
    stages: {run_model: {timeout: 2m}}
    settings: {model: "openai:a"}
    profiles:
      base:
        plugins: []
        settings: {model: "openai:b"}
      ci:
        extends: base
        stages: {run_model: {timeout: 60s}}
        settings: {model: "openai:c"}
"""


def test_every_place_that_set_a_value_is_told_weakest_first() -> None:
    found = facts(LAYERED, "settings.model", "ci", BUB_MODEL="openai:d")
    assert [(origin.value.value, origin.where) for origin in found.origins] == [
        ("openai:a", "pipelines.yaml:4:19"),
        ("openai:b", "pipelines.yaml:8:23"),
        ("openai:c", "pipelines.yaml:12:23"),
        ("openai:d", "BUB_MODEL in the environment"),
    ]
    assert [origin.layer for origin in found.origins][:3] == ["pipelines.yaml", "profile base", "profile ci"]


def test_the_winner_is_the_value_that_a_run_gets(write: Write) -> None:
    file = write("pipelines.yaml", LAYERED)
    framework = BubFramework(file, profile="ci")
    framework.load_hooks()
    found = explain(lookup_of(make_plan(load_document(file), "ci"), os.environ), "settings.model", None)
    assert isinstance(found, ValueFacts)
    assert found.origins[-1].value.value == framework.settings["model"] == "openai:c"


def test_each_layer_beats_those_below_it_and_is_named_with_its_place(write: Write, said: Said) -> None:
    def winner(*options: str, **environ: str) -> str:
        shown = said(file.parent, *options, "explain", "settings.model", **environ).out
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            framework = BubFramework(file, profile="ci" if options else None)
            framework.load_hooks()
        (marked,) = [line for line in shown.splitlines() if line.strip().startswith("*")]
        model = framework.settings.get("model")
        assert model is not None and model in marked, "a run has the value that is shown as the winner"
        return " ".join(marked.split())

    head = "version: 1\nextends: bub:default\n"
    file = write("work/pipelines.yaml", head)
    assert "nothing (by default)" in said(file.parent, "explain", "settings.model").out
    file = write("work/pipelines.yaml", f"{head}settings: {{model: 'openai:file'}}\n")
    assert winner() == "* openai:file pipelines.yaml:3:19"
    profiles = "profiles:\n  default: {settings: {model: 'openai:profile'}}\n  ci: {settings: {model: 'openai:ci'}}\n"
    write("work/pipelines.yaml", f"{head}settings: {{model: 'openai:file'}}\n{profiles}")
    assert winner() == "* openai:profile pipelines.yaml:5:31 (profile default)"
    assert winner("--profile", "ci") == "* openai:ci pipelines.yaml:6:26 (profile ci)", (
        "the command line chooses the profile"
    )
    write("work/.env", "# mine\nBUB_MODEL=openai:dotenv\n")
    assert winner("--profile", "ci") == "* openai:dotenv BUB_MODEL in .env:2"
    assert winner("--profile", "ci", BUB_MODEL="openai:own") == "* openai:own BUB_MODEL in the environment"


def test_a_profile_that_does_not_apply_has_no_say() -> None:
    assert [origin.value.value for origin in facts(LAYERED, "stages.run_model.timeout", "base").origins] == [
        "30m",
        "2m",
    ]


def test_the_line_of_dotenv_is_told_and_the_environment_is_stronger(write: Write, said: Said) -> None:
    file = write("pipelines.yaml", LAYERED)
    write(".env", "# mine\nOTHER=1\nBUB_MODEL=openai:e\n")
    done = said(file.parent, "explain", "settings.model", BUB_MODEL="openai:f")
    assert done.out.index("BUB_MODEL in .env:3") < done.out.index("* openai:f")
    assert "* openai:e" in said(file.parent, "explain", "settings.model").out


def test_what_a_stage_takes_from_its_hook_point_and_the_pipeline_is_told_where_it_stands() -> None:
    text = """
        version: 1
        on_failure: skip
        hooks: {check: {kind: broadcast, timeout: 5s}}
        stages: {check: {}}
    """
    assert [origin.path for origin in facts(text, "stages.check.timeout").origins] == ["hooks.check.timeout"]
    policy = facts(text, "stages.check.on_failure")
    assert [(origin.value.value, origin.path) for origin in policy.origins] == [("skip", "on_failure")]
    assert facts(text, "check").on_failure == "skip"


def test_what_nobody_set_has_its_default() -> None:
    text = "version: 1\nstages: {check: {kind: gate}}\n"
    assert facts(text, "stages.check.on_failure").default == "deny"
    assert facts(text, "stages.check.hook").default == "check"
    assert facts(text, "settings.temperature").origins == ()
    assert "(by default)" in shown(text, "stages.check.timeout")


def test_a_key_for_another_provider_is_said_to_be_left_out() -> None:
    text = f"version: 1\nsettings: {{model: 'openai:a', api_key: {SECRET}}}\n"
    assert "left out" not in shown(text, "settings.api_key")
    assert "left out" in shown(text, "settings.api_key", BUB_MODEL="anthropic:b")


def test_a_list_is_one_value_and_an_item_of_it_has_one_place() -> None:
    text = "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [a, b]}}\n"
    assert [origin.where for origin in facts(text, "profiles.default.plugins").origins][-1] == "pipelines.yaml:3:31"
    assert [origin.where for origin in facts(text, "profiles.default.plugins[1]").origins] == ["pipelines.yaml:3:35"]


def test_thousands_of_settings_are_told_in_one_go() -> None:
    many = "".join(f"    k{number}: v\n" for number in range(8000))
    start = time.process_time()
    assert len(facts(f"version: 1\nsettings:\n  mine:\n{many}", "settings").below) == 8000
    assert time.process_time() - start < 5


@given(st.recursive(st.text(st.sampled_from("a*@-&!%|>~?: ,[]{}#$\"'.1\n")), lambda one: st.lists(one, max_size=3)))
def test_a_value_is_shown_as_yaml_that_reads_the_same(value: Any) -> None:
    told = load_text(f"version: 1\nx-value: {flow(value)}\n")
    assert told.root.get("x-value").plain() == value, flow(value)  # type: ignore[union-attr]


def test_names_with_dots_are_found() -> None:
    assert facts("version: 1\nsettings: {my.plugin: {words: [a]}}\n", "settings.my.plugin.words").origins


# Secrets


HIDDEN = f"""
    version: 1
    x-notes: {{token: {SECRET}}}
    settings:
      api_key: {SECRET}
      api_kye: {SECRET}
      api_base: https://me:{SECRET}@example.org/v1
      temperature: {SECRET}
      model: "openai:gpt"
      providers:
        openrouter: {{api_key: "${{env:KEY:-{SECRET}}}", {SECRET.replace("-", "_")}: {SECRET}}}
        groq: {SECRET}
      telegram: {{token: [{SECRET}], credentials: {{user: {SECRET}}}}}
    profiles:
      default: {{plugins: [], settings: {{api_key: "Bearer {SECRET} ${{env:KEY}}"}}}}
    tests:
      t: {{message: {{api_key: {SECRET}}}}}
"""


@pytest.mark.parametrize(
    "topic",
    [None, "settings", "settings.api_key", "settings.providers", "profiles", "profiles.default", "tests", "x-notes"],
)
def test_no_secret_is_ever_shown(topic: str | None) -> None:
    found = facts(HIDDEN, topic, BUB_API_KEY=SECRET)
    for text in (shown(HIDDEN, topic, BUB_API_KEY=SECRET), json.dumps(found.as_dict(), default=str)):
        assert SECRET not in text
        assert len(text) > 40


def test_what_the_schema_of_a_plugin_marks_is_a_secret_whatever_its_name() -> None:
    text = f"version: 1\nsettings: {{radio: {{frequency: {SECRET}, band: fm}}}}\n"
    radio = {"type": "object", "properties": {"frequency": {"type": "string", "writeOnly": True}, "band": True}}
    plan = make_plan(load_text(text), "default")
    found = explain(Lookup(plan, {}, {"type": "object", "properties": {"radio": radio}}), "settings", None)
    assert isinstance(found, ValueFacts)
    told = {path: (origin.value.value, origin.secret) for path, origin in found.below}
    assert told["settings.radio.frequency"] == ("a literal in pipelines.yaml:2:31", True)
    assert told["settings.radio.band"] == ("fm", False)


def test_a_secret_is_shown_as_its_source() -> None:
    text = f"version: 1\nsettings: {{api_key: '${{env:MY_KEY}}', providers: {{groq: {{api_key: {SECRET}}}}}}}\n"
    assert shown(text, "settings.api_key").startswith("settings.api_key: ${env:MY_KEY}\n")
    assert shown(text, "settings.providers.groq.api_key").startswith(
        "settings.providers.groq.api_key: a literal in pipelines.yaml:2:66\n"
    )
    assert "the variable BUB_API_KEY" in shown(text, "settings.api_key", BUB_API_KEY=SECRET)


@pytest.mark.parametrize("topic", ["settings", "settings.notes"])
def test_of_a_section_without_a_schema_a_list_has_the_keys_alone(topic: str) -> None:
    notes = "{folder: /srv/notes, pin: 4711, deep: {words: [pst-one, two]}, safe: '${env:PLACE}', on: true}"
    text = f"version: 1\nsettings: {{max_tokens: 10, notes: {notes}}}\n"
    told = shown(text, topic)
    keys = ("folder: a literal", "pin: a literal", "deep.words: a literal", "safe: ${env:PLACE}", "on: true")
    assert [key for key in keys if f"settings.notes.{key}\n" not in told] == []
    for one in (told, json.dumps(facts(text, topic).as_dict(), default=str)):
        assert not [value for value in ("/srv", "4711", "pst-one") if value in one]
    said = " ".join(told.split())
    assert "which values of `settings.notes` are secrets" in said
    assert shown(text, "settings.notes.pin").startswith("settings.notes.pin: 4711\n"), "what is named is shown"


def test_a_secret_in_the_query_of_a_url_is_not_shown() -> None:
    text = f"version: 1\nsettings: {{api_base: 'https://example.org/v1?v=2&api_key={SECRET}&token={SECRET}#top'}}\n"
    assert "https://example.org/v1?v=2&api_key=…&token=…#top" in shown(text, "settings.api_base")


def test_what_is_no_secret_is_shown() -> None:
    text = "version: 1\nsettings: {max_tokens: 10, temperature: '${env:T:-0.5}', words: {key_words: [a]}}\n"
    assert "settings.max_tokens: 10\n" in shown(text, "settings")
    assert "${env:T:-0.5}" in shown(text, "settings.temperature")
    assert "settings.words.key_words: [a]" in shown(text, "settings.words.key_words")
    text = (
        f"version: 1\nsettings: {{max_tokens: many, providers: {{p: {{colour: red, tokn: hush, gate: {SECRET}}}}}}}\n"
    )
    told = shown(text, "settings")
    assert "settings.max_tokens: many" in told
    assert "settings.providers.p.colour: red" in told
    assert "hush" not in told
    assert SECRET not in told


# Finding what is meant


@pytest.mark.parametrize(
    ("topic", "help"),
    [
        ("run_modle", "did you mean `run_model`?"),
        ("setings", "did you mean `settings`?"),
        ("stages.run_modle.timeout", "did you mean `stages.run_model.timeout`?"),
        ("stages.run_model.timout", "did you mean `stages.run_model.timeout`?"),
        ("settings.modle", "did you mean `settings.model`?"),
        ("hooks.tool_gat", "did you mean `hooks.tool_gate`?"),
        ("ci", "explain `profiles.ci`, or `--profile ci`"),
        ("routes[3].profile", "look at `routes`"),
        ("profiles.nope.plugins", "known there: `default`, `base`, `ci`"),
    ],
)
def test_what_there_is_not_is_told_with_what_was_meant(topic: str, help: str) -> None:  # noqa: A002
    with pytest.raises(UsageError) as raised:
        facts(LAYERED, topic)
    assert raised.value.help == help


def test_a_code_has_its_page_in_any_case(tmp_path: Path, said: Said) -> None:
    done = said(tmp_path, "explain", "b120")
    assert done.out.startswith("B120: ")
    assert (done.code, done.err) == (0, "")
    assert json.loads(said(tmp_path, "explain", "B120", "--json").out)["code"] == "B120"
    unknown = said(tmp_path, "explain", "B999")
    assert (unknown.code, unknown.out) == (2, "")
    assert "B999" in unknown.err


# Stages


def test_a_stage_tells_its_values_and_what_it_waits_for() -> None:
    found = facts("version: 1\nextends: bub:default\n", "run_model")
    assert isinstance(found, StageFacts)
    assert found.takes["prompt"] == ("build_prompt",)
    assert found.takes["system"] is None
    assert found.takes["workspace"] == ()
    assert found.makes == {"model_output": ("save_state", "render_outbound")}
    assert (found.waits_for, found.cleaned_by) == (("build_prompt",), ("save_state",))


def test_every_key_of_a_stage_is_told_and_none_of_another_kind() -> None:
    keys = {key.name for key in facts("version: 1\nstages: {check: {kind: gate}}\n", "check").keys}
    assert {"kind", "timeout", "needs", "for_each"} <= keys
    assert not {"into", "combine", "cleanup_for"} & keys


def test_stages_side_by_side_wait_for_no_more_than_they_must() -> None:
    plan = make_plan(load_document(GOLDEN / "newsroom.yaml"), "default")
    waits = waits_of(plan)
    assert waits.directly["build_prompt"] == ("fetch_news", "fetch_weather")
    assert waits.beside["fetch_news"] == ("fetch_weather",)
    assert waits.before["fetch_weather"] == ("resolve_session", "load_state")


def test_the_implementations_are_those_of_a_run_in_its_order(said: Said) -> None:
    done = said(GOLDEN, "explain", "--config", "newsroom.yaml", "--json")
    stages = json.loads(done.out)["stages"]
    told = {stage["id"]: [one["plugin"] for one in stage["implementations"]] for stage in stages}
    framework = BubFramework(GOLDEN / "newsroom.yaml")
    framework.load_hooks()
    assert told == {step.id: [call.plugin for call in step.calls.items] for step in framework.graph.steps}
    assert told["run_model"] == ["desk", "builtin"]


def test_only_and_the_place_of_a_function_are_told(write: Write, said: Said) -> None:
    write("one.py", "from bub import hookimpl\n\n\n@hookimpl\ndef run_model(prompt):\n    return prompt\n")
    file = write(
        "pipelines.yaml",
        """
        version: 1
        extends: bub:default
        stages: {run_model: {only: [one]}}
        plugins: {one: {path: one.py}}
        profiles: {default: {plugins: [one]}}
        """,
    )
    done = said(file.parent, "explain", "--config", file.name, "run_model", "--json")
    assert json.loads(done.out)["implementations"] == [
        {"plugin": "one", "hook": "run_model", "file": "one.py", "line": 4}
    ]


# What is not loaded


TOUCHING = """
    version: 1
    extends: bub:default
    plugins: {spy: {path: spy.py}}
    profiles: {default: {plugins: [spy]}}
"""
SPY = "from pathlib import Path\nPath('imported').touch()\n"


def test_nothing_of_an_untrusted_file_is_imported(write: Write, said: Said) -> None:
    write("spy.py", SPY)
    folder = write("pipelines.yaml", TOUCHING).parent
    done = said(folder, "explain")
    assert (done.code, done.err) == (0, "")
    assert "run_model" in done.out
    assert "not trusted" in done.out
    assert not (folder / "imported").exists()
    said(folder, "explain", BUB_TRUST_WORKSPACE="1")
    assert (folder / "imported").exists()


def test_nothing_of_a_file_with_errors_is_imported(write: Write, said: Said) -> None:
    write("spy.py", SPY)
    file = write("pipelines.yaml", TOUCHING + "    stages: {run_model: {timout: 5s}}\n")
    done = said(file.parent, "explain", "--config", file.name)
    assert "the file has errors" in done.out
    assert not (file.parent / "imported").exists()


@pytest.mark.parametrize("arguments", [["explain", "stages.run_model.timeout"], ["explain", "B120"], ["graph"]])
def test_a_path_a_code_and_a_graph_load_no_plugin_and_nothing_that_waits(write: Write, arguments: list[str]) -> None:
    write("spy.py", SPY)
    folder = write("pipelines.yaml", TOUCHING).parent
    code = f"""
        import sys
        from bub.__main__ import main
        sys.argv = ["bub", *{arguments}, "--config", "pipelines.yaml"]
        assert main() == 0
        print(sorted({{"trio", "httpx", "loguru", "questionary"}} & set(sys.modules)))
    """
    process = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.stdout.splitlines()[-1:] == ["[]"], process.stderr
    assert not (folder / "imported").exists()


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("version: 1\nextends: bub:default\nstages: {run_model: {timout: 5s}}\n", 1),
        ("version: 1\n bad: [\n", 1),
        ("", 1),
    ],
)
def test_a_file_with_errors_is_shown_as_far_as_it_can_be_read(write: Write, text: str, errors: int, said: Said) -> None:
    folder = write("pipelines.yaml", text).parent
    done = said(folder, "explain")
    assert done.code == 0
    assert done.err == f"bub: pipelines.yaml has {errors} error; `bub validate` lists it\n"
    assert "profile  default" in done.out
    assert "Traceback" not in done.out
    if "extends" in text:
        assert "save_state" in done.out


def test_a_profile_that_does_not_exist_is_wrong_usage(write: Write, said: Said) -> None:
    folder = write("pipelines.yaml", LAYERED).parent
    done = said(folder, "explain", "--profile", "cii")
    assert (done.code, done.out) == (2, "")
    assert "did you mean `ci`?" in done.err


# Layout


@pytest.mark.parametrize("width", [30, 45, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal_unless_a_word_is(width: int) -> None:
    implementers = Implementers({}, {})
    lookup = lookup_of(make_plan(load_document(GOLDEN / "newsroom.yaml"), "night"), {})
    for topic in (None, "run_model", "proofread", "settings", "stages.run_model.timeout"):
        for line in page(explain(lookup, topic, implementers), width):
            text = "".join(span.text for span in line)
            assert cells(text) <= width or len(text.split()) <= 3, text


def test_what_a_file_says_cannot_steer_the_terminal(write: Write, said: Said) -> None:
    folder = write("pipelines.yaml", 'version: 1\ndescription: "a \\e[31m b"\nstages: {x: {kind: "\\e[2J"}}\n').parent
    for arguments in (["explain"], ["explain", "description"], ["graph"]):
        assert "\x1b" not in said(folder, *arguments).out


def test_json_says_what_it_is_about(write: Write, said: Said) -> None:
    folder = write("pipelines.yaml", LAYERED).parent
    for topic, about in ((), "pipeline"), (("run_model",), "stage"), (("tool_gate",), "hook"), (("settings",), "value"):
        told = json.loads(said(folder, "explain", *topic, "--json").out)
        assert (told["version"], told["about"], told["errors"]) == (1, about, 0)
    assert told["below"]["settings.model"]["value"] == "openai:a"


if __name__ == "__main__":
    for each, what in PAGES.items():
        (GOLDEN / f"{each}.txt").write_text(printed(what), encoding="utf-8")
