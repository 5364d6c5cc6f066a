"""Telegram: what Markdown looks like there, and how long texts are cut into parts."""

from __future__ import annotations

import pytest
from fakes.telegram_server import units
from hypothesis import given, settings
from hypothesis import strategies as st

from bub_plugins.telegram.markup import Styled, end_of, plain, render, split

pytestmark = pytest.mark.filterwarnings(  # the library warns of its own use of what it will change
    "ignore:.*`retry_after` will be of type:DeprecationWarning"
)


PIECES = st.one_of(
    st.sampled_from(
        [
            *(
                "**",
                "*",
                "_",
                "`",
                "```",
                "```py\n",
                "~~~\n",
                "\n",
                "\n\n",
                "\r\n",
                "    ",
                "- ",
                "1. ",
                "- [x] ",
                "> ",
            ),
            *(
                "# ",
                "|",
                "||",
                "|---|---|\n",
                "[a](http://x)",
                "[b](c)",
                "<",
                "<b>",
                "</div>",
                "<https://x.y>",
                "$",
                "$$",
            ),
            *("~~", "~", "\\", "&lt;", "😀", "𐍈", "\ud83d", "word ", "ein Satz. ", "\ufdd0"),
        ]
    ),
    st.text(max_size=4),
)


MARKDOWN = st.lists(PIECES, max_size=40).map("".join)


def shown(styled: Styled) -> list[tuple[str, str]]:
    """Each entity: its type, and the text that it is over."""
    raw = styled.text.encode("utf-16-le")
    return [
        (one.type, raw[one.offset * 2 : (one.offset + one.length) * 2].decode("utf-16-le")) for one in styled.entities
    ]


def letters(*texts: str) -> str:
    return "".join("".join(texts).split())


def check_entities(styled: Styled) -> None:
    length = units(styled.text)
    ends: list[int] = []
    for one, (_, over) in zip(styled.entities, shown(styled), strict=True):  # `shown` fails within a character
        assert one.offset >= 0
        assert one.length > 0
        assert one.offset + one.length <= length
        assert over
        while ends and ends[-1] <= one.offset:
            ends.pop()
        assert not ends or one.offset + one.length <= ends[-1]
        ends.append(one.offset + one.length)


# What Markdown looks like.


def test_markdown_becomes_entities() -> None:
    styled = render("# Head\n\nHello **bold *both*** and `code`, [here](https://e.org/a_b).\n\n> quote\n\n- a\n  - b")
    assert styled.text == "Head\n\nHello bold both and code, here.\n\nquote\n\n• a\n  • b"
    assert ("bold", "bold both") in shown(styled)
    assert ("italic", "both") in shown(styled)
    assert ("code", "code") in shown(styled)
    assert ("text_link", "here") in shown(styled)
    assert ("blockquote", "quote") in shown(styled)


def test_a_fence_keeps_its_language_and_its_indentation() -> None:
    styled = render("```python\nif x:\n    y = a < b\n```")
    assert styled.text == "if x:\n    y = a < b"
    assert [(one.type, one.language) for one in styled.entities] == [("pre", "python")]


def test_offsets_count_as_utf_16() -> None:
    assert shown(render("😀 **𐍈 bold** é `x`")) == [("bold", "𐍈 bold"), ("code", "x")]


@pytest.mark.parametrize(
    "written",
    [
        *("List<T> and <div>", "<details>\nmore\n</details>", "a <b>c</b>", "set $HOME/$USER and $PATH"),
        *("a || b || c", "unclosed **bold and `code", "half a ||", "<!-- a -->", "[a]: http://x"),
        *("2*3*4", "10*2*3 = 60", "a*b*c", "2**3**4", "f(x)*g(y)*h(z)", "`a` 2*3*4"[4:], "(1+2)*3*(4)"),
    ],
)
def test_what_is_no_markdown_is_shown_as_it_was_written(written: str) -> None:
    assert render(written) == Styled(written)


def test_stars_style_words_and_multiply_numbers() -> None:
    written = "*2*3 is 2*3*4, **so** `2*3*4` *it* is, 这是**重点**内容 and **bold**s"
    assert render(written).text == "23 is 2*3*4, so 2*3*4 it is, 这是重点内容 and bolds"
    styled = [("italic", "2"), ("bold", "so"), ("code", "2*3*4"), ("italic", "it"), ("bold", "重点"), ("bold", "bold")]
    assert shown(render(written)) == styled


def test_markdown_that_would_take_long_is_shown_as_it_was_written() -> None:
    for written in ("> - " * 10_000, "*a* " * 50_000):
        assert render(written) == Styled(written.rstrip())


def test_a_table_is_shown_in_one_width() -> None:
    assert shown(render("| a | b |\n|---|---|\n| 1 | long |")) == [("pre", "a | b   \n--+-----\n1 | long")]


def test_a_link_that_telegram_would_refuse_is_only_text() -> None:
    assert render("[a](b.md) [c](javascript:d)") == Styled("a c")


@settings(max_examples=300, deadline=None)
@given(MARKDOWN)
def test_entities_lie_within_the_text_and_within_each_other(markdown: str) -> None:
    styled = render(markdown)
    check_entities(styled)
    assert bool(letters(styled.text)) == bool(letters(plain(markdown).text))


# Parts.


@settings(max_examples=300, deadline=None)
@given(MARKDOWN, st.integers(4, 60))
def test_splitting_loses_no_letter_and_breaks_no_character(markdown: str, longest: int) -> None:
    whole = render(markdown)
    parts = split(whole, longest)
    assert letters(*(part.text for part in parts)) == letters(whole.text)
    for part in parts:
        assert 0 < units(part.text) <= longest
        check_entities(part)
    # What is styled stays so: each letter that was in an entity is in one of the same type in its part.
    for kind in {one.type for one in whole.entities}:
        of_kind = [over for name, over in shown(whole) if name == kind]
        assert letters(*of_kind) == letters(*(over for part in parts for name, over in shown(part) if name == kind))


@settings(max_examples=100, deadline=None)
@given(MARKDOWN, st.integers(4, 60))
def test_the_end_of_a_text_fits(markdown: str, longest: int) -> None:
    whole = render(markdown)
    end = end_of(whole, longest)
    assert units(end.text) <= longest
    check_entities(end)
    assert end == whole or whole.text.endswith(end.text.removeprefix("…\n"))


def test_parts_end_with_paragraphs_then_lines_then_words() -> None:
    parts = split(Styled("one two\n\nthree\nfour five six"), 14)
    assert [part.text for part in parts] == ["one two", "three", "four five six"]
    assert [part.text for part in split(Styled("one two three"), 7)] == ["one two", "three"]
    assert [part.text for part in split(Styled("😀" * 5), 5)] == ["😀😀", "😀😀", "😀"]


def test_a_fence_that_is_cut_goes_on_as_one_of_its_language() -> None:
    code = "\n".join(f"    line {number}" for number in range(500))
    parts = split(render(f"before\n\n```py\n{code}\n```"))
    assert len(parts) == 2
    assert [one.language for part in parts for one in part.entities] == ["py", "py"]
    assert parts[1].text.startswith("    line ")
    assert "before\n\n" + code == parts[0].text + "\n" + parts[1].text
