"""What counts as a fact of the documentation, and which ones are missed when a page is written anew."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts import ROOT, facts_now, facts_of, missing

PAGE = dedent(
    """
    # Time-outs

    A stage may have a `timeout`, at most 2 hours, or
    ``bub run `x` `` waits.

    | key | meaning |
    |---|---|
    | `timeout` | how long |
    | profiles | who |

    ```yaml
    version: 1
    ```
    """
)


def test_quoted_code_blocks_first_cells_and_numbers_with_units_are_facts() -> None:
    assert facts_of(PAGE) == {
        "`timeout`",
        "`bub run `x` `",
        "2 hours",
        "| key",
        "| `timeout`",
        "| profiles",
        "```yaml version: 1",
    }


def test_prose_may_be_written_anew_and_lines_broken_elsewhere() -> None:
    anew = PAGE.replace("A stage may have a `timeout`, at most", "The `timeout`\nof a stage is").replace(
        "# Time", "# T"
    )
    assert facts_of(anew) == facts_of(PAGE)


def test_a_fact_that_went_is_missed_with_the_page_that_names_it_now() -> None:
    before = {"a.md": {"`one`", "`two`", "`three`"}, "gone.md": {"`four`"}}
    now = {"a.md": {"`one`"}, "b.md": {"`two`", "`four`"}}
    assert set(missing(before, now)) == {
        ("a.md", "`two`", "b.md"),
        ("a.md", "`three`", ""),
        ("gone.md", "`four`", "b.md"),
    }


@given(st.dictionaries(st.sampled_from("abc"), st.sets(st.sampled_from("1234"))))
def test_nothing_is_missed_in_what_only_grew(pages: dict[str, set[str]]) -> None:
    grown = {name: facts | {"more"} for name, facts in pages.items()} | {"new": {"other"}}
    assert list(missing(pages, grown)) == []


def test_the_pages_of_this_checkout_have_facts() -> None:
    if not (ROOT / "docs" / "index.md").is_file():
        pytest.skip("the source archive carries no docs/ but one page")
    facts = facts_now()
    assert "`BUB_HOME`" in facts["docs/files.md"] and "| `gate`" in facts["docs/kinds.md"]
