"""What unpacked packages would bring, and what keeps them from being installed."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bub.base.other_bub import OTHER, OURS
from bub.errors import BubError
from bub.hooks.facts import BUILTIN
from bub.hookspecs import BUB_HOOK_NAMESPACE
from bub.labels import PluginLabels
from bub.plugins.installed.pipelines import PIPELINES
from bub.plugins.packages import LABELS, SCHEMAS
from bub.plugins.shipped import SHIPPED_PLUGINS
from bub.setup.packages.code import Findings, is_name, read_code
from bub.setup.packages.distributions import Distribution
from bub.setup.packages.environment import Environment
from bub.setup.packages.requirements import canonical, name_in

__all__ = ["Offer", "OfferedPlugin", "offer_of", "refuse_packages"]

_BUBS_OWN = frozenset({"bub", "bub_plugins", "bub_reference"})
"""The names of modules that are Bub's, and nobody else's."""

_AT_EACH_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_MOST_BYTES = 1_000_000


class OfferedPlugin(msgspec.Struct, frozen=True):
    """A plugin that a package brings: `labels` are what it declares (None if nothing), `settings` what can be set."""

    name: str
    value: str
    labels: PluginLabels | None = None
    settings: tuple[str, ...] = ()


class Offer(msgspec.Struct, frozen=True):
    """What one package would bring, as far as it can be seen without running it.

    `outside` are the files outside of its modules, `scripts` those on the PATH, `at_start` what every start of Python
    runs in this environment.
    """

    package: Distribution
    plugins: tuple[OfferedPlugin, ...]
    pipelines: tuple[str, ...]
    code: Findings
    scripts: tuple[str, ...]
    outside: tuple[str, ...]
    at_start: tuple[str, ...]

    @property
    def runtime(self) -> str:
        """The loop that its plugins need (`asyncio`); "" if it is Bub's own."""
        return "asyncio" if self.requires_other or self.code.needs_asyncio else ""

    @property
    def requires_other(self) -> bool:
        """Whether it asks for the distribution `bub`, which is left out."""
        return any(name_in(one) == OTHER for one in self.package.about.requires)


def offer_of(package: Distribution, stage: Path, environment: Environment) -> Offer:
    """Read what an unpacked package would bring. Raises BubError if its labels or its settings cannot be read."""
    site = environment.site.relative_to(environment.prefix).as_posix()
    modules: list[str] = []
    scripts: list[str] = []
    outside: list[str] = []
    at_start: list[str] = []
    for path in package.files:
        top, _, _ = path.removeprefix(f"{site}/").partition("/")
        if not path.startswith(f"{site}/"):
            (scripts if Path(path).parent.as_posix() in ("bin", "Scripts") else outside).append(path)
        elif top.endswith(".pth") or top in _AT_EACH_START:
            at_start.append(top)
        elif not top.endswith((".dist-info", ".data")):
            modules.append(path)
    points = package.entry_points
    plugins = [
        OfferedPlugin(
            name,
            value,
            _read_labels(points.get(LABELS, {}).get(name), stage / site),
            _read_settings(points.get(SCHEMAS, {}).get(name), stage / site),
        )
        for name, value in points.get(BUB_HOOK_NAMESPACE, {}).items()
    ]
    return Offer(
        package,
        tuple(plugins),
        tuple(points.get(PIPELINES, {})),
        read_code(stage / path for path in sorted(modules)),
        tuple(Path(path).name for path in scripts),
        tuple(outside),
        tuple(at_start),
    )


def _read_labels(value: str | None, site: Path) -> PluginLabels | None:
    said = _read_json(value, site)
    if said is None:
        return None
    try:
        return PluginLabels.read(said)
    except msgspec.ValidationError as error:
        raise BubError(f"the labels in {value} cannot be used: {error}", help="tell whoever made the package") from None


def _read_settings(value: str | None, site: Path) -> tuple[str, ...]:
    said = _read_json(value, site)
    properties = said.get("properties") if isinstance(said, Mapping) else None
    return tuple(map(str, properties)) if isinstance(properties, Mapping) else ()


def _read_json(value: str | None, site: Path) -> Any:
    """What the JSON file holds that an entry point `package:file.json` names."""
    if value is None:
        return None
    module, _, file = value.partition(":")
    path = site.joinpath(*module.split("."), file)
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError
        return json.loads(data)
    except (OSError, ValueError, RecursionError):
        help_text = "tell whoever made the package"
        raise BubError(f"an entry point names {value}, but Bub can read no JSON there", help=help_text) from None


# What is refused


def refuse_packages(
    packages: Mapping[str, Distribution], roots: Iterable[str], stage: Path, environment: Environment
) -> None:
    """Raise BubError if unpacked packages must not be installed; what is wrong is said of the first of them."""
    installed = environment.installed()
    staying = [one for key, one in installed.items() if key not in packages]
    taken = {path: one.about.name for one in staying for path in one.files}
    going = {path for key, one in installed.items() if key in packages for path in one.files}
    plugins = {name: one.about.name for one in staying for name in one.entry_points.get(BUB_HOOK_NAMESPACE, ())}
    known: set[str] = set()
    for package in packages.values():
        _refuse_files(package, taken, going, environment)
        _refuse_plugins(package, plugins)
        known.update(package.files)
    for path in _files_below(stage):
        if path not in known:
            raise _refuse(f"a package brings {path}, but its own list of files does not name it")
    for root in roots:
        points = packages[root].entry_points if root in packages else {}
        if root in packages and not points.get(BUB_HOOK_NAMESPACE) and not points.get(PIPELINES):
            problem = f"{packages[root].about.name} brings no plugin: it has no entry point in the group `bub`"
            raise BubError(problem, help="check that you mean this package; nothing was installed")


def _refuse_files(
    package: Distribution, taken: Mapping[str, str], going: Container[str], environment: Environment
) -> None:
    name, site = package.about.name, environment.site.relative_to(environment.prefix).as_posix()
    if package.key in (OTHER, OURS):
        raise _refuse(f"it would install `{name}`, whose files are Bub's own")
    for path in package.files:
        inner = path.removeprefix(f"{site}/")
        top = inner.partition("/")[0].casefold()
        is_info = top.endswith((".dist-info", ".data")) and canonical(top.partition("-")[0]) in (OTHER, OURS)
        if path.startswith("../") or Path(path).is_absolute():
            raise _refuse(f"{name} brings a file outside of the environment: {path}")
        if inner != path and (top.partition(".")[0] in _BUBS_OWN or is_info):
            raise _refuse(f"{name} brings {inner}, which would replace a file of Bub's own")
        if path in taken:
            raise _refuse(f"{name} brings {path}, which is a file of {taken[path]}")
        if path not in going and os.path.lexists(environment.prefix / path):
            raise _refuse(f"{name} brings {path}, which is there already")


def _refuse_plugins(package: Distribution, others: Mapping[str, str]) -> None:
    for name in package.entry_points.get(BUB_HOOK_NAMESPACE, ()):
        if name in SHIPPED_PLUGINS or name == BUILTIN:
            raise _refuse(f"{package.about.name} brings a plugin `{name}`, but Bub itself has a plugin of this name")
        if name in others:
            raise _refuse(f"{package.about.name} brings a plugin `{name}`, but {others[name]} brings one, too")
        if not is_name(name):
            raise _refuse(f"{package.about.name} brings a plugin `{name}`, but a plugin cannot have this name")


def _files_below(stage: Path) -> Sequence[str]:
    return [
        path.relative_to(stage).as_posix() for path in stage.rglob("*") if not path.is_dir() and path.suffix != ".pyc"
    ]


def _refuse(problem: str) -> BubError:
    return BubError(problem, help="nothing was installed; do not use this package")
