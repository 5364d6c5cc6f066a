"""The layers of `docs/architecture.md`, read from the imports of every module; each violation is planted once."""

from __future__ import annotations

import ast
import itertools
import os
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from fakes.command_line import SOURCES
from fakes.vocabulary import as_text, vocabulary

from bub.cli.completion.answer import VOCABULARY
from bub.hookspecs import HOOK_POINTS

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Row:
    """One layer: its folders below `bub/`, its doors (modules at the root of `bub/`), the packages at home there."""

    folders: tuple[str, ...]
    doors: frozenset[str]
    packages: frozenset[str]


def row(folders: str, doors: str = "", packages: str = "") -> Row:
    return Row(tuple(folders.split()), frozenset(doors.split()), frozenset(packages.split()))


ROWS = (
    row("cli/", packages="typer questionary prompt_toolkit"),
    row("doctor/ testing/ setup/ gateway/ lsp/ mcp_server/", packages="prometheus_client mcp"),
    row("studio/", packages="starlette"),
    row("runtime/", "framework bus", "typer"),
    row("telemetry/", packages="opentelemetry"),
    row("agent/", packages="httpx pypdf mcp mcp_types anyio httpx2"),
    row("inbox/"),
    row("channels/", packages="h11 hypercorn prompt_toolkit rich markdown_it"),
    row("pipeline/show/ pipeline/edit/"),
    row("pipeline/run/"),
    row("pipeline/check/", packages="jsonschema"),
    row("pipeline/report/"),
    row("pipeline/plan/", packages="cronsim"),
    row("pipeline/source/", packages="yaml"),
    row("plugins/", "tools", "pluggy jsonschema"),
    row("tape/"),
    row("secrets/"),
    row("hooks/", "hookspecs hook_runtime hook_registry", "pluggy"),
    row("island/"),
    row("base/", packages="referencing coredis yaml"),
    row("", "errors log envelope streaming asking approval labels configure", "loguru"),
)
"""From the top: a module imports from its own folder and from rows below its own."""

ANYWHERE = {"msgspec", "trio"}
"""Packages without a home: fast JSON, and the language of whatever waits."""

LISTS_OF_NAMES = {
    "bub/__init__.py",
    "bub/__main__.py",
    "bub/agent/late.py",
    "bub/channels/__init__.py",
    "bub/channels/terminal/__init__.py",
    "bub/cli/table.py",
    "bub/gateway/late.py",
    "bub/inbox/shared/late.py",
    "bub/pipeline/check/late.py",
    "bub/pipeline/source/late.py",
    "bub/plugins/late.py",
    "bub/runtime/hosts/late.py",
    "bub/tape/shared/late.py",
    "bub/telemetry/late.py",
}
"""Who may import by a name in a table: the lazy public faces, the commands, what few need, and the program itself."""

FACES = {
    "bub/doctor/__init__.py",
    "bub/pipeline/check/rules/__init__.py",
    "bub/tape/__init__.py",
    "bub/testing/__init__.py",
}
"""Folders whose public names are imported from the folder itself."""

IN_NO_ROW = {"bub/__init__.py", "bub/__main__.py", "bub/pipeline/__init__.py"}
"""Lists of names at the root, and the folder of folders, which holds a docstring only."""


PUBLIC = {
    "bub.base.duration": {"parse_duration"},
    "bub.asking": {"Asking", "Choice"},
    "bub.agent.local.parts": {"ENGINE", "find_weights", "has_engine", "see_engine"},
    "bub": {"BubFramework", "Settings", "TurnResult", "hookimpl", "tool"},
    "bub.bus": {"MessageBus"},
    "bub.channels": {
        *(
            "CannotAskError",
            "Channel",
            "ChannelManager",
            "ChannelMessage",
            "ClientRequest",
            "ClientResult",
            "ClientTool",
            "RefusedError",
            "ShownQuestion",
            "Surface",
            "TakenAnswer",
            "TryLaterError",
            "UndeliverableError",
            "joined",
            "text_of_results",
        ),
    },
    "bub.channels.plan": {"LivePlan"},
    "bub.channels.http": {"HttpChannel", "HttpError", "Request", "Response", "check_signature"},
    "bub.channels.packages": {"lack_packages"},
    "bub.channels.web": {"Certificate", "ListenAddress", "WebLimits", "WebServer", "address_for"},
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

BEHIND_THE_REFERENCE = {
    "bub": {"__version__"},
    "bub.cli.table": {"COMMANDS"},
    "bub.envelope": {"Envelope"},
    "bub.errors": {"TapeError"},
    "bub.hookspecs": {"hookimpl", "hookspec"},
    "bub.plugins.shipped": {"SHIPPED_TOOLS"},
    "bub.tape": {"LAST_ANCHOR"},
    "bub.tape.context": {"messages_of"},
    "bub.tools": {"Tool", "ToolContext", "ToolError"},
}
"""What the names of the reference stand on beside that."""


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


def names_of_modules_in(path: Path, modules: dict[str, Path]) -> list[Import]:
    """What a list of names imports once it is asked: the modules that its texts name, alone or as `module:name`."""
    texts = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)]
    named = [(str(text.value).partition(":")[0], text.lineno) for text in texts]
    return [Import(module, None, line, False, False) for module, line in named if module in modules]


def target_of(found: Import, modules: dict[str, Path]) -> str:
    """The module that an import really reaches: `from bub import trust` reaches `bub.runtime.trust`."""
    full = f"{found.module}.{found.name}"
    return full if full in modules else found.module


@dataclass(frozen=True)
class Place:
    """Where a module is at home: the number of its row, from the top, and its folder there."""

    row: int
    folder: str


def place_of(relative: str) -> Place | None:
    """The place of a file such as `bub/hooks/facts.py`; None if no row has it."""
    inside = relative.removeprefix("bub/")
    for number, layer in enumerate(ROWS):
        for folder in layer.folders:
            if inside.startswith(folder):
                return Place(number, folder)
        if inside.removesuffix(".py") in layer.doors:
            return Place(number, layer.folders[0] if layer.folders else "")
    return None


# Judging


def problems_in(root: Path) -> list[str]:
    """Everything in `bub/` and `plugins/bub_plugins/` below `root` that breaks a rule, as `file:line: what`."""
    modules = modules_in(root, "bub")
    problems = []
    beside: dict[str, set[str]] = {}
    for name, path in modules.items():
        relative = path.relative_to(root).as_posix()
        problems += _effects(relative, path)
        if relative in IN_NO_ROW:
            continue
        place = place_of(relative)
        if place is None:
            problems.append(f"{relative}:1: is in no row")
            continue
        named = names_of_modules_in(path, modules) if path.name in ("late.py", "table.py") else []
        for found in [*imports_of(name, path), *named]:
            where = f"{relative}:{found.line}:"
            if found.package in ("bub_plugins", "bub_reference"):
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
                other = place_of(modules[target].relative_to(root).as_posix())
                if other is None:
                    continue
                if other.row < place.row:
                    problems.append(f"{where} imports upwards: {target} from {place.folder or 'the floor'}")
                elif other.row == place.row and other.folder != place.folder:
                    problems.append(f"{where} imports from a neighbour: {target} from {place.folder}")
                elif other == place and target != name and found not in named:
                    beside.setdefault(name, set()).add(target)
            elif found.package not in sys.stdlib_module_names | ANYWHERE | ROWS[place.row].packages:
                problems.append(f"{where} uses {found.package} outside its home")
    problems += [f"a circle of imports: {' -> '.join(circle)}" for circle in circles(beside)]
    return problems + plugin_problems(root)


def plugin_problems(root: Path) -> list[str]:
    """Where a shipped plugin reaches for more of Bub than its public names."""
    problems = []
    for package, more in (("bub_plugins", {}), ("bub_reference", BEHIND_THE_REFERENCE)):
        for name, path in modules_in(root / "plugins", package).items():
            for found in imports_of(name, path):
                if found.package != "bub" or found.module.startswith("bub.testing"):
                    continue
                if found.name is None or found.name not in PUBLIC.get(found.module, set()) | more.get(
                    found.module, set()
                ):
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
    if relative.endswith("/__init__.py") and relative not in LISTS_OF_NAMES | FACES:
        if ast.get_docstring(tree) is None:
            yield f"{relative}:1: does not say what lives in its folder"
        if len(tree.body) > 1:
            yield f"{relative}:1: holds more than a docstring"
    if relative not in LISTS_OF_NAMES:
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


def documented_rows(text: str) -> tuple[Row, ...]:
    """The rows of the table in `docs/architecture.md`: folders with a `/`, doors without, and packages."""
    rows = []
    for line in text.partition("## The layers")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and not set(line) <= set("|- "):
            names = re.findall(r"`([^`]+)`", cells[0])
            folders = tuple(name for name in names if name.endswith("/"))
            doors = frozenset(name for name in names if not name.endswith("/"))
            rows.append(Row(folders, doors, frozenset(re.findall(r"`([^`]+)`", cells[2]))))
    return tuple(rows[1:])


# The code as it is


def test_every_import_of_bub_keeps_to_the_layers() -> None:
    assert problems_in(ROOT) == []


@pytest.mark.skipif(
    not (ROOT / "docs" / "architecture.md").is_file(),
    reason="the source archive carries no docs/ but one page",
)
def test_the_documentation_shows_the_layers_that_are_checked() -> None:
    assert documented_rows((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")) == ROWS


def test_every_folder_and_door_of_the_layers_exists() -> None:
    folders = [ROOT / "bub" / folder for layer in ROWS for folder in layer.folders]
    doors = [ROOT / "bub" / f"{door}.py" for layer in ROWS for door in layer.doors]
    assert [path for path in (*folders, *doors) if not path.exists()] == []


@pytest.mark.parametrize(
    "module",
    [
        "bub/hooks/binding.py",
        *(
            path.relative_to(ROOT).as_posix()
            for folder in ("hooks/kinds", "pipeline/run")
            for path in sorted((ROOT / "bub" / folder).glob("*.py"))
            if path.name != "provided.py"  # asks plugins for their tools, and runs no turn
        ),
    ],
)
def test_the_engine_names_no_hook(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    assert [name for name in HOOK_POINTS if re.search(rf"\b{name}\b", text)] == []


HEAVY = (
    "coredis",
    "httpx",
    "jsonschema",
    "loguru",
    "prompt_toolkit",
    "questionary",
    "rich",
    "trio",
    "bub_plugins",
    "house_rules",
)
"""What a command that waits for nothing and calls no plugin leaves alone; jsonschema is asked about mistakes only."""
ASYNCIO = ("asyncio", "bub.island")
"""What only a plugin with `runtime: asyncio` needs."""
MCP = ("mcp", "mcp_types", "pydantic")
"""The SDK of MCP, which only what speaks MCP loads."""

WEB = ("hypercorn", "starlette", "bub.channels.web", "bub.studio")
"""What only serves who asks for a page or an API."""
TELEMETRY = ("google.protobuf", "opentelemetry", "requests", "bub.telemetry.running", "bub.telemetry.worker")
"""What only a runtime needs that sends telemetry."""


def loaded_by(folder: Path, *arguments: str, code: int = 0) -> set[str]:
    """The packages and modules that are loaded when `bub` with these arguments has ended."""
    program = (
        "import runpy, sys\n"
        "sys.argv[0] = 'bub'\n"
        "try:\n"
        "    runpy.run_module('bub', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    print(end.code, *sorted(sys.modules), file=sys.stderr)\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    ended, *names = done.stderr.splitlines()[-1].split()
    assert ended == str(code), done
    return set(names)


def test_a_tab_loads_no_command_and_no_plugin(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "__complete", "bash", "bub --profile ")
    assert loaded & {*HEAVY, "typer", "bub.runtime", "bub.framework", "bub.agent"} == set()
    assert loaded_by(tmp_path, "__complete", "bash", "bub va") & {"msgspec", "yaml"} == set()


def test_what_a_tab_reads_is_what_the_commands_declare() -> None:
    assert VOCABULARY.read_text(encoding="utf-8") == f"{as_text(vocabulary())}\n", (
        "run `python tests/fakes/vocabulary.py`"
    )


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded_by(tmp_path, "--help") & {*HEAVY, *ASYNCIO, *MCP, "yaml"} == set()


@pytest.mark.parametrize("arguments", [["hooks"], ["--config", "bub:classic", "run", "hello"]])
def test_without_a_file_of_the_user_and_a_model_on_http_nothing_is_loaded_for_them(
    tmp_path: Path, arguments: list[str]
) -> None:
    loaded = loaded_by(tmp_path, *arguments)
    assert "trio" in loaded
    assert loaded & {"coredis", "httpx", "jsonschema", "loguru", *ASYNCIO, *MCP, *WEB, *TELEMETRY} == set()


def test_a_chat_loads_nothing_that_serves_a_page_or_sends_telemetry(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "--config", "bub:classic", "chat", "hello")
    assert "bub.inbox.manager" in loaded
    assert loaded & {*WEB, *TELEMETRY} == set()


def test_a_gateway_without_a_shared_store_loads_no_client_for_one(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "gateway", code=1)  # it ends since it finds no channel
    assert "bub.inbox.manager" in loaded
    assert loaded & {"coredis", "bub.inbox.shared.redis", "bub.tape.shared.store", *WEB} == set()


def test_a_comma_command_loads_nothing_that_asks_a_model_or_reads_a_page(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "run", ",help")
    assert "bub.agent.commands" in loaded
    assert loaded & {"bub.agent.models.asking", "bub.agent.models.chat", "bub.agent.onboarding", "html"} == set()


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
    assert loaded & {*HEAVY, *ASYNCIO, *WEB, *TELEMETRY} == set()


SOUND = """
    version: 1
    extends: bub:default
    hooks: {moderate: {kind: gate, takes: [prompt]}}
    stages: {moderate: {before: run_model, timeout: 5s}, run_model: {timeout: 2m}}
    plugins: {house_rules: {path: house_rules.py}}
    profiles: {default: {plugins: [local_model, house_rules]}}
"""

OF_FEW = {
    *("bub.pipeline.check.case_rules", "bub.pipeline.check.cases", "bub.pipeline.check.rules.unknown_mock"),
    *("bub.pipeline.check.literal_secrets", "bub.pipeline.check.sections", "bub.pipeline.source.yaml_errors"),
    *("bub.pipeline.check.schema_errors", "bub.pipeline.check.unknown_keys", "bub.pipeline.check.values"),
    *("bub.plugins.lock.facts", "bub.plugins.lock.reading", "bub.plugins.simple_commands", "tomllib"),
    *(
        "bub.pipeline.report.annotations",
        "bub.pipeline.report.handbook",
        "bub.pipeline.report.report",
        "bub.pipeline.report.sarif",
    ),
    *("dataclasses", "importlib.metadata", "json", "multiprocessing", "shlex", "unicodedata"),
    *("cronsim", "zoneinfo", "bub.pipeline.plan.schedules.moments"),
}
"""What `bub validate` loads for a file with mistakes, settings, tests or many siblings, and for no other."""

MOST_LOADED = 80
"""How many modules of Bub a sound file takes beside the rules, one a module: each costs a tenth of a millisecond."""


def test_validate_loads_for_a_sound_file_what_every_file_needs(write: Callable[[str, str], Path]) -> None:
    write("house_rules.py", "raise SystemExit('a plugin was imported')\n")
    file = write("pipelines.yaml", SOUND)
    loaded = loaded_by(file.parent, "validate", str(file))
    assert loaded & OF_FEW == set()
    others = [name for name in loaded if name.startswith("bub.") and not name.startswith("bub.pipeline.check.rules.")]
    assert len(others) <= MOST_LOADED
    write("pipelines.yaml", SOUND + "    settings: {modle: x}\n    tests: {a: {mock: {moderat: {return: 1}}}}\n")
    assert OF_FEW & loaded_by(file.parent, "validate", str(file), code=1) >= {
        "bub.pipeline.check.case_rules",
        "bub.pipeline.check.schema_errors",
        "bub.pipeline.report.report",
    }


SLOW_TO_MAKE = {
    "bub.base.diagnostics.Position": "compared in the order of a file",
    "bub.base.diagnostics.Range": "compared in the order of a file",
    "bub.base.duration._PATTERN": "each time-out is read with it",
    "bub.base.locate.Found": "msgspec would make `bub --help` slower",
    "bub.base.resources._NAME": "each `extends: bub:NAME` is read with it",
    "bub.cli.table.Entry": "msgspec would make `bub --help` slower",
    "bub.log._Destination": "msgspec would make `bub --help` slower",
    "bub.pipeline.plan.stages.NAME": "each `takes` is read with it",
    "bub.pipeline.plan.templates.TEMPLATE_NAME": "each text of a default is read with it",
}
"""The named tuples and the compiled patterns that `bub validate` makes at each start, and why.

A Struct takes a tenth of the time to make, and a pattern that is a text is compiled once it is used.
"""


def test_validate_makes_few_named_tuples_and_patterns_at_each_start(write: Callable[[str, str], Path]) -> None:
    write("house_rules.py", "raise SystemExit('a plugin was imported')\n")
    file = write("pipelines.yaml", SOUND)
    made = set()
    for name in loaded_by(file.parent, "validate", str(file)):
        for own, value in vars(import_module(name)).items() if name.startswith("bub.") else ():
            is_tuple = isinstance(value, type) and issubclass(value, tuple) and value.__module__ == name
            if is_tuple or (isinstance(value, re.Pattern) and f"{own} = " in source_of(name)):
                made.add(f"{name}.{own}")
    assert made == set(SLOW_TO_MAKE)


def source_of(name: str) -> str:
    return Path(str(import_module(name).__file__)).read_text(encoding="utf-8")


MOST_LINES = 400
"""A longer module says why in a comment at its top, in lines that begin with `# Long because`."""

MEDIAN_LINES = 120

MOST_MODULES = 20
"""A folder with more modules is to be parted, but for those where a stranger looks a module up by its name."""

LOOKED_UP_BY_NAME = {"bub/cli", "bub/pipeline/check/rules"}


def test_modules_are_short_or_say_why_not() -> None:
    lengths = {path: path.read_text(encoding="utf-8") for path in modules_in(ROOT, "bub").values()}
    long = {
        path.relative_to(ROOT).as_posix()
        for path, text in lengths.items()
        if len(text.splitlines()) > MOST_LINES and not says_why_it_is_long(text)
    }
    assert long == set()
    assert statistics.median(len(text.splitlines()) for text in lengths.values()) <= MEDIAN_LINES


def says_why_it_is_long(text: str) -> bool:
    """Tell whether a comment says so between a module's docstring and its first statement behind `__future__`."""
    docstring, *_ = ast.parse(text).body
    top = itertools.takewhile(
        lambda line: not line or line.startswith(("#", "from __future__")), text.splitlines()[docstring.end_lineno :]
    )
    return any(re.match("# Long because .{20}", line) for line in top)


def test_folders_are_small_enough_to_be_read_through() -> None:
    modules = [path for path in modules_in(ROOT, "bub").values() if path.name != "__init__.py"]
    counted = Counter(path.parent.relative_to(ROOT).as_posix() for path in modules)
    assert {folder for folder, count in counted.items() if count > MOST_MODULES} <= LOOKED_UP_BY_NAME


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"""A."""\n\n# Long because each row of the table is a case of one rule.\nimport os\n', True),
        ('"""A."""\n\nfrom __future__ import annotations\n\n# Long because each row is a case of one rule.\n', True),
        ('"""A."""\n\n# Long because.\nimport os\n', False),
        ('"""A."""\n\nimport os\n\n# Long because each row of the table is a case of one rule.\n', False),
    ],
)
def test_the_reason_for_a_long_module_stands_at_its_top(text: str, says: bool) -> None:
    assert says_why_it_is_long(text) == says


@pytest.mark.parametrize("stub", sorted((ROOT / "bub").rglob("late.pyi")), ids=lambda path: path.parent.name)
def test_what_is_imported_late_is_what_the_types_say(stub: Path) -> None:
    name = ".".join(stub.relative_to(ROOT).with_suffix("").parts)
    late, told = import_module(name), {str(found.name): found.module for found in imports_of(name, stub)}
    assert told == vars(late)["_HOMES"]
    assert all(getattr(late, found) is getattr(import_module(home), found) for found, home in told.items())


# Planted violations: the checker can fail


def planted(root: Path, file: str, text: str) -> list[str]:
    """The problems in a small tree that keeps to the rules but for one file."""
    tree = {
        "bub/__init__.py": "",
        "bub/errors.py": '"""Errors."""\n',
        "bub/hooks/__init__.py": '"""Hooks."""\n',
        "bub/hooks/facts.py": "from bub.errors import __doc__\n",
        "bub/hookspecs.py": "import pluggy\nfrom bub.hooks import facts\n",
        "bub/framework.py": "import typer\nfrom bub.hooks.facts import __name__\n",
        "bub/doctor/__init__.py": '"""Checks."""\n',
        "bub/testing/__init__.py": "from bub.testing.clock import Clock\n",
        "bub/testing/clock.py": "",
        "bub/pipeline/__init__.py": '"""Pipelines."""\n',
        "bub/pipeline/run/__init__.py": '"""Turns."""\n',
        "bub/pipeline/run/turn.py": "import trio\nimport bub.pipeline.plan.routes\n",
        "bub/pipeline/plan/__init__.py": '"""Plans."""\n',
        "bub/pipeline/plan/waits.py": "",
        "bub/pipeline/plan/routes.py": "from bub.pipeline.plan import waits\n",
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
        ("bub/hooks/facts.py", "import bub.framework\n", "imports upwards: bub.framework from hooks/"),
        ("bub/hooks/facts.py", "from bub import framework\n", "imports upwards: bub.framework from hooks/"),
        ("bub/errors.py", "import bub.hookspecs\n", "imports upwards: bub.hookspecs from the floor"),
        (
            "bub/pipeline/plan/waits.py",
            "from ..run.turn import run\n",
            "imports upwards: bub.pipeline.run.turn from pipeline/plan/",
        ),
        ("bub/pipeline/plan/waits.py", "from ...framework import x\n", "imports upwards: bub.framework"),
        (
            "bub/doctor/checks.py",
            "from bub.testing.clock import Clock\n",
            "imports from a neighbour: bub.testing.clock from doctor/",
        ),
        ("bub/framework.py", "def go():\n    import bub.hooks.facts\n", "imports bub.hooks.facts inside a function"),
        (
            "bub/framework.py",
            "class A:\n    async def go(self):\n        from bub.hooks import facts\n",
            "inside a function",
        ),
        (
            "bub/framework.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bub.hooks.facts import Kind\n",
            "imports bub.hooks.facts for types only",
        ),
        ("bub/hooks/facts.py", "import httpx\n", "uses httpx outside its home"),
        ("bub/hooks/facts.py", "def f():\n    import httpx.client\n", "uses httpx outside its home"),
        ("bub/errors.py", "from loguru import logger\nimport pluggy\n", "uses pluggy outside its home"),
        ("bub/helpers.py", "", "is in no row"),
        ("bub/rooms/corner.py", "", "is in no row"),
        ("bub/hooks/facts.py", "import bub.gone\n", "imports bub.gone, which does not exist"),
        ("bub/framework.py", "import bub_plugins.model\n", "imports a shipped plugin"),
        ("bub/hooks/facts.py", "print('hello')\n", "does something when it is imported"),
        ("bub/hooks/facts.py", "if True:\n    for x in ():\n        pass\n", "does something when it is imported"),
        ("bub/hooks/facts.py", "_SEEN: dict[str, int] = {}\n", "keeps a registry in the module"),
        ("bub/hooks/facts.py", "_SEEN = list()\n", "keeps a registry in the module"),
        (
            "bub/hooks/facts.py",
            "import importlib\ndef f():\n    importlib.import_module('bub.framework')\n",
            "imports by name",
        ),
        ("bub/hooks/__init__.py", '"""Doc."""\nfrom bub.errors import BubError\n', "holds more than a docstring"),
        ("bub/hooks/__init__.py", "", "does not say what lives in its folder"),
        (
            "plugins/bub_plugins/model.py",
            "from bub.pipeline.run.turn import run\n",
            "bub.pipeline.run.turn.run, which is not",
        ),
        (
            "bub/pipeline/source/late.py",
            "_HOMES = {'waits_of': 'bub.pipeline.plan.waits'}\n",
            "imports upwards: bub.pipeline.plan.waits from pipeline/source/",
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


def test_a_circle_within_a_folder_is_found(tmp_path: Path) -> None:
    assert planted(tmp_path, "bub/pipeline/plan/waits.py", "import bub.pipeline.plan.routes\n") == [
        "a circle of imports: bub.pipeline.plan.routes -> bub.pipeline.plan.waits -> bub.pipeline.plan.routes"
    ]


def test_a_row_that_is_documented_otherwise_is_noticed() -> None:
    text = "## The layers\n| row | what | packages |\n|---|---|---|\n| `plugins/` (`tools`) | x | `pluggy` |"
    assert documented_rows(text) == (row("plugins/", "tools", "pluggy"),)
