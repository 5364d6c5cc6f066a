"""The source of a package: a name, a wheel, a folder, or a repository, as somebody typed it."""

from __future__ import annotations

import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from bub.base.failures import explain_os_error
from bub.base.other_bub import OTHER, OURS
from bub.errors import BubError, UsageError
from bub.setup.packages.distributions import Metadata, read_metadata
from bub.setup.packages.requirements import allows, canonical, name_in

Kind = Literal["name", "wheel", "folder", "git"]

_NAME = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?"
    r"\s*(?:(?:==|~=|!=|<=|>=|<|>)[A-Za-z0-9.*, <>=!~+]+)?"
)
_GIT = re.compile(r"git\+(?P<url>[a-z+]+://[^@#\s]+?)(?:@(?P<ref>[^@#\s]+))?(?:#subdirectory=(?P<below>[^#\s]+))?")
_FORMS = "a name, a file that ends with .whl, a folder, or git+https://HOST/REPOSITORY@REF#subdirectory=FOLDER"
_MOST_METADATA = 5_000_000


class Source(msgspec.Struct, frozen=True):
    """The source of a package, as it was typed (`text`).

    `path` is the file of a wheel or the folder. `url`, `ref` and `below` are of a repository: what is taken of it (""
    is its newest), and the folder in it.
    """

    kind: Kind
    text: str
    path: Path = Path()
    url: str = ""
    ref: str = ""
    below: str = ""

    @property
    def is_built(self) -> bool:
        """Whether a wheel has to be built first, which runs code of the package."""
        return self.kind in ("folder", "git")


def read_source(text: str, folder: Path) -> Source:
    """Tell what somebody typed; paths are relative to `folder`. Raises UsageError if it is nothing of that kind."""
    if text.startswith("git+"):
        found = _GIT.fullmatch(text)
        below = found["below"] or "" if found else ""
        if found is None or os.path.isabs(below) or ".." in Path(below).parts:  # noqa: PTH117 (a path of another machine)
            raise UsageError(f"{text} is not the address of a repository", help=f"give {_FORMS}")
        return Source("git", text, url=found["url"], ref=found["ref"] or "", below=below)
    path = Path(os.path.abspath(folder / Path(text).expanduser()))  # noqa: PTH100 (a link may lead elsewhere later)
    is_path = os.sep in text or text.startswith(".")
    if text.endswith(".whl"):
        if not path.is_file():
            raise UsageError(f"there is no file {path}", help=f"give {_FORMS}")
        return Source("wheel", text, path)
    if is_path and "://" not in text:
        if not path.is_dir():
            problem = "is not a wheel, nor a folder" if path.exists() else "does not exist"
            raise UsageError(f"{path} {problem}", help=f"give {_FORMS}")
        return Source("folder", text, path)
    if not _NAME.fullmatch(text):
        raise UsageError(f"`{text}` is not the name of a package", help=f"give {_FORMS}")
    refuse_bub(name_in(text))
    return Source("name", text)


def refuse_bub(name: str) -> None:
    """Raise UsageError if a package is Bub itself, or the other program of its name."""
    if canonical(name) == OTHER:
        problem = f"`{OTHER}` on PyPI is another program, whose files would replace those of this Bub"
        raise UsageError(problem, help="name only the package of the plugin; Bub installs nothing of that program")
    if canonical(name) == OURS:
        raise UsageError(f"`{OURS}` is Bub itself", help="docs/upgrade.md says how to get a newer one")


def read_wheel(path: Path) -> Metadata:
    """Read what a wheel says of itself; nothing is unpacked. Raises BubError if it is none."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = [info for info in wheel.infolist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", info.filename)]
            if len(names) != 1:
                raise BubError(f"{path} is not a wheel: it must have one file METADATA", help="name another file")
            with wheel.open(names[0]) as stream:
                data = stream.read(_MOST_METADATA)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else "it is not an archive"
        raise BubError(f"{path} is not a wheel: {reason}", help="name another file") from None
    return read_metadata(data, path.name)


def read_project(folder: Path) -> Mapping[str, Any]:
    """Read the tables `project` and `build-system` of a folder; empty if it does not say anything in this form."""
    try:
        found = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not (folder / "setup.py").is_file():
            problem = f"{folder} holds no package: there is neither pyproject.toml nor setup.py"
            raise UsageError(problem, help="name the folder that has one of the two") from None
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else str(error).splitlines()[0]
        raise UsageError(f"{folder / 'pyproject.toml'} cannot be read: {reason}", help="correct the file") from None
    return found


def require_python(name: str, specifier: str) -> None:
    """Raise BubError if a package is not for the Python that runs."""
    version = sys.version_info[:3]
    if not allows(specifier, version):
        here = ".".join(map(str, version))
        raise BubError(
            f"{name} needs Python {specifier}, and this is Python {here}",
            help="install Bub for such a Python, as with `uv tool install --python 3.12 bub-pipelines`",
        )
