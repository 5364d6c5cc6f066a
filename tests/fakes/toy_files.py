"""What generated pipelines are made of: whole files and the toy plugins they list, as values that can be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
SHIPPED: Mapping[str, dict[str, Any]] = {
    f"bub:{name}": yaml.safe_load((ROOT / "pipelines" / f"{name}.yaml").read_text(encoding="utf-8"))
    for name in ("default", "classic", "ethos")
}


@dataclass(frozen=True)
class Function:
    """One function of a plugin, and what it fires before it answers."""

    hook: str
    kind: str
    takes: tuple[str, ...] = ()
    is_async: bool = False
    is_marked: bool = True
    mark: str = "@hookimpl"
    fires: str | None = None

    def source(self, plugin: str, *, method: bool) -> str:
        names = [*(["self"] if method else []), *self.takes, *(["fire"] if self.fires else [])]
        given = ", ".join(f'"{name}": {name}' for name in self.takes)
        lines = [self.mark] if self.is_marked else []
        lines.append(f"{'async ' if self.is_async else ''}def {self.hook}({', '.join(names)}):")
        if self.fires is not None:
            lines.append(f'    verdict = await fire("{self.fires}", subject="cake")')
            lines.append(f'    world.hear("{self.fires}", verdict)')
        play = "await world.play_later" if self.is_async else "world.play"
        lines.append(f'    return {play}("{plugin}", "{self.hook}", "{self.kind}", {{{given}}})')
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class ToyPlugin:
    """A plugin of a generated file; one that is missing has no file."""

    name: str
    functions: tuple[Function, ...]
    is_class: bool = False
    is_missing: bool = False
    is_agent: bool = False

    @property
    def source(self) -> str:
        functions = [one.source(self.name, method=self.is_class) for one in self.functions]
        head = "from bub import hookimpl\nfrom toy_box import world\n\n\n"
        body = "\n\n".join(functions)
        if self.is_class:
            indented = "\n".join(f"    {line}" if line else "" for line in body.splitlines())
            body = f"class Plugin:\n{indented or '    pass'}\n\n\nplugin = Plugin\n"
        return head + (AGENT if self.is_agent else "") + body


AGENT = """from bub import tool


@tool
def erase() -> str:
    \"\"\"Erase everything.\"\"\"
    world.hear("tool_gate", None)
    return "erased"


@hookimpl
def provide_tools():
    return [erase]


@hookimpl
def call_model(request):
    return world.call_model(request)


"""
"""What makes the builtin agent work without a model: one that calls a tool, and answers."""


@dataclass(frozen=True)
class PipelineCase:
    """A generated file, by the name of its parent if that is a file of its own, and its plugins."""

    files: tuple[tuple[str, dict[str, Any]], ...]
    plugins: tuple[ToyPlugin, ...]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The shipped parent, if there is one, and the files, the one that is checked last."""
        base = self.files[0][1].get("extends")
        return [*([SHIPPED[base]] if base else []), *(file for _, file in self.files)]

    def texts(self) -> dict[str, str]:
        """Every file by name, the pipeline file last."""
        found = {f"{plugin.name}.py": plugin.source for plugin in self.plugins if not plugin.is_missing}
        for name, file in self.files:
            found[name] = yaml.safe_dump({"version": 1, **file}, sort_keys=False, width=140, default_flow_style=None)
        return found

    def __repr__(self) -> str:  # what hypothesis shows of a counter-example
        return "\n" + "\n".join(f"--- {name}\n{text}" for name, text in self.texts().items())
