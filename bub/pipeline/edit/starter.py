"""The pipeline file that a workspace begins with: it has what most people change, in comments."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.errors import BubError, UsageError
from bub.pipeline.edit.modeline import SCHEMA_FILE, with_modeline, write_schema_beside
from bub.pipeline.source.merge import SHIPPED, load_shipped

# A remark has a blank behind its `#`, an example has only its own indentation: without the signs it is YAML.
_TEXT = """\
# How this folder's agent takes its turns. Take the `#` off what you need, and change it;
# `bub validate` checks this file, `bub explain` shows the result.
version: 1
extends: {parent}

# A stage of the parent is changed by its name; a new one says `before: STAGE` or `after: STAGE`.
#stages:
#  build_prompt: {{timeout: 10s}}
#  run_model: {{timeout: 120s}}

# What may run: a plugin is imported if a profile that can get a turn lists it, and called only for profiles that list
# it; only the tools that a profile allows are called. `extends` takes over what another profile says. A route chooses
# the profile of a message: the first that matches counts.
#profiles:
#  default:
#    plugins: [local_model, telegram]    # the whole list; `bub plugins` shows those that are installed
#    tools: {{allow: ["*", bash], ask: [bash, fs.write, fs.edit]}}
#  reader:
#    extends: default
#    description: Reads and answers, and changes nothing.
#    tools: {{allow: [fs.list, fs.read, fs.search, "tape.*"], deny: [tape.reset]}}
#    budget: {{tool_calls: 20}}
#routes:
#  - match: {{channel: telegram, chat_id: "-100*"}}
#    profile: reader

# The model and its key. Never write a key here: keep it in the variable, or in the file `.env` beside this one.
#settings:
#  model: openrouter:openrouter/free
#  providers:
#    openrouter: {{api_key: "${{env:OPENROUTER_API_KEY}}"}}

# `bub test` runs these, without a model.
tests:
  a greeting gets a reply:
    message: {{channel: cli, chat_id: local, content: hello}}
    mock: {{run_model: {{return: hi there}}}}
    expect: {{session_id: "cli:local", outbounds: [{{content: hi there}}]}}
"""


def starter(parent: str) -> str:
    """Return the text of a new pipeline file over a shipped one, whose name may be written without `bub:`.

    Raises `UsageError` for a name that is not shipped.
    """
    return with_modeline(_TEXT.format(parent=load_shipped(parent.removeprefix(SHIPPED)).file), SCHEMA_FILE)


def start(path: Path, parent: str, schema: str) -> tuple[Path, ...]:
    """Write a new pipeline file over a shipped one, with the schema beside it, and return what was written.

    Its folder is made if it is missing. The file is meant to be shared with the workspace and holds no secret, so it
    has the usual mode. Raises `UsageError` for a name that is not shipped and where something has the file's name
    already, `BubError` if it cannot be written.
    """
    text = starter(parent)
    if os.path.lexists(path):
        raise _is_there(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = write_schema_beside(path, schema)
        _create(path, text.encode())
    except OSError as error:
        raise BubError(
            f"{path} cannot be written: {explain_os_error(error)}",
            help=remedy_for(path, "look at the permissions of its folder and the room on the disk"),
        ) from error
    return (path, beside) if beside is not None else (path,)


def _create(path: Path, data: bytes) -> None:
    """Write a file that is not there yet: all of it, or none if the disk is full."""
    try:
        file = path.open("xb")
    except FileExistsError:
        raise _is_there(path) from None
    with file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise


def _is_there(path: Path) -> UsageError:
    return UsageError(
        f"{path} is there already, and is not written over",
        help="`bub validate` checks it and `bub explain` shows the result; to start over, move it away",
    )
