"""How Sphinx makes the site of the pages: `make docs`. A page is plain Markdown, and knows nothing of the site."""

from __future__ import annotations

import json
import re
import shutil
import sys
from html import escape
from pathlib import Path
from typing import Any

from docutils.nodes import reference
from sphinx.util.logging import getLogger

sys.path.insert(0, str(Path(__file__).parent.parent))

from website.navigation import HOME, INDEX, ROOT, Entry, all_pages, missing_pages, read_navigation
from website.search_index import words_of

project = html_title = "Bub"
extensions = ["myst_parser"]
include_patterns = all_pages()
exclude_patterns = [".*", "bub", "build", "dist", "pipelines", "plugins", "schemas", "site", "tests"]
root_doc = HOME.removesuffix(".md")
source_suffix = {".md": "markdown"}
smartquotes = False
suppress_warnings = ["misc.highlighting_failure"]  # pages show files with mistakes, too

myst_heading_anchors = 6
"""The anchors are those of GitHub, down to this level."""

html_theme = "furo"
html_copy_source = html_show_sourcelink = False
html_use_index = False
html_additional_pages = {"search": "search.html"}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["keys.js"]
templates_path = ["templates"]
pygments_style, pygments_dark_style = "github-light-high-contrast", "github-dark-high-contrast"

NAVIGATION = read_navigation((ROOT / INDEX).read_text(encoding="utf-8"), include_patterns)


def contents(name: str, entries: list[Entry]) -> str:
    """Return the directive that puts pages into the navigation."""
    lines = [f"{entry.title} <{doc_of(entry.page)}>" if entry.title else doc_of(entry.page) for entry in entries]
    caption = [f":caption: {name}"] if name else []
    return "\n".join(["", "", "```{toctree}", ":hidden:", ":titlesonly:", *caption, "", *lines, "```", ""])


def doc_of(page: str) -> str:
    """Return what Sphinx calls a page; a home page that lists itself is `self`."""
    return "self" if page == HOME else f"/{page.removesuffix('.md')}"


GROUPS = {
    name: [*entries, *([Entry("All pages", INDEX)] if name == "Start" else [])] for name, entries in NAVIGATION.items()
}
PICTURE = re.compile(r'^(<img src="[^"]*pictures/[^>]+ width="(\d+)">)$', re.MULTILINE)
PHONE = 420
"""How many pixels wide a picture may be to be made smaller on a phone."""

WORDS = "docs/words"
MEANING = re.compile(r"^### (.+)\n\n((?:.+\n)+)", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")

BELOW = {entry.page: entry.below for entries in NAVIGATION.values() for entry in entries if entry.below}


def frame(picture: re.Match[str]) -> str:
    """Return a picture in its frame, which scrolls on a phone if the picture is much wider."""
    return f'<div class="picture{" wide" if int(picture[2]) > PHONE else ""}">{picture[1]}</div>'


def prepare(app: Any, doc: str, source: list[str]) -> None:
    """Give each picture a frame; let the home page hold the groups of the navigation, and a page those below it."""
    page = f"{doc}.md"
    source[0] = PICTURE.sub(frame, source[0])
    if page == HOME:
        for name, entries in GROUPS.items():
            source[0] += contents(name, entries)
    if page in BELOW:
        source[0] += contents("", BELOW[page])


def read_meanings(text: str) -> dict[str, str]:
    """Return what each word of the glossary means, by the word's anchor, without its links and marks."""
    plain = {word: re.sub(r"[*`]", "", LINK.sub(r"\1", meaning)) for word, meaning in MEANING.findall(text)}
    return {word.lower().replace(" ", "-"): " ".join(meaning.split()) for word, meaning in plain.items()}


def explain_words(app: Any, tree: Any, doc: str) -> None:
    """Show what a word means while the pointer is on a link that leads to the word."""
    meanings = read_meanings((ROOT / f"{WORDS}.md").read_text(encoding="utf-8"))
    for link in tree.findall(reference):
        page, _, anchor = link.get("refuri", "").partition("#")
        if page == app.builder.get_relative_uri(doc, WORDS) and anchor in meanings:
            link["reftitle"] = meanings[anchor]


def show_page(app: Any, doc: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Say which pages are in Chinese, and draw the navigation; Sphinx would do that from all pages, for each page."""
    if doc.endswith(".zh"):
        context["language"] = "zh-CN"
    context["toctree"] = lambda **_: "".join(
        f'<p class="caption"><span class="caption-text">{escape(name)}</span></p>{draw(app, doc, entries)}'
        for name, entries in GROUPS.items()
    )


def draw(app: Any, doc: str, entries: list[Entry], level: int = 1) -> str:
    """Return a list of links as Sphinx writes them, which is what the theme makes its navigation of."""
    items = []
    for entry in entries:
        name = entry.page.removesuffix(".md")
        title = "Home" if entry.page == HOME else entry.title or app.env.titles[name].astext()
        here = name == doc or any(one.page == f"{doc}.md" for one in entry.below)
        style = "current reference internal" if name == doc else "reference internal"
        link = f'<a class="{style}" href="{app.builder.get_relative_uri(doc, name)}">{escape(title)}</a>'
        below = draw(app, doc, entry.below, level + 1) if entry.below else ""
        items.append(f'<li class="toctree-l{level}{" current" * here}">{link}{below}</li>')
    return f"<ul>{''.join(items)}</ul>"


def begin(app: Any) -> None:
    """Name the pages that are nowhere, and make no index of Sphinx's own search, which leaves out numbers."""
    for page in missing_pages(NAVIGATION, include_patterns):
        getLogger(__name__).warning("no row of %s leads to %s", INDEX, page)
    app.builder.search = False


def finish(app: Any, failed: Exception | None) -> None:
    """Write what the search reads, the pictures that pages show as HTML, and the home page under the name of one."""
    if failed:
        return
    to = Path(app.outdir)
    shutil.copytree(ROOT / "docs" / "pictures", to / "docs" / "pictures", dirs_exist_ok=True)
    shutil.copy(to / f"{root_doc}.html", to / "index.html")
    found = [one for doc in sorted(app.env.found_docs) for one in words_of(doc, app.env.get_doctree(doc))]
    data = re.sub("<(?=[/!])", r"\\u003c", json.dumps(found, ensure_ascii=False, separators=(",", ":")))
    (to / "_static" / "words.js").write_text(f"window.bubWords = {data};\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", prepare)
    app.connect("builder-inited", begin)
    app.connect("doctree-resolved", explain_words)
    app.connect("html-page-context", show_page, priority=100)  # before the theme
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
