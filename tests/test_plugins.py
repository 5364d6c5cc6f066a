"""Only listed plugins are imported; what does not load is a finding, and the others go on."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import SOURCES

from bub.base.diagnostics import Place, Position, Range
from bub.hooks.facts import BUILTIN
from bub.hookspecs import hookimpl
from bub.plugins.finding import Declared, installed_plugins, survey
from bub.plugins.loading import load_plugins
from bub.plugins.plugin_set import PluginSet

Install = Callable[..., Path]


class Builtin:
    @hookimpl
    def build_prompt(self) -> str:
        return "builtin"


FRAMEWORK = object()


def place(line: int) -> Place:
    return Place("pipelines.yaml", Range(Position(line, 7), Position(line, 12)), "pipelines.yaml")


def load(
    *names: str, declared: Mapping[str, Declared] | None = None, base: Path | None = None, framework: Any = FRAMEWORK
) -> PluginSet:
    """Load a profile's list whose items stand on the lines 1, 2, … of a file."""
    listed = [(name, place(line)) for line, name in enumerate(names, start=1)]
    return load_plugins(listed, builtin=Builtin(), declared=declared or {}, framework=framework, base=base)


def by_path(base: Path, name: str, source: str, *, optional: bool = False) -> dict[str, Declared]:
    """Write a plugin's file below `base` and declare it as the `plugins:` section would."""
    file = base / "plugins" / f"{name}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(textwrap.dedent(source), encoding="utf-8")
    return {name: Declared(name, Path("plugins") / file.name, optional, place(50))}


def states(plugin_set: PluginSet) -> dict[str, str]:
    return {status.name: status.state for status in plugin_set.statuses}


def only_finding(plugin_set: PluginSet) -> Any:
    assert len(plugin_set.findings) == 1, plugin_set.findings
    return plugin_set.findings[0]


def prompt_of(plugin_set: PluginSet, name: str) -> object:
    """What the named plugin's own `build_prompt` returns."""
    (plugin,) = (loaded.plugin for loaded in plugin_set.plugins if loaded.name == name)
    return plugin.build_prompt()  # type: ignore[attr-defined]


def write_package(site: Path, package: str, source: str, entries: Mapping[str, str], version: str = "1.2") -> Path:
    """A package as an installer leaves it: a module and a dist-info folder with its entry points."""
    site.mkdir(exist_ok=True)
    (site / f"{package}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    info = site / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[bub]\n{lines}", encoding="utf-8")
    return site


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs packages for one test; their modules are forgotten after it."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def write(package: str, source: str, entries: Mapping[str, str], version: str = "1.2") -> Path:
        return write_package(site, package, source, entries, version)

    yield write
    for name in set(sys.modules) - before:
        if str(site) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


HOOKS = "from bub.hookspecs import hookimpl\n"

MADE = "class Made:\n    @hookimpl\n    def build_prompt(self): return 'made'\n"

CLASS_PLUGIN = HOOKS + textwrap.dedent(
    """
    class Plugin:
        def __init__(self, framework):
            self.framework = framework

        @hookimpl
        def build_prompt(self):
            return "from a class"
    """
)


class TestWhatIsImported:
    def test_an_installed_plugin_that_is_not_listed_stays_out_of_the_process(self, tmp_path: Path) -> None:
        side_effect = tmp_path / "imported"
        site = write_package(
            tmp_path / "site",
            "stranger_plugin",
            f"from pathlib import Path\nPath({str(side_effect)!r}).touch()\nplugin = object()\n",
            {"stranger": "stranger_plugin:plugin"},
        )
        program = textwrap.dedent(
            """
            import sys
            from bub.base.diagnostics import Place
            from bub.plugins.finding import installed_plugins, survey
            from bub.plugins.loading import load_plugins
            names = [(name, Place("p.yaml")) for name in sys.argv[1:]]
            found = load_plugins(names, builtin=object(), declared={}, framework=None, base=None)
            print([(s.name, s.state) for s in survey(found, installed_plugins()) if s.name == "stranger"])
            print("stranger_plugin" in sys.modules)
            """
        )

        def run(*names: str) -> list[str]:
            done = subprocess.run(
                [sys.executable, "-c", program, *names],
                env={"PYTHONPATH": f"{SOURCES}{os.pathsep}{site}", "PATH": ""},
                capture_output=True,
                text=True,
                check=True,
            )
            return done.stdout.splitlines()

        assert run() == ["[('stranger', 'not listed')]", "False"]
        assert not side_effect.exists()
        assert run("stranger") == ["[('stranger', 'loaded')]", "True"]
        assert side_effect.exists()

    def test_entry_points_are_not_read_when_no_name_asks_for_one(self, tmp_path: Path) -> None:
        program = (
            "import sys\nfrom bub.plugins.loading import load_plugins\n"
            "load_plugins([], builtin=object(), declared={}, framework=None, base=None)\n"
            "print('importlib.metadata' in sys.modules, 'trio' in sys.modules, 'httpx' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["False", "False", "False"]

    def test_installed_plugins_lists_entry_points_without_importing_them(self, install: Install) -> None:
        install("listed_only", "raise RuntimeError", {"lazy": "listed_only:plugin"})
        assert installed_plugins()["lazy"].value == "listed_only:plugin"
        assert "listed_only" not in sys.modules

    def test_the_survey_tells_what_is_installed_but_not_listed(self, install: Install) -> None:
        install("idle_package", "", {"idle": "idle_package"}, version="3.1")
        (status,) = (status for status in survey(load(), installed_plugins()) if status.name == "idle")
        assert status.state == "not listed"
        assert status.source == "entry point idle_package (idle_package 3.1)"


class TestOrder:
    def test_builtin_comes_first_and_the_others_as_they_are_listed(self, tmp_path: Path) -> None:
        source = HOOKS + "@hookimpl\ndef build_prompt():\n    return __name__\n"
        declared = {**by_path(tmp_path, "alpha", source), **by_path(tmp_path, "beta", source)}
        found = load("beta", "alpha", declared=declared, base=tmp_path)
        assert [loaded.name for loaded in found.plugins] == [BUILTIN, "beta", "alpha"]
        assert [name for name, _ in found.manager.list_name_plugin()] == [BUILTIN, "beta", "alpha"]
        # pluggy keeps implementations in the order of registration: the last is asked first.
        calls = [impl.plugin_name for impl in reversed(found.manager.hook.build_prompt.get_hookimpls())]
        assert calls == ["alpha", "beta", BUILTIN]

    def test_every_listed_plugin_is_imported_before_the_first_is_made(self, install: Install) -> None:
        install(
            "first_package",
            """
            import sys
            class First:
                def __init__(self):
                    self.saw_the_second = "second_package" in sys.modules
            """,
            {"first": "first_package:First"},
        )
        install("second_package", "plugin = object()", {"second": "second_package:plugin"})
        found = load("first", "second")
        assert found.plugins[1].plugin.saw_the_second is True  # type: ignore[attr-defined]


class TestWhatAPluginMayBe:
    def test_a_class_is_called_with_the_framework(self, install: Install) -> None:
        install("class_package", CLASS_PLUGIN, {"classy": "class_package:Plugin"})
        found = load("classy")
        assert found.plugins[1].plugin.framework is FRAMEWORK  # type: ignore[attr-defined]
        assert found.plugins[1].source == "entry point class_package:Plugin (class_package 1.2)"
        assert found.findings == ()

    def test_a_framework_that_is_only_optional_is_passed_too(self, tmp_path: Path) -> None:
        source = "class plugin:\n    def __init__(self, framework=None): self.framework = framework"
        found = load("easy", declared=by_path(tmp_path, "easy", source), base=tmp_path)
        assert found.plugins[1].plugin.framework is FRAMEWORK  # type: ignore[attr-defined]

    def test_each_set_gets_its_own_instance_of_a_class(self, install: Install) -> None:
        install("twice_made", CLASS_PLUGIN, {"classy": "twice_made:Plugin"})
        assert load("classy").plugins[1].plugin is not load("classy").plugins[1].plugin

    @pytest.mark.parametrize(
        "source",
        [
            MADE + "plugin = Made",
            MADE + "plugin = Made()",
            MADE + "def plugin(): return Made()",
            MADE + "def plugin(framework): return Made()",
            "class Made:\n    def __call__(self): raise ValueError\n"
            "    @hookimpl\n    def build_prompt(self): return 'made'\nplugin = Made()",
            "@hookimpl\ndef build_prompt(): return 'made'",
        ],
        ids=["class", "object", "factory", "factory taking the framework", "object that can be called", "module"],
    )
    def test_a_file_is_a_plugin_in_any_of_these_forms(self, tmp_path: Path, source: str) -> None:
        found = load("rules", declared=by_path(tmp_path, "rules", HOOKS + source), base=tmp_path)
        assert found.findings == ()
        assert prompt_of(found, "rules") == "made"
        assert found.plugins[1].source == "path plugins/rules.py"

    @pytest.mark.parametrize(
        ("source", "complaint"),
        [
            ("class plugin:\n    def __init__(self, a, b): pass", "it wants (a, b)"),
            ("async def plugin(framework): return object()", "cannot be async"),
            ("def plugin(): pass", "returned None"),
            ("plugin = object()\n@hookimpl\ndef build_prompt(): pass", "Bub would never call them"),
        ],
    )
    def test_what_cannot_be_a_plugin_is_said_plainly(self, tmp_path: Path, source: str, complaint: str) -> None:
        found = load("odd", declared=by_path(tmp_path, "odd", HOOKS + source), base=tmp_path)
        assert complaint in only_finding(found).message
        assert states(found) == {BUILTIN: "loaded", "odd": "failed"}

    def test_properties_are_not_run_while_hooks_are_looked_for(self, tmp_path: Path) -> None:
        source = HOOKS + textwrap.dedent(
            """
            from functools import cached_property
            class plugin:
                @property
                def early(self): raise RuntimeError
                @cached_property
                def lazy(self): raise RuntimeError
                @hookimpl
                def build_prompt(self): return "fine"
            """
        )
        found = load("shy", declared=by_path(tmp_path, "shy", source), base=tmp_path)
        assert found.findings == ()
        assert prompt_of(found, "shy") == "fine"


class TestFailures:
    def test_one_that_raises_on_import_is_named_and_the_others_load(self, tmp_path: Path, install: Install) -> None:
        install("broken_package", 'raise ValueError("two\\nlines")', {"broken": "broken_package:plugin"})
        install("sound_package", CLASS_PLUGIN, {"sound": "sound_package:Plugin"})
        found = load("broken", "sound")
        finding = only_finding(found)
        assert (finding.code, finding.severity) == ("B200", "error")
        assert finding.message == "plugin `broken` does not load: ValueError: two lines"
        assert (finding.file, finding.range) == ("pipelines.yaml", place(1).range)
        assert states(found) == {BUILTIN: "loaded", "broken": "failed", "sound": "loaded"}

    def test_the_traceback_is_kept_for_the_log(self, install: Install) -> None:
        install("lost_package", "1 / 0", {"lost": "lost_package"})
        ((name, error),) = load("lost").failures
        assert (name, type(error)) == ("lost", ZeroDivisionError)
        assert error.__traceback__ is not None

    def test_an_optional_plugin_that_fails_is_a_warning(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "extra", "import a_library_nobody_has", optional=True)
        finding = only_finding(load("extra", declared=declared, base=tmp_path))
        assert (finding.code, finding.severity) == ("B200", "warning")

    def test_a_missing_library_is_named_in_the_help(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "needy", "import a_library_nobody_has")
        finding = only_finding(load("needy", declared=declared, base=tmp_path))
        assert finding.help == "install the package that brings `a_library_nobody_has`, or take `needy` off the list"

    def test_an_error_in_a_file_shows_the_line_it_came_through(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "late", "x = 1\n\nint('no number')\n")
        finding = only_finding(load("late", declared=declared, base=tmp_path))
        (related,) = finding.related
        assert related.file == str(tmp_path / "plugins/late.py")
        assert related.range.start.line == 3

    def test_a_constructor_that_raises_fails_that_plugin_only(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "moody", "class plugin:\n    def __init__(self): raise OSError('no disk')")
        found = load("moody", declared=declared, base=tmp_path)
        assert "OSError: no disk" in only_finding(found).message
        assert [loaded.name for loaded in found.plugins] == [BUILTIN]

    def test_sys_exit_on_import_fails_the_plugin_and_not_the_program(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "quitter", "import sys\nsys.exit(3)")
        assert "SystemExit: 3" in only_finding(load("quitter", declared=declared, base=tmp_path)).message

    def test_an_interrupt_on_import_passes(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "slow", "raise KeyboardInterrupt")
        before = set(sys.modules)
        with pytest.raises(KeyboardInterrupt):
            load("slow", declared=declared, base=tmp_path)
        assert not [name for name in set(sys.modules) - before if "slow" in name]

    def test_an_exception_that_cannot_be_printed_is_still_a_finding(self, tmp_path: Path) -> None:
        source = "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute"
        finding = only_finding(load("mute", declared=by_path(tmp_path, "mute", source), base=tmp_path))
        assert finding.message == "plugin `mute` does not load: Mute"

    def test_a_plugin_that_cannot_be_registered_leaves_nothing_behind(self, tmp_path: Path) -> None:
        source = HOOKS + textwrap.dedent(
            """
            class plugin:
                @hookimpl
                def build_prompt(self): return "half"
                def __dir__(self): return ["build_prompt", 7]
            """
        )
        found = load("half", declared=by_path(tmp_path, "half", source), base=tmp_path)
        assert only_finding(found).code == "B200"
        assert not found.manager.has_plugin("half")
        assert [impl.plugin_name for impl in found.manager.hook.build_prompt.get_hookimpls()] == [BUILTIN]

    def test_an_entry_point_that_names_nothing_is_a_failure(self, install: Install) -> None:
        install("hollow_package", "plugin = None", {"hollow": "hollow_package:plugin", "gone": "hollow_package:other"})
        found = load("hollow", "gone")
        assert [finding.code for finding in found.findings] == ["B200", "B200"]
        assert "is None" in found.findings[0].message
        assert "has no attribute 'other'" in found.findings[1].message


class TestSyntaxErrors:
    def test_the_finding_stands_at_the_line_of_the_file(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "typo", "x = 1\ndef f(:\n    pass\n")
        finding = only_finding(load("typo", declared=declared, base=tmp_path))
        assert finding.code == "B200"
        assert finding.file == str(tmp_path / "plugins/typo.py")
        assert (finding.range.start.line, finding.range.start.column) == (2, 7)
        (related,) = finding.related
        assert (related.file, related.range) == ("pipelines.yaml", place(1).range)

    def test_bytes_that_are_not_utf8_are_a_finding_too(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "latin", "")
        (tmp_path / "plugins/latin.py").write_bytes(b"x = '\xe9'\n")
        assert "SyntaxError" in only_finding(load("latin", declared=declared, base=tmp_path)).message

    def test_an_error_in_another_file_points_at_the_list(self, tmp_path: Path, install: Install) -> None:
        install("crooked_library", "def f(:", {})
        declared = by_path(tmp_path, "user", "import crooked_library")
        finding = only_finding(load("user", declared=declared, base=tmp_path))
        assert finding.file == "pipelines.yaml"
        assert "crooked_library.py, line 1" in finding.message


class TestNames:
    def test_an_unknown_name_is_an_error_with_what_was_probably_meant(self, install: Install) -> None:
        install("postal_package", "", {"postcard": "postal_package"})
        finding = only_finding(load("postcrad"))
        assert (finding.code, finding.severity, finding.help) == ("B160", "error", "did you mean `postcard`?")

    def test_a_declared_file_is_suggested_too(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "house_rules", "")
        assert only_finding(load("houserules", declared=declared)).help == "did you mean `house_rules`?"

    def test_a_name_with_nothing_like_it_is_told_what_to_do(self) -> None:
        help_text = only_finding(load("zzzzzzzz", declared={"zzzzzzzz": Declared("zzzzzzzz")})).help
        assert help_text.startswith("install the package that brings it")

    def test_an_optional_plugin_that_is_not_installed_is_missing_without_a_finding(self) -> None:
        found = load("zzzzzzzz", declared={"zzzzzzzz": Declared("zzzzzzzz", optional=True)})
        assert found.findings == ()
        assert states(found) == {BUILTIN: "loaded", "zzzzzzzz": "missing"}

    def test_a_file_that_is_not_there_is_reported_where_it_is_declared(self, tmp_path: Path) -> None:
        declared = {"gone": Declared("gone", Path("plugins/gone.py"), place=place(50))}
        finding = only_finding(load("gone", declared=declared, base=tmp_path))
        assert finding.code == "B160"
        assert finding.range == place(50).range
        assert str(tmp_path / "plugins/gone.py") in finding.message

    def test_a_folder_is_no_plugin_even_where_it_is_optional(self, tmp_path: Path) -> None:
        declared = {"folder": Declared("folder", Path(), optional=True)}
        assert "is a folder" in only_finding(load("folder", declared=declared, base=tmp_path)).message

    def test_an_optional_file_may_be_missing(self, tmp_path: Path) -> None:
        declared = {"gone": Declared("gone", Path("gone.py"), optional=True)}
        found = load("gone", declared=declared, base=tmp_path)
        assert (found.findings, states(found)["gone"]) == ((), "missing")

    def test_a_relative_file_is_never_taken_from_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declared = by_path(tmp_path, "near", "raise AssertionError('it was run')")
        monkeypatch.chdir(tmp_path)
        assert only_finding(load("near", declared=declared, base=None)).code == "B160"

    def test_a_declared_file_goes_before_an_installed_package(self, tmp_path: Path, install: Install) -> None:
        install("far_package", "raise AssertionError('it was run')", {"rules": "far_package"})
        found = load("rules", declared=by_path(tmp_path, "rules", ""), base=tmp_path)
        assert found.plugins[1].source == "path plugins/rules.py"

    def test_a_name_listed_twice_is_an_error_at_the_second_place(self, tmp_path: Path) -> None:
        declared = by_path(tmp_path, "echo", "")
        found = load("echo", "echo", declared=declared, base=tmp_path)
        finding = only_finding(found)
        assert (finding.code, finding.range) == ("B161", place(2).range)
        assert finding.related[0].range == place(1).range
        assert len(found.plugins) == 2

    def test_one_object_under_two_names_is_an_error(self, install: Install) -> None:
        install("shared_object", "plugin = object()", {"one": "shared_object:plugin", "two": "shared_object"})
        found = load("one", "two")
        finding = only_finding(found)
        assert finding.code == "B161"
        assert "`one` and `two`" in finding.message
        assert states(found) == {BUILTIN: "loaded", "one": "loaded", "two": "failed"}

    def test_equal_objects_are_an_error_that_prints_neither(self, tmp_path: Path, install: Install) -> None:
        source = """
            from dataclasses import dataclass
            @dataclass
            class Keyed:
                key: str = "a secret"
            def make(): return Keyed()
            """
        install("equal_objects", source, {"one": "equal_objects:make", "two": "equal_objects:make"})
        finding = only_finding(load("one", "two"))
        assert (finding.code, finding.message) == ("B161", "plugins `one` and `two` are equal")

    def test_builtin_cannot_be_listed(self) -> None:
        found = load(BUILTIN)
        assert only_finding(found).code == "B161"
        assert states(found) == {BUILTIN: "loaded"}

    def test_two_packages_with_one_plugin_name_are_an_error_and_neither_is_imported(self, install: Install) -> None:
        install("real_thing", "raise AssertionError", {"thing": "real_thing"})
        install("fake_thing", "raise AssertionError", {"thing": "fake_thing"})
        finding = only_finding(load("thing"))
        assert finding.code == "B161"
        assert "real_thing 1.2" in finding.message
        assert "fake_thing 1.2" in finding.message


class TestFilesAsModules:
    def test_a_reloaded_file_is_fresh_even_within_the_same_second(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        source = HOOKS + "@hookimpl\ndef build_prompt(): return 'aaa'"
        declared = by_path(tmp_path, "quick", source)
        old = load("quick", declared=declared, base=tmp_path)
        by_path(tmp_path, "quick", source.replace("aaa", "bbb"))
        new = load("quick", declared=declared, base=tmp_path)
        assert (prompt_of(old, "quick"), prompt_of(new, "quick")) == ("aaa", "bbb")
        assert not (tmp_path / "plugins/__pycache__").exists()

    def test_its_folder_does_not_become_importable(self, tmp_path: Path) -> None:
        before = list(sys.path)
        declared = {**by_path(tmp_path, "one_file", "import other_file_beside"), **by_path(tmp_path, "other", "")}
        (tmp_path / "plugins/other_file_beside.py").touch()
        found = load("one_file", declared=declared, base=tmp_path)
        assert "No module named 'other_file_beside'" in only_finding(found).message
        assert sys.path == before

    def test_dataclasses_and_pickle_find_their_module(self, tmp_path: Path) -> None:
        source = """
            from __future__ import annotations
            from dataclasses import dataclass, KW_ONLY
            @dataclass
            class Note:
                text: str
                _: KW_ONLY
                loud: bool = False
            note = Note("hello")
            """
        found = load("notes", declared=by_path(tmp_path, "notes", source), base=tmp_path)
        assert found.findings == ()
        note = found.plugins[1].plugin.note  # type: ignore[attr-defined]
        assert pickle.loads(pickle.dumps(note)) == note

    def test_forgetting_a_set_takes_its_modules_out_of_the_process(self, tmp_path: Path) -> None:
        before = set(sys.modules)
        found = load("a.b", declared=by_path(tmp_path, "a.b", ""), base=tmp_path)
        (name,) = found.modules
        assert name in sys.modules
        assert "." not in name
        found.let_go()
        assert set(sys.modules) == before

    def test_a_file_that_fails_leaves_no_module_behind(self, tmp_path: Path) -> None:
        before = set(sys.modules)
        load("sad", declared=by_path(tmp_path, "sad", "1 / 0"), base=tmp_path)
        assert not [name for name in set(sys.modules) - before if "sad" in name]
