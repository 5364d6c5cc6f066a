"""The schema beside a pipeline file, and the comment at its top by which editors find it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from bub.base.diagnostics import START, Position, Range
from bub.base.failures import explain_os_error
from bub.base.resources import is_shipped
from bub.base.rewrite import rewrite, write_new
from bub.errors import BubError, UsageError
from bub.pipeline.source.merge import load_document
from bub.pipeline.source.schemas import pipeline_schema
from bub.pipeline.source.splice import Edit, splice
from bub.pipeline.source.yaml_reader import parse

SCHEMA_FILE = "pipeline.schema.json"

_MODELINE = re.compile(r"[ \t]*(?:---[ \t]+)?(#[ \t]*yaml-language-server[ \t]*:[^\x85\u2028\u2029]*)")
_LEADING = re.compile(r"[ \t]*(?:#.*|%.*|---(?:[ \t]+#.*)?[ \t]*)?$")
"""A line that may be above the first value: blank, a comment, a directive, the start of the document."""


@dataclass(frozen=True, slots=True)
class SchemaUpdate:
    """What was written for editors: the names of the files that had to change, and of the backup if there is one."""

    file: str
    changed: tuple[str, ...]
    backup: str | None


def write_schema(path: Path, schema: str) -> SchemaUpdate:
    """Put the schema beside a pipeline file, and its name into a comment at the top of the file.

    What is there already is left alone. Raises `UsageError` for a shipped file and for one that cannot be read, and
    `BubError`, with nothing written, for one that is no proper YAML and if a foreign file has the schema's name.
    """
    if is_shipped(path):
        raise UsageError(
            f"{path} is one of Bub's own files, which are not written",
            help="write a file of your own that extends it, and name that with --config",
        )
    file = load_document(path).file
    data = path.read_bytes()
    before = parse(data, file=file, layer="")
    if before.root is None:
        raise BubError(f"{file} cannot be read as a pipeline file", help=f"`bub validate {file}` says what is wrong")
    text = data.decode()
    named = with_modeline(text, SCHEMA_FILE)
    after = parse(named.encode(), file=file, layer="").root
    assert after is not None and after.plain() == before.root.plain(), "a comment says nothing"
    # The schema first: a file must not name what is not there.
    beside, backup = write_schema_beside(Path(file), schema), None
    changed = [str(beside)] if beside is not None else []
    if named != text:
        backup = rewrite(path, data, named.encode()).name
        changed.append(file)
    return SchemaUpdate(file, tuple(changed), backup)


def write_schema_beside(file: Path, schema: str) -> Path | None:
    """Write the schema into the folder of a pipeline file; None if it is there already.

    Raises `BubError` if a foreign file has its name, and if it cannot be written.
    """
    beside = file.with_name(SCHEMA_FILE)
    if not _is_new(beside, schema):
        return None
    write_new(beside, schema.encode())
    return beside


def with_modeline(text: str, schema: str) -> str:
    """Return the text of a YAML file with a first line by which editors find its schema.

    A line of that kind among the comments at the top is changed in its place; nothing else changes.
    """
    line = f"# yaml-language-server: $schema={schema}"
    bare = text.removeprefix("\ufeff")
    for number, written in enumerate(re.split(r"\r\n|\r|\n", bare), 1):
        if not _LEADING.match(written):
            break
        found = _MODELINE.match(written)
        if found is not None:
            span = Range(Position(number, found.start(1) + 1), Position(number, found.end() + 1))
            return splice(text, [Edit(span, line)])
    ending = re.search(r"\r\n|\r|\n", bare)
    return splice(text, [Edit(START, line + (ending[0] if ending else "\n"))])


def _is_new(file: Path, schema: str) -> bool:
    """Return whether the schema has to be written: it is not there, or is an older one of Bub's."""
    try:
        there = file.read_bytes()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise BubError(f"{file} cannot be read: {explain_os_error(error)}", help="move it away") from error
    if there == schema.encode():
        return False
    try:
        title = json.loads(there).get("title")
    except (ValueError, AttributeError, RecursionError):
        title = None
    if title != pipeline_schema()["title"]:
        raise BubError(f"{file} is there already, and Bub has not written it", help="move it away")
    return True
