"""`bub plugins add`: a package is looked at, agreed to, tried, and then installed whole or not at all."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import ROOT, bub
from fakes.wheels import write_wheel

from bub.errors import BubError
from bub.setup.packages.adding import Request, add
from bub.setup.packages.environment import Environment
from bub.setup.packages.record import Added, read_added, update_added

POINTS = "[bub]\ncalm = bub_calm\n"
HOOK = "from bub import hookimpl\n\n@hookimpl\ndef system_prompt(prompt):\n    return 'calm'\n"

ALL = os.environ.get("PACKAGES") == "all"
needs_time = pytest.mark.skipif(not ALL, reason="installs for seconds: `make packages` runs it")


class Person:
    """Answers questions in turn, and remembers what was asked and said."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.heard: list[str] = []

    def confirm(self, name: str, title: str) -> bool:
        self.asked.append(title)
        return self.answers.pop(0)

    def say(self, text: str) -> None:
        self.heard += text.splitlines()

    @contextmanager
    def progress(self, text: str) -> Iterator[object]:
        yield lambda shown: None


@pytest.fixture
def request_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """An environment of its own, in which Bub and what it needs can be imported, and no network."""
    prefix = tmp_path / "environment"
    venv.create(prefix, with_pip=False, symlinks=True)
    site = next(prefix.glob("lib/python*/site-packages"))
    places = [str(ROOT), str(ROOT / "plugins"), *(place for place in sys.path if place.endswith("site-packages"))]
    (site / "around.pth").write_text("\n".join(places))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return Request(tmp_path / "home", Environment(str(prefix / "bin" / "python"), prefix, site), "run it again")


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


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
    assert "Once loaded, it brings more than its code tells: the hook point load_state" in person.heard
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
    with pytest.raises(BubError, match=f"bub-calm was not installed, since it does not load: .*{said}"):
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
    one = Added("calm", "1", "calm", "/nowhere", ("calm",), ())
    update_added(tmp_path, lambda before: [*before, one])
    assert read_added(tmp_path) == (one,)
    (tmp_path / "plugins" / "added.json").write_text("{}")
    with pytest.raises(BubError, match="is damaged"):
        read_added(tmp_path)


# The command


def test_nobody_is_asked_where_nobody_can_answer(write: Write, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "bub-calm", points=POINTS)
    done = bub(tmp_path, "plugins", "add", str(wheel))
    assert done.returncode == 2 and "look with --dry-run first, then say --yes" in done.stderr
    done = bub(tmp_path, "plugins", "add", "bub")
    assert done.returncode == 2 and "no terminal" in done.stderr
    done = bub(tmp_path, "plugins", "add", "bub", "--yes")
    assert done.returncode == 2 and "another program" in done.stderr


def test_an_agent_cannot_say_yes(tmp_path: Path) -> None:
    done = bub(tmp_path, "plugins", "add", "bub-calm", "--yes", BUB_STARTED_BY="1")
    assert done.returncode == 2 and "only a person may do it" in done.stderr
