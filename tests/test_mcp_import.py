"""Servers that other programs list become servers of a pipeline file, without one of their secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.setup.servers import read_servers

SECRET = "ghp_Zx81yyPq20aB"

SHAPES = {
    "Claude Desktop": {"mcpServers": {"My-Time": {"command": "uvx", "args": ["mcp-server-time"]}}},
    "VS Code": {"inputs": [], "servers": {"My-Time": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"]}}},
    "settings of VS Code": {"mcp": {"servers": {"my time": {"command": "uvx", "args": ["mcp-server-time"]}}}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_programs_list_is_understood(shape: str) -> None:
    assert read_servers(json.dumps(SHAPES[shape])).servers == {"my_time": {"command": ["uvx", "mcp-server-time"]}}


@pytest.mark.parametrize(
    ("entry", "expected", "variables"),
    [
        (
            {"command": "x", "env": {"GITHUB_TOKEN": SECRET, "LEVEL": "debug", "OTHER": SECRET}},
            {
                "command": ["x"],
                "env": {"GITHUB_TOKEN": "${env:GITHUB_TOKEN}", "LEVEL": "debug", "OTHER": "${env:OTHER}"},
            },
            ("GITHUB_TOKEN", "OTHER"),
        ),
        (
            {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
            {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${env:IT_AUTHORIZATION}"}},
            ("IT_AUTHORIZATION",),
        ),
        (
            {"command": "x", "args": ["--key", "${input:api-key}", "${HOME}/$5"], "env": {"A": "${env:A}"}},
            {"command": ["x", "--key", "${env:IT_API_KEY}", "${env:HOME}/$$5"], "env": {"A": "${env:A}"}},
            ("IT_API_KEY", "HOME", "A"),
        ),
    ],
)
def test_secrets_become_references(entry: Any, expected: Any, variables: tuple[str, ...]) -> None:
    imported = read_servers(json.dumps({"mcpServers": {"it": entry}}))
    assert imported.servers == {"it": expected}
    assert imported.variables == variables
    assert SECRET not in str(imported)


def test_remarks_are_no_mistake_and_what_is_no_server_is_left_out() -> None:
    text = '{"servers": { // mine\n "a": {"command": "x://y",}, /* old */ "b": {"nothing": 1}, "7": {"command": "x"}}}'
    imported = read_servers(text)
    assert (dict(imported.servers), imported.left_out) == ({"a": {"command": ["x://y"]}}, ("b", "7"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": 5}', "{"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_servers(text)


def test_the_command_writes_the_servers_into_the_file_and_names_what_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, listed = tmp_path / "pipelines.yaml", tmp_path / "mcp.json"
    file.write_text("version: 1\nextends: bub:default # mine\nmcp: {time: {command: [mine]}}\n")
    entry = {"command": "x", "env": {"TOKEN": SECRET}}
    listed.write_text(json.dumps({"mcpServers": {"notes": entry, "time": entry}}))
    assert exit_code(lambda: command_line(["--config", str(file), "mcp", "import", str(listed)])) == 0
    out, err = capsys.readouterr()
    text = file.read_text()
    assert "bub:default # mine" in text
    assert 'TOKEN: "${env:TOKEN}"' in text
    assert "[mine]" in text
    assert SECRET not in text + out + err
    assert "server `time` is left as it is" in out
    assert "set TOKEN" in out
    assert "mcp.notes.*" in out
