"""What a model reads at the beginning: the template of the system prompt, and the workspace's `AGENTS.md`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bub.agent.prompting.surroundings import fixed_facts
from bub.agent.tools.reach import ElsewhereError, regular_file
from bub.log import log_warning
from bub.pipeline.source.template import (
    FILE,
    LONGEST_TEMPLATE,
    OWN_TEMPLATE,
    SECTION,
    fill_template,
    template_mistakes,
)

INSTRUCTIONS_FILE = "AGENTS.md"

LONGEST_INSTRUCTIONS = 32 * 1024
"""How many bytes of the workspace's instructions go into each request; if they are cut, the model reads that."""

_SHIPPED = Path(__file__).parent / "shipped"
SHIPPED_TEMPLATE = _SHIPPED / "system.md"
SMALL_TEMPLATE = _SHIPPED / "local.md"
"""For the small local model, worded so that it keeps to it: a longer one makes it drift into French or a new name."""


class Text(msgspec.Struct, frozen=True):
    """The text of a file that has `size` bytes; `text` may be its beginning only."""

    text: str
    size: int
    is_cut: bool


class TextFile:
    """A file that is read again when it has changed. Of what lies `within` a folder, links must not lead out.

    What keeps it from being read, or is cut, is a line of the log under `event`, once for each version of the file.
    """

    def __init__(self, path: Path, longest: int, event: str, *, within: Path | None = None) -> None:
        self.path = path
        self._longest = longest
        self._event = event
        self._within = within
        self._version: tuple[int, int] | None = None
        self._text: Text | None = None

    def read(self) -> Text | None:
        """The text as it is now; None if there is none to be read."""
        try:
            real, status = regular_file(self.path, within=self._within)
            version = (status.st_mtime_ns, status.st_size)
            if self._version != version:
                with real.open("rb") as opened:
                    data = opened.read(self._longest + 1)
                self._text, self._version = self._decode(data, status.st_size), version
        except FileNotFoundError:
            return None
        except ElsewhereError as error:
            log_warning(f"{self._event}_elsewhere", file=self.path, real=error.real)
            return None
        except OSError as error:
            log_warning(f"{self._event}_unreadable", file=self.path, error=error)
            return None
        return self._text

    def _decode(self, data: bytes, size: int) -> Text:
        is_cut = len(data) > self._longest
        if is_cut:
            data = data[: self._longest]
            data = data[: data.rfind(b"\n", len(data) // 2) + 1] or data  # at the end of a line, if one is near
            log_warning(f"{self._event}_cut", file=self.path, bytes=size, told=len(data))
        return Text(data.decode("utf-8-sig", errors="replace").strip(), size, is_cut)


class Instructions:
    """What the workspace says in its `AGENTS.md`."""

    def __init__(self, workspace: Path) -> None:
        path = workspace / INSTRUCTIONS_FILE
        self._file = TextFile(path, LONGEST_INSTRUCTIONS, "workspace.instructions", within=workspace)

    def read(self) -> str:
        """The block for the system prompt; "" if the workspace has no instructions of its own."""
        found = self._file.read()
        if found is None or not found.text:
            return ""
        told = found.text
        if found.is_cut:
            told += f"\n[{INSTRUCTIONS_FILE} is cut here: it has {found.size:,} bytes; read the rest if you need it]"
        return f"<workspace_instruction>\n{told}\n</workspace_instruction>"


class Template:
    """The first part of the system prompt: the template that the settings name, the person's own, or the shipped one.

    A path of the settings begins in the workspace, and a relative one must not lead out of it. What is wrong with a
    template is a line of the log, and the prompt is made all the same.
    """

    def __init__(self, workspace: Path, home: Path, settings: Mapping[str, Any], *, small: bool) -> None:
        self._workspace = workspace
        said = (settings.get(SECTION) or {}).get(FILE)
        named = Path(os.path.expanduser(str(said))) if said else None  # noqa: PTH111 (raises nothing)
        event = "prompt.template"
        self._files = [TextFile(home / OWN_TEMPLATE, LONGEST_TEMPLATE, event)]
        if named is not None:
            within = None if named.is_absolute() else workspace
            self._files.insert(0, TextFile(workspace / named, LONGEST_TEMPLATE, event, within=within))
        self._shipped = TextFile(SMALL_TEMPLATE if small else SHIPPED_TEMPLATE, LONGEST_TEMPLATE, event)
        self._is_named = named is not None
        self._told: Text | None = None

    def fill(self, tools: Iterable[str]) -> str:
        """The text, for an agent that may use these tools."""
        return fill_template(self._read(), fixed_facts(self._workspace), tools)

    def _read(self) -> str:
        for number, file in enumerate(self._files):
            found = file.read()
            if found is not None:
                self._tell_mistakes(file.path, found)
                return found.text
            if self._is_named and number == 0:
                log_warning("prompt.template_missing", file=file.path)
        found = self._shipped.read()
        assert found is not None, "the shipped templates are part of the package"
        return found.text

    def _tell_mistakes(self, path: Path, found: Text) -> None:
        if found is not self._told:
            self._told = found
            for mistake in template_mistakes(found.text):
                where = f"{path}:{mistake.line}:{mistake.column}"
                log_warning("prompt.template_wrong", at=where, problem=mistake.message, help=mistake.help)
