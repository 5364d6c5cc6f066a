"""What is secret is said once: every reader of a file hides the same values, whichever way its schema says so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import pytest
from fakes.command_line import SOURCES, bub
from fakes.installed import install_section
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.agent.tools.shell import child_environment
from bub.asking import Asking
from bub.base.diagnostics import Diagnostic, PipelineError, Position, Range
from bub.base.quoting import hide_passwords
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.pipeline.check.validate import check_document, check_loaded
from bub.pipeline.edit.choices import value_of, with_section
from bub.pipeline.plan.origins import lookup_of
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.plan.secret_values import redactor_of
from bub.pipeline.report.annotations import render_annotations
from bub.pipeline.report.report import render_json, render_text
from bub.pipeline.report.sarif import render_sarif
from bub.pipeline.show.compare import compare
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.explain import explain
from bub.pipeline.show.flowcharts import dot, mermaid
from bub.pipeline.show.lanes import text_lines
from bub.pipeline.show.pages import page
from bub.pipeline.show.profiles import profiles
from bub.pipeline.source.document import walk
from bub.pipeline.source.merge import Document, load_text
from bub.secrets.literals import secrets_in_addresses
from bub.setup.sections import ask_for_section

Write = Callable[[str, str], Path]

SECRET = "wagtail-3f9a7c1e"
"""A value that no name gives away; only the schema says that it is one."""

MARKED = {"type": "string", "writeOnly": True}

WAYS: Mapping[str, dict[str, Any]] = {
    "itself": {"properties": {"gate": MARKED}},
    "one hop": {"properties": {"gate": {"$ref": "#/$defs/a"}}, "$defs": {"a": MARKED}},
    "two hops": {
        "properties": {"gate": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": MARKED},
    },
    "twelve hops": {
        "properties": {"gate": {"$ref": "#/$defs/0"}},
        "$defs": {**{str(hop): {"$ref": f"#/$defs/{hop + 1}"} for hop in range(12)}, "12": MARKED},
    },
    "a property": {"properties": {"gate": {"$ref": "#/properties/other"}, "other": MARKED}},
    "a slash in a name": {"properties": {"gate": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": MARKED}},
    "a tilde in a name": {"properties": {"gate": {"$ref": "#/$defs/a~0b"}}, "$defs": {"a~b": MARKED}},
    "a tilde before a one": {"properties": {"gate": {"$ref": "#/$defs/a~01b"}}, "$defs": {"a~1b": MARKED}},
    "a percent sign": {"properties": {"gate": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": MARKED}},
    "an item": {"properties": {"gate": {"$ref": "#/allOf/0"}}, "allOf": [{**MARKED, "type": ["string", "object"]}]},
    "allOf": {"properties": {"gate": {"type": "string", "allOf": [{"$ref": "#/$defs/a"}]}}, "$defs": {"a": MARKED}},
    "anyOf": {"properties": {"gate": {"anyOf": [{"type": "integer"}, MARKED]}}},
    "a pattern": {"patternProperties": {"^ga": MARKED}},
    "any name": {"properties": {"a": True}, "additionalProperties": {"$ref": "#/$defs/a"}, "$defs": {"a": MARKED}},
    "the section": {"properties": {"gate": {"type": "string"}}, "writeOnly": True},
    "a circle": {
        "properties": {"gate": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
        "$defs": {"a": {"allOf": [{"properties": {"inner": {"$ref": "#/$defs/a"}}}, MARKED]}},
    },
    "beside its reference": {
        "properties": {"gate": {"$ref": "#/$defs/a", "writeOnly": True}},
        "$defs": {"a": {"type": "string"}},
    },
    "behind a reference beside a word": {
        "properties": {"gate": {"$ref": "#/$defs/a", "description": "A gate.", "writeOnly": False}},
        "$defs": {"a": MARKED},
    },
}
"""How a schema can say that `weather.gate` is a secret."""

ways = pytest.mark.parametrize("schema", WAYS.values(), ids=WAYS)


Said = Callable[..., str]


@pytest.fixture
def folder(write: Write) -> Path:
    """A folder with a pipeline file in which `weather.gate` holds the secret, beside something that is wrong."""
    text = f"""
        version: 1
        extends: bub:default
        profiles: {{default: {{plugins: [weather]}}}}
        settings: {{weather: {{gate: {SECRET}}}, modle: x}}
    """
    return write("work/pipelines.yaml", text).parent


@pytest.fixture
def said(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """All that a command prints, where a package with a schema for the section `weather` is installed."""

    def run(schema: Any, *arguments: str) -> str:
        monkeypatch.syspath_prepend(install_section(folder.parent / "site", schema))
        monkeypatch.chdir(folder)
        exit_code(lambda: command_line(arguments))
        return "".join(capsys.readouterr())

    return run


@ways
def test_validate_shows_no_secret_however_its_schema_marks_it(said: Said, schema: Any) -> None:
    shown = said(schema, "validate")
    assert SECRET not in shown
    assert "B040" in shown, "a secret in plain text is a warning"
    assert "B100" in shown, "the line with the secret is shown"


@ways
@pytest.mark.parametrize("topic", ["settings", "settings.weather.gate", "profiles.default"])
def test_explain_shows_no_secret_however_its_schema_marks_it(said: Said, schema: Any, topic: str) -> None:
    shown = said(schema, "explain", topic)
    assert SECRET not in shown
    assert topic in shown


@pytest.mark.parametrize(
    "arguments",
    [
        *(("validate", "--format", form) for form in ("text", "json", "github", "sarif")),
        ("explain",),
        ("explain", "settings", "--json"),
    ],
    ids=" ".join,
)
def test_no_process_shows_what_is_marked_two_hops_away_even_when_it_is_wrong(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    schema = {
        "properties": {"gate": {"$ref": "#/$defs/a~1b"}},
        "$defs": {"a/b": {"$ref": "#/properties/other%20one"}},
    }
    schema["properties"]["other one"] = {"enum": ["open", "shut"], "allOf": [MARKED]}
    site = install_section(folder.parent / "site", schema)
    done = bub(folder, *arguments, PYTHONPATH=os.pathsep.join((SOURCES, str(site))))
    assert "Traceback" not in done.stderr
    assert len(done.stdout) > 100
    assert SECRET not in done.stdout + done.stderr
    if arguments[0] == "validate":
        assert "must be `open` or `shut`" in done.stdout


# Below a name, and behind a reference


BELOW = {
    "a mapping in a line": f"{{x: {{credentials: {{user: {SECRET}}}}}, modle: y}}",
    "a mapping in lines": f"\n  x:\n    credentials:\n      user: {SECRET}\n  modle: y",
    "a list": f"\n  x:\n    credentials:\n      - name: one\n        user: {SECRET}\n  modle: y",
    "a mapping that hangs over": f"{{x: {{credentials:\n  {{user: {SECRET}}}}}, modle: y}}",
    "a list of texts": f"\n  x:\n    credentials:\n    - one\n    - {SECRET}\n  modle: y",
    "a text of lines": f"\n  x:\n    credentials:\n      user: |\n        one\n        {SECRET}\n  modle: y",
    "an anchor": f"\n  y: {{user: &it {SECRET}}}\n  x: {{credentials: {{user: *it}}}}\n  modle: y",
}


def findings_everywhere(document: Document) -> list[Diagnostic]:
    """What was found, and as much again at each value."""
    wrong = [
        Diagnostic("B105", "error", "it is wrong", node.place.file, node.place.range) for _, node in walk(document.root)
    ]
    file, lines = next(reversed(document.sources.items()))
    wrong += [
        Diagnostic("B105", "error", "it is wrong", file, Range(Position(number, 1), Position(number, 2)))
        for number in range(1, len(lines.splitlines()) + 1)
    ]
    return [*check_document(document), *wrong]


@pytest.mark.parametrize("settings", BELOW.values(), ids=BELOW)
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_report_shows_nothing_below_a_name_that_says_secret(settings: str, ends: str) -> None:
    text = f"version: 1\nextends: bub:default\nsettings: {settings}\n".replace("\n", ends)
    document = load_text(text, file="p.yaml")
    shown = render_text(findings_everywhere(document), document.sources)
    assert "it is wrong" in shown
    assert SECRET not in shown


TOKEN = "sk-live-3f9a7c1e"
REFERENCE = f"${{env:MY_TOKEN:-{TOKEN}}}"

PLACES = {
    "description": f"description: 'a {REFERENCE}'",
    "a message of a test": f"tests: {{t: {{message: {{content: '{REFERENCE}'}}, expect: {{}}}}}}",
    "a mock of a test": f"tests: {{t: {{message: hi, mock: {{run_model: '{REFERENCE}'}}}}}}",
    "what a test expects": f"tests: {{t: {{message: hi, expect: {{outbound: '{REFERENCE}'}}}}}}",
    "a default of a stage": f"stages: {{x: {{kind: firstresult, default: '{REFERENCE}'}}}}",
    "below a default": f"stages: {{x: {{kind: firstresult, default: {{user: ['{REFERENCE}', two]}}}}}}",
    "a literal below a default": f"stages: {{x: {{kind: firstresult, default: {{credentials: {{user: {TOKEN}}}}}}}}}",
    "a time-out": f"stages: {{x: {{kind: firstresult, timeout: '{REFERENCE}'}}}}",
    "what a stage needs": f"stages: {{x: {{kind: firstresult, needs: ['{REFERENCE}']}}}}",
    "what a stage waits for": f"stages: {{x: {{kind: firstresult, after: '{REFERENCE}'}}}}",
    "what a stage makes": f"stages: {{x: {{kind: firstresult, into: '{REFERENCE}'}}}}",
    "whether a stage is on": f"stages: {{x: {{kind: firstresult, enabled: '{REFERENCE}'}}}}",
    "a kind": f"stages: {{x: {{kind: '{REFERENCE}'}}}}",
    "a hook": f"stages: {{x: {{kind: firstresult, hook: '{REFERENCE}'}}}}",
    "when": f"stages: {{x: {{kind: firstresult, when: {{content: '{REFERENCE}'}}}}}}",
    "for each": f"stages: {{x: {{kind: firstresult, for_each: '{REFERENCE}'}}}}",
    "a retry": f"stages: {{x: {{kind: firstresult, retry: {{times: '{REFERENCE}'}}}}}}",
    "a policy of a stage": f"stages: {{x: {{kind: firstresult, on_failure: '{REFERENCE}'}}}}",
    "a policy": f"on_failure: '{REFERENCE}'",
    "a policy of a hook": f"hooks: {{x: {{kind: firstresult, on_failure: '{REFERENCE}'}}}}",
    "what a hook takes": f"hooks: {{x: {{kind: firstresult, takes: ['{REFERENCE}']}}}}",
    "a route": f"routes: [{{match: {{content: '{REFERENCE}'}}, profile: default}}]",
    "the profile of a route": f"routes: [{{match: {{content: hi}}, profile: '{REFERENCE}'}}]",
    "a budget": f"profiles: {{default: {{budget: {{steps: '{REFERENCE}'}}}}}}",
    "a channel": f"profiles: {{default: {{channels: ['{REFERENCE}']}}}}",
    "a tool": f"profiles: {{default: {{tools: {{allow: ['{REFERENCE}']}}}}}}",
    "a plugin": f"profiles: {{default: {{plugins: ['{REFERENCE}']}}}}",
    "the path of a plugin": f"plugins: {{x: {{path: '{REFERENCE}'}}}}",
    "the parent of a profile": f"profiles: {{default: {{extends: '{REFERENCE}'}}}}",
    "the file's own": f"x-mine: {{a: ['{REFERENCE}']}}",
    "an unknown key": f"mine: '{REFERENCE}'",
    "the version": f"version: '{REFERENCE}'",
    "a setting": f"settings: {{system_prompt: 'a {REFERENCE}', modle: y}}",
    "a setting of another type": f"settings: {{max_steps: '{REFERENCE}', timeout: '{REFERENCE}'}}",
}
"""Where the default of a variable named like a secret may stand."""


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_no_reader_shows_the_default_of_a_variable_named_like_a_secret(place: str) -> None:
    assert_nobody_shows_the_token(place)


def assert_nobody_shows_the_token(place: str) -> None:
    """Hold against each reader a document with the token at a place."""
    head = "" if place.startswith("version") else "version: 1\n"
    parent = "bub:default" if "on_failure" in place or "routes" in place else "bub:classic"
    below = "" if place.startswith("extends") else f"extends: {parent}\n"
    text = f"{head}{below}{place}\n"
    document, bare = load_text(text, file="p.yaml"), load_text(f"version: 1\n{below}", file="p.yaml")
    other = load_text(text.replace(TOKEN, f"{TOKEN}-other"), file="p.yaml")
    lookup = lookup_of(make_plan(document, "default"), {})
    drawing = drawing_of(lookup.plan)
    found = check_loaded(document).diagnostics
    everywhere = [*found, *findings_everywhere(document)]
    shown = {
        "report": render_text(everywhere, document.sources),
        "json": render_json(everywhere, 1),
        "sarif": render_sarif(everywhere, document.sources, Path()),
        "annotations": render_annotations(everywhere, Path()),
        "findings": str(found),
        "explain": json.dumps(explain(lookup, None, None).as_dict(), default=str),
        "graph": str([text_lines(drawing, 100), mermaid(drawing), dot(drawing)]),
        "profiles": json.dumps([facts.as_dict() for facts in profiles(document, "default", {})], default=str),
        "log": redactor_of(document, {}, {}).text(text),
    }
    for topic in dict.fromkeys(re.sub(r"\[.*", "", path) for path, _ in walk(document.root) if path):
        try:
            facts = explain(lookup, topic, None)
        except UsageError as refusal:
            shown[f"explain {topic}"] = f"{refusal} {refusal.help}"
        else:
            shown[f"explain {topic}"] = json.dumps(facts.as_dict(), default=str)
            shown[f"the page of {topic}"] = str(page(facts, 100))
    for name, pair in {"made": (bare, document), "removed": (document, bare), "changed": (document, other)}.items():
        try:
            shown[f"diff {name}"] = json.dumps(compare(*pair).as_dict(), default=str)
        except PipelineError as refusal:
            shown[f"diff {name}"] = f"{refusal} {refusal.diagnostics}"
    assert [reader for reader, told in shown.items() if TOKEN in told] == []


ADDRESS = f"https://ada:{TOKEN}@one.example/v1"

ADDRESSES = {
    "a setting": f"settings: {{api_base: '{ADDRESS}', modle: y}}",
    "a setting of a plugin": f"settings: {{weather: {{mirror: '{ADDRESS}'}}, modle: y}}",
    "a default of a reference": f"settings: {{api_base: '${{env:BASE:-{ADDRESS}}}', modle: y}}",
    "a default of a stage": f"stages: {{x: {{kind: firstresult, default: '{ADDRESS}', after: build_prompt}}}}",
    "a policy": f"on_failure: '{ADDRESS}'",
    "a plugin": f"profiles: {{default: {{plugins: ['{ADDRESS}']}}}}",
    "the path of a plugin": f"plugins: {{x: {{path: '{ADDRESS}'}}}}\nprofiles: {{default: {{plugins: [x]}}}}",
    "a parent": f"extends: '{ADDRESS}'",
    "a route": f"routes: [{{match: {{content: '{ADDRESS}'}}, profile: default}}]",
    "a message of a test": f"tests: {{t: {{message: {{content: '{ADDRESS}'}}, expect: {{}}}}}}",
    "the profile of a route": f"routes: [{{match: {{content: hi}}, profile: '{ADDRESS}'}}]",
    "the plugin of a stage": f"stages: {{run_model: {{only: ['{ADDRESS}']}}}}",
    "the name of a profile": f"profiles: {{default: {{}}, '{ADDRESS}': {{plugins: []}}}}",
    "the name of a plugin": f"plugins: {{'{ADDRESS}': {{path: x.py}}}}",
    "the name of a stage": f"stages: {{'{ADDRESS}': {{kind: void}}}}",
    "the name of a hook": f"hooks: {{'{ADDRESS}': {{kind: void}}}}",
    "the name of a slot": f"stages: {{run_model: {{when: {{'{ADDRESS}': hi}}}}}}",
    "the name of a field": f"routes: [{{match: {{'{ADDRESS}': hi}}, profile: default}}]",
    "the name of a test": f"tests: {{'{ADDRESS}': {{message: hi, expectt: {{}}}}}}",
    "the name of a provider": f"settings: {{providers: {{'{ADDRESS}': {{addres: x}}}}}}",
    "the name of a setting": f"settings: {{'{ADDRESS}': x}}",
    "a key of the file": f"'{ADDRESS}': x",
}
"""Where an address with a password may stand."""


@pytest.mark.parametrize("place", ADDRESSES.values(), ids=ADDRESSES)
def test_no_reader_shows_the_password_of_an_address(place: str) -> None:
    assert_nobody_shows_the_token(place)


@pytest.mark.parametrize("before", ["x@", "x/", "x#", "x?", "x@/y#", "it's:"])
@pytest.mark.parametrize("place", ["settings", "policy", "default", "route"])
def test_no_reader_shows_a_part_of_a_password_that_was_not_quoted(before: str, place: str) -> None:
    address = json.dumps(f"https://ada:{before}{TOKEN}@one.example/v1")
    assert_nobody_shows_the_token(
        {
            "settings": f"settings: {{api_base: {address}, modle: y}}",
            "policy": f"on_failure: {address}",
            "default": f"stages: {{x: {{kind: firstresult, default: {address}, after: build_prompt}}}}",
            "route": f"routes: [{{match: {{content: hi}}, profile: {address}}}]",
        }[place]
    )


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(list(ADDRESSES)), st.lists(st.sampled_from(["a", "@", "#", "?", "b/"]), max_size=4))
def test_no_two_readers_disagree_about_an_address(place: str, before: list[str]) -> None:
    assert_nobody_shows_the_token(ADDRESSES[place].replace(TOKEN, f"{''.join(before)}{TOKEN}"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://u:pa@ss@host/x", "https://u:…@host/x"),
        ("https://u:pa/ss#a@host/x", "https://u:…@host/x"),
        ("https://to@ken@host/x", "https://…@host/x"),
        ("https://ann@mail.example:pw@host/x", "https://…@host/x"),
        ("ftp://ann@mail.example:pw@host/x", "ftp://ann@mail.example:…@host/x"),
        ("https://u:pw@one,https://v:pw@two", "https://u:…@one,https://v:…@two"),
        ("`https://u:pw@one` and `ann@two`", "`https://u:…@one` and `ann@two`"),
        ("https://u:pa/s…", "https://u:…"),
        ("https:/u:pa@ss@host/x", "https:/u:…@host/x"),
        ("https://token@host/x@y", "https://…@host/x@y"),
        ("http://host:8080/a/b#c", "http://host:8080/a/b#c"),
        ("http://host:8080/a/b…", "http://host:8080/a/b…"),
        ("http://host:8080 of ann@two", "http://host:8080 of ann@two"),
    ],
)
def test_a_password_ends_at_the_last_at_sign_before_a_blank_or_a_quote(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown
    assert hide_passwords(shown) == shown


@pytest.mark.parametrize("secret", ["pass@word-7", "pass/word-7", "pass#word-7", "a@b.example:password-7"])
def test_what_is_covered_of_an_address_is_the_whole_password(secret: str) -> None:
    assert secret in secrets_in_addresses(f"https://{'' if '.' in secret else 'ada:'}{secret}@one.example/v1")
    assert "password-7" in secrets_in_addresses("https://a@b.example:password-7@one.example/v1")


@pytest.mark.parametrize("arguments", [("run", "hi"), ("doctor", "--json"), ("test",)], ids=" ".join)
@pytest.mark.parametrize("parent", ["bub:default", "./absent.yaml"], ids=["whole", "incomplete"])
def test_no_error_at_the_start_shows_the_default_of_a_variable_named_like_a_secret(
    write: Write, arguments: tuple[str, ...], parent: str
) -> None:
    stages = "".join(
        f"  x{number}: {{kind: firstresult, {said}}}\n"
        for number, said in enumerate(re.findall(r"\{x: \{kind: firstresult, (.*)\}\}", "\n".join(PLACES.values())))
    )
    profile = f"{{plugins: ['{REFERENCE}'], tools: {{allow: ['{REFERENCE}']}}, channels: ['{REFERENCE}']}}"
    text = f"""version: 1
extends: {parent}
settings: {{max_steps: '{REFERENCE}', timeout: '{REFERENCE}'}}
profiles: {{default: {profile}}}
tests: {{t: {{message: '{REFERENCE}', expect: {{outbound: '{REFERENCE}'}}}}}}
stages:
{stages}"""
    folder = write("work/pipelines.yaml", text).parent
    done = bub(folder, *arguments, BUB_TRUST_WORKSPACE="1")  # a process of its own, which has covered nothing before
    shown = done.stdout + done.stderr
    assert "B10" in shown or "does not compile" in shown
    assert TOKEN not in shown


# Two readers never disagree


NAMES = st.sampled_from(["gate", "roof", "wing", "a/b", "a~b", "a b"])
SECRET_NAMES = ("token", "api_key", "credentials")
ANY_NAMES = NAMES | st.sampled_from(SECRET_NAMES)


class Bird(NamedTuple):
    """A schema, settings that it knows with a value of its own for each leaf, and which of them are secrets."""

    schema: dict[str, Any]
    settings: Any
    secrets: frozenset[str]


@st.composite
def birds(draw: st.DrawFn) -> Bird:
    """Schemas that mark settings in any way there is, behind references to anywhere, circles among them."""
    defs: dict[str, Any] = {}
    secrets: set[str] = set()
    values = (f"wagtail-{number:x}-zq" for number in range(16, 4096))

    def wrapped(schema: dict[str, Any]) -> dict[str, Any]:
        """The schema behind some references, or as a part of another."""
        for _ in range(draw(st.integers(0, 3))):
            match draw(st.sampled_from(["ref", "ref beside", "allOf", "anyOf", "circle"])):
                case "allOf" | "anyOf" as keyword:
                    schema = {keyword: [schema]}
                case way:
                    name = f"{draw(NAMES)}{len(defs)}"
                    reference = {"$ref": f"#/$defs/{pointed(name)}"}
                    defs[name] = {"allOf": [schema, reference]} if way == "circle" else schema
                    schema = dict(reference)
                    if way == "ref beside":
                        schema["description"] = "Beside."
        return schema

    def grown(depth: int, name: str, above: bool) -> tuple[dict[str, Any], Any]:
        marked = draw(st.sampled_from([False, False, True]))
        schema: dict[str, Any] = {"writeOnly": True} if marked else {}
        secret = above or marked or name in SECRET_NAMES
        kind = draw(st.sampled_from(["text", "list", "mapping"])) if depth else "mapping"
        value: Any
        if kind == "mapping":
            parts = {}
            schema["properties"], value = parts, {}
            for below in draw(st.sets(ANY_NAMES, min_size=1, max_size=3)):
                parts[below], value[below] = grown(depth + 1, below, secret) if depth < 2 else leaf(below, secret)
        else:
            leaf_schema, value = leaf(name, secret)
            schema = {**leaf_schema, **schema}
            if kind == "list":
                schema, value = {"type": "array", "items": wrapped(schema)}, [value]
        return wrapped(schema), value

    def leaf(name: str, secret: bool) -> tuple[dict[str, Any], str]:
        value = next(values)
        if secret or name in SECRET_NAMES:
            secrets.add(value)
        return {"type": "string"}, value

    schema, settings = grown(0, "", False)
    return Bird({**schema, "$defs": defs}, settings, frozenset(secrets))


def pointed(name: str) -> str:
    return quote(name.replace("~", "~0").replace("/", "~1"))


def leaves(value: Any, steps: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield steps, value
    for name, below in value.items() if isinstance(value, dict) else ():
        yield from leaves(below, (*steps, name))
    for index, below in enumerate(value) if isinstance(value, list) else ():
        yield from leaves(below, (*steps, index))


def as_yaml(value: Any, indent: int = 0) -> str:
    if not isinstance(value, dict):
        return f" {json.dumps(value)}\n"
    return "\n" + "".join(f"{' ' * indent}{json.dumps(n)}:{as_yaml(v, indent + 2)}" for n, v in value.items())


@settings(max_examples=40, deadline=None)
@given(birds())
def test_no_two_readers_disagree_about_what_is_secret(tmp_path_factory: pytest.TempPathFactory, bird: Bird) -> None:
    site = install_section(tmp_path_factory.mktemp("bird"), bird.schema)
    head = "version: 1\nextends: bub:default\n"
    text = f"{head}settings:\n  weather:{as_yaml(bird.settings, 4)}"
    document = load_text(text, file="p.yaml")
    values = dict(leaves(bird.settings, ("settings", "weather")))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        shown = {
            "report": report_of(document, values),
            "explain": json.dumps(explain(lookup_of(make_plan(document, "default"), {}), "settings", None).as_dict()),
            "diff": str(compare(load_text(head, file="p.yaml"), document).as_dict()),
            "redactor": redactor_of(document, {}, {}).text(text),
            "config": "".join(value for steps, value in values.items() if may_be_set(document, steps, value)),
            "command": "".join(
                child_environment(dict.fromkeys([f"V{value}"], value), {"weather": bird.settings}).get(f"V{value}", "")
                for value in values.values()
            ),
        }
    for reader, told in shown.items():
        assert {value for value in values.values() if value not in told} == bird.secrets, reader


def report_of(document: Document, values: Mapping[tuple[str | int, ...], str]) -> str:
    """What `bub validate` shows when something is wrong with every value."""
    places = [node.place for steps in values if (node := document.root.get(*steps)) is not None]
    wrong = [Diagnostic("B105", "error", "it is wrong", place.file, place.range) for place in places]
    return render_text([*check_document(document), *wrong], document.sources)


def may_be_set(document: Document, steps: tuple[str | int, ...], value: str) -> bool:
    """Whether `bub config set` would write the value into the file."""
    keys = tuple(step for step in steps if isinstance(step, str))
    words = [value] if keys == steps else [value, value]
    try:
        value_of(with_section(lookup_of(make_plan(document, "default"), {}), keys), keys, words)
    except UsageError as refusal:
        assert "is a secret" in str(refusal)
        return False
    return True


class Notes:
    """Somebody who is asked, notes which questions are for secrets, and answers none."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    def secret(self, name: str, title: str, **_: Any) -> None:
        self.asked[name] = "secret"

    def text(self, name: str, title: str, **_: Any) -> str:
        self.asked[name] = "text"
        return ""


def test_a_set_up_asks_for_secrets_what_the_others_hide() -> None:
    schema = {
        "properties": {
            "gate": {"$ref": "#/$defs/a~1b"},
            "roof": {"$ref": "#/properties/gate"},
            "wing": {"type": "string"},
            "bot_token": {"type": "string"},
        },
        "$defs": {"a/b": {"$ref": "#/$defs/a%20b"}, "a b": MARKED},
    }
    notes = Notes()
    assert ask_for_section("weather", schema, {}, cast(Asking, notes)) == {}
    assert notes.asked == {
        "weather.gate": "secret",
        "weather.roof": "secret",
        "weather.wing": "text",
        "weather.bot_token": "secret",
    }
