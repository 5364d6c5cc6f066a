"""The studio's page as files: no build step, small, of one host, and without any way to run what a stranger wrote."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import studio_page
from fakes.studio import bub_studio

from bub.studio.app import ENDPOINTS

PAGE = Path(__file__).parent.parent / "bub" / "studio" / "page"
SIZE = 60_000
"""How many bytes all files have together, each compressed."""
SCRIPTS = sorted(PAGE.glob("*.js"))
FILES = sorted(path for path in PAGE.iterdir() if path.is_file())
HTML = (PAGE / "index.html").read_text(encoding="utf-8")
CSS = (PAGE / "style.css").read_text(encoding="utf-8")
NAMESPACE = "http://www.w3.org/2000/svg"


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def code_of(path: Path) -> str:
    """A script without its comments."""
    return re.sub(r"^\s*(//|/\*\*).*$", "", text_of(path), flags=re.MULTILINE)


def test_the_page_is_small() -> None:
    assert sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in FILES) < SIZE


def test_the_page_is_nothing_but_its_files() -> None:
    assert {path.suffix for path in PAGE.rglob("*")} == {".html", ".css", ".js", ".svg"}
    assert all(path.parent == PAGE for path in PAGE.rglob("*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_address_of_another_host_is_named(path: Path) -> None:
    text = text_of(path).replace(NAMESPACE, "")
    assert re.findall(r"(?:\b(?:https?|wss?|ftp):|[\"'`(=])//[\w-]+(?:\.[\w-]+)*", text) == []
    assert "@import" not in text and "url(" not in text


FORBIDDEN = (
    r"\.(?:inner|outer)HTML",
    r"insertAdjacentHTML|createContextualFragment|document\.write|setHTMLUnsafe|srcdoc\s*=",
    r"\beval\b|new Function\b|set(?:Timeout|Interval)\(\s*[\"'`]",
    r"\.style\b|\.cssText|[\"']style[\"']\s*[:,]|insertRule|adoptedStyleSheets",
    r"javascript:|createElement\(\s*[\"'](?:script|iframe|style|link|object|embed)",
    r"document\.cookie|postMessage|importScripts|new Worker|WebSocket\(",
)
"""What would run or show as markup what somebody else wrote, or what the policy of the page refuses anyway."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_makes_elements_by_hand_and_runs_no_text(path: Path) -> None:
    code = code_of(path).replace('new Set(["style", "srcdoc", "src"])', "")  # what the makers of elements refuse
    assert [found[0] for pattern in FORBIDDEN for found in re.finditer(pattern, code)] == []


def test_only_drawings_are_parsed_and_only_as_xml() -> None:
    users = [path.name for path in SCRIPTS if "DOMParser" in code_of(path)]
    assert users == ["drawing.js"]
    assert re.findall(r"parseFromString\(.*\"([\w/+]+)\"\)", text_of(PAGE / "drawing.js")) == ["image/svg+xml"]
    assert [path.name for path in SCRIPTS if "createPolicy" in code_of(path)] == ["drawing.js"]


def test_the_html_has_no_script_style_or_handler_of_its_own() -> None:
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", HTML) == []
    assert "<style" not in HTML
    assert re.findall(r"\s(?:style|on\w+)=", HTML) == []
    assert "<base" not in HTML and "<iframe" not in HTML


def test_each_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"(?:href|src)=\"([\w-]+\.\w+)\"", HTML))
    for path in SCRIPTS:
        named |= {name.removeprefix("./") for name in re.findall(r"(?:from |import\()\"(\./[\w.-]+)\"", text_of(path))}
    assert named == {path.name for path in FILES} - {"index.html"}


def test_each_name_that_is_imported_is_exported_there() -> None:
    for path in SCRIPTS:
        for names, source in re.findall(r"^import \{ ([^}]+) \} from \"\./([\w.-]+)\";", text_of(path), re.MULTILINE):
            exported = set(
                re.findall(r"^export (?:async )?(?:const|class|function) (\w+)", text_of(PAGE / source), re.M)
            )
            assert set(names.split(", ")) <= exported, (path.name, source)
            for name in names.split(", "):
                assert len(re.findall(rf"\b{name}\b", code_of(path))) > 1, f"{path.name} does not use {name}"


def test_ids_are_unique_and_each_one_that_is_looked_for_is_there() -> None:
    ids = re.findall(r"\sid=\"([\w-]+)\"", HTML)
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r"\s(?:for|aria-labelledby|aria-controls|aria-describedby)=\"([\w-]+)\"", HTML))
    for path in SCRIPTS:
        wanted |= set(re.findall(r"\bfind\(\"([\w-]+)\"\)", text_of(path)))
    assert wanted <= set(ids)
    assert not [name for name in ids if name.startswith("stage-")]  # those are the drawing's


def test_fields_made_by_scripts_have_labels() -> None:
    for path in SCRIPTS:
        text = text_of(path)
        for name in re.findall(r"for: \"([\w-]+)\"", text):
            assert f'id: "{name}"' in text, (path.name, name)
        for made in re.findall(r"h\(\"(?:input|textarea)\", (\{[^}]*\})", text):
            is_in_field = re.search(r"field\(\"[^\"]+\", h\(\"(?:input|textarea)\", " + re.escape(made), text)
            is_labelled = "aria-label" in made or "id:" in made or 'type: "radio"' in made or is_in_field
            assert is_labelled or re.search(r"const (\w+) = h\(\"\w+\", " + re.escape(made), text), (path.name, made)


def test_colours_are_those_of_the_theme_in_both_themes_and_in_forced_colours() -> None:
    head, _, rest = CSS.partition("*, ::before")
    themes = re.findall(r":root \{(.*?)\}", head, re.DOTALL)
    names = [set(re.findall(r"(--[\w-]+):", theme)) - {"--mono", "--sans"} for theme in themes]
    assert len(names) == 3 and names[0] == names[1] == names[2]
    assert set(re.findall(r"#[0-9a-f]{3,8}\b", rest)) <= {"#0008", "#0003"}  # the shade of what is in front
    assert "prefers-reduced-motion" in rest


def endpoints_named() -> Iterator[tuple[str, str]]:
    """Yield each method and path that a script asks for; a part that is put in is `x`."""
    for path in SCRIPTS:
        for method, name in re.findall(r"\b(get|post|act)\((?:\"([\w/]+)\"|`[^`]*`)", text_of(path)):
            if name:
                yield ("GET" if method == "get" else "POST"), name
        for method, name in re.findall(r"\b(get|post)\(`([^`]*)`", text_of(path)):
            yield method.upper(), re.sub(r"\$\{[^}]*\}", "x", name)


def test_every_endpoint_that_is_asked_for_exists() -> None:
    named = set(endpoints_named())
    assert {("GET", "graph"), ("POST", "file/load"), ("POST", "approvals/x"), ("POST", "inbox/x/x")} <= named
    known = [(one.method, re.sub(r"\{\w+\}", "[^/]+", one.path)) for one in ENDPOINTS]
    made_up = [("GET", path) for path in studio_page.GETS] + [("POST", path) for path in studio_page.POSTS]
    for method, name in named - {("POST", "enter")}:
        path = name.replace("inbox/x/x", "inbox/x/drop")
        for served in (known, made_up):
            assert any(method == one and re.fullmatch(pattern, path) for one, pattern in served), (method, name)


def test_the_studio_says_of_a_turn_what_the_page_draws(tmp_path: Path) -> None:
    with bub_studio(tmp_path) as studio, studio.browser() as browser:
        with browser.http.stream("GET", "/api/feed") as feed:
            batches = (
                json.loads(line.removeprefix("data: ")) for line in feed.iter_lines() if line.startswith("data: ")
            )
            next(batches)
            browser.post("chat", chat="main", profile="default", content=",help")
            kinds = (event["kind"] for batch in batches for one in batch["chat"] for event in one["events"])
            assert "over" in kinds  # reads on until then
        (row,) = browser.get("turns")["turns"]
        turn = browser.get(f"turns/{row['id']}")
        (activity,) = turn["activities"]
        assert (activity["kind"], activity["name"], activity["stage"]) == ("tool", "help", "run_model")
        assert activity["outcome"] == "ok" and activity["seconds"] <= row["seconds"]
        made_up = studio_page.turn(studio_page.World(1, 1, quiet=True), {}, "")
        assert set(activity) == set(made_up["activities"][0])
        assert set(turn) == set(made_up)
        assert set(turn["stages"][0]) == set(made_up["stages"][0])
