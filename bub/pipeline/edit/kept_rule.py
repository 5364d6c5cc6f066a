"""A yes that is kept: the change of a pipeline file that lets one command through without a question."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import msgspec

from bub.approval import Question
from bub.pipeline.edit.amend import amend
from bub.pipeline.edit.own_file import OwnFile, describe_backup, read_own, write_change
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.source.merge import load_document
from bub.plugins.shipped import BY_NAME
from bub.plugins.simple_commands import END, explain_entry


class KeptRule(msgspec.Struct, frozen=True):
    """A pipeline file, and its text with one command more that nobody is asked about."""

    own: OwnFile
    text: str

    @property
    def difference(self) -> list[str]:
        """The lines that go (`-`) and come (`+`), with some around them."""
        lines = unified_diff(self.own.text.splitlines(), self.text.splitlines(), n=2, lineterm="")
        return [line for line in list(lines)[2:] if not line.startswith("@@")]

    def write(self) -> str:
        """Write the file, checked, and return where its old text is kept. Raises `BubError`, the file untouched."""
        return describe_backup(self.own, self.text, write_change(self.own, self.text))


def can_be_kept(question: Question) -> bool:
    """Whether a rule of the file could let just this call through: a simple command, where commands usually run."""
    given = question.arguments
    is_usual = given.get("cwd", ".") == "." and not given.get("background")
    return question.tool == BY_NAME and is_usual and explain_entry(_entry(question)) is None


def draft_rule(file: Path, question: Question) -> KeptRule:
    """Draft the change that lets the whole command of a question through in its profile.

    Raises `BubError` if the file cannot be changed, and OSError if it cannot be read.
    """
    own, profile = read_own(file), question.approval.profile if question.approval is not None else "default"
    tools = make_plan(load_document(file), profile).tools
    known = [name for name, _ in names_of(tools.get("unasked", BY_NAME) if tools is not None else None)]
    keys = ("profiles", profile, "tools", "unasked", BY_NAME)
    return KeptRule(own, amend(own.text, {keys: [*known, _entry(question)]}, file=own.file))


def _entry(question: Question) -> str:
    return f"{str(question.arguments.get('command') or '').strip()}{END}"
