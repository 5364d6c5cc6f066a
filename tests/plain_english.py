"""Plain English: words that make a reader stop, each with what to write instead. `make lint` prints where they are.

Checked are every page of the documentation, the newest part of the changelog, the descriptions of keys, and the strings
of the code that people read: help, questions, messages, findings, docstrings of public names. A sentence of a page is
also measured.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")
"""Globs of the pages; those in Chinese are left out."""
NOT_YET: tuple[str, ...] = ()
"""Pages that are not plain yet: take one out when it has become plain, and put none in."""
CODE = ("bub", "plugins")
"""The folders whose strings are checked."""
SCHEMA = "schemas/pipeline.schema.json"
"""The descriptions of keys, which `bub explain` and editors show."""
MOST_WORDS = 45
"""How many words a sentence of a page may have; quoted code and a link count as one each."""


class Rule(NamedTuple):
    """Words that make a reader stop, and what to write instead. Each has one of the `parts`, in small letters."""

    parts: tuple[str, ...]
    words: re.Pattern[str]
    instead: str


def _rule(parts: str, words: str, instead: str) -> Rule:
    whole = rf"(?<!\w)(?:{words})(?!\w)".replace(" ", r"\s+")
    return Rule(tuple(parts.split("|")), re.compile(whole, re.IGNORECASE), instead)


def _after(first: str, second: str) -> str:
    """Return each pair of a first and a second word."""
    return "|".join(f"{one} {other}" for one in first.split("|") for other in second.split("|"))


_CONDITION = "a condition begins with `if`; `where` is for places"
_SUBJECT = "the subject first, then the verb"
_OPENING = r"(?:(?<=[.;:!?|]\s)|(?<=\n\n)|(?<=\n-\s)|\A\s*)"
_PARTICIPLES = (
    "asked|checked|compared|counted|covered|excepted|found|ignored|kept|left out|listed|meant|named|needed|printed|"
    "refused|said|sent|shown|skipped|told|used"
)
_NOT_A_PART = "".join(rf"(?<!{word}\s)" for word in ("each", "none", "all", "both", "most", "some", "one", "first"))
RULES = (
    _rule(" told", "(?:is|are|was|were|be|been|being) told", "say who says it: `Bub prints`, `the model reads`"),
    _rule("stand|stood", "stands?(?! (?:in )?for)|stood|standing", "`is`, `is set in`, `is written`"),
    _rule("come to|comes to|came to", "(?:comes?|came) to(?! an end)", "`is`, `becomes`, `gives`"),
    _rule("where", rf"{_OPENING}where(?!\s*\|)", _CONDITION),
    _rule("where", "where (?:nobody|none|nothing|no|there is|left out|it is not)", _CONDITION),
    _rule("remark", "remarks?", "`comment`"),
    _rule("texts", "texts", "`strings`, or say which: `messages`, `answers`"),
    _rule("truth", "truth values?|truths", "`booleans`"),
    _rule(" a say| no say", "ha(?:s|ve|d) (?:a|no) say", "`is asked`, `is not asked`"),
    _rule("hear of|hears of", "hears? of", "`gets`, `reads`"),
    _rule("whichever|whosever", "whichever|whosever", "`any`, or a sentence more"),
    _rule("of which|of whom", f"{_NOT_A_PART}of (?:which|whom)", "two sentences, or `whose`"),
    _rule("thing but|body but|none but", "(?:nothing|nobody|none|anything|anybody) but", "`only`"),
    _rule("but for", "but for", "`except`"),
    _rule("anew", "anew", "`again`"),
    _rule(
        "hence|thereo|therei|thereb|thereu|wherei|whereb|whereu|albeit|whilst|lest|aforem",
        "(?:t|w)?hence|thereof|therein|thereby|thereupon|wherein|whereby|whereupon|albeit|whilst|lest|aforementioned",
        "`so`, `in it`, `by it`",
    ),
    _rule("latter|former", "(?:the )?(?:latter|former)", "name it again"),
    _rule("e.g|i.e|etc.", r"e\.g|i\.e|etc(?=\.)", "`for example`, `that is`, `and more`"),
    _rule(" like| such", r"and (?:its|their) likes?|and suchlike|and such(?=[.,;:)])", "`and similar ones`"),
    _rule("be it|were it|should it", r"(?<!can\s)(?<!to\s)be it|were it|should it", "`if`, `even if`"),
    _rule("in vain", "in vain", "`without effect`"),
    _rule("mere|simply|easily|obvious|of course", "mere(?:ly)?|simply|easily|obviously|of course", "leave it out"),
    _rule("one's own|oneself", "one's own|oneself", "`your own`, `its own`"),
    _rule("not un| without", r"not un(?:known|usual|common|like|seen|set|safe)|(?:not|never) without", "without `not`"),
    _rule(
        _after("so|nor|neither|as", "is|are|was|has|have|do"),
        "(?:so|nor|neither|as) (?:is|are|was|has|have|does|do) (?:what|that|those|one)",
        _SUBJECT,
    ),
    _rule(". so |; so ", r"(?<=[.;]\s)so (?:is|are|does|do|has|have)", _SUBJECT),
    _rule(
        " as is | as are | as has | as have | as do",
        "as (?:is|are|has|have|does|do) (?:the|an?|each|every|all)",
        _SUBJECT,
    ),
    _rule(_after(_PARTICIPLES, "is|are"), f"{_OPENING}(?:{_PARTICIPLES}) (?:is|are)", _SUBJECT),
)
"""Rules for all that is read: pages, messages, docstrings of public names."""
ALLOWED = {"where replies go": "a heading of `bub diff`, about places: the chats"}
"""Strings of Bub that are plain all the same, each with its reason."""

_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_LEFT_OUT = re.compile(r"<!-- not plain: .*?\n\n|<[a-z]+\s[^>]*>", re.DOTALL)
"""Rows of examples of what is not plain, below a comment that says why they are there; and HTML."""
_LATER = re.compile(r"(?<=\n)## \[.*?\n## \[", re.DOTALL)
_BREAK = re.compile(r"(?<=[.!?])[)\"*]*\s|\n\s*\n|\||\n(?= *(?:[-*>#]|\d+\.) )|\Z")
"""Where a sentence ends: an item of a list and a cell of a table have sentences of their own."""
_LINK = re.compile(r"\[[^\]]*\]``")
_DESCRIPTION = re.compile(r' *"(?:description|title)": "(.*)",?$')
_NO_PROSE = re.compile(r"\s*(?:select|insert|update|delete|create) ")
"""How the strings begin that a database reads, in which `where` is a word of its language."""
_QUOTED = re.compile(r"``.*?``|`[^`\n]*`|(?<=\])\([^)\s]+\)")
_DOCSTRING = re.compile(r'^ *[rR]?""".*?"""', re.DOTALL | re.MULTILINE)
_JOINT = re.compile(r'"\s*\n\s*[rf]*"')


class Find(NamedTuple):
    """Words that make a reader stop: where they are, which they are, what to write instead."""

    file: str
    line: int
    words: str
    instead: str


def check_text(text: str, file: str, first: int = 1) -> Iterator[Find]:
    """Yield what is not plain in a text, whose first line is the line `first` of its file."""
    small = " ".join(text.lower().split())
    for rule in RULES:
        if any(part in small for part in rule.parts):
            for found in rule.words.finditer(text):
                line = first + text.count("\n", 0, found.start())
                yield Find(file, line, " ".join(found[0].split()), rule.instead)


def check_page(page: Path, file: str) -> Iterator[Find]:
    """Yield what is not plain in the prose of a Markdown page; blocks and quoted code are left alone.

    Of a changelog, that is the newest part.
    """
    text = page.read_text(encoding="utf-8")
    if newest := _LATER.search(text):
        text = text[: newest.end()]
    for left_out in (_FENCE, _LEFT_OUT):
        text = left_out.sub(lambda block: "\n" * block[0].count("\n"), text)
    prose = _QUOTED.sub("``", text)
    yield from check_text(prose, file)
    yield from _check_lengths(prose, file)


def _check_lengths(prose: str, file: str) -> Iterator[Find]:
    """Yield each sentence that is too long."""
    start = 0
    for end in _BREAK.finditer(prose):
        sentence = _LINK.sub("``", prose[start : end.start()])
        if (words := len(sentence.split())) > MOST_WORDS:
            line = 1 + prose.count("\n", 0, start + len(sentence) - len(sentence.lstrip()))
            yield Find(file, line, f"{' '.join(sentence.split()[:6])} …", f"{words} words: two sentences, or a list")
        start = end.end()


def check_module(module: Path, file: str) -> Iterator[Find]:
    """Yield what is not plain in the strings of a module, except in docstrings of what is not public."""
    source = module.read_text(encoding="utf-8")
    if not _may_have(source):
        return
    tree = ast.parse(source)
    is_public = dict(_docstrings(tree, is_public=True))
    for node, text in _strings(tree):
        if is_public.get(id(node), True) and " " in text and text not in ALLOWED and not _NO_PROSE.match(text):
            yield from check_text(_QUOTED.sub("``", text), file, node.lineno)


def _may_have(source: str) -> bool:
    """Return whether a module can have anything that is not plain: to parse all of them takes long."""
    docstrings = "\n\n".join(_DOCSTRING.findall(source))
    rest = _JOINT.sub("", _DOCSTRING.sub("", source))
    if '"""' not in rest:  # code and comments are not read
        rest = "\n".join(line for line in rest.splitlines() if '"' in line or "'" in line)
    told = f"{docstrings}\n\n{rest}".replace('"', ". ").replace("('", "(. ")
    return any(check_text(told, ""))


def _docstrings(
    tree: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, *, is_public: bool
) -> Iterator[tuple[int, bool]]:
    """Yield the docstrings of a module and all in it, each with whether its name is public."""
    for node in tree.body:
        if isinstance(node, ast.Expr):
            yield id(node.value), is_public
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(node, is_public=is_public and not node.name.startswith("_"))


def _strings(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield each string of a module, an f-string as one, its values as `{}`."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node, node.value


def check_schema(schema: Path, file: str) -> Iterator[Find]:
    """Yield what is not plain in the descriptions of a JSON Schema."""
    for number, line in enumerate(schema.read_text(encoding="utf-8").splitlines(), 1):
        if described := _DESCRIPTION.match(line):
            yield from check_text(_QUOTED.sub("``", described[1]), file, number)


def pages_of(root: Path) -> Iterator[str]:
    """Yield the pages of a checkout that are in English, each by its path from the root."""
    for page in sorted(page for glob in PAGES for page in root.glob(glob)):
        if not page.name.endswith(".zh.md"):
            yield page.relative_to(root).as_posix()


def check_all(root: Path = ROOT) -> list[Find]:
    """Return all that is not plain in the pages, the strings and the schema of a checkout."""
    found = [find for page in pages_of(root) if page not in NOT_YET for find in check_page(root / page, page)]
    for module in sorted(module for folder in CODE for module in (root / folder).rglob("*.py")):
        found += check_module(module, module.relative_to(root).as_posix())
    return found + list(check_schema(root / SCHEMA, SCHEMA))


def main() -> int:
    """Print what is not plain, a line each; 1 if there is any. With pages as arguments, of these alone."""
    found = [find for page in sys.argv[1:] for find in check_page(ROOT / page, page)] if sys.argv[1:] else check_all()
    for find in found:
        print(f"{find.file}:{find.line}: `{find.words}`: {find.instead}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
