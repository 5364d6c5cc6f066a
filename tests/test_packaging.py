"""What the wheel and the source archive carry, and what the package says of itself."""

from __future__ import annotations

import importlib
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import bub

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    builder = WheelBuilder(str(ROOT))
    (path,) = builder.build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    builder = SdistBuilder(str(ROOT))
    (path,) = builder.build(directory=str(tmp_path_factory.mktemp("sdist")), versions=["standard"])
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def sources(folder: str, pattern: str) -> set[str]:
    return {
        path.relative_to(ROOT / folder).as_posix()
        for path in (ROOT / folder).rglob(pattern)
        if "__pycache__" not in path.parts
    }


def test_the_version_is_told_the_same_everywhere(project: dict[str, Any]) -> None:
    assert project["project"]["version"] == bub.__version__
    assert f"## [{bub.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_carries_the_packages_and_their_data(wheel: set[str]) -> None:
    expected = {f"bub/{name}" for name in sources("bub", "*.py")}
    expected |= {f"bub_plugins/{name}" for name in sources("plugins/bub_plugins", "*.py")}
    expected |= {f"bub/_data/pipelines/{name}" for name in sources("pipelines", "*.yaml")}
    expected |= {f"bub/_data/schemas/{name}" for name in sources("schemas", "*.json")}
    expected |= {"bub/py.typed", "bub_plugins/py.typed"}
    assert expected - wheel == set()


def test_the_wheel_carries_nothing_else(wheel: set[str]) -> None:
    homes = ("bub/", "bub_plugins/", f"bub_pipelines-{bub.__version__}.dist-info/")
    assert [name for name in wheel if not name.startswith(homes)] == []


def test_the_source_archive_carries_what_the_wheel_is_built_from(source_archive: set[str]) -> None:
    assert {"pyproject.toml", "README.md", "LICENSE", "pipelines/default.yaml", "bub/__main__.py"} <= source_archive
    assert {"schemas/pipeline.schema.json", "plugins/bub_plugins/__init__.py", "tests/conftest.py"} <= source_archive


def test_no_code_lies_among_the_data() -> None:
    assert sources("pipelines", "*.py") | sources("schemas", "*.py") == set()


def test_every_entry_point_names_something(project: dict[str, Any]) -> None:
    for target in [*project["project"]["entry-points"]["bub"].values(), *project["project"]["scripts"].values()]:
        module, _, name = target.partition(":")
        assert hasattr(importlib.import_module(module), name), target


def test_bub_has_only_the_names_it_says() -> None:
    for name in bub.__all__:
        assert getattr(bub, name) is not None
    with pytest.raises(AttributeError):
        _ = bub.nothing_of_this_name  # type: ignore[attr-defined]
