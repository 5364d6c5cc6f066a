"""What uv and pip do for Bub: tell what a package needs, build a wheel, unpack wheels beside the environment."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bub.agent.local.installers import (
    Watch,
    Workplace,
    cause_of,
    pip_command,
    run_installer,
    uv_configuration,
)
from bub.base.other_bub import OTHER
from bub.errors import BubError
from bub.log import log_warning
from bub.plugins.installed.added import Pin
from bub.setup.packages.environment import Environment
from bub.setup.packages.requirements import canonical, name_in, versions_in
from bub.setup.packages.workplace import STAGE

__all__ = ["Installer"]

_WOULD_INSTALL = re.compile(r"^ [+~] (?P<name>[^\s=@]+)(?:==(?P<version>\S+)| @ (?P<url>\S+)).*$", re.MULTILINE)
_PYTHON = re.compile(r"requires? (?:a different )?python[^\n]*|Requires-Python [^\n;]*", re.IGNORECASE)
_MOST_MEGABYTES = 4_000
_SAID_LAST = 400
_NO_SIGN = ("--only-binary", ":all:")


def _watch_nothing() -> None:
    """Let an installer work unwatched."""


class Installer(msgspec.Struct, frozen=True):
    """The uv or the pip that is there. It works in a workplace, and the environment stays as it is.

    Nothing is compiled or built unless it may (`builds`): that runs code of the package. `watch` is called meanwhile.
    """

    environment: Environment
    workplace: Workplace
    watch: Watch = _watch_nothing
    builds: bool = False

    # What there is to install

    def resolve(
        self, roots: Sequence[str], needed: Sequence[str], constraints: Iterable[str], *, upgrade: bool = False
    ) -> list[Pin]:
        """Find out which packages have to be installed for the `roots`, those first.

        The distribution `bub` is never among them, nor what only that needs; `needed` are the roots' own requirements
        as far as they are known. Of the packages that are there, those stay that do for all. Raises BubError.
        """
        folder = self.workplace.folder
        (folder / "roots.txt").write_text("".join(f"{root}\n" for root in roots), encoding="utf-8")
        (folder / "constraints.txt").write_text("".join(f"{line}\n" for line in constraints), encoding="utf-8")
        pins = self._resolve_with_uv(roots, upgrade) if self._uv else self._resolve_with_pip(roots, needed, upgrade)
        names = [name_in(root) for root in roots]
        return sorted(pins, key=lambda pin: (pin.key not in names, pin.key))

    def _resolve_with_uv(self, roots: Sequence[str], upgrade: bool) -> list[Pin]:
        folder = self.workplace.folder
        (folder / "overrides.txt").write_text(f'{OTHER}; python_version < "0"\n', encoding="utf-8")
        again = [word for root in roots for word in ("--reinstall-package", name_in(root))]
        newer = [word for root in roots for word in ("--upgrade-package", name_in(root))] if upgrade else []
        files = ("-r", "roots.txt", "-c", "constraints.txt", "--override", "overrides.txt")
        printed = self._run([*self._uv_pip("install"), "--dry-run", *again, *newer, *self._no_build(), *files], roots)
        found = {match["name"]: match for match in _WOULD_INSTALL.finditer(printed)}
        lines = [f"{name} @ {one['url']}" if one["url"] else f"{name}=={one['version']}" for name, one in found.items()]
        (folder / "pins.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        lock = ("--no-deps", "--format", "pylock.toml", "-o", "pylock.found.toml", "-q")
        self._run([*self._uv_pip("compile"), "pins.txt", *lock, *self._no_build()], roots)
        read = tomllib.loads((folder / "pylock.found.toml").read_text(encoding="utf-8"))
        return [_pin_of(package, found[package["name"]]["url"] or "") for package in read.get("packages", ())]

    def _resolve_with_pip(self, roots: Sequence[str], needed: Sequence[str], upgrade: bool) -> list[Pin]:
        stubs = _write_stubs(self.workplace.folder / "stubs", ["9999", *versions_in(needed, OTHER)])
        newer = ["--upgrade"] if upgrade else []
        words = ("-r", "roots.txt", "-c", "constraints.txt", "--find-links", str(stubs))
        found = self._report([*newer, *words], roots)
        names = {name_in(root) for root in roots}
        absent = names - {canonical(item["metadata"]["name"]) for item in found}
        if absent:  # what is installed already is to be installed again
            lone = self._report(["--no-deps", "--ignore-installed", "-r", "roots.txt"], roots)
            found += [item for item in lone if canonical(item["metadata"]["name"]) in absent]
        return [_pin_of_report(item) for item in _without_other(found, names)]

    def _report(self, words: Sequence[str], roots: Sequence[str]) -> list[dict[str, Any]]:
        report = ("--dry-run", "--quiet", "--report", "report.json", *self._no_build())
        self._run([*pip_command(self.environment.python, "install"), *report, *words], roots)
        found = json.loads((self.workplace.folder / "report.json").read_bytes())
        return list(found["install"])

    # What is done with it

    def stage(self, pins: Sequence[Pin]) -> Path:
        """Unpack just these packages into the stage, and return that folder. Raises BubError, also for a wrong hash."""
        stage = self.workplace.folder / STAGE
        lines = "".join(f"{pin.requirement()}\n" for pin in pins)
        (self.workplace.folder / "locked.txt").write_text(lines, encoding="utf-8")
        words = ("--prefix", str(stage), "--no-deps", "--require-hashes", *self._no_build(), "-r", "locked.txt")
        pip = (*pip_command(self.environment.python, "install"), "--ignore-installed", "--no-compile", "--quiet")
        command = self._uv_pip("install") if self._uv else [*pip, "--no-warn-script-location"]
        self._run([*command, *words], [pin.name for pin in pins])
        (stage / ".lock").unlink(missing_ok=True)
        return stage

    def build(self, folder: Path, name: str) -> Path:
        """Build a wheel of a folder, which runs its code, and return it. Raises BubError."""
        built = self.workplace.folder / "built"
        if self._uv:
            command = [self._uv, "build", "--wheel", "--quiet", "--python", self.environment.python]
            command += ["--out-dir", str(built), str(folder)]
        else:
            command = [
                *pip_command(self.environment.python, "wheel"),
                "--no-deps",
                "--quiet",
                "-w",
                str(built),
                str(folder),
            ]
        before = set(built.glob("*.whl"))
        self._run(command, [name])
        made = set(built.glob("*.whl")) - before
        if len(made) != 1:
            raise BubError(
                f"{name} could not be built: no wheel was made", help="build it yourself, and name the wheel"
            )
        return made.pop()

    @property
    def _uv(self) -> str:
        found = shutil.which("uv")
        return found if found is not None and os.path.isabs(found) else ""  # noqa: PTH117 (one of the current folder)

    def _uv_pip(self, word: str) -> list[str]:
        options = ("--no-progress", "--color", "never", "--python", self.environment.python)
        return [self._uv, "pip", word, *options, *uv_configuration(os.environ)]

    def _no_build(self) -> Sequence[str]:
        return () if self.builds else _NO_SIGN

    def _run(self, command: Sequence[str], what: Sequence[str]) -> str:
        if not self._uv and importlib.util.find_spec("pip") is None:
            raise BubError(
                "there is neither uv nor pip to install with",
                help=f"install uv, then {self.workplace.again}",
            )
        code, printed = run_installer(command, self.workplace, self.watch)
        if code != 0:
            log_warning("plugins.install_failed", command=list(command), code=code, printed=printed)
            raise self._explain(printed, ", ".join(map(name_in, what)))
        return printed

    def _explain(self, printed: str, what: str) -> BubError:
        again = f"then {self.workplace.again}; the environment is as it was"
        match cause_of(printed):
            case "full":
                return BubError(
                    f"{what} could not be installed: the disk of {self.environment.prefix} is full",
                    help=f"make room, {again}",
                )
            case "offline":
                return BubError(
                    f"{what} could not be installed: the package index cannot be reached",
                    help=f"check the network, and HTTPS_PROXY if it needs a proxy, {again}",
                )
        said = " / ".join(line.strip() for line in printed.splitlines() if line.strip())
        python = _PYTHON.search(printed)
        if python is not None:
            help_text = "install Bub for such a Python, as with `uv tool install --python 3.12 bub-pipelines`"
        elif cause_of(printed) == "unfitting" and not self.builds:
            help_text = "check the name; a package without a wheel needs --build, which runs its code"
        else:
            help_text = f"correct that, {again}"
        return BubError(f"{what} could not be installed: {said[-_SAID_LAST:]}", help=help_text)


def _pin_of(package: Mapping[str, Any], url: str) -> Pin:
    """Return what uv found of a package."""
    files = [*package.get("wheels", ()), *(package[name] for name in ("sdist", "archive") if name in package)]
    hashes = {f"sha256:{file['hashes']['sha256']}" for file in files if "sha256" in file.get("hashes", {})}
    local = next((file["url"] for file in files if file.get("url", "").startswith("file:")), "")
    return Pin(package["name"], package.get("version", ""), tuple(sorted(hashes)), url or local)


def _pin_of_report(item: Mapping[str, Any]) -> Pin:
    """Return what pip found of a package."""
    info, said = item["download_info"], item["metadata"]
    hashes = info.get("archive_info", {}).get("hashes", {})
    is_local = item.get("is_direct") or info["url"].startswith("file:")
    return Pin(said["name"], said["version"], (f"sha256:{hashes['sha256']}",), info["url"] if is_local else "")


def _without_other(found: Sequence[Mapping[str, Any]], roots: Iterable[str]) -> list[Mapping[str, Any]]:
    """Leave the distribution `bub` out, and what nothing but that leads to."""
    by_name = {canonical(item["metadata"]["name"]): item for item in found}
    kept: dict[str, Mapping[str, Any]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in kept and name != OTHER:
            kept[name] = by_name[name]
            waiting += [name_in(one) for one in by_name[name]["metadata"].get("requires_dist", ())]
    return list(kept.values())


def _write_stubs(folder: Path, versions: Iterable[str]) -> Path:
    """Write empty wheels of the distribution `bub`, so that pip need not find one: it is left out in any case."""
    folder.mkdir(exist_ok=True)
    for version in dict.fromkeys(versions):
        said = f"{OTHER}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{OTHER}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{said}/METADATA", f"Metadata-Version: 2.1\nName: {OTHER}\nVersion: {version}\n")
            wheel.writestr(f"{said}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{said}/RECORD", "")
    return folder
