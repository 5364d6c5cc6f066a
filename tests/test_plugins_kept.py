"""`bub plugins remove`, `sync` and `update`: what was added is remembered, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import bub
from fakes.packages import HOOK, POINTS, Person, files_below, make_request, needs_time, put
from fakes.wheels import write_wheel

from bub.errors import BubError, UsageError
from bub.pipeline.check.validate import check_loaded
from bub.pipeline.edit.amend import amend
from bub.pipeline.source.merge import load_document, load_text
from bub.plugins.installed.added import Added, Pin, describe_lost, find_lost, read_added
from bub.setup.packages.adding import add
from bub.setup.packages.agreeing import Request
from bub.setup.packages.record import update_added
from bub.setup.packages.removing import remove
from bub.setup.packages.renewing import sync, update
from bub.setup.unlisting import find_listings


@pytest.fixture
def request_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    return make_request(tmp_path, monkeypatch)


def pin(name: str, version: str = "1.0") -> Pin:
    return Pin(name, version, ("sha256:0",))


def note(request: Request, name: str, *needs: str, brought: tuple[str, ...] = ()) -> Added:
    prefix = str(request.environment.prefix)
    one = Added(name, "1.0", name, prefix, (name,), (pin(name), *map(pin, needs)), (name, *brought))
    update_added(request.home, lambda old: [*old, one])
    return one


def test_what_was_brought_goes_with_its_package_unless_something_else_needs_it(
    request_to: Request, tmp_path: Path
) -> None:
    prefix = request_to.environment.prefix
    put(write_wheel(tmp_path, "old-friend", files={"old_friend.py": ""}), prefix)
    before = files_below(prefix)
    for name, needs in (("lone", ()), ("shared", ()), ("deep", ("lone",)), ("loud", ("shared",))):
        said = "\n".join(f"Requires-Dist: {one}" for one in needs)
        put(write_wheel(tmp_path, name, files={f"{name}.py": ""}, said=said), prefix)
    with_loud = files_below(prefix)
    said = "Requires-Dist: deep>=1\nRequires-Dist: shared\nRequires-Dist: old-friend"
    put(write_wheel(tmp_path, "calm", files={"calm/__init__.py": HOOK}, said=said, points=POINTS), prefix)
    compiled = request_to.environment.site / "calm" / "__pycache__" / "__init__.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.touch()
    calm = note(request_to, "calm", "deep", "shared", "lone", "old-friend", brought=("deep", "shared", "lone"))
    note(request_to, "loud")

    person = Person(False)
    assert remove(["calm"], request_to, person) is None
    assert person.heard == ["  to be removed: calm 1.0, deep 1.0, lone 1.0", "nothing was removed"]
    assert remove(["calm"], request_to, Person(True)) == list(calm.plugins)
    gone = ("deep", "lone")
    assert files_below(prefix) == {path: data for path, data in with_loud.items() if not path_is_of(path, gone)}
    assert not (request_to.environment.site / "calm").exists()
    assert remove(["loud"], request_to, Person(True)) == ["loud"]
    assert {path for path in files_below(prefix) if not path_is_of(path, ("shared",))} == set(before)
    assert read_added(request_to.home) == ()


def path_is_of(path: str, names: tuple[str, ...]) -> bool:
    return Path(path).relative_to(Path(path).parts[0]).as_posix().split("site-packages/")[-1].startswith(names)


def test_a_name_that_was_never_added_is_refused_with_the_ones_that_were(request_to: Request) -> None:
    note(request_to, "calm")
    with pytest.raises(UsageError, match="no package `clam` was added") as told:
        remove(["clam"], request_to, Person())
    assert told.value.help == "did you mean `calm`?"


def test_what_is_gone_from_its_environment_is_told_and_what_is_elsewhere_is_not(
    request_to: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = note(request_to, "never-there")
    assert find_lost([gone], str(request_to.environment.prefix)) == [gone]
    assert find_lost([gone], str(tmp_path)) == []
    shutil.rmtree(request_to.environment.prefix)
    assert find_lost([gone], str(tmp_path)) == [gone]
    assert describe_lost(request_to.home).startswith("never-there 1.0: added with `bub plugins add`, and is missing in")
    assert describe_lost(tmp_path / "nothing") == ""


def test_a_file_lists_a_plugin_no_more_and_keeps_its_comments_and_settings(tmp_path: Path) -> None:
    text = (
        "version: 1\nplugins:\n  calm: {runtime: asyncio}\n  loud: {optional: true}\n"
        "profiles:\n  default:\n    plugins: [loud, calm]   # mine\nsettings: {calm: {token: x}}\n"
    )
    changes = find_listings(text, ["calm"], file="a.yaml", base=tmp_path)
    after = amend(text, changes, file="a.yaml")
    assert after == (
        "version: 1\nplugins:\n  loud: {optional: true}\n"
        "profiles:\n  default:\n    plugins: [loud]   # mine\nsettings: {calm: {token: x}}\n"
    )
    assert find_listings(after, ["calm"], file="a.yaml", base=tmp_path) == {}


def test_a_start_says_which_packages_are_missing_and_what_installs_them_again(tmp_path: Path) -> None:
    calm = Added("bub-calm", "1.0", "bub-calm", sys.prefix, (), (pin("bub-calm"),))
    update_added(tmp_path / "home", lambda old: [*old, calm])
    done = bub(tmp_path, "hooks", BUB_HOME=str(tmp_path / "home"))
    assert done.stderr.splitlines() == [
        "bub: bub-calm 1.0: added with `bub plugins add`, and is missing in this environment "
        "(`bub plugins sync` installs missing packages again)"
    ]


# With an installer


def test_after_the_environment_was_made_anew_just_the_same_files_are_installed_again(
    request_to: Request, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path, "bub-calm", files={"bub_calm.py": HOOK}, points="[bub.pipelines]\ncalm = bub_calm\n")
    assert add([str(wheel)], tmp_path, request_to, Person(True)) == {}
    site = request_to.environment.site
    before = files_below(site)
    wheel.unlink()
    for path in site.glob("bub_calm*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    person = Person(True)
    assert sync((), request_to, person) and person.asked == ["Install bub-calm?"]
    assert set(files_below(site)) == set(before)
    assert not sync((), request_to, person) and person.heard[-1] == "everything that was added is here"
    (kept,) = (request_to.home / "plugins" / "wheels").glob("*/*.whl")
    kept.write_bytes(kept.read_bytes() + b"changed")
    for path in site.glob("bub_calm*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BubError, match="could not be installed"):
        sync((), request_to, Person(True))
    assert not list(site.glob("bub_calm*"))


@needs_time
def test_an_update_shows_what_changes_before_it_asks(request_to: Request, tmp_path: Path) -> None:
    index = tmp_path / "index"
    write_wheel(index, "bub-calm", files={"bub_calm.py": HOOK}, points=POINTS)
    assert add(["bub-calm"], tmp_path, request_to, Person(True)) == {"calm": ""}
    person = Person()
    assert not update((), request_to, person) and person.heard[-1] == "bub-calm 1.0 is the newest"
    deep = "class Deep:\n    @hookimpl\n    def build_prompt(self, message): ...\n"
    newer = f"{HOOK}\n{deep}\n@hookimpl\ndef load_state(message):\n    return {{}}\n"
    points = f"{POINTS}deep = bub_calm:Deep\n"
    write_wheel(index, "dep-one", files={"dep_one.py": ""})
    write_wheel(index, "bub-calm", "1.1", {"bub_calm.py": newer}, points=points, said="Requires-Dist: dep-one")
    before = files_below(request_to.environment.prefix)
    person = Person(False)
    assert not update(["calm"], request_to, person)
    for line in (
        "bub-calm 1.0 → 1.1",
        "  plugins: new: deep (bub_calm:Deep)",
        "  hook points in its code: new: build_prompt, load_state",
        "  requirements: new: dep-one",
    ):
        assert line in person.heard
    assert files_below(request_to.environment.prefix) == before
    assert update(["calm"], request_to, Person(True))
    assert {key: one.version for key, one in request_to.environment.installed().items()} == {
        "bub-calm": "1.1",
        "dep-one": "1.0",
    }
    assert [one.version for one in read_added(request_to.home)] == ["1.1"]


@needs_time
def test_two_at_once_wait_for_each_other(request_to: Request, tmp_path: Path) -> None:
    index = tmp_path / "index"
    for name in ("bub-calm", "bub-loud"):
        module = name.replace("-", "_")
        write_wheel(index, name, files={f"{module}.py": HOOK}, points=f"[bub]\n{name[4:]} = {module}\n")
    here = {**os.environ, "BUB_HOME": str(request_to.home), "HOME": str(tmp_path)}
    started = [
        subprocess.Popen(
            [request_to.environment.python, "-m", "bub", "plugins", "add", name, "--yes"],
            cwd=tmp_path,
            env=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("bub-calm", "bub-loud")
    ]
    said = [process.communicate(timeout=60)[0] for process in started]
    assert set(request_to.environment.installed()) == {"bub-calm", "bub-loud"}, said
    assert {one.name for one in read_added(request_to.home)} == {"bub-calm", "bub-loud"}
    assert any("another process is installing it" in text for text in said)


@needs_time
@pytest.mark.parametrize("after", [0.2, 1.0, 2.0, 3.0])
def test_ctrl_c_leaves_the_environment_as_it_was(request_to: Request, tmp_path: Path, after: float) -> None:
    import signal
    import time

    write_wheel(tmp_path / "index", "dep-one", files={"dep_one.py": ""})
    wheel = write_wheel(
        tmp_path, "bub-calm", files={"bub_calm.py": f"import time; time.sleep(60)\n{HOOK}"}, points=POINTS
    )
    before = files_below(request_to.environment.prefix)
    process = subprocess.Popen(
        [request_to.environment.python, "-B", "-m", "bub", "plugins", "add", str(wheel), "--yes"],
        cwd=tmp_path,
        env={**os.environ, "BUB_HOME": str(request_to.home), "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode in (130, -signal.SIGINT), said
    assert files_below(request_to.environment.prefix) == before
    assert sys.prefix != str(request_to.environment.prefix)


# A pipeline of a package


def test_a_pipeline_of_an_installed_package_is_extended_by_its_name_without_importing_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "calm_rules/__init__.py": "raise RuntimeError('imported')",
        "calm_rules/calm.yaml": "version: 1\nextends: base.yaml\nstages:\n  run_model: {timeout: 20s}\n",
        "calm_rules/base.yaml": "version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n",
    }
    points = "[bub.pipelines]\ncalm = calm_rules:calm.yaml\n"
    put(write_wheel(tmp_path, "calm-rules", files=files, points=points), make_site(tmp_path))
    monkeypatch.syspath_prepend(str(next((tmp_path / "around").glob("lib/python*/site-packages"))))
    path = write("pipelines.yaml", "version: 1\nextends: Calm_Rules:calm\nstages:\n  run_model: {timeout: 30s}\n")
    document = load_document(path)
    assert document.findings == () and check_loaded(document).diagnostics == ()
    stage = document.root.get("stages", "run_model")
    assert stage is not None and stage.plain()["timeout"] == "30s"
    names = [Path(layer.file).name for layer in document.layers]
    assert names == ["bub:default", "base.yaml", "calm.yaml", "pipelines.yaml"]
    assert str(tmp_path / "around") in document.layers[1].file
    (finding,) = load_text("version: 1\nextends: calm-rules:clam\n").findings
    assert (finding.code, finding.help) == ("B021", "did you mean `calm-rules:calm`?")
    (finding,) = load_text("version: 1\nextends: not-there:calm\n").findings
    assert finding.code == "B021" and "bub plugins add not-there" in (finding.help or "")


@pytest.mark.parametrize("value", ["calm_rules:../secret.yaml", "calm_rules:calm.txt", "x"])
def test_an_entry_point_that_leads_out_of_its_package_brings_no_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    site = next(make_site(tmp_path).glob("lib/python*/site-packages"))
    points = f"[bub.pipelines]\ncalm = {value}\n"
    put(
        write_wheel(tmp_path, "calm-rules", files={"calm_rules/calm.txt": "version: 1"}, points=points),
        tmp_path / "around",
    )
    (site / "secret.yaml").write_text("version: 1\n")
    monkeypatch.syspath_prepend(str(site))
    (finding,) = load_text("version: 1\nextends: calm-rules:calm\n").findings
    assert finding.code == "B021"


def make_site(tmp_path: Path) -> Path:
    (tmp_path / "around" / "lib" / "python3" / "site-packages").mkdir(parents=True)
    return tmp_path / "around"
