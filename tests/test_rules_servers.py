"""What a file says of servers of the Model Context Protocol is checked without starting one."""

from __future__ import annotations

import pytest
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, said

from bub.pipeline.check.validate import check_document
from bub.pipeline.source.merge import load_text


def file(server: str, tools: str = '{allow: ["mcp.time.*"]}', more: str = "") -> str:
    return f"extends: bub:default\nmcp: {server}\nprofiles:\n  default:\n    tools: {tools}\n{more}"


TIME = "{time: {command: [mcp-time]}}"
ADD = "add `mcp.time.*` to `tools.allow` of a profile, or take the server out"

MISTAKES = [
    # B244: neither a program nor an address, or both
    Mistake(
        "B244",
        file("{«time»: {env: {}}}"),
        "server `time` has neither `command` nor `url`",
        "write `command: [PROGRAM, …]` for a program that Bub starts, or `url:` for an address",
        ("env: {}", "command: [mcp-time]"),
    ),
    Mistake(
        "B244",
        file('{time: {command: [x], «url»: "https://a.example"}}'),
        "server `time` has a `command` and a `url`",
        "keep one of the two",
        (', url: "https://a.example"', ""),
    ),
    Mistake(
        "B244",
        file("{time: {«url»: a.example}}"),
        "the `url` of server `time` is no address of the web",
        "begin it with `https://`",
        ("a.example", "https://a.example"),
    ),
    Mistake(
        "B244",
        file("{time: {command: [x], «headers»: {}}}"),
        "`headers` changes nothing for server `time`, which has a `command`",
        "take `headers` out",
        (", headers: {}", ""),
        severity="warning",
    ),
    # B245: nobody may use it
    Mistake(
        "B245",
        file("{«time»: {command: [x]}}", "{allow: [fs.read]}"),
        "no profile allows a tool of server `time`, so Bub never uses the server",
        ADD,
        ("[fs.read]", "[mcp.time.get_current_time]"),
        severity="warning",
    ),
    Mistake(
        "B245",
        file("{«time»: {command: [x]}}", '{allow: ["*"]}'),
        "no profile allows a tool of server `time`, so Bub never uses the server: `*` does not include tools of"
        " servers",
        ADD,
        ('["*"]', '["*", "mcp.time.*"]'),
        severity="warning",
    ),
    Mistake(
        "B245",
        file(TIME, '{allow: ["mcp.time.*", «"mcp.*"»]}'),
        "`mcp.*` allows no tool: write the name of a server to allow its tools",
        "`mcp.time.*`",
        (', "mcp.*"', ""),
        severity="warning",
    ),
    # B211: a server that is not there
    Mistake(
        "B211",
        file(TIME, '{allow: [mcp.time.now, «"mcp.tme.*"»]}'),
        "`mcp.tme.*` names server `tme`, but profile `default` has no such server",
        "did you mean `mcp.time.*`?",
        (', "mcp.tme.*"', ""),
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.message[:40])
def test_a_mistake_is_one_finding_at_its_place_and_its_mended_twin_is_none(mistake: Mistake) -> None:
    assert_is_found(mistake)


@pytest.mark.parametrize(
    ("said_so", "path"),
    [
        ("env: {API_KEY: abc}", "mcp.time.env.API_KEY"),
        ("env: {OTHER: sk-Zx81yyPq20}", "mcp.time.env.OTHER"),
        ('env: {TOKEN: "${env:TOKEN:-sk-Zx81yyPq20}"}', "mcp.time.env.TOKEN"),
        ("url: https://a.example, headers: {X-Team: blue}", "mcp.time.headers.X-Team"),
    ],
)
def test_a_secret_that_stands_in_the_file_is_told_without_it(said_so: str, path: str) -> None:
    found = [one for one in check(VERSION + file(f"{{time: {{{said_so}}}}}")) if one.code == "B040"]
    assert [one.path for one in found] == [path]
    assert not any(secret in str(one) for one in found for secret in ("abc`", "Zx81", "blue"))


def test_a_reference_is_no_secret_and_neither_is_a_plain_word() -> None:
    server = '{time: {command: [x], env: {API_KEY: "${env:KEY:-}", TZ: Europe/Berlin, LEVEL: debug}}}'
    assert said(check(VERSION + file(server))) == []


def test_a_server_of_one_profile_is_for_that_one_and_those_built_on_it() -> None:
    own = "  work:\n    mcp: {notes: {command: [x]}}\n  home: {extends: work, tools: {allow: [mcp.notes.add]}}\n"
    assert said(check(VERSION + file(TIME, more=own))) == []
    alone = own.replace("mcp.notes.add", "fs.read")
    assert [one.path for one in check(VERSION + file(TIME, more=alone)) if one.code == "B245"] == [
        "profiles.work.mcp.notes"
    ]


@pytest.mark.parametrize("name", ["Time", "my-time", "a.b", "x" * 33])
def test_a_server_has_a_name_that_the_names_of_its_tools_can_hold(name: str) -> None:
    document = load_text(VERSION + file(f'{{"{name}": {{command: [x]}}}}'))
    assert [one.code for one in check_document(document)] == ["B105"]


def test_a_mock_stands_for_a_tool_of_a_server_that_is_described() -> None:
    mock = "mock_tools: {mcp.NAME.now: {return: noon}}"
    case = f"tests: {{it: {{message: {{content: hi}}, {mock}, expect: {{ran: [save_state]}}}}}}\n"
    assert said(check(VERSION + file(TIME, more=case.replace("NAME", "time")))) == []
    (finding,) = check(VERSION + file(TIME, more=case.replace("NAME", "tme")))
    assert (finding.code, finding.help) == ("B211", "did you mean `mcp.time.now`?")
