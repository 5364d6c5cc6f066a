"""Packages with plugins: what one would bring is read without running it, and what must not be installed is refused."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.wheels import write_wheel

from bub.errors import BubError, UsageError
from bub.setup.packages.code import read_code
from bub.setup.packages.distributions import Distribution, read_distribution
from bub.setup.packages.environment import Environment
from bub.setup.packages.offer import offer_of, refuse_packages
from bub.setup.packages.requirements import allows, as_constraints, name_in, versions_in
from bub.setup.packages.review import review
from bub.setup.packages.sources import read_source, read_wheel
from bub.setup.packages.unpacked import check_early
from bub.setup.packages.workplace import Moves, is_cut_short, move, plan_moves, recover, work_in

SITE = "lib/python/site-packages"
HOOK = "from bub import hookimpl\n\n@hookimpl\ndef system_prompt(prompt):\n    return 'calm'\n"
POINTS = "[bub]\ncalm = bub_calm\n"
CALM = {"bub_calm/__init__.py": HOOK}


class Listener:
    """Hears what is said, and waits for nothing."""

    def say(self, text: str) -> None: ...

    def progress(self, text: str) -> Any:
        raise AssertionError(text)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    prefix = tmp_path / "environment"
    (prefix / SITE).mkdir(parents=True)
    return Environment(sys.executable, prefix, prefix / SITE)


def put(wheel: Path, prefix: Path) -> Path:
    """Unpack a wheel below a prefix as installers do."""
    with zipfile.ZipFile(wheel) as files:
        files.extractall(prefix / SITE)
    return prefix


def staged(stage: Path) -> dict[str, Distribution]:
    found = [read_distribution(folder, stage) for folder in sorted((stage / SITE).glob("*.dist-info"))]
    return {one.key: one for one in found}


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


# What was typed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bub-slack", "name"),
        ("bub-slack[fast]>=1.2,<2", "name"),
        ("./calm", "folder"),
        ("git+https://example.org/calm.git@v1#subdirectory=packages/calm", "git"),
        ("git+file:///srv/calm", "git"),
    ],
)
def test_a_source_is_told_by_how_it_is_written(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "calm").mkdir()
    assert read_source(text, tmp_path).kind == kind


def test_a_repository_has_an_address_a_revision_and_a_folder(tmp_path: Path) -> None:
    source = read_source("git+https://example.org/calm.git@v1#subdirectory=packages/calm", tmp_path)
    assert (source.url, source.ref, source.below) == ("https://example.org/calm.git", "v1", "packages/calm")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bub", "another program"),
        ("Bub_Pipelines>=1", "is Bub itself"),
        ("none.whl", "there is no file"),
        ("./nowhere", "does not exist"),
        ("--index-url=https://evil.example", "is not the name of a package"),
        ("calm; import os", "is not the name of a package"),
        ("https://example.org/calm.whl/", "is not the name of a package"),
        ("git+https://example.org/calm#subdirectory=../..", "is not the address of a repository"),
        ("git+ext::sh -c id", "is not the address of a repository"),
    ],
)
def test_what_is_no_source_is_refused_before_anything_is_fetched(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_source(text, tmp_path)


def test_a_package_for_a_newer_python_says_so_first(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "bub-calm", said="Requires-Python: >=4.2")
    with pytest.raises(BubError, match=r"bub-calm needs Python >=4\.2, and this is Python 3") as told:
        check_early([read_source(str(wheel), tmp_path)], builds=False)
    assert "uv tool install --python" in (told.value.help or "")
    (tmp_path / "calm").mkdir()
    (tmp_path / "calm" / "pyproject.toml").write_text('[project]\nname = "calm"\nrequires-python = ">=4.2"\n')
    with pytest.raises(BubError, match="calm needs Python"):
        check_early([read_source("./calm", tmp_path)], builds=True)


def test_a_folder_is_built_only_if_somebody_says_so(tmp_path: Path) -> None:
    (tmp_path / "calm").mkdir()
    (tmp_path / "calm" / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(UsageError, match="has to be built, and that runs its code") as told:
        check_early([read_source("./calm", tmp_path)], builds=False)
    assert "--build" in (told.value.help or "") and not (tmp_path / "ran").exists()


# Names and versions


@pytest.mark.parametrize(
    ("specifier", "fits"),
    [
        ("", True),
        (">=3.11", True),
        (">=3.12", False),
        ("<4,>=3.8", True),
        ("~=3.11", True),
        ("~=3.10.0", False),
        ("==3.*", True),
        ("==3.11.*", True),
        ("!=3.11.*", False),
        ("!=3.11.4", True),
        ("<3.11", False),
        ("<=3.11.7", True),
        (">3.11.7", False),
        ("whatever", True),
    ],
)
def test_requires_python_is_understood_as_installers_do(specifier: str, fits: bool) -> None:
    assert allows(specifier, (3, 11, 7)) is fits


def test_what_installed_packages_need_bounds_what_comes_new() -> None:
    needs = [
        "trio>=0.27",
        "Httpx[http2] (>=0.2,<1) ; python_version > '3'",
        "mcp>=2 ; extra == 'mcp'",
        "x @ file:///x",
        "y",
    ]
    assert list(as_constraints(needs)) == ["trio >=0.27", "Httpx >=0.2,<1 ; python_version > '3'"]
    assert [name_in(one) for one in needs] == ["trio", "httpx", "mcp", "x", "y"]
    assert versions_in(["bub (>=0.5.1,<0.6)", "other==1"], "bub") == ["0.5.1", "0.6"]


# What it would bring


def test_what_a_package_brings_is_told_without_running_it(environment: Environment, tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nimport trio\n{HOOK}\n@tool(name='calm.down')\ndef down(): ...\n"
    labels = {"tools": {"calm.down": {"reaches": "outside"}}}
    files = {
        "bub_calm/__init__.py": code,
        "bub_calm/labels.json": json.dumps(labels),
        "bub_calm/schema.json": json.dumps({"properties": {"token": {}, "speed": {}}}),
        "calm.pth": "import os",
    }
    points = f"{POINTS}[bub.labels]\ncalm = bub_calm:labels.json\n[bub.schema]\ncalm = bub_calm:schema.json\n"
    said = "Summary: Stays calm\nRequires-Dist: bub>=0.5"
    stage = put(write_wheel(tmp_path, "bub-calm", files=files, points=points, said=said), tmp_path / "stage")
    packages = staged(stage)
    refuse_packages(packages, ["bub-calm"], stage, environment)
    offer = offer_of(packages["bub-calm"], stage, environment)
    lines = "\n".join(review([offer], packages, {"bub-calm": "0.9"}, 2**20))
    for part in (
        "bub-calm 1.0: Stays calm",
        "plugin `calm`, on a loop of its own (`runtime: asyncio`): bub_calm",
        "labels: calm.down reaches outside",
        "settings: token, speed",
        "hook points in its code: system_prompt",
        "tools in its code: calm.down",
        "asks for the package `bub`, another program: Bub leaves it out",
        "changed in this environment: bub-calm 0.9 → 1.0",
        "RUN AT EACH START of Python in this environment: calm.pth",
    ):
        assert part in lines
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        (HOOK, False),
        (f"import asyncio\n{HOOK}", True),
        (f"import asyncio\nimport trio\n{HOOK}", False),
        (f"from bub.turn import TurnState\n{HOOK}", True),
        (f"from bub import ensure_config\n{HOOK}", True),
        ("from bub.channels import Channel\n", False),
    ],
)
def test_a_plugin_that_needs_asyncio_is_told_by_what_it_imports(tmp_path: Path, code: str, needs: bool) -> None:
    (tmp_path / "plugin.py").write_text(code)
    assert read_code([tmp_path / "plugin.py"]).needs_asyncio is needs


# What is refused


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        (
            "bub-calm",
            {"points": "[bub]\ntelegram = bub_calm\n"},
            "brings a plugin `telegram`, but Bub itself has a plugin of this name",
        ),
        (
            "bub-calm",
            {"points": "[bub]\nbuiltin = bub_calm\n"},
            "brings a plugin `builtin`, but Bub itself has a plugin of this name",
        ),
        ("bub-calm", {"points": "[bub]\nloud = bub_calm\n"}, "brings a plugin `loud`, but bub-loud brings one, too"),
        ("bub-calm", {"files": {"bub/agent/evil.py": ""}}, "would replace a file of Bub's own"),
        ("bub-calm", {"files": {"Bub/__init__.py": ""}}, "would replace a file of Bub's own"),
        ("bub-calm", {"files": {"bub.py": ""}}, "would replace a file of Bub's own"),
        ("bub-calm", {"files": {"bub_plugins/telegram.py": ""}}, "would replace a file of Bub's own"),
        ("bub-calm", {"files": {"bub_pipelines-9.data/x": ""}}, "would replace a file of Bub's own"),
        ("bub", {}, "it would install `bub`"),
        ("bub-calm", {"files": {"bub_loud/__init__.py": ""}}, "is a file of bub-loud"),
        ("bub-calm", {"files": {"lonely.py": ""}}, "which is there already"),
        (
            "bub-calm",
            {"files": {"hidden.py": ""}, "unlisted": ["hidden.py"]},
            "but its own list of files does not name it",
        ),
        ("bub-calm", {"points": "[bub]\na b = bub_calm\n"}, "but a plugin cannot have this name"),
        ("bub-calm", {"points": "[console_scripts]\ncalm = bub_calm:main\n"}, "brings no plugin"),
    ],
)
def test_a_package_that_would_harm_bub_is_refused(
    environment: Environment, tmp_path: Path, name: str, more: Mapping[str, Any], said: str
) -> None:
    loud = write_wheel(
        tmp_path / "loud", "bub-loud", files={"bub_loud/__init__.py": ""}, points="[bub]\nloud = bub_loud\n"
    )
    put(loud, environment.prefix)
    (environment.site / "lonely.py").touch()
    files = {**CALM, **more.get("files", {})}
    wheel = write_wheel(tmp_path, name, **{"points": POINTS, **more, "files": files})
    stage = put(wheel, tmp_path / "stage")
    packages = {key: one for key, one in staged(stage).items() if key == name}
    with pytest.raises(BubError) as told:
        refuse_packages(packages, [name], stage, environment)
    assert said in str(told.value) and told.value.help


def test_a_readme_of_many_megabytes_is_not_read(tmp_path: Path) -> None:
    said = "Summary: Large\n\n" + "x" * 6_000_000
    wheel = write_wheel(tmp_path, "bub-calm", files=CALM, points=POINTS, said=said)
    assert read_wheel(wheel).summary == "Large"
    stage = put(wheel, tmp_path / "stage")
    with pytest.raises(BubError, match="METADATA is larger than 2 MB"):
        staged(stage)


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04 and then nothing"])
def test_a_file_that_is_no_wheel_says_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "calm-1.0-py3-none-any.whl").write_bytes(data)
    with pytest.raises(BubError, match="is not a wheel"):
        read_wheel(tmp_path / "calm-1.0-py3-none-any.whl")


# All of it or nothing


def prepare(environment: Environment, tmp_path: Path) -> tuple[Moves, Path, dict[str, bytes]]:
    """An older package is there, and a newer one unpacked: what is to be moved, where, and how it was."""
    put(write_wheel(tmp_path / "old", "bub-calm", "0.9", {**CALM, "bub_calm/old.py": "old"}), environment.prefix)
    workplace = environment.prefix / ".bub-new-x"
    stage = put(write_wheel(tmp_path, "bub-calm", files={**CALM, "bub_calm/deep/new.py": "new"}), workplace / "stage")
    before = files_below(environment.site)
    moves = plan_moves(environment, environment.installed()["bub-calm"].files, staged(stage)["bub-calm"].files)
    return moves, workplace, before


def test_a_newer_package_takes_the_place_of_the_older_one(environment: Environment, tmp_path: Path) -> None:
    moves, workplace, _ = prepare(environment, tmp_path)
    move(moves, environment, workplace)
    assert environment.installed()["bub-calm"].version == "1.0"
    assert set(files_below(environment.site)) == {
        *("bub_calm/__init__.py", "bub_calm/deep/new.py"),
        *(f"bub_calm-1.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL")),
    }


def test_an_installation_that_fails_in_the_middle_leaves_everything_as_it_was(
    environment: Environment, tmp_path: Path
) -> None:
    moves, workplace, before = prepare(environment, tmp_path)
    (workplace / "stage" / moves.into[-1]).unlink()
    with pytest.raises(BubError, match="the environment cannot be changed, and is as it was"):
        move(moves, environment, workplace)
    assert files_below(environment.site) == before and not (environment.site / "bub_calm" / "deep").exists()


def test_what_a_killed_process_left_is_taken_back_by_the_next_one(environment: Environment, tmp_path: Path) -> None:
    moves, workplace, before = prepare(environment, tmp_path)
    process = os.fork()
    if process == 0:  # it is killed when half of the files are in their places
        (workplace / "stage" / moves.into[-1]).unlink()
        os.mkfifo(workplace / "stage" / moves.into[-1])
        original = Path.rename
        Path.rename = lambda path, target: os._exit(9) if path.is_fifo() else original(path, target)  # type: ignore
        move(moves, environment, workplace)
    os.waitpid(process, 0)
    assert files_below(environment.site) != before and is_cut_short(environment)
    with work_in(environment, "run it again", Listener()):
        pass
    assert files_below(environment.site) == before and not is_cut_short(environment)
    assert [path.name for path in environment.prefix.iterdir()] == ["lib"]


def test_a_workplace_that_was_left_without_a_change_is_removed(environment: Environment) -> None:
    (environment.prefix / ".bub-new-x" / "stage").mkdir(parents=True)
    recover(environment)
    assert [path.name for path in environment.prefix.iterdir()] == ["lib"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_environment_says_so_before_anything_is_fetched(environment: Environment) -> None:
    environment.site.chmod(0o555)
    with pytest.raises(BubError, match="is read-only"), work_in(environment, "", Listener()):
        pass
