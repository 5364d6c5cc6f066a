"""The pictures of the documentation show what Bub does today, in light and dark, and need nothing from elsewhere."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from fakes.command_line import ROOT
from pictures import FOLDER, PICTURES
from pictures.ladders import HOUSE
from pictures.screens import LARGEST, SCREENS
from pictures.terminal import CELL, draw_terminal

_SVG = "{http://www.w3.org/2000/svg}"
SHOWN = re.compile(r'(?:src(?:set)?="|\]\()[\w./-]*?pictures/([\w.-]+)')


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8") if (FOLDER / name).exists() else ""


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documentation_shows_what_is(name: str) -> None:
    assert read(name) == PICTURES[name](), "run `make pictures`, and look at what has changed"


def test_the_pages_show_every_picture_and_no_other() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    assert shown == {*PICTURES, *SCREENS} == {file.name for file in FOLDER.iterdir()}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screenshot_is_small_and_each_light_one_has_a_dark_one(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < LARGEST
    pair = {name.replace("-dark", ""), name.replace("-dark", "").replace(".png", "-dark.png")}
    assert pair <= set(SCREENS)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_light_and_dark_and_loads_nothing(name: str) -> None:
    text = read(name)
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"\w+://[^\"' )]+", re.sub(r"(?<=>)[^<]+(?=</text>)", "", text)) == [_SVG[1:-1]]
    assert "@import" not in text and "@font-face" not in text and "<script" not in text


@pytest.mark.parametrize(
    "name", ["turn.svg", "validate.svg", "diff.svg", "call.svg", "kept.svg", "way.svg", "kinds.svg"]
)
def test_no_text_leaves_its_picture(name: str) -> None:
    picture = ElementTree.fromstring(read(name))
    for text in picture.iter(f"{_SVG}text"):
        assert float(text.get("x", "")) + float(text.get("textLength", "")) < float(picture.get("width", ""))


def test_the_turn_has_every_stage_in_its_card() -> None:
    picture = ElementTree.fromstring(read("turn.svg"))
    cards = [{key: float(card.get(key, "")) for key in ("x", "y", "width")} for card in picture.iter(f"{_SVG}rect")]
    for text in picture.iter(f"{_SVG}text"):
        if "strong" in (text.get("class") or ""):
            x, end = float(text.get("x", "")), float(text.get("x", "")) + float(text.get("textLength", ""))
            assert any(card["x"] < x and end < card["x"] + card["width"] for card in cards[1:]), text.text


def test_a_terminal_is_drawn_in_its_colours_each_run_at_its_column() -> None:
    picture = ElementTree.fromstring(
        draw_terminal("bub x", "\x1b[1mone\x1b[0m:  \x1b[31mtwo <\x1b[0m\r\n\r\n  three\r\n")
    )
    drawn = [(text.get("class"), text.text, float(text.get("x", ""))) for text in picture.iter(f"{_SVG}text")]
    left = drawn[0][2]
    assert drawn == [
        ("faint", "$", left),
        ("ink strong", "bub x", left + 2 * CELL),
        ("ink strong", "one", left),
        ("ink", ":", left + 3 * CELL),
        ("red", "two <", left + 6 * CELL),
        ("ink", "three", left + 2 * CELL),
    ]


@pytest.mark.parametrize("sign", ["\x1b[2K", "\x1b[38;5;1m", "\r", "\x1b]8;;x\x07"])
def test_what_is_more_than_lines_in_colour_is_refused(sign: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        draw_terminal("bub x", f"one{sign}two")


def test_how_far_a_long_work_was_is_not_drawn() -> None:
    told = "\rproving 1 of 9\x1b[K\rproving 5 of 9\x1b[K\r\x1b[K"
    assert draw_terminal("bub x", f"one\r\n{told}two\r\n") == draw_terminal("bub x", "one\r\ntwo\r\n")


def test_the_folders_and_modules_of_the_house_exist() -> None:
    named = {
        place
        for rung in HOUSE
        for place in re.findall(r"[a-z_]+/(?:[a-z_]+/)*(?:\w+\.py)?", " ".join([*rung[:2], *rung[2]]))
    }
    assert len(named) >= 10
    assert [name for name in named if not list((ROOT / "bub").glob(f"**/{name.rstrip('/')}"))] == []
