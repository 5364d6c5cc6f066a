"""Skills: folders with a `SKILL.md` that says how one kind of work is done, read when it is needed (BEHAVIOURS A29)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from bub.agent.tools.reach import regular_file
from bub.base.diagnostics import did_you_mean
from bub.errors import BubError
from bub.log import log_warning
from bub.pipeline.source.yaml_reader import parse
from bub.tools import ToolError

FILE_NAME = "SKILL.md"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_FILE = 256 * 1024
"""How many bytes a `SKILL.md` may have: all of it becomes part of a prompt."""
_LONGEST_FRONT = 16 * 1024

WORKSPACE_SKILLS = Path(".agents", "skills")
"""The folder of skills in a workspace, and in the user's home folder."""

_SHIPPED = Path(__file__).parent / "shipped_skills"

_NAME = "[a-z0-9]+(?:-[a-z0-9]+)*"
_FRONT = rb"(?sm)\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n|\Z)"
_MENTION = rf"(?<![^\s('\"\[])\$(?=[0-9-]*[a-z])({_NAME})(?![\w$-]|[./:=]\w)"  # not in `$5`, `${x}`, `a$b`, `$dir/file`

SKILL_TOOL = "skill"
_HOW_TO_USE = "Each skill says how one kind of work is done. When one fits, read it with the tool `skill` first."

_Prompt: TypeAlias = str | list[dict[str, Any]]
"""A text, or parts as a message to a model has them."""


class Root(NamedTuple):
    """A folder of skills. Their files have to lie `within` a folder, where one is given, wherever links lead."""

    folder: Path
    within: Path | None = None
    shipped: bool = False


class Skill(msgspec.Struct, frozen=True):
    """What is known of a skill before it is read; `path` is its `SKILL.md`."""

    name: str
    description: str
    path: Path
    root: Root


def skill_roots(workspace: Path, home: Path) -> tuple[Root, ...]:
    """Return the folders of skills, the first that has a name counts: the workspace, Bub's own folder, the user's, Bub.

    Of what a workspace brings, nothing is read that lies elsewhere.
    """
    users = [home / "skills"]
    with contextlib.suppress(RuntimeError):  # a user without a home folder
        users.append(Path.home() / WORKSPACE_SKILLS)
    workspace = workspace.absolute()
    own = workspace / WORKSPACE_SKILLS
    project = [Root(own, workspace)] if own not in users else []
    return (*project, *(Root(folder) for folder in users), Root(_SHIPPED, shipped=True))


_Version: TypeAlias = tuple[int, ...] | str
"""What tells one version of a file from the next; of what cannot be looked at, why."""
_version_of = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


class _Seen(NamedTuple):
    version: _Version
    skill: Skill | None


class _Index(msgspec.Struct, frozen=True):
    """What was found at one time: root by root, by the path of the file, by name, and as the text for a model."""

    versions: list[dict[str, _Version]]
    files: Mapping[str, _Seen]
    skills: Mapping[str, Skill]
    fragment: str
    fragment_without_shipped: str

    @classmethod
    def of(cls, versions: list[dict[str, _Version]], files: Mapping[str, _Seen]) -> _Index:
        skills: dict[str, Skill] = {}
        for _, skill in files.values():
            if skill is not None:
                skills.setdefault(skill.name, skill)
        skills = dict(sorted(skills.items()))
        others = [skill for skill in skills.values() if not skill.root.shipped]
        return cls(versions, files, MappingProxyType(skills), _render_list(skills.values()), _render_list(others))


class Skills:
    """The skills below some roots, the first root first; what changes on the disk is noticed at the next question.

    A skill that breaks a rule is left out; one line of the log says why, for each version of its file. The questions
    may be asked from several threads.
    """

    def __init__(self, roots: Iterable[Root]) -> None:
        self._roots = tuple(roots)
        self._index = _Index.of([], {})

    def all(self) -> Mapping[str, Skill]:
        """Every skill by its name."""
        return self._look().skills

    def fragment(self, *, shipped: bool = True) -> str:
        """The list for the system prompt, a line each, without the `shipped` ones if so wanted; "" for none."""
        index = self._look()
        return index.fragment if shipped else index.fragment_without_shipped

    def body(self, name: str) -> str:
        """What a skill says below its front matter. `ToolError` for an unknown name, with one that is close."""
        return _body_of(self._skill(name))

    def block(self, name: str) -> str:
        """A skill as a model is given it: its text, and the folder that holds its other files. Errors as `body`."""
        skill = self._skill(name)
        return f'<skill name="{name}" folder="{skill.path.parent}">\n{_body_of(skill)}\n</skill>'

    def expand(self, prompt: _Prompt) -> _Prompt:
        """The prompt, and below it the text of each skill that it mentions as `$name` (BEHAVIOURS A29)."""
        parts = [prompt] if isinstance(prompt, str) else [str(part.get("text", "")) for part in prompt]
        mentioned = dict.fromkeys(found[1] for part in parts if "$" in part for found in re.finditer(_MENTION, part))
        known = self.all() if mentioned else {}
        blocks = [self.block(name) for name in mentioned if name in known]
        if isinstance(prompt, str):
            return "\n\n".join([prompt, *blocks])
        return [*prompt, *({"type": "text", "text": block} for block in blocks)]

    def _skill(self, name: str) -> Skill:
        skills = self.all()
        if name not in skills:
            known = f"there are: {', '.join(skills)}" if skills else "there are none"
            raise ToolError(f"there is no skill `{name}`", help=did_you_mean(name, skills) or known, kind="unknown")
        return skills[name]

    def _look(self) -> _Index:
        """The index as it is now: a file is read again only when it has changed."""
        index = self._index
        versions = [_versions_below(root.folder) for root in self._roots]
        if versions == index.versions:
            return index
        files: dict[str, _Seen] = {}
        for root, found in zip(self._roots, versions, strict=True):
            for name, version in found.items():
                path = str(root.folder / name)
                seen = index.files.get(path)
                if seen is None or seen.version != version:
                    seen = _Seen(version, _read_skill(path, version, root))
                files[path] = seen
        self._index = _Index.of(versions, files)
        return self._index


def _versions_below(folder: Path) -> dict[str, _Version]:
    """The skill files in a folder's folders, each with its version. Every turn asks."""
    found: dict[str, _Version] = {}
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return found
    except OSError as error:
        return {".": str(error)}
    try:
        for name in os.listdir(opened):  # noqa: PTH208 (no path can name an open folder)
            file = f"{name}/{FILE_NAME}"
            try:
                # Of the file that links lead to, so that a link which is turned elsewhere is a change.
                found[file] = _version_of(os.stat(file, dir_fd=opened))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                found[file] = str(error)
    finally:
        os.close(opened)
    return found


class _LeftOutError(Exception):
    """What is wrong with a skill."""


def _read_skill(path: str, version: _Version, root: Root) -> Skill | None:
    try:
        if isinstance(version, str):
            raise _LeftOutError(version)
        return _skill_in(Path(path), root)
    except (_LeftOutError, OSError) as error:
        log_warning("skill.left_out", file=path, reason=str(error))
        return None


def _skill_in(path: Path, root: Root) -> Skill:
    real, status = regular_file(path, within=root.within)
    if status.st_size > LONGEST_FILE:
        raise _LeftOutError(f"it is larger than {LONGEST_FILE // 1024} KB; move details to files beside it")
    with real.open("rb") as file:
        front = re.match(_FRONT, file.read(_LONGEST_FRONT))
    if front is None:
        raise _LeftOutError("it does not begin with front matter: `name` and `description` between two lines `---`")
    said = _values(front["yaml"], str(path))
    name, description = _text(said, "name"), _text(said, "description")
    if not re.fullmatch(_NAME, name) or len(name) > LONGEST_NAME:
        raise _LeftOutError(f"a name has small letters and digits, single `-` between, {LONGEST_NAME} in all at most")
    if name != path.parent.name:
        raise _LeftOutError(f"its name is `{name}`, but that of its folder `{path.parent.name}`")
    if len(description) > LONGEST_DESCRIPTION:
        raise _LeftOutError(f"its description is longer than {LONGEST_DESCRIPTION} characters")
    return Skill(name, " ".join(description.split()), path, root)


def _body_of(skill: Skill) -> str:
    try:
        real, _ = regular_file(skill.path, within=skill.root.within)
        with real.open("rb") as file:
            data = file.read(LONGEST_FILE)
    except OSError as error:
        raise BubError(f"the skill `{skill.name}` cannot be read: {error}", help=f"look at {skill.path}") from error
    return re.sub(_FRONT, b"", data, count=1).decode("utf-8", errors="replace").strip()


def _values(front: bytes, file: str) -> Mapping[str, object]:
    parsed = parse(b"\n" + front, file=file, layer="skill")  # the line `---` counts as one
    if parsed.root is None and front.strip():
        wrong = next(finding for finding in parsed.findings if finding.severity == "error")
        raise _LeftOutError(f"line {wrong.range.start.line}: {wrong.message}")
    values = parsed.root.plain() if parsed.root is not None else {}
    return values if isinstance(values, dict) else {}


def _text(values: Mapping[str, object], key: str) -> str:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise _LeftOutError(f"its `{key}` is not text; put it in quotes")
    if not value or not value.strip():
        raise _LeftOutError(f"its front matter has no `{key}`")
    return value.strip()


def _render_list(skills: Iterable[Skill]) -> str:
    # Without a `<` nothing in a description can end the list, or begin another one.
    lines = [f"- {skill.name}: {skill.description.replace('<', '&lt;')}" for skill in skills]
    return "\n".join(["<skills>", _HOW_TO_USE, *lines, "</skills>"]) if lines else ""
