"""Advice of findings, followed to the letter: what a person does to a file who reads the help line and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from fakes.mistakes import repaired
from msgspec.structs import replace

from bub.base.diagnostics import Diagnostic
from bub.pipeline.source.document import Plain

Tree = dict[str, Any]

_TREES = (
    "stages.",
    "hooks.",
    "tests.",
    "mcp.",
    "profiles.default.budget.",
    "settings.reasoning",
    "settings.gateway.",
    "settings.timeout",
)
"""Where advice is followed by changing what the file means, not its text."""


def follow(text: str, finding: Diagnostic) -> str | None:
    """The text once the advice of a finding was followed; None if it asks for more than can be read from it."""
    for pattern, edit in ADVICE:
        found = re.match(pattern, finding.help or "")
        if found is not None and (edit in _OF_THE_TEXT or finding.path.startswith(_TREES)):
            return edit(text, finding, found)
    return None


# Edits of the text, and of the tree that it means.


def write_there(text: str, finding: Diagnostic, found: re.Match[str]) -> str:
    return repaired(text, replace(finding, fix=finding.fix or found[1]))


def take_item_out(text: str, finding: Diagnostic, _: re.Match[str]) -> str:
    """Take an entry out of a list that is written in one line, with the comma beside it."""
    lines = text.splitlines(keepends=True)
    place = finding.range
    line = lines[place.start.line - 1]
    before, after = line[: place.start.column - 1], line[place.end.column - 1 :]
    if re.match(r"\s*,", after):
        after = re.sub(r"^\s*,\s*", "", after)
    else:
        before = re.sub(r",\s*$", "", before)
    lines[place.start.line - 1] = before + after
    return "".join(lines)


_OF_THE_TEXT = (write_there, take_item_out)
"""Edits that change the text where the finding points."""


def tree_edit(edit: Callable[[Tree, list[str], re.Match[str]], None]) -> Callable[[str, Diagnostic, Any], str]:
    def apply(text: str, finding: Diagnostic, found: re.Match[str]) -> str:
        tree = yaml.safe_load(text)
        edit(tree, finding.path.split("."), found)
        return yaml.safe_dump(tree, sort_keys=False)

    return apply


def sections(tree: Tree, name: str) -> Iterator[Tree]:
    """The `stages` or `hooks` of a file: those of its profiles first, since they are what counts."""
    for profile in (tree.get("profiles") or {}).values():
        if name in (profile or {}):
            yield profile[name]
    yield tree.setdefault(name, {})


def entry(tree: Tree, path: list[str], key: str | None = None) -> Tree:
    """A stage or hook where it is written, with `key` if one is asked for; made in the file if it is nowhere."""
    for section in sections(tree, path[0]):
        if path[1] in section and (key is None or key in section[path[1]]):
            return section[path[1]]  # type: ignore[no-any-return]
    return tree[path[0]].setdefault(path[1], {})  # type: ignore[no-any-return]


def set_beside(tree: Tree, stage: str, side: str, other: str) -> None:
    node = entry(tree, ["stages", stage], next(iter(_sides_of(tree, stage)), None))
    for key in ("before", "after"):
        node.pop(key, None)
    node[side] = other


def _sides_of(tree: Tree, stage: str) -> Iterator[str]:
    for section in sections(tree, "stages"):
        yield from (key for key in ("before", "after") if key in section.get(stage, {}))


def take_out(tree: Tree, path: list[str], found: re.Match[str] | None = None) -> None:
    """Take out what stands at a path of a stage, hook or test; `found` may name the key."""
    named = found[1] if found is not None and found.re.groups else None
    key = named or path[-1]
    if path[0] == "tests":
        turn, rest = tree["tests"][path[1]], path[2:]
        if further := re.fullmatch(r"then\[(\d+)\]", rest[0]):  # a further message of the test
            turn, rest = turn["then"][int(further[1])], rest[1:]
        said = turn[rest[0]]
        said.pop(rest[1])
        if not said and rest[0] == "expect":  # a test that expects nothing goes with it
            del tree["tests"][path[1]]
    else:
        entry(tree, path, key).pop(key)


def _leave_to_the_provider(tree: Tree, path: list[str], _: re.Match[str]) -> None:
    tree["settings"].pop(path[-1])


def take_path_out(tree: Tree, path: list[str], _: re.Match[str]) -> None:
    """Take out what is at a path, and the sections above that hold nothing else."""
    above = [tree]
    for part in path[:-1]:
        above.append(above[-1][part])
    for node, part in zip(reversed(above), reversed(path), strict=True):
        del node[part]
        if node:
            break


def add_key(tree: Tree, path: list[str], key: str, value: Plain) -> None:
    entry(tree, path)[key] = value


def add_stage(tree: Tree, name: str, hook: Tree, **stage: Plain) -> None:
    """Add a stage of one's own, with its hook point."""
    tree.setdefault("hooks", {})[name] = hook
    tree.setdefault("stages", {})[name] = stage


def _put_in_its_place(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    kind = entry(tree, path, "kind").pop("kind")
    add_stage(tree, "own", {"kind": kind}, replace=found[1])


def _make_above(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    add_stage(tree, "own", {"kind": "firstresult"}, into=found[1], before=path[1])


def _move_key(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    value = entry(tree, path, path[2]).pop(path[2])
    entry(tree, ["stages", found[1]])[path[2]] = value


def _switch_gate_off(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    node = entry(tree, path, "replace")
    del node["replace"]
    node["after"] = found[1]
    next(sections(tree, "stages"))[found[1]] = {"enabled": False}


def _declare_instead(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    for section in sections(tree, "stages"):
        section.pop(path[1], None)
    tree.setdefault("hooks", {}).update(yaml.safe_load(found[1]))


def _take_out_of_default(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    node = entry(tree, path, "default")
    node["default"] = node["default"].replace(f"{{{found[1]}}}", "")


def _add_stages(tree: Tree, _: list[str], found: re.Match[str]) -> None:
    tree["stages"].update(yaml.safe_load(found[1]))


def _set_above(tree: Tree, path: list[str], _: re.Match[str]) -> None:
    others = [name for name in tree.get("stages", {}) if name != path[1]]
    set_beside(tree, path[1], "before", "run_model" if "extends" in tree else others[0])


def _set_elsewhere(tree: Tree, path: list[str], _: re.Match[str]) -> None:
    entry(tree, path, path[2]).pop(path[2])
    set_beside(tree, path[1], "after", "load_state")


def _take_entry_out(tree: Tree, path: list[str], _: re.Match[str]) -> None:
    for section in sections(tree, path[0]):
        section.pop(path[1], None)


def _address(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    for part in found[1].split("`, `"):
        default = entry(tree, path, "default")["default"]
        for reply in default if isinstance(default, list) else [default]:
            if isinstance(reply, dict):
                reply.update(yaml.safe_load(part))


def _write_reply(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    entry(tree, path, "default")["default"] = [yaml.safe_load(found[1])]


def _declare(tree: Tree, path: list[str], found: re.Match[str]) -> None:
    tree.setdefault("hooks", {})[found[1]] = {"kind": "firstresult"}


ADVICE: tuple[tuple[str, Callable[[str, Diagnostic, Any], str]], ...] = (
    (r"did you mean `hook: (\w+)`", tree_edit(lambda tree, path, found: add_key(tree, path, "hook", found[1]))),
    (r"did you mean `([^`]+)`\?(?:$| If not)", write_there),
    (r"write `([^`\"]+)`$", write_there),
    (r"write a whole reply: `(.*)`$", tree_edit(_write_reply)),
    (r"replace `(\w+)`$", write_there),
    (r"write `(workspace)`, `workspace/folder`", write_there),
    (r"take it out$|take out one of the two, |(?:add it to `allow`, or )?take it out of `ask`", take_item_out),
    (r"name `(\w+)` instead$", write_there),
    (r"use `(\w+)` or `skip`", write_there),
    (r"`\w+` can be `(\w+)`", write_there),
    (r"move it below `(\w+)`", tree_edit(lambda tree, path, found: set_beside(tree, path[1], "after", found[1]))),
    (r"move `(\w+)` below `(\w+)`", tree_edit(lambda tree, _, found: set_beside(tree, found[1], "after", found[2]))),
    (r"move `(\w+)` above `(\w+)`", tree_edit(lambda tree, _, found: set_beside(tree, found[1], "before", found[2]))),
    (
        r"set it above `\w+`, with `before: (\w+)`",
        tree_edit(lambda tree, path, found: set_beside(tree, path[1], "before", found[1])),
    ),
    (r"take `(\w+)` out of `\w+`: ", tree_edit(_take_out_of_default)),
    (r"take it out, and put a stage .* with `replace: (\w+)`", tree_edit(_put_in_its_place)),
    (r"take `(?:env|headers)` out$", tree_edit(take_path_out)),
    (r"make it smaller than .*, or take it out$", tree_edit(take_path_out)),
    (r"(?:take|leave) (?:one )?`(\w+)` out(?! of)", tree_edit(take_out)),
    (r"switch `\w+` off to run `\w+` again, or take `enabled` out", tree_edit(take_out)),
    (r"take one of the two(?: keys)? out", tree_edit(take_out)),
    (r"choose another level, or leave `reasoning` to the provider", tree_edit(_leave_to_the_provider)),
    (
        r"keep one of the two: a stage",
        tree_edit(lambda tree, path, _: entry(tree, path, "after").pop("after")),
    ),
    (r"give it a `default`", tree_edit(lambda tree, path, _: add_key(tree, path, "default", "closed"))),
    (
        r"let a stage in its place .* or give `(\w+)` a `default`",
        tree_edit(lambda tree, _, found: add_key(tree, ["stages", found[1]], "default", "closed")),
    ),
    (r"add (?:a|the) stage (?:such as )?`([^`]+)`$", tree_edit(_add_stages)),
    (
        r".*such as `(\w+): ([^`]+)`$",
        tree_edit(lambda tree, path, found: add_key(tree, path, found[1], yaml.safe_load(found[2]))),
    ),
    (r"say how Bub calls it: `(\w+): ", tree_edit(lambda tree, path, _: add_key(tree, path, "kind", "observer"))),
    (r"add `replace: (\w+)`", tree_edit(lambda tree, path, found: add_key(tree, path, "replace", found[1]))),
    (r"add `before: STAGE`", tree_edit(lambda tree, path, _: add_key(tree, path, "after", "load_state"))),
    (
        r"move it above the stages .* `before: STAGE`$",
        tree_edit(_set_above),
    ),
    (r"move it to `(\w+)`$", tree_edit(_move_key)),
    (r"make it a gate; .* write `after: (\w+)` instead", tree_edit(_switch_gate_off)),
    (r"let a stage above make it: `into: (\w+)`", tree_edit(_make_above)),
    (
        r"such a stage can change only `(message)`, the item",
        tree_edit(lambda tree, path, found: add_key(tree, path, "changes", [found[1]])),
    ),
    (r"name the value with `into: NAME`", tree_edit(lambda tree, path, _: add_key(tree, path, "into", "found"))),
    (r"declare it under `hooks:` instead: `([^`]+)`$", tree_edit(_declare_instead)),
    (r"declare it: `hooks: {(\w+): ", tree_edit(_declare)),
    (r"name the plugins to ask, leave `(\w+)` out", tree_edit(take_out)),
    (
        r"set one of them beside another",
        tree_edit(lambda tree, path, _: set_beside(tree, path[1], "after", "load_state")),
    ),
    (
        r"name the stage that it cleans up for",
        tree_edit(lambda tree, path, _: add_key(tree, path, path[2], "run_model")),
    ),
    (r"take it out, or test a profile", tree_edit(take_out)),
    (r"take the stage out: Bub calls the hook by itself", tree_edit(_take_entry_out)),
    (r"(?:.*or )?take the entry out$", tree_edit(_take_entry_out)),
    (r"(?:add|name) .*, or take it out$", tree_edit(take_out)),
    (r"write `(.*)` beside its `content`$", tree_edit(_address)),
)
"""What a help line begins with, and what who follows it does."""
