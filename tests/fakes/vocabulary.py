"""The words of the command line, as the commands declare them: what `bub/cli/completion/vocabulary.json` has to say.

`python tests/fakes/vocabulary.py` writes that file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from bub.cli.completion.answer import VOCABULARY
from bub.cli.root import _app, command_of
from bub.cli.table import COMMANDS
from bub.pipeline.source.schemas import whole_settings_schema

BY_METAVAR = {
    "FILE": "files",
    "[FILE]": "files",
    "FOLDER": "folders",
    "[FOLDER]": "folders",
    "[PATH]": "pipelines",
    "[PATH]...": "pipelines",
    "[A]": "pipelines",
    "[B]": "pipelines",
    "bub:NAME": "shipped",
    "[PATH|STAGE|CODE]": "stages",
    "[PLUGIN]…": "plugins",
    "TAPE": "sessions",
    "[COMMAND]...": "commands",
}
"""What is offered for an option or argument that is shown so in the help."""

BY_NAME = {
    "--config": "pipelines",
    "--profile": "profiles",
    "--flow": "profiles",
    "--from": "shipped",
    "--session-id": "sessions",
}

BY_PLACE = {
    ("bub", "init", "path"): "files",
    ("bub", "explain", "pipeline"): "stages",  # it may be left out
    **{("bub", "config", name, "path"): "settings" for name in ("get", "set", "unset")},
}


def vocabulary() -> dict[str, Any]:
    """All commands, with their options and arguments."""
    root: Any = command_of("bub", _app())
    shared = {name for param in root.params for name in param.opts}
    return {**_command(root, ("bub",), shared), "settings": dict(_settings(whole_settings_schema(), ""))}


def as_text(words: Any, indent: str = "") -> str:
    """What the file has: a line for each option and argument."""
    if not isinstance(words, dict) or not any(isinstance(each, dict) for each in words.values()):
        return json.dumps(words, ensure_ascii=False)
    deeper = f"{indent} "
    lines = ",\n".join(f"{deeper}{json.dumps(name)}: {as_text(each, deeper)}" for name, each in words.items())
    return f"{{\n{lines}\n{indent}}}"


def _command(command: Any, path: tuple[str, ...], shared: set[str]) -> dict[str, Any]:
    is_root = len(path) == 1
    context = typer.Context(command)
    said = COMMANDS[path[1]].help if len(path) == 2 else command.help
    found: dict[str, Any] = {"help": _in_short(said)} if not is_root else {}
    options: dict[str, Any] = {}
    for param in command.params:
        if param.param_type_name != "option" or (not is_root and set(param.opts) & shared):
            continue
        name, *others = sorted(param.opts, key=len, reverse=True)
        takes = {} if param.is_flag else {"takes": _takes(param, path)}
        options[name] = {**takes, "help": _in_short(param.help)}
        options |= {other: {"is": name} for other in others}
    if is_root:
        options |= {"--help": {"help": "Show what a command does, and its options"}, "-h": {"is": "--help"}}
    arguments = [
        {"takes": _takes(param, path), **({"many": True} if param.nargs == -1 else {})}
        for param in command.params
        if param.param_type_name == "argument"
    ]
    found |= {name: each for name, each in (("options", options), ("arguments", arguments)) if each}
    if isinstance(command, TyperGroup):
        names = command.list_commands(context)
        found["commands"] = {
            name: _command(command.get_command(context, name), (*path, name), shared) for name in names
        }
    return found


def _settings(schema: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """The paths of the settings that Bub and the shipped plugins know, each with what it is."""
    for name, each in schema.get("properties", {}).items():
        if each.get("properties"):
            yield from _settings(each, f"{above}{name}.")
        else:
            yield f"{above}{name}", {"help": _in_short(each.get("description") or each.get("title"))}


def _takes(param: Any, path: tuple[str, ...]) -> Any:
    choices = getattr(param.type, "choices", None)
    if choices:
        return [str(getattr(choice, "value", choice)) for choice in choices]
    by_name = next((BY_NAME[name] for name in param.opts if name in BY_NAME), None)
    return BY_PLACE.get((*path, param.name)) or by_name or BY_METAVAR.get(param.metavar or "", "")


def _in_short(text: str | None) -> str:
    """A help up to the first sign that ends a thought, in one line."""
    return " ".join(re.split(r"[.:;](?=\s|$)", text or "", maxsplit=1)[0].split())


if __name__ == "__main__":
    VOCABULARY.write_text(f"{as_text(vocabulary())}\n", encoding="utf-8")
