"""`bub gateway --install` and `--uninstall`: the gateway of a folder as a service of the person's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bub.base.locate import DOTENV, bub_home, find_pipeline
from bub.cli.options import Options, workspace_of
from bub.cli.prompts import can_ask, confirm, require_person
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.pipeline.plan.settings import named_like_settings
from bub.pipeline.source.document import walk
from bub.pipeline.source.interpolate import read_environment, references
from bub.pipeline.source.merge import load_document
from bub.runtime.trust import TRUST_VARIABLE, require_trust
from bub.setup.installed import program_words
from bub.setup.service import CARRIED, install_service, plan_service, remove_service


def install(options: Options, more: Sequence[str], *, yes: bool) -> int:
    """Show the service that runs `bub gateway` with these options, ask, and start it.

    Whoever calls this has proved that the gateway can start. Raises what `install_service` raises.
    """
    require_person()
    workspace = Path(os.path.realpath(workspace_of(options)))
    kept = {name: value for name, value in os.environ.items() if name != TRUST_VARIABLE}  # a service has it not
    require_trust(find_pipeline(options.config, workspace, kept), bub_home(kept), kept)
    service = plan_service(_command(options, more), workspace, os.environ)
    print(f"{printable(str(service.file))}:\n")
    for line in service.text.decode().splitlines():
        print(printable(line))
    for note in _missing(options, workspace, os.environ):
        print(f"bub: {printable(note)}", file=sys.stderr)
    if not _agrees(f"{'Replace' if service.is_installed else 'Install'} it, and start it?", yes):
        return 0
    install_service(service)
    print(f"\n{service.name} runs: {service.hint}.\n`{service.log}` shows what it printed.")
    return 0


def uninstall(options: Options, *, yes: bool) -> int:
    """Stop the service of the folder, and remove it after asking. Raises what `remove_service` raises."""
    require_person()
    service = plan_service((), workspace_of(options), os.environ)
    if service.is_installed and not _agrees(f"Stop {service.name}, and remove {printable(str(service.file))}?", yes):
        return 0
    remove_service(service)
    print(f"{service.name} is stopped and removed")
    return 0


def _agrees(question: str, yes: bool) -> bool:
    if yes:
        return True
    if not can_ask():
        raise UsageError("there is no terminal to ask whether to change the service", help="say --yes")
    if confirm(question):
        return True
    print("nothing was changed", file=sys.stderr)
    return False


def _command(options: Options, more: Sequence[str]) -> list[str]:
    """The command line of the service: what was said here, with the paths in full."""
    said = ["--config", os.path.abspath(options.config)] if options.config is not None else []  # noqa: PTH100
    said += ["--profile", options.profile] if options.profile is not None else []
    return [*program_words(), "gateway", *said, *more]


def _missing(options: Options, workspace: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Say which variables this shell has, the pipeline uses, and the service would not get."""
    found = find_pipeline(options.config, workspace, environ)
    names = set(named_like_settings(environ))
    base = workspace
    if found.path is not None:
        document = load_document(found.path)
        base = document.base or workspace
        for layer in document.layers:
            for _, node in walk(layer.root):
                if isinstance(node.value, str) and "$" in node.value:
                    names |= {
                        reference.name for reference in references(node.value) if reference.kind == "env"
                    } & environ.keys()
    kept, _ = read_environment(base, {})
    lost = sorted(name for name in names if name not in kept and name not in CARRIED)
    if lost:
        yield f"{', '.join(lost)}: set in this shell only; the service reads them from {base / DOTENV}"
