"""The layers of `docs/architecture.md`, read from the imports of every module; each violation is planted once."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bub.hookspecs import HOOK_POINTS

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Row:
    """One layer: the files and folders (ending in `/`) that belong to it, and the packages at home there."""

    paths: frozenset[str]
    packages: frozenset[str]


def row(paths: str, packages: str = "") -> Row:
    return Row(frozenset(paths.split()), frozenset(packages.split()))


ROWS = {
    8: row("bub/__main__.py"),
    7: row("bub/cli/", "typer questionary prompt_toolkit"),
    6: row("bub/framework.py bub/generations.py bub/wizard.py bub/testing/ bub/doctor/ bub/gateway.py", "typer"),
    5: row(
        "bub/builtin/ bub/channels/ bub/monitor.py bub/metrics.py",
        "httpx httpx_sse prompt_toolkit rich markdown_it h11 prometheus_client",
    ),
    4: row("bub/onboarding.py bub/arrivals.py bub/bus.py bub/pipeline/compiler.py bub/pipeline/engine.py"),
    3: row(
        "bub/plugins.py bub/tape/ bub/tools.py bub/hook_runtime.py bub/hook_registry.py bub/masks.py bub/interview.py"
        " bub/binding.py bub/calling.py bub/pipeline/rules/ bub/pipeline/schema.py"
        " bub/pipeline/sections.py bub/pipeline/repair.py bub/pipeline/modeline.py"
        " bub/pipeline/own_file.py bub/pipeline/choices.py bub/pipeline/variables.py"
        " bub/pipeline/waits.py bub/pipeline/origins.py bub/pipeline/explain.py bub/pipeline/pages.py"
        " bub/pipeline/draw.py bub/pipeline/plan.py bub/pipeline/cases.py bub/pipeline/offers.py"
        " bub/pipeline/provided.py bub/pipeline/graph.py"
        " bub/pipeline/validate.py bub/pipeline/routes.py bub/pipeline/profiles.py bub/pipeline/starter.py"
        " bub/pipeline/compare.py bub/pipeline/differences/",
        "pluggy jsonschema",
    ),
    2: row(
        "bub/hookspecs.py bub/implementations.py bub/pipeline/document.py bub/pipeline/yaml_reader.py"
        " bub/pipeline/yaml_faults.py bub/pipeline/merge.py bub/pipeline/interpolate.py bub/pipeline/splice.py"
        " bub/pipeline/written.py bub/pipeline/amend.py bub/pipeline/dotenv.py"
        " bub/pipeline/sarif.py bub/pipeline/discovery.py bub/pipeline/revisions.py bub/pipeline/sides.py"
        " bub/settings.py bub/configure.py",
        "yaml pluggy",
    ),
    1: row(
        "bub/admission.py bub/asking.py bub/kinds.py bub/diagnostics.py bub/envelope.py bub/streaming.py"
        " bub/resources.py"
        " bub/locate.py bub/trust.py bub/lanes.py bub/scopes.py bub/sessions.py bub/waiting.py"
        " bub/database.py bub/duration.py bub/frozen.py bub/rewrite.py bub/secret_names.py"
        " bub/pipeline/handbook.py bub/pipeline/layout.py bub/pipeline/report.py bub/pipeline/annotations.py"
        " bub/pipeline/trace.py bub/pipeline/globs.py bub/plain.py bub/section.py bub/counts.py"
    ),
    0: row("bub/__init__.py bub/errors.py bub/log.py", "loguru"),
}

ANYWHERE = {"msgspec", "trio"}
"""Packages without a home: fast JSON, and the language of whatever waits."""

PACKAGES_ONLY = {"bub/pipeline/__init__.py"}
"""Packages whose parts lie in several rows: they hold a docstring and nothing else."""

LOADING_TABLES = {
    "bub/__init__.py",
    "bub/__main__.py",
    "bub/channels/__init__.py",
    "bub/channels/terminal/__init__.py",
    "bub/cli/table.py",
}
"""Who may import by a name in a table: the lazy public faces, the commands, and the program that loads itself late."""

PUBLIC = {
    "bub.asking": {"Asking", "Choice"},
    "bub": {"BubFramework", "Settings", "TurnResult", "hookimpl", "tool"},
    "bub.bus": {"MessageBus"},
    "bub.channels": {"Channel", "ChannelManager", "ChannelMessage", "TryLaterError", "UndeliverableError", "joined"},
    "bub.configure": {"merge"},
    "bub.envelope": {"content_of", "field_of", "normalize_envelope", "unpack_batch"},
    "bub.errors": {"BubError", "HookError", "ModelError", "UsageError"},
    "bub.hook_registry": {"HookRegistry"},
    "bub.hook_runtime": {"HookRuntime"},
    "bub.hookspecs": {"BUB_HOOK_NAMESPACE", "BubHookSpecs"},
    "bub.log": {"log_exception", "log_info", "log_warning"},
    "bub.streaming": {"AsyncStreamEvents", "StreamEvent", "StreamState"},
    "bub.tape": {"Tape", "TapeContext", "TapeEntry", "TapeQuery", "TapeStore"},
}
"""What shipped plugins may import of Bub, beside all of `bub.testing`."""


@dataclass(frozen=True)
class Import:
    """One import: the module it names, the name taken from it if any, and where it stands."""

    module: str
    name: str | None
    line: int
    in_function: bool
    for_types_only: bool

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]


# Reading


def modules_in(root: Path, package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path) -> list[Import]:
    return list(_imports(ast.parse(path.read_text(encoding="utf-8")), name, path.name == "__init__.py"))


def _imports(
    node: ast.AST, module: str, is_package: bool, in_function: bool = False, for_types: bool = False
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        types = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, None, child.lineno, inside, types)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parts = module.split(".")
                parts = parts[: len(parts) - child.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            for alias in child.names:
                yield Import(base, alias.name, child.lineno, inside, types)
        else:
            yield from _imports(child, module, is_package, inside, types)


def target_of(found: Import, modules: dict[str, Path]) -> str:
    """The module that an import really reaches: `from bub import trust` reaches `bub.trust`."""
    full = f"{found.module}.{found.name}"
    return full if full in modules else found.module


def row_of(relative: str) -> int | None:
    for number, layer in ROWS.items():
        if relative in layer.paths or any(path.endswith("/") and relative.startswith(path) for path in layer.paths):
            return number
    return None


# Judging


def problems_in(root: Path) -> list[str]:
    """Everything in `bub/` and `plugins/bub_plugins/` below `root` that breaks a rule, as `file:line: what`."""
    modules = modules_in(root, "bub")
    problems = []
    same_row: dict[str, set[str]] = {}
    for name, path in modules.items():
        relative = path.relative_to(root).as_posix()
        problems += _effects(relative, path)
        if relative in PACKAGES_ONLY:
            continue
        number = row_of(relative)
        if number is None:
            problems.append(f"{relative}:1: is in no row")
            continue
        for found in imports_of(name, path):
            where = f"{relative}:{found.line}:"
            if found.package == "bub_plugins":
                problems.append(f"{where} imports a shipped plugin")
            elif found.package == "bub":
                if found.in_function:
                    problems.append(f"{where} imports {found.module} inside a function")
                if found.for_types_only:
                    problems.append(f"{where} imports {found.module} for types only")
                target = target_of(found, modules)
                if target not in modules:
                    problems.append(f"{where} imports {target}, which does not exist")
                    continue
                other = row_of(modules[target].relative_to(root).as_posix())
                if other is not None and other > number:
                    problems.append(f"{where} imports upwards: {target} (row {other}) from row {number}")
                elif other == number and target != name:
                    same_row.setdefault(name, set()).add(target)
            elif found.package not in sys.stdlib_module_names | ANYWHERE | ROWS[number].packages:
                problems.append(f"{where} uses {found.package} outside its home")
    problems += [f"a circle of imports: {' -> '.join(circle)}" for circle in circles(same_row)]
    return problems + plugin_problems(root)


def plugin_problems(root: Path) -> list[str]:
    """Where a shipped plugin reaches for more of Bub than its public names."""
    problems = []
    for name, path in modules_in(root / "plugins", "bub_plugins").items():
        for found in imports_of(name, path):
            if found.package != "bub" or found.module.startswith("bub.testing"):
                continue
            if found.name is None or found.name not in PUBLIC.get(found.module, ()):
                relative = path.relative_to(root).as_posix()
                taken = f"{found.module}.{found.name}" if found.name else found.module
                problems.append(f"{relative}:{found.line}: uses {taken}, which is not public")
    return problems


def _effects(relative: str, path: Path) -> Iterator[str]:
    """What happens when a module is imported, beside definitions; and imports by a computed name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for statement in _top_level(tree.body):
        where = f"{relative}:{statement.lineno}:"
        match statement:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr() | ast.For() | ast.While() | ast.With() | ast.Delete() | ast.AugAssign():
                yield f"{where} does something when it is imported"
            case ast.Assign(value=value) | ast.AnnAssign(value=value) if _is_registry(value):
                yield f"{where} keeps a registry in the module"
    if relative in PACKAGES_ONLY and len(tree.body) > 1:
        yield f"{relative}:1: holds more than a docstring"
    if relative not in LOADING_TABLES:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "import_module",
                "__import__",
            ):
                yield f"{relative}:{node.lineno}: imports by name"


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):
            if "__main__" not in ast.dump(statement.test):
                yield from _top_level([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            handled = [inner for handler in statement.handlers for inner in handler.body]
            yield from _top_level([*statement.body, *handled, *statement.orelse, *statement.finalbody])
        else:
            yield statement


def _is_registry(value: ast.expr | None) -> bool:
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=ast.Name(id="dict" | "list" | "set" | "defaultdict"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Name(id="defaultdict")):
            return True
    return False


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The circles in a graph, each once."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
            return
        if name in done:
            return
        for other in sorted(edges.get(name, ())):
            visit(other, [*path, name])
        done.add(name)

    for start in sorted(edges):
        visit(start, [])
    return found


def documented_rows(text: str) -> dict[int, Row]:
    """The rows of the table in `docs/architecture.md`."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0].isdigit():
            paths, packages = (frozenset(re.findall(r"`([^`]+)`", cells[column])) for column in (1, 3))
            rows[int(cells[0])] = Row(paths, packages)
    return rows


# The code as it is


def test_every_import_of_bub_keeps_to_the_layers() -> None:
    assert problems_in(ROOT) == []


@pytest.mark.skipif(
    not (ROOT / "docs" / "architecture.md").is_file(),
    reason="the source archive carries no docs/ but one page",
)
def test_the_documentation_shows_the_layers_that_are_checked() -> None:
    assert documented_rows((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")) == ROWS


def test_every_path_of_the_layers_exists() -> None:
    paths = {path for layer in ROWS.values() for path in layer.paths}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "module", ["bub/pipeline/engine.py", "bub/pipeline/graph.py", "bub/calling.py", "bub/binding.py"]
)
def test_the_engine_names_no_hook(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    assert [name for name in HOOK_POINTS if re.search(rf"\b{name}\b", text)] == []


HEAVY = ("httpx", "jsonschema", "loguru", "prompt_toolkit", "questionary", "rich", "trio", "bub_plugins", "house_rules")
"""What a command that waits for nothing and calls no plugin leaves alone; `bub validate` needs jsonschema, though."""


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The packages that are loaded when `bub` with these arguments has ended."""
    program = (
        "import json, runpy, sys\n"
        "sys.argv = ['bub', *json.loads(sys.argv[1])]\n"
        "try:\n"
        "    runpy.run_module('bub', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    print(json.dumps([end.code, sorted({name.partition('.')[0] for name in sys.modules})]), file=sys.stderr)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    code, names = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done
    return set(names)


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded_by(tmp_path, "--help") & {*HEAVY, "yaml"} == set()


@pytest.mark.parametrize("arguments", [["hooks"], ["--config", "bub:classic", "run", "hello"]])
def test_without_a_file_of_the_user_and_a_model_on_http_nothing_is_loaded_for_them(
    tmp_path: Path, arguments: list[str]
) -> None:
    loaded = loaded_by(tmp_path, *arguments)
    assert "trio" in loaded
    assert loaded & {"httpx", "jsonschema", "loguru"} == set()


def test_validate_loads_no_plugin_and_nothing_that_waits(write: Callable[[str, str], Path]) -> None:
    write("house_rules.py", "raise SystemExit('a plugin was imported')\n")
    file = write(
        "pipelines.yaml",
        """
        version: 1
        extends: bub:default
        plugins: {house_rules: {path: house_rules.py}}
        profiles: {default: {plugins: [local_model, house_rules]}}
        """,
    )
    loaded = loaded_by(file.parent, "validate", str(file))
    assert loaded & set(HEAVY) == {"jsonschema"}


# Planted violations: the checker can fail


def planted(root: Path, file: str, text: str) -> list[str]:
    """The problems in a small tree that keeps to the rules but for one file."""
    tree = {
        "bub/__init__.py": "",
        "bub/errors.py": '"""Errors."""\n',
        "bub/kinds.py": "from bub.errors import __doc__\n",
        "bub/framework.py": "import typer\nfrom bub.kinds import __name__\n",
        "bub/pipeline/__init__.py": '"""Pipelines."""\n',
        "bub/pipeline/engine.py": "import trio\nimport bub.kinds\n",
        "bub/pipeline/graph.py": "",
        "bub/pipeline/plan.py": "from bub.pipeline import graph\n",
        "plugins/bub_plugins/__init__.py": "",
        "plugins/bub_plugins/model.py": "import anything\nfrom bub import hookimpl\n",
        file: text,
    }
    for name, content in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    return problems_in(root)


def test_a_tree_that_keeps_to_the_rules_has_no_problems(tmp_path: Path) -> None:
    assert planted(tmp_path, "bub/log.py", "import loguru\n") == []


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("bub/kinds.py", "import bub.framework\n", "imports upwards: bub.framework (row 6) from row 1"),
        ("bub/kinds.py", "from bub import framework\n", "imports upwards: bub.framework (row 6) from row 1"),
        (
            "bub/pipeline/graph.py",
            "from .engine import run\n",
            "imports upwards: bub.pipeline.engine (row 4) from row 3",
        ),
        ("bub/pipeline/graph.py", "from ..framework import x\n", "imports upwards: bub.framework (row 6) from row 3"),
        ("bub/framework.py", "def go():\n    import bub.kinds\n", "imports bub.kinds inside a function"),
        ("bub/framework.py", "class A:\n    async def go(self):\n        from bub import kinds\n", "inside a function"),
        (
            "bub/framework.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bub.kinds import Kind\n",
            "imports bub.kinds for types only",
        ),
        ("bub/kinds.py", "import httpx\n", "uses httpx outside its home"),
        ("bub/kinds.py", "def f():\n    import httpx.client\n", "uses httpx outside its home"),
        ("bub/errors.py", "from loguru import logger\nimport pluggy\n", "uses pluggy outside its home"),
        ("bub/helpers.py", "", "is in no row"),
        ("bub/kinds.py", "import bub.gone\n", "imports bub.gone, which does not exist"),
        ("bub/framework.py", "import bub_plugins.model\n", "imports a shipped plugin"),
        ("bub/kinds.py", "print('hello')\n", "does something when it is imported"),
        ("bub/kinds.py", "if True:\n    for x in ():\n        pass\n", "does something when it is imported"),
        ("bub/kinds.py", "_SEEN: dict[str, int] = {}\n", "keeps a registry in the module"),
        ("bub/kinds.py", "_SEEN = list()\n", "keeps a registry in the module"),
        (
            "bub/kinds.py",
            "import importlib\ndef f():\n    importlib.import_module('bub.framework')\n",
            "imports by name",
        ),
        ("bub/pipeline/__init__.py", '"""Doc."""\nfrom bub.errors import BubError\n', "holds more than a docstring"),
        (
            "plugins/bub_plugins/model.py",
            "from bub.pipeline.engine import run\n",
            "bub.pipeline.engine.run, which is not",
        ),
        ("plugins/bub_plugins/model.py", "import bub.framework\n", "uses bub.framework, which is not public"),
        ("plugins/bub_plugins/model.py", "def f():\n    from bub.envelope import _slots_of\n", "which is not public"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, text: str, problem: str) -> None:
    found = planted(tmp_path, file, text)
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}:")
    assert problem in found[0]


def test_a_circle_within_a_row_is_found(tmp_path: Path) -> None:
    assert planted(tmp_path, "bub/pipeline/graph.py", "import bub.pipeline.plan\n") == [
        "a circle of imports: bub.pipeline.graph -> bub.pipeline.plan -> bub.pipeline.graph"
    ]


def test_a_row_that_is_documented_otherwise_is_noticed() -> None:
    text = "| row | files | what | packages |\n|---|---|---|---|\n| 3 | `bub/plugins.py`, `bub/rules/` | x | `pluggy` |"
    assert documented_rows(text) == {3: row("bub/plugins.py bub/rules/", "pluggy")}
