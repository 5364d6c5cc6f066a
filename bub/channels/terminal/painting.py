"""Pieces of a conversation as text with colours, at the width of a terminal."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from bub.channels.terminal.answer import Look, Printout
from bub.channels.terminal.escaping import encodable, escape_controls
from bub.channels.terminal.questions import ADDED, REMOVED
from bub.channels.terminal.rows import fold, hang
from bub.log import log_exception

if TYPE_CHECKING:  # importing it costs 70 ms and its Markdown 170, which the first answer pays, not the prompt
    from rich.console import Console

_STYLES: dict[Look, str] = {
    "plain": "",
    "thought": "dim italic",
    "tool": "dim",
    "failed": "red",
    "error": "bold red",
    "note": "dim",
    "said": "bold",
}
_SIGNS: dict[Look, str] = {"tool": "● ", "failed": "✗ ", "said": "> "}
_CHANGES = {REMOVED: "red", ADDED: "green"}
_LONGEST = 64 * 1024
"""How many letters are laid out at once: with a megabyte all drawing would stop for seconds. More is shown as it is."""
_TRAILING = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)
_EMPTY_ENDS = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|\n(?:(?:\x1b\[[0-9;]*m)*\n)*\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Painter:
    """Paints for a terminal of an encoding. Whether there are colours says the environment (`NO_COLOR`, `TERM`)."""

    def __init__(self, encoding: str | None) -> None:
        self._encoding = encoding

    def paint(self, piece: Printout, width: int) -> str:
        """Return a piece as lines that fit into `width` cells; each ends with a line end."""
        text = escape_controls(piece.text).strip("\n")
        try:
            painted = self._render(piece.look, text, max(width, 10))
        except Exception as error:  # noqa: BLE001 (whatever a model writes, it is shown)
            log_exception("chat.unpaintable", error)
            painted = f"{text}\n"
        lines = _TRAILING.sub(_only_colours, painted)
        return encodable(f"{_EMPTY_ENDS.sub('', lines)}\n", self._encoding)

    def _render(self, look: Look, text: str, width: int) -> str:
        if look == "asked":
            return "".join(f"{row}\n" for line in text.split("\n") for row in fold(line, width))
        if look == "edit":
            return self._render_edit(text, width)
        if len(text) > _LONGEST:
            return f"{text}\n"
        from rich.text import Text

        text = hang(text, width) if look == "plain" else text
        console, paper = _console(width, self._encoding)
        if look == "markdown":
            console.print(_markdown(text))
        elif look == "plan":
            for sign, _, step in (row.partition(" ") for row in text.split("\n")):
                console.print(_with_sign(Text(step), f"{sign} "))
        else:
            console.print(_with_sign(Text(text.expandtabs(4), style=_STYLES.get(look, "")), _SIGNS.get(look, "")))
        return paper.getvalue()

    def _render_edit(self, text: str, width: int) -> str:
        from rich.text import Text

        console, paper = _console(width, self._encoding)
        for line in text.split("\n"):
            style = next((_CHANGES[sign] for sign in _CHANGES if line.startswith(sign)), "")
            for row in fold(line, width):
                console.print(Text(row, style=style), soft_wrap=True)
        return paper.getvalue()

    def warm_up(self) -> None:
        """Load what painting needs, so that the first answer does not wait for it."""
        self.paint(Printout("markdown", "**a**\n\n```python\nb\n```\n"), 40)


def _markdown(text: str) -> Any:
    """Return a text as Markdown of which nothing is left out: what rich has no place for is shown as it was written."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    # A link shows where it leads: what can be clicked unseen is for the reader to judge.
    markdown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    reader = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    markdown.parsed = reader.disable(["image", "reference"]).parse(text)
    return markdown


def _with_sign(text: Any, sign: str) -> Any:
    """Return a text with a sign before it, and its lines below each other."""
    if not sign:
        return text
    from rich.table import Table

    grid = Table.grid()
    grid.add_column(width=len(sign))
    grid.add_column(overflow="fold")  # else rich cuts a word that is longer than a row
    grid.add_row(type(text)(sign, style=text.style), text)
    return grid


def _console(width: int, encoding: str | None) -> tuple[Console, io.StringIO]:
    from rich.console import Console
    from rich.theme import Theme

    paper = _Paper(encoding)
    # No colour of the background: a terminal may be light or dark.
    theme = Theme({"markdown.code": "bold cyan", "markdown.code_block": "cyan", "markdown.h1": "bold underline"})
    console = Console(
        file=paper,
        force_terminal=True,
        width=width,
        theme=theme,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    return console, paper


class _Paper(io.StringIO):
    """What a console writes to; it draws with plainer signs if the encoding has no others."""

    def __init__(self, encoding: str | None) -> None:
        super().__init__()
        self._encoding = encoding or "ascii"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def _only_colours(found: re.Match[str]) -> str:
    return "".join(_COLOUR.findall(found[0]))
