"""`bub plugins add`: a package is looked at, agreed to, tried, and then installed whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import bub
from fakes.packages import HOOK, POINTS, Person, files_below, make_request, needs_time
from fakes.wheels import write_wheel

from bub.errors import BubError
from bub.plugins.installed.added import Added, Pin, read_added
from bub.setup.packages.adding import add
from bub.setup.packages.agreeing import Request
from bub.setup.packages.record import update_added


@pytest.fixture
def request_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    return make_request(tmp_path, monkeypatch)


def test_a_plugin_is_installed_with_what_it_needs_after_two_questions_if_it_brings_more_than_it_told(
    request_to: Request, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hidden = "vars().update(load_state=hookimpl(lambda message: None))"
    code = f"open({str(ran)!r}, 'w')\n{HOOK}\n{hidden}\n"
    write_wheel(tmp_path / "index", "dep-one", files={"dep_one.py": ""})
    said = "Requires-Dist: dep-one\nRequires-Dist: trio>=0.2"
    wheel = write_wheel(tmp_path, "bub-calm", files={"bub_calm.py": code}, points=POINTS, said=said)
    before = files_below(request_to.environment.prefix)
    person = Person(False)
    assert add([str(wheel)], tmp_path, request_to, person) is None
    assert files_below(request_to.environment.prefix) == before and not ran.exists()
    assert person.heard[-1] == "nothing was installed"

    person = Person(True, True)
    assert add([str(wheel)], tmp_path, request_to, person) == {"calm": ""}
    assert person.asked == ["Install bub-calm?", "Install bub-calm all the same?"]
    assert "Once loaded, it brings more than its code shows: the hook point load_state" in person.heard
    assert set(request_to.environment.installed()) == {"bub-calm", "dep-one"}
    (added,) = read_added(request_to.home)
    assert (added.name, added.source, added.plugins) == ("bub-calm", str(wheel), ("calm",))
    assert [pin.key for pin in added.packages] == ["bub-calm", "dep-one"]
    assert all(pin.hashes[0].startswith("sha256:") for pin in added.packages)


@needs_time
def test_the_distribution_bub_never_gets_in_and_neither_does_what_only_that_needs(
    request_to: Request, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    write_wheel(index, "dep-one", files={"dep_one.py": ""})
    write_wheel(index, "bub", "0.5.1", {"bub/turn.py": ""}, said="Requires-Dist: only-for-bub")
    write_wheel(index, "only-for-bub")
    said = "Requires-Dist: bub>=0.5\nRequires-Dist: bub<0.6\nRequires-Dist: dep-one>=1"
    write_wheel(index, "bub-calm", files={"bub_calm.py": HOOK}, points=POINTS, said=said)
    person = Person()
    shows = Request(request_to.home, request_to.environment, "", only_shows=True)
    assert add(["bub-calm"], tmp_path, shows, person) is None
    assert any(line.endswith(": bub-calm 1.0, dep-one 1.0") for line in person.heard)


@needs_time
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_there", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("import os; os._exit(3)", "its process ended"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_broken_package_leaves_the_environment_as_it_was(
    request_to: Request, tmp_path: Path, code: str, said: str
) -> None:
    wheel = write_wheel(tmp_path, "bub-calm", files={"bub_calm.py": code}, points=POINTS)
    before = files_below(request_to.environment.prefix)
    with pytest.raises(BubError, match=f"bub-calm was not installed, because it does not load: .*{said}"):
        add([str(wheel)], tmp_path, request_to, Person(True))
    assert files_below(request_to.environment.prefix) == before and read_added(request_to.home) == ()


@needs_time
def test_a_package_that_needs_what_bub_cannot_have_is_refused(request_to: Request, tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path, "bub-calm", files={"bub_calm.py": HOOK}, points=POINTS, said="Requires-Dist: trio<0.2"
    )
    write_wheel(tmp_path / "index", "trio", "0.1")
    before = files_below(request_to.environment.prefix)
    with pytest.raises(BubError, match=r"bub-calm could not be installed"):
        add([str(wheel)], tmp_path, request_to, Person(True))
    assert files_below(request_to.environment.prefix) == before


# What was added is remembered


def test_a_damaged_record_is_no_empty_one(tmp_path: Path) -> None:
    assert read_added(tmp_path) == ()
    one = Added("calm", "1", "calm", "/nowhere", ("calm",), (Pin("calm", "1", ("sha256:0",)),))
    update_added(tmp_path, lambda before: [*before, one])
    assert read_added(tmp_path) == (one,)
    (tmp_path / "plugins" / "added.json").write_text("{}")
    with pytest.raises(BubError, match="is damaged"):
        read_added(tmp_path)


# The command


def test_nobody_is_asked_where_nobody_can_answer(write: Write, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "bub-calm", points=POINTS)
    done = bub(tmp_path, "plugins", "add", str(wheel))
    assert done.returncode == 2 and "first look with --dry-run, then say --yes" in done.stderr
    done = bub(tmp_path, "plugins", "add", str(tmp_path), "--build", "--dry-run")
    assert done.returncode == 2 and "no terminal" in done.stderr
    done = bub(tmp_path, "plugins", "add", "bub", "--yes")
    assert done.returncode == 2 and "another program" in done.stderr


def test_an_agent_cannot_say_yes(tmp_path: Path) -> None:
    done = bub(tmp_path, "plugins", "add", "bub-calm", "--yes", BUB_STARTED_BY="1")
    assert done.returncode == 2 and "only a person may do it" in done.stderr
