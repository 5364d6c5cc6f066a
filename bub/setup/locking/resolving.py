"""The archives that packages come from, with their hashes, as uv or pip find them for the versions that are here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from bub.agent.local.installers import Watch, Workplace
from bub.errors import BubError
from bub.plugins.lock.installed import Installed, canonical, origin_of
from bub.plugins.lock.reading import read_toml

Package: TypeAlias = Mapping[str, Any]
"""An entry of `[[packages]]`, as PEP 751 has it."""

Resolve: TypeAlias = Callable[[Iterable[str], Mapping[str, Installed]], list[Package]]
"""Finds where the wanted packages, and all that these need, come from, given what is installed."""

_AGAIN = "run `bub lock` again"
_SAID_LAST = 3


def resolve(wanted: Iterable[str], installed: Mapping[str, Installed], *, watch: Watch) -> list[Package]:
    """Find where the wanted packages, and all that these need, come from; sorted by name.

    Each is looked for in the version that is installed. Raises `BubError` if there is neither uv nor pip, or if they
    find no such packages.
    """
    needs = [requirement_of(name, installed[name]) for name in sorted(set(wanted)) if name in installed]
    bounds = [requirement_of(name, one) for name, one in sorted(installed.items())]
    with tempfile.TemporaryDirectory(prefix="bub-lock-") as temporary:
        folder = Path(temporary)
        (folder / "wanted.txt").write_text("\n".join(needs) + "\n", encoding="utf-8")
        (folder / "installed.txt").write_text("\n".join(bounds) + "\n", encoding="utf-8")
        with (folder / "lock").open("wb") as lock:
            workplace = Workplace(folder, lock.fileno(), _AGAIN)
            uv = shutil.which("uv")
            if uv is not None and os.path.isabs(uv):  # noqa: PTH117 (a name that leads here is nobody's uv)
                found = _ask_uv(uv, workplace, watch)
            elif importlib.util.find_spec("pip") is not None:
                found = _ask_pip(workplace, watch)
            else:
                raise BubError("there is neither uv nor pip to find the hashes of packages", help="install uv")
    return sorted(found, key=lambda package: str(package["name"]))


def requirement_of(name: str, installed: Installed) -> str:
    """Write down an installed package as a requirement for just this one: its version, or where it came from."""
    origin = origin_of(installed)
    address, vcs = origin.get("url"), origin.get("vcs_info")
    if not address:
        return f"{name}=={installed.version}"
    if isinstance(vcs, dict):
        address = f"{vcs.get('vcs', 'git')}+{address}@{vcs.get('commit_id', '')}"
    subdirectory = origin.get("subdirectory")
    return f"{name} @ {address}" + (f"#subdirectory={subdirectory}" if subdirectory else "")


def _ask_uv(uv: str, workplace: Workplace, watch: Watch) -> Sequence[Package]:
    made = workplace.folder / "pylock.made.toml"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [uv, "pip", "compile", "wanted.txt", "--constraint", "installed.txt", "--format", "pylock.toml"]
    command += ["--universal", "--python-version", version, "--python", sys.executable, "--no-header", "--quiet"]
    _run([*command, "--output-file", str(made)], workplace, watch)
    return list((read_toml(made) or {}).get("packages", ()))


def _ask_pip(workplace: Workplace, watch: Watch) -> Sequence[Package]:
    made = workplace.folder / "report.json"
    command = [sys.executable, "-P", "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--requirement", "wanted.txt", "--constraint", "installed.txt"]
    _run([*command, "--report", str(made)], workplace, watch)
    report = msgspec.json.decode(made.read_bytes())
    return [_package_in(entry) for entry in report["install"]]


def _package_in(entry: Mapping[str, Any]) -> Package:
    """What pip reports of a package, as PEP 751 writes it."""
    said, found = entry["metadata"], entry["download_info"]
    address, archive = found["url"], found.get("archive_info")
    package = {"name": canonical(said["name"])}
    if "vcs_info" in found:
        vcs = found["vcs_info"]
        return {**package, "vcs": {"type": vcs["vcs"], "url": address, "commit-id": vcs["commit_id"]}}
    if archive is None:
        path = address.removeprefix("file://")
        return {**package, "directory": {"path": path}}
    source = {"url": address, "hashes": {"sha256": archive["hashes"]["sha256"]}}
    package["version"] = said["version"]
    if entry.get("is_direct"):
        return {**package, "archive": source}
    return {**package, "wheels": [source]} if address.endswith(".whl") else {**package, "sdist": source}


def _run(command: Sequence[str], workplace: Workplace, watch: Watch) -> None:
    code, printed = workplace.run(command, watch)
    if code != 0:
        said = [line.strip() for line in printed.splitlines() if line.strip()]
        last = " / ".join(said[-_SAID_LAST:])[-400:] or f"exit code {code}"
        program = Path(command[0]).name if "pip" not in command[3:4] else "pip"
        raise BubError(
            f"{program} does not find the packages that are installed: {last}",
            help=f"check the network and the package index, then {_AGAIN}",
        )
