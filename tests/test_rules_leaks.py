"""A profile in which strangers can make the agent leak is told, with the way from the channel to the tool."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fakes.checking import check_file
from fakes.installed import install_labels
from fakes.mistakes import VERSION, Mistake, assert_is_found, check, said

from bub.base.diagnostics import Diagnostic, without_notes

OPEN = 'settings: {telegram: {token: "${file:token}", allow_users: ["*"]}}\n'


def profile(tools: str, settings: str = OPEN, plugins: str = "telegram", more: str = "") -> str:
    own = f"profiles:\n  default:\n    plugins: [{plugins}]\n    tools: {tools}\n"
    return f"extends: bub:default\n{settings}{own}{more}"


def leaks(text: str) -> list[Diagnostic]:
    return [finding for finding in check(VERSION + text) if finding.code == "B232"]


def severities(text: str) -> list[str]:
    return [finding.severity for finding in leaks(text)]


API = """
extends: bub:default
settings:
  http:
    clients: {ada: {token: "${file:token}", profiles: [default, other]}}
    WEBHOOKS
profiles:
  default: {plugins: [http], tools: TOOLS}
  other: {plugins: [local_model], tools: TOOLS}
"""


@pytest.mark.parametrize(
    ("webhooks", "told"),
    [
        ("", []),
        ("webhooks: {a: {clients: [ada]}}", [("default", "note")]),
        ("webhooks: {a: {clients: [ada], profile: other}}", [("other", "note")]),
        ("webhooks: {a: {clients: [ada], profile: other}, b: {clients: [ada]}}", [(None, "note")]),
        ('webhooks: {a: {clients: [ada], profile: "${env:P:-other}"}}', [("other", "note")]),
        ('webhooks: {a: {clients: [ada], profile: "${env:P}"}}', [(None, "note")]),
    ],
)
def test_what_a_webhook_passes_on_begins_a_way_and_a_client_begins_none(
    webhooks: str, told: list[tuple[str | None, str]]
) -> None:
    found = leaks(API.replace("WEBHOOKS", webhooks).replace("TOOLS", ISSUE))
    assert [(one.profile, one.severity) for one in found if "strangers on `http`" in one.message] == told


HELP = "have Bub ask a person: `tools: {ask: [bash]}`, or deny it, or name who may write on `telegram`"
ISSUE = "{allow: [web.fetch, fs.read, bash], ask: []}"

MISTAKES = [
    Mistake(
        "B232",
        profile(ISSUE, OPEN.replace('"*"', '«"*"»')),
        "strangers on `telegram` can make the agent leak what `bash` reads in profile `default` (1 more way)",
        HELP,
        ("ask: []", "ask: [bash]"),
        related="`bash` can read what is private and carry it outside in one call",
        severity="warning",
    ),
    Mistake(
        "B239",
        "extends: bub:default\nprofiles: {default: {plugins: [«weather»]}}\n",
        "Bub does not use the labels of plugin `weather`: bub_weather 1.2 brings labels.json, which does not hold"
        " labels:"
        " Object contains unknown field `read`",
        "tell the author of the package, or write them yourself, under `plugins`",
        ("weather", "local_model"),
        severity="warning",
    ),
]


@pytest.fixture
def broken_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(install_labels(tmp_path, {"read": "private"})), *sys.path])


@pytest.mark.usefixtures("broken_labels")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.message[:40])
def test_a_mistake_is_one_finding_at_its_place_and_its_mended_twin_is_none(mistake: Mistake) -> None:
    assert_is_found(mistake)


def test_the_way_is_shown_from_the_channel_to_the_tool() -> None:
    routed = """
extends: bub:default
settings: {telegram: {token: "${file:token}", allow_users: ["*"]}}
profiles:
  default: {plugins: [telegram], tools: {allow: []}}
  guests:
    plugins: [local_model]
    tools: {allow: [bash], ask: []}
routes:
  - {match: {channel: telegram}, profile: guests}
"""
    (finding,) = leaks(routed)
    assert (finding.range.start.line, finding.profile) == (4, "guests")
    assert [(step.message, step.range.start.line) for step in finding.related] == [
        ("this leads their messages to the profile", 11),
        ("`bash` can read what is private and carry it outside in one call", 9),
    ]


def test_what_is_shipped_asks_and_so_it_is_not_told_of() -> None:
    for parent in ("default", "classic", "ethos"):
        assert severities(f"extends: bub:{parent}\n{OPEN}") == []
        # It is not exempt.
        assert severities(f"extends: bub:{parent}\n{OPEN}profiles: {{default: {{tools: {{ask: []}}}}}}\n") == [
            "warning"
        ]


@pytest.mark.parametrize(
    "tools",
    [
        "{allow: [web.fetch, fs.read, bash], ask: [bash]}",
        '{allow: ["*", bash], ask: ["b*"]}',
        '{allow: ["*", bash], deny: [bash]}',
        '{allow: ["*"]}',
        "{allow: [bash.output]}",
        "{}",
    ],
)
def test_a_tool_that_asks_or_is_shut_leaks_nothing(tools: str) -> None:
    assert severities(profile(tools)) == []


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ('allow_users: ["*"]', "warning"),
        ('allow_chats: ["*"]', "warning"),
        ('allow_users: ["*", ada], allow_chats: ["*"]', "warning"),
        ('allow_users: ["*"], allow_chats: ["-100123"]', "note"),
        ('allow_chats: ["-100123"]', "note"),
        ('allow_users: ["${env:WHO}"]', "note"),
        ('allow_users: [ada], allow_chats: ["*"]', ""),
        ('allow_users: [ada, "4711"]', ""),
        ('allow_users: ["*"], allow_chats: ["4711"]', ""),
        ("allow_users: []", ""),
        ("stream: true", ""),
    ],
)
def test_only_a_channel_in_which_strangers_can_write_begins_a_way(settings: str, severity: str) -> None:
    text = profile(ISSUE, f'settings: {{telegram: {{token: "${{file:token}}", {settings}}}}}\n')
    told = [finding.severity for finding in leaks(text) if "strangers" in finding.message]
    assert told == ([severity] if severity else [])


@pytest.mark.parametrize(
    "more",
    [
        "channels: [cli]",
        'channels: [all, "!telegram"]',
        "plugins: [local_model]",
        "settings: {telegram: {allow_users: [ada]}}",
        "channels: []",
    ],
)
def test_a_channel_that_does_not_run_begins_none(more: str) -> None:
    text = f"extends: bub:default\n{OPEN}profiles: {{default: {{plugins: [telegram], tools: {ISSUE}, {more}}}}}\n"
    if more.startswith("plugins"):
        text = text.replace("plugins: [telegram], ", "")
    assert without_notes(leaks(text)) == ()


ROUTES = """
extends: bub:default
settings: {telegram: {token: "${file:token}", allow_users: ["*"]}}
profiles:
  default: {plugins: [telegram], tools: {allow: []}}
  mine: {tools: {allow: [bash], ask: []}}
routes:
"""


@pytest.mark.parametrize(
    ("routes", "leaky"),
    [
        ("{match: {channel: telegram}, profile: mine}", True),
        ('{match: {channel: "t*"}, profile: mine}', True),
        ("{match: {}, profile: mine}", True),
        ("{match: {content: hello*}, profile: mine}", True),
        ('{match: {chat_id: "-100*"}, profile: mine}', True),
        ("{match: {channel: cli}, profile: mine}", False),
        ('{match: {channel: telegram, sender_id: "4711"}, profile: mine}', False),
        ('{match: {channel: telegram, chat_id: "4711"}, profile: mine}', False),
        ("{match: {channel: telegram}, profile: default}, {match: {}, profile: mine}", False),
        ("{match: {channel: telegram, content: hi}, profile: default}, {match: {}, profile: mine}", True),
    ],
)
def test_routes_say_which_profile_strangers_write_to(routes: str, leaky: bool) -> None:
    found = [finding for finding in leaks(f"{ROUTES}  [{routes}]\n") if finding.severity == "warning"]
    assert [finding.profile for finding in found] == (["mine"] if leaky else [])


def test_a_reference_leads_strangers_to_the_profile_that_is_its_default() -> None:
    routed = f'{ROUTES}  [{{match: {{channel: telegram}}, profile: "${{env:P:-mine}}"}}]\n'
    (finding,) = leaks(routed)
    assert (finding.severity, finding.profile) == ("warning", "mine")
    assert finding.related[0].message == "this leads their messages to the profile"
    assert not [one for one in leaks(routed.replace(":-mine", ":-default")) if "strangers on" in one.message]


@pytest.mark.parametrize(
    ("routes", "told"),
    [
        ('{match: {channel: telegram}, profile: "${env:P}"}', "note"),
        ('{match: {content: hi}, profile: "${env:P}"}', "note"),
        ('{match: {channel: telegram}, profile: default}, {match: {}, profile: "${env:P}"}', None),
        ('{match: {content: hi}, profile: "${env:P}"}, {match: {}, profile: mine}', "warning"),
    ],
)
def test_a_reference_whose_value_nobody_knows_may_lead_strangers_to_every_profile(
    routes: str, told: str | None
) -> None:
    found = [finding for finding in leaks(f"{ROUTES}  [{routes}]\n") if "strangers on" in finding.message]
    assert {finding.profile for finding in found} <= {"mine"}
    assert [finding.severity for finding in found] == ([told] if told is not None else [])
    if told == "note":
        assert "strangers on `telegram` may be able to make the agent leak" in found[0].message
        doubt = "because Bub does not know the value of `${env:P}`"
        assert found[0].related[0].message == f"this may lead their messages to the profile, {doubt}"


def test_where_sessions_choose_their_profile_strangers_do() -> None:
    text = f"{ROUTES}  [{{match: {{channel: cli}}, profile: mine}}]\n"
    assert not without_notes(leaks(text))
    assert without_notes(leaks(text.replace("bub:default", "bub:ethos")))


GUARD = "plugins: {guard: {path: guard.py, labels: {}}}\n"


def test_a_gate_cuts_the_way_if_a_plugin_implements_it_and_is_named() -> None:
    (finding,) = leaks(profile(ISSUE, GUARD + OPEN, "telegram, guard"))
    assert finding.severity == "note"
    assert "unless a plugin judges each call at `tool_gate`" in finding.message
    # Nobody is there who could judge.
    assert severities(profile(ISSUE, OPEN + "hooks: {tool_gate: {kind: gate}}\n")) == ["warning"]
    assert severities(profile(ISSUE, GUARD + OPEN + "hooks: {tool_gate: {only: [telegram]}}\n", "telegram, guard")) == [
        "warning"
    ]
    judged = "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model, timeout: 1s}}\n"
    (finding,) = leaks(profile(ISSUE, GUARD + OPEN, "telegram, guard", judged))
    assert "unless a plugin judges the message at the gate `moderate`" in finding.message


@pytest.mark.parametrize(
    ("reach", "severity"),
    [("{network: none}", ["note"]), ("{}", ["note"]), ("{network: all}", ["note"]), ("{read: [/srv]}", ["warning"])],
)
def test_a_reach_takes_away_what_commands_read_or_reach(reach: str, severity: list[str]) -> None:
    text = profile(ISSUE).replace("    tools:", f"    reach: {reach}\n    tools:")
    assert severities(text) == severity


def test_files_outside_of_the_workspace_are_given_away_without_a_question() -> None:
    tools = "{allow: [fs.read]}"
    assert severities(profile(tools)) == []
    (finding,) = leaks(profile(tools, OPEN[:-2] + ", files: {folders: [/srv]}}\n"))
    assert (finding.severity, finding.related[-1].message) == ("warning", "the answer goes back to them")


LABELLED = "plugins: {{crm: {{path: crm.py, labels: {labels}}}}}\n{settings}"
CLOSED = ""


@pytest.mark.parametrize(
    ("labels", "severity"),
    [
        ("{tools: {crm.find: {reads: private, reaches: outside}}}", "warning"),
        ("{tools: {crm.find: {reads: private}}}", "warning"),
        ("{tools: {crm.find: {reaches: outside}}}", ""),
        ("{tools: {crm.find: {brings: untrusted}}}", ""),
        ("{tools: {crm.find: {}}}", ""),
        ("{reads: private}", "warning"),
        ("{}", ""),
        ("{tools: {crm.other: {reads: private}}}", "note"),
    ],
)
def test_the_labels_of_a_plugin_in_the_file_make_a_way(labels: str, severity: str) -> None:
    # Without the gate of the agent, at which the plugin might judge.
    text = profile("{allow: [crm.find]}", LABELLED.format(labels=labels, settings=OPEN), "telegram, crm")
    found = leaks(text.replace("bub:default", "bub:ethos"))
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_a_plugin_that_declares_nothing_is_noted() -> None:
    text = profile("{allow: [crm.find]}", "plugins: {crm: {path: crm.py}}\n" + OPEN, "telegram, crm")
    (finding,) = leaks(text)
    assert finding.severity == "note"
    assert finding.message.startswith(
        "strangers on `telegram` may be able to make the agent leak what `crm.find` reads"
    )
    assert finding.help == (
        "write what it does, under `plugins: {crm: {labels: …}}`; if it does none of this, write `labels: {}`"
    )
    assert severities(profile("{allow: [fs.read]}", "plugins: {crm: {path: crm.py}}\n" + OPEN, "telegram, crm")) == []


def test_a_channel_is_open_if_its_plugin_says_so() -> None:
    for labels, severity in (("{brings: untrusted}", "warning"), ("{}", "")):
        text = profile(ISSUE, f"plugins: {{web: {{path: web.py, labels: {labels}}}}}\n", "web")
        told = [one for one in leaks(text.replace("bub:default", "bub:ethos")) if "strangers" in one.message]
        assert [finding.severity for finding in told] == ([severity] if severity else [])
    # One that listens and declares nothing may be open.
    text = profile(ISSUE, 'plugins: {web: {path: web.py}}\nsettings: {web: {listen: "0.0.0.0:80"}}\n', "web")
    assert [one.severity for one in leaks(text) if "strangers on `web`" in one.message] == ["note"]


def test_an_installed_package_declares_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"tools": {"weather.get": {"reads": "private", "reaches": "outside"}}}
    monkeypatch.setattr(sys, "path", [str(install_labels(tmp_path, labels)), *sys.path])
    text = profile('{allow: ["*"]}', OPEN, "telegram, weather").replace("bub:default", "bub:ethos")
    assert severities(text) == ["warning"]
    assert severities(f"plugins: {{weather: {{labels: {{}}}}}}\n{text}") == []  # the file knows better


def test_what_a_page_says_is_noted_if_nobody_writes_but_who_is_named() -> None:
    (finding,) = leaks(profile(ISSUE, CLOSED, "local_model"))
    assert said((finding,)) == [
        "B232 6: what `web.fetch` brings can make the agent leak what `bash` reads in profile `default`"
    ]
    assert finding.severity == "note"


def test_without_an_agent_there_is_no_way() -> None:
    text = profile(ISSUE, OPEN, "telegram", "stages: {run_model: {only: [telegram]}}\n")
    assert severities(text) == []


@pytest.mark.parametrize(("code", "severity"), [("def tool_gate(tool): ...", "note"), ("def prompt(): ...", "warning")])
def test_whether_a_plugin_in_a_file_may_judge_is_read_and_not_run(tmp_path: Path, code: str, severity: str) -> None:
    (tmp_path / "guard.py").write_text(f"raise SystemExit('it was run')\n{code}\n")
    (tmp_path / "pipelines.yaml").write_text(f"version: 1\n{profile(ISSUE, GUARD + OPEN, 'telegram, guard')}")
    found = check_file(tmp_path / "pipelines.yaml").diagnostics
    assert [finding.severity for finding in found if finding.code == "B232"] == [severity]
