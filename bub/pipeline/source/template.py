"""The template of the system prompt: `{{name}}` stands for a value, `{{with tool}}` keeps a line if there is that tool.

A template can be anybody's file, so to fill one in runs nothing, and never fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

import msgspec

from bub.base.diagnostics import did_you_mean

SECTION, FILE, NOW = "prompt", "file", "now"
"""The section of the settings that is about prompts, and its keys."""

OWN_TEMPLATE = "prompt.md"
"""The file in Bub's own folder that takes the place of the shipped template."""

LONGEST_TEMPLATE = 64 * 1024
"""How many bytes a template may have."""

PLACEHOLDERS = ("folder", "system", "shell")
"""What a template is filled with."""

_CHANGES = "this value changes, so Bub sends it with each message (`settings.prompt.now`)"
_NO_PLACEHOLDERS: Mapping[str, str] = MappingProxyType(dict.fromkeys(("date", "time", "now", "branch"), _CHANGES))
"""What people may look for, and why it is none."""

_PLACEHOLDER = r"\{\{[ \t]*(?P<name>[A-Za-z_]\w*)[ \t]*\}\}"
_WITH = r"\{\{[ \t]*with(?P<globs>(?:[ \t]+[\w.*-]+)+)[ \t]*\}\}[ \t]*"


class TemplateMistake(msgspec.Struct, frozen=True):
    """What is wrong with a template, in which line and column, and what to do."""

    message: str
    line: int
    column: int
    help: str


def fill_template(template: str, values: Mapping[str, str], tools: Iterable[str]) -> str:
    """Put values in the place of their names, and leave out lines that begin with `{{with …}}` if no tool is meant.

    After `with` are names or globs of tools: one of them is enough. What is no placeholder, or names no value, stays
    as it is. No value is read as a template.
    """
    kept, names = [], list(tools)
    for line in template.splitlines():
        condition = re.match(_WITH, line)
        if condition is not None:
            globs = condition["globs"].split()
            if not any(fnmatchcase(name, glob) for glob in globs for name in names):
                continue
            line = line[condition.end() :]
        kept.append(re.sub(_PLACEHOLDER, lambda found: values.get(found["name"], found[0]), line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def template_mistakes(template: str) -> Iterator[TemplateMistake]:
    """Find placeholders that stand for nothing, and conditions that are none."""
    for number, line in enumerate(template.splitlines(), start=1):
        for found in re.finditer(_PLACEHOLDER, line):
            name = found["name"]
            if name in PLACEHOLDERS:
                continue
            if name == "with":
                message, advice = "`{{with}}` does not say with which tool", "write it as `{{with bash}}`"
            else:
                message = f"`{{{{{name}}}}}` is not a placeholder"
                close = _NO_PLACEHOLDERS.get(name) or did_you_mean(name, PLACEHOLDERS)
                advice = close or f"the placeholders are {', '.join(PLACEHOLDERS)}"
            yield TemplateMistake(message, number, found.start() + 1, advice)
        for found in re.finditer(_WITH, line):
            if found.start():
                message = f"`{found[0].strip()}` is not at the beginning of its line, so it is no condition"
                yield TemplateMistake(message, number, found.start() + 1, "begin the line with it")
