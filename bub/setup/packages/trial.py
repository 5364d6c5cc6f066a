"""Loading unpacked plugins in a process of their own, which finds out what they really bring."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import msgspec

from bub.agent.local.installers import Watch, Workplace, run_installer
from bub.base.diagnostics import PipelineError
from bub.errors import BubError
from bub.framework import BubFramework
from bub.hooks.facts import BUILTIN
from bub.plugins.shipped import SHIPPED_TOOLS
from bub.setup.packages.environment import Environment
from bub.setup.packages.workplace import STAGE

__all__ = ["Found", "main", "try_plugins"]

_ASKED, _ANSWERED = "trial.json", "found.json"


class _Trial(msgspec.Struct, frozen=True):
    """What is to be tried: plugins with the loop of each ("" is Bub's own), and where their modules lie."""

    plugins: Mapping[str, str]
    stage: str
    site: str


class Found(msgspec.Struct, frozen=True):
    """What plugins brought once they were loaded: hook points and tools; `problem` is why they cannot be, if so."""

    hooks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    problem: str = ""


def try_plugins(plugins: Mapping[str, str], environment: Environment, workplace: Workplace, watch: Watch) -> Found:
    """Load plugins out of the stage as a run would, in another process, which runs their code."""
    folder = workplace.folder
    site = environment.site.relative_to(environment.prefix)
    trial = _Trial(plugins, str(folder / STAGE / site), str(environment.site))
    (folder / _ASKED).write_bytes(msgspec.json.encode(trial))
    start = f"from {__name__} import main; main({str(folder)!r})"
    # -B: no file is added to the packages.
    code, printed = run_installer([environment.python, "-P", "-B", "-c", start], workplace, watch)
    try:
        return msgspec.json.decode((folder / _ANSWERED).read_bytes(), type=Found)
    except (OSError, msgspec.MsgspecError):
        said = printed.strip().splitlines()[-1:] or [f"exit code {code}"]
        return Found(problem=f"its process ended: {said[0][:300]}")


def main(folder: str) -> None:
    """Be that process: load what the folder's note asks for, and leave what was found beside it."""
    place = Path(folder)
    trial = msgspec.json.decode((place / _ASKED).read_bytes(), type=_Trial)
    at = sys.path.index(trial.site) if trial.site in sys.path else len(sys.path)
    sys.path.insert(at, trial.stage)
    os.environ["BUB_HOME"] = str(place / "home")
    with redirect_stdout(sys.stderr):
        found = _load(trial.plugins, place)
    (place / _ANSWERED).write_bytes(msgspec.json.encode(found))


def _load(plugins: Mapping[str, str], place: Path) -> Found:
    file = place / "trial.yaml"
    file.write_text(_text_of(plugins), encoding="utf-8")
    framework = BubFramework(file, profile="default", workspace=place, routed=False, elsewhere=True)
    try:
        framework.load_hooks()
    except PipelineError as error:
        errors = [finding.message for finding in error.diagnostics if finding.severity == "error"]
        return Found(problem="; ".join(errors[:3]))
    except BubError as error:
        return Found(problem=str(error))
    hooks = [point for point, names in framework.hook_report().items() if set(names) & set(plugins)]
    tools = [name for name in framework.tools.tools if name not in SHIPPED_TOOLS]
    return Found(tuple(hooks), tuple(tools))


def _text_of(plugins: Mapping[str, str]) -> str:
    """The file of a profile that lists the plugins; JSON is YAML, too."""
    said = {name: {"runtime": runtime} for name, runtime in plugins.items() if runtime}
    listed: Sequence[str] = [name for name in plugins if name != BUILTIN]
    profile = {"plugins": listed}
    return json.dumps({"version": 1, "extends": "bub:default", "plugins": said, "profiles": {"default": profile}})
