"""`docs/files.md` names every file that Bub writes, every variable that it reads, and every port that it opens."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.command_line import ROOT
from fakes.reader import typed_here

from bub.base.locate import lock_of
from bub.channels.terminal.history import history_file, history_in
from bub.cli.held_home import hold_home
from bub.cli.page_address import handing_over
from bub.pipeline.plan.providers import PROVIDERS
from bub.pipeline.plan.settings import RESERVED, RESERVED_BEGINNINGS, variable_of
from bub.setup.own_files import OWN_FILES, is_path_of
from bub.telemetry import sampling, settings, wanted

PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`]+)`", PAGE))
NO_VARIABLES = {
    "BUB_HOOK_NAMESPACE": "a name in Python, of the hooks' namespace",
    "BUB_BASE_URL": "an example of a name that other programs have",
    "BUB_ONBOARD_MODEL_PROVIDER": "an example of one that answers a question",
}
"""Names in the code that look like variables of Bub."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None, heading
    return [[cell.strip() for cell in row.strip("|\n").split(" | ")] for row in table[0].splitlines()[2:]]


def named(heading: str, column: int = 0) -> list[str]:
    return [name for row in rows(heading) for name in re.findall(r"`([^`]+)`", row[column])]


def sources() -> Iterator[str]:
    """The text of every module."""
    for folder in ("bub", "plugins"):
        for module in (ROOT / folder).rglob("*.py"):
            yield module.read_text(encoding="utf-8")


# Files


def busy(folder: Path, home: Path) -> None:
    """Do what leaves files, as a person would in an hour."""
    environment = {"BUB_HOME": str(home)}
    for words in (
        "init",
        "config set --person model ollama:llama3.2",
        "config set --person model ollama:qwen3",
        "config set --person --env OPENAI_API_KEY providers.openai.api_key",
        "trust",
        "config set settings.tapes.runtime_events true",
        "schema --write",
        "run ,tape.info",
        "inbox list",
    ):
        code, printed = typed_here(words.split(), folder, environment)
        assert code == 0, printed
    history = history_file(home, folder)
    history_in(history).store_string("hello")
    with hold_home(home), handing_over(home) as hand_over:
        hand_over("http://127.0.0.1:9465/#token")
        check(folder, home)


def check(folder: Path, home: Path) -> None:
    """Hold what is there now against the tables."""
    below_home, here = named("## Bub's own folder"), named("## A folder in which you work")
    left = [path for path in home.rglob("*") if path.is_file()]
    kinds = {kind.what for path in left for kind in OWN_FILES if is_named(path.relative_to(home), kind.paths)}
    assert len(kinds) >= 6, kinds
    assert [path for path in left if not is_named(path.relative_to(home), below_home)] == []
    if sys.platform != "win32":
        assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in left} == {"0o600"}
        folders = {stat.S_IMODE(path.stat().st_mode) for path in (home, *home.rglob("*")) if path.is_dir()}
        assert folders == {0o700}
    others = [path for path in folder.rglob("*") if path.is_file()]
    assert len(others) >= 4, others
    assert [path for path in others if not is_named(path.relative_to(folder), here)] == []


def is_named(path: Path, patterns: list[str] | tuple[str, ...]) -> bool:
    return any(
        is_path_of(path.as_posix(), pattern) or (pattern.endswith("/") and path.as_posix().startswith(pattern))
        for pattern in patterns
    )


def test_every_file_of_a_busy_hour_is_on_the_page_with_its_mode(tmp_path: Path) -> None:
    (folder := tmp_path / "work").mkdir()
    busy(folder, tmp_path / "home")


def test_the_lock_of_each_pipeline_file_is_on_the_page() -> None:
    here = named("## A folder in which you work")
    assert lock_of(Path("pipelines.yaml")).name in here
    assert lock_of(Path("team.yaml")).name.replace("team", "NAME") in here


def test_the_page_lists_bubs_own_files_and_says_of_each_whether_it_may_go() -> None:
    assert named("## Bub's own folder") == [path for kind in OWN_FILES for path in kind.paths]
    for heading in ("## Bub's own folder", "## A folder in which you work"):
        assert [row[0] for row in rows(heading) if len(row) != 4 or not all(row)] == []


# Variables


def test_every_variable_of_bub_in_the_code_is_on_the_page_and_none_else() -> None:
    used = {name for text in sources() for name in re.findall(r"\bBUB_[A-Z][A-Z0-9_]+", text)}
    used |= set(RESERVED)
    steering = {name.removesuffix("…") for name in named("## Variables that steer Bub") if name.startswith("BUB_")}
    assert steering >= set(RESERVED) | set(RESERVED_BEGINNINGS)
    on_page = {name.removesuffix("…") for name in QUOTED if re.match("BUB_[A-Z]", name)}
    assert used - on_page - set(NO_VARIABLES) == set()
    assert on_page - used - set(settings_variables()) - {"BUB_ONBOARD_MODEL_PROVIDER"} == set()


def settings_variables() -> Iterator[str]:
    """The variables of all settings, without those of what a person names, except a provider."""
    for section in ("builtin", "http", "local_model", "telegram"):
        schema = json.loads((ROOT / "schemas" / "settings" / f"{section}.schema.json").read_text(encoding="utf-8"))
        yield from _variables(schema, () if section == "builtin" else (section,))


def _variables(schema: dict[str, object], path: tuple[str, ...]) -> Iterator[str]:
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        each = inner.get("additionalProperties")
        if "properties" in inner:
            yield from _variables(inner, (*path, name))
        elif isinstance(each, dict):
            if name == "providers":
                yield from _variables(each, (*path, name, "NAME"))
        elif inner.get("type") != "object":
            yield variable_of((*path, name))


def test_every_setting_has_its_variable_on_the_page() -> None:
    assert set(named("## Variables that are settings", 1)) == set(settings_variables())


def test_every_key_of_a_provider_and_each_variable_that_code_reads_is_on_the_page() -> None:
    listed = named("## Variables of others that Bub reads")
    assert set(listed) >= {provider.key_variable for provider in PROVIDERS.values() if provider.key_variable}
    reading = re.compile(r"environ(?:\.get|\.pop)?[(\[]\s*\"([A-Za-z_]+)\"")
    read = {name.upper() for text in sources() for name in reading.findall(text)}
    assert {"NO_COLOR", "TERM", "EDITOR"} <= read
    known = {*listed, *QUOTED}
    assert {name for name in read if name not in known and not name.startswith("OTEL_")} == set()


def test_the_variables_of_opentelemetry_are_on_their_page() -> None:
    page = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    read = {wanted.ENDPOINT, wanted.DISABLED, *wanted.SIGNAL_ENDPOINTS, sampling.SAMPLER, sampling.ARGUMENT}
    assert [name for name in (*read, settings.PROTOCOLS[-1]) if f"`{name}`" not in page] == []
    assert {wanted.ENDPOINT, wanted.DISABLED} <= QUOTED


# Ports


def test_every_setting_that_listens_is_in_the_table_of_ports() -> None:
    schemas = [ROOT / "schemas" / "settings" / f"{name}.schema.json" for name in ("builtin", "http")]
    found = {match for schema in schemas for match in re.findall(r'"(listen)": \{', schema.read_text(encoding="utf-8"))}
    assert found == {"listen"}
    assert [name for name in settings_variables() if name.endswith("_LISTEN")] == [
        "BUB_GATEWAY_LISTEN",
        "BUB_GATEWAY_STUDIO_LISTEN",
        "BUB_HTTP_LISTEN",
    ]
    assert {"gateway.listen", "gateway.studio.listen", "http.listen", "--listen"} <= set(named("## Ports", 1))
    http = json.loads(schemas[1].read_text(encoding="utf-8"))["properties"]["listen"]["default"]
    assert http in named("## Ports", 2)


@pytest.mark.parametrize("folder", ["bub", "plugins"])
def test_sockets_are_opened_for_listening_in_one_place(folder: str) -> None:
    """Whoever opens another adds it to the table of ports, and here."""
    opening = re.compile(r"open_tcp_listeners\(|serve_tcp\(|start_server\(|create_server\(|\.bind\(\(")
    found = {
        module.relative_to(ROOT).as_posix()
        for module in (ROOT / folder).rglob("*.py")
        if opening.search(module.read_text(encoding="utf-8"))
    }
    assert found == ({"bub/channels/server.py"} if folder == "bub" else set())
