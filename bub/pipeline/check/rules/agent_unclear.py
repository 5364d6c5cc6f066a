"""`agents` is read in a person's own file alone, and says of each folder once whose memory is used there."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bub.base.diagnostics import Place
from bub.base.identity.agents import KEY, real_folder
from bub.base.locate import FILE_NAME, bub_home
from bub.errors import UsageError
from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.layers.person import is_layer_of_own_file
from bub.pipeline.source.document import Node

CODE = "B251"


def check_agents(outline: Outline) -> None:
    """Find `agents` in any file but the person's own, and there folders that are unclear or have two names."""
    document, findings = outline.document, outline.findings
    for layer in document.layers:
        said = layer.root.get(KEY)
        if said is None:
            continue
        if not is_layer_of_own_file(document, layer, os.environ):
            problem = "only your own file may name agents: the file of a folder could take the memory of another agent"
            findings.add(CODE, problem, said.where, path=KEY, help=f"take it out here, and write it in {_show_own()}")
        elif said.is_mapping:
            _check_folders(outline, said)


def _check_folders(outline: Outline, said: Node) -> None:
    seen: dict[str, tuple[str, Place]] = {}
    for name, entry in _folders(said):
        folder, path = real_folder(str(entry.value)), f"{KEY}.{name}"
        if folder is None:
            problem = f"`{entry.value}` means another folder in each folder where you start Bub"
            outline.findings.add(CODE, problem, entry.where, path=path, help="write `~/folder` or `/folder`")
        elif folder in seen and seen[folder][0] != name:
            other, place = seen[folder]
            problem = f"`{entry.value}` is a folder of two agents, `{other}` and `{name}`"
            outline.findings.add(CODE, problem, entry.where, path=path, help=f"leave it in one of them ({place})")
        else:
            seen[folder] = (name, entry.where)


def _folders(said: Node) -> Iterator[tuple[str, Node]]:
    for name, folders in said.items():
        yield from ((name, one) for one in (folders.elements() if folders.is_sequence else ()))


def _show_own() -> str:
    try:
        return str(bub_home(os.environ) / FILE_NAME)
    except UsageError:
        return f"$BUB_HOME/{FILE_NAME}"
