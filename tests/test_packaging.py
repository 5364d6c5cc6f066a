"""What the wheel and the source archive carry, and what the package says of itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
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
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the source archive unpacks to."""
    folder = tmp_path_factory.mktemp("sdist")
    (path,) = SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    (found,) = (path for path in folder.iterdir() if path.is_dir())
    return found


def sources(folder: str, pattern: str) -> set[str]:
    return {
        path.relative_to(ROOT / folder).as_posix()
        for path in (ROOT / folder).rglob(pattern)
        if "__pycache__" not in path.parts
    }


def test_the_version_is_told_the_same_everywhere(project: dict[str, Any]) -> None:
    assert project["project"]["version"] == bub.__version__


@pytest.mark.skipif(not (ROOT / "CHANGELOG.md").exists(), reason="the source archive carries no CHANGELOG.md")
def test_the_changes_of_this_version_are_told() -> None:
    assert f"## [{bub.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_carries_the_packages_and_their_data(wheel: set[str]) -> None:
    expected = {f"bub/{name}" for name in sources("bub", "*.py")}
    for package in ("bub_plugins", "bub_reference"):
        expected |= {f"{package}/{name}" for name in sources(f"plugins/{package}", "*.py")}
    expected |= {f"bub/_data/pipelines/{name}" for name in sources("pipelines", "*.yaml")}
    expected |= {f"bub/_data/schemas/{name}" for name in sources("schemas", "*.json")}
    expected |= {f"bub/{name}" for name in sources("bub", "*.md")}  # the shipped skills
    expected |= {"bub/py.typed", "bub_plugins/py.typed", "bub_reference/py.typed", "bub/_data/docs/diagnostics.md"}
    assert expected - wheel == set()


def test_the_wheel_carries_nothing_else(wheel: set[str]) -> None:
    homes = ("bub/", "bub_plugins/", "bub_reference/", f"bub_pipelines-{bub.__version__}.dist-info/")
    assert [name for name in wheel if not name.startswith(homes)] == []


def test_the_source_archive_carries_what_the_wheel_is_built_from(unpacked: Path) -> None:
    carried = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")}
    assert {"pyproject.toml", "README.md", "LICENSE", "pipelines/default.yaml", "bub/__main__.py"} <= carried
    assert {"schemas/pipeline.schema.json", "plugins/bub_plugins/__init__.py", "tests/conftest.py"} <= carried
    assert "docs/diagnostics.md" in carried


def test_in_the_source_archive_tests_of_what_it_does_not_carry_are_skipped(unpacked: Path) -> None:
    tests = ["tests/test_docs.py", "tests/test_architecture.py", "tests/test_packaging.py"]
    chosen = ["-k", "documentation or changes or version", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", *tests, *chosen],
        cwd=unpacked,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("the source archive carries no ") == 3, done.stdout


def test_no_code_lies_among_the_data() -> None:
    in_docs = {name for name in sources("docs", "*.py") if not name.startswith("examples/")}  # these are for copying
    assert sources("pipelines", "*.py") | sources("schemas", "*.py") | in_docs == set()


def test_every_entry_point_names_something(project: dict[str, Any]) -> None:
    for target in [*project["project"]["entry-points"]["bub"].values(), *project["project"]["scripts"].values()]:
        module, _, name = target.partition(":")
        assert hasattr(importlib.import_module(module), name), target


def test_bub_has_only_the_names_it_says() -> None:
    for name in bub.__all__:
        assert getattr(bub, name) is not None
    with pytest.raises(AttributeError):
        _ = bub.nothing_of_this_name  # type: ignore[attr-defined]
